// Command notes-sqlite adds a line to a note in a SQLite database. With
// -mode=select-update it reads the note and then writes it, each in a transaction
// of its own; with -mode=begin-immediate both are in one that takes the write
// lock first.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"

	_ "modernc.org/sqlite"
)

func main() {
	log.SetFlags(0)
	mode := flag.String("mode", "select-update", "create, select-update or begin-immediate")
	flag.Parse()
	if *mode == "create" && flag.NArg() != 1 || *mode != "create" && flag.NArg() != 2 {
		log.Fatal("usage: notes-sqlite [-mode MODE] DATABASE [LINE]")
	}
	if err := run(context.Background(), *mode, flag.Arg(0), flag.Arg(1)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, mode, file, line string) (err error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	defer func() { err = errors.Join(err, conn.Close(), db.Close()) }()
	switch mode {
	case "create":
		_, err = conn.ExecContext(ctx, "CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL); INSERT INTO notes VALUES (1, '')")
		return err
	case "select-update":
		return addLine(ctx, conn, line)
	case "begin-immediate":
		if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
			return err
		}
		if err := addLine(ctx, conn, line); err != nil {
			_, rollback := conn.ExecContext(ctx, "ROLLBACK")
			return errors.Join(err, rollback)
		}
		_, err = conn.ExecContext(ctx, "COMMIT")
		return err
	}
	return fmt.Errorf("unknown mode %q", mode)
}

func addLine(ctx context.Context, conn *sql.Conn, line string) error {
	var text string
	if err := conn.QueryRowContext(ctx, "SELECT text FROM notes WHERE id = 1").Scan(&text); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, "UPDATE notes SET text = ? WHERE id = 1", text+line+"\n")
	return err
}
