package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// shiftFunc moves quota from one job to another and returns what is left of the
// first one's.
type shiftFunc func(ctx context.Context, db *pgxpool.Pool, from, to, quota int64) (int64, error)

var shifts = map[string]shiftFunc{
	"as-requested": shiftAsRequested,
	"ordered":      shiftOrdered,
}

func handleShift(db *pgxpool.Pool, shift shiftFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			From  int64 `json:"from"`
			To    int64 `json:"to"`
			Quota int64 `json:"quota"`
		}
		if err := readJSON(w, r, &body); err != nil {
			writeProblem(w, err)
			return
		}
		if body.Quota <= 0 || body.From == body.To {
			writeProblem(w, errBadRequest)
			return
		}
		left, err := shift(r.Context(), db, body.From, body.To, body.Quota)
		if err != nil {
			writeProblem(w, err)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", map[string]int64{"quota": left})
	}
}

// shiftAsRequested locks the job that gives, then the one that gets. Two shifts
// in opposite directions can each hold the row that the other one needs.
func shiftAsRequested(ctx context.Context, db *pgxpool.Pool, from, to, quota int64) (left int64, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT quota FROM jobs WHERE id = $1 FOR UPDATE", from).Scan(&left)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoJob
		}
		if err != nil {
			return err
		}
		left, err = shift(ctx, tx, from, to, left, quota)
		return err
	})
	return left, err
}

// shiftOrdered locks both jobs first, in the order of their numbers, which is
// the same for every shift.
func shiftOrdered(ctx context.Context, db *pgxpool.Pool, from, to, quota int64) (left int64, err error) {
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT id FROM jobs WHERE id IN ($1, $2) ORDER BY id FOR UPDATE", from, to); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, "SELECT quota FROM jobs WHERE id = $1", from).Scan(&left)
		if errors.Is(err, pgx.ErrNoRows) {
			return errNoJob
		}
		if err != nil {
			return err
		}
		left, err = shift(ctx, tx, from, to, left, quota)
		return err
	})
	return left, err
}

func shift(ctx context.Context, tx pgx.Tx, from, to, have, quota int64) (int64, error) {
	if have < quota {
		return 0, errQuota
	}
	for _, change := range []struct{ job, by int64 }{{from, -quota}, {to, quota}} {
		tag, err := tx.Exec(ctx, "UPDATE jobs SET quota = quota + $2 WHERE id = $1", change.job, change.by)
		if err != nil {
			return 0, err
		}
		if tag.RowsAffected() == 0 {
			return 0, errNoJob
		}
	}
	return have - quota, nil
}
