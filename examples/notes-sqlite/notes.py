"""Adds a line to a note in a SQLite database.

usage: notes.py [--begin-immediate] DATABASE LINE
       notes.py --create DATABASE

Without the option the note is read before the transaction begins that writes it:
two runs may read the same text, and one line is lost.
"""

import sqlite3
import sys


def add_line(db, line):
    (text,) = db.execute("SELECT text FROM notes WHERE id = 1").fetchone()
    db.execute("UPDATE notes SET text = ? WHERE id = 1", (text + line + "\n",))


def main():
    if sys.argv[1] == "--create":
        with sqlite3.connect(sys.argv[2]) as db:
            db.execute("CREATE TABLE notes (id integer PRIMARY KEY, text text NOT NULL)")
            db.execute("INSERT INTO notes VALUES (1, '')")
        return
    *options, path, line = sys.argv[1:]
    # isolation_level=None: transactions begin where the program says so.
    db = sqlite3.connect(path, timeout=5, isolation_level=None)
    if "--begin-immediate" not in options:
        return add_line(db, line)
    db.execute("BEGIN IMMEDIATE")
    with db:  # commits, or rolls back after an exception
        add_line(db, line)


if __name__ == "__main__":
    main()
