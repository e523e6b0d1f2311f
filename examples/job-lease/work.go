package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/lease"
)

// piece is how many items one call does.
const piece = 10

// held is a job under the lease of this worker.
type held struct {
	job, position, total int64
	token                lease.Token
}

// leaseKeeper takes the lease of a job, and writes the result and gives the
// lease up.
type leaseKeeper struct {
	take   func(ctx context.Context, db *pgxpool.Pool, job int64, worker string, ttl time.Duration) (held, error)
	finish func(ctx context.Context, db *pgxpool.Pool, h held) error
}

var leases = map[string]leaseKeeper{
	"aged":   {take: takeAged, finish: finishBlindly},
	"fenced": {take: takeFenced, finish: finishFenced},
}

func handleWork(db *pgxpool.Pool, keep leaseKeeper, ttl time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Worker string `json:"worker"`
		}
		job, err := strconv.ParseInt(r.PathValue("job"), 10, 64)
		if err != nil {
			writeProblem(w, errNoJob)
			return
		}
		if err := readJSON(w, r, &body); err != nil {
			writeProblem(w, err)
			return
		}
		if body.Worker == "" {
			writeProblem(w, errBadRequest)
			return
		}
		h, err := keep.take(r.Context(), db, job, body.Worker, ttl)
		if err == nil {
			h, err = work(r.Context(), db, h)
		}
		if err == nil {
			err = keep.finish(r.Context(), db, h)
		}
		if err != nil {
			writeProblem(w, err)
			return
		}
		writeJSON(w, http.StatusOK, "application/json", map[string]int64{"position": h.position, "total": h.total})
	}
}

// work does the next items. In a real service this takes minutes.
func work(ctx context.Context, db *pgxpool.Pool, h held) (held, error) {
	var done, sum int64
	err := db.QueryRow(ctx, "SELECT count(*), coalesce(sum(amount), 0)::bigint FROM items WHERE job = $1 AND number > $2 AND number <= $3",
		h.job, h.position, h.position+piece).Scan(&done, &sum)
	h.position, h.total = h.position+done, h.total+sum
	return h, err
}

// takeAged takes a lease that is free or older than ttl. That it is old does
// not mean that its holder has stopped.
func takeAged(ctx context.Context, db *pgxpool.Pool, job int64, worker string, ttl time.Duration) (held, error) {
	h := held{job: job}
	err := db.QueryRow(ctx, `UPDATE jobs SET holder = $2, leased_at = clock_timestamp()
		WHERE id = $1 AND (holder IS NULL OR leased_at <= clock_timestamp() - $3::interval)
		RETURNING position, total`, job, worker, ttl).Scan(&h.position, &h.total)
	return h, refusal(ctx, db, job, err)
}

// finishBlindly writes the result of whoever comes, also of one whose lease was
// broken long ago and whose items somebody else has done since.
func finishBlindly(ctx context.Context, db *pgxpool.Pool, h held) error {
	_, err := db.Exec(ctx, "UPDATE jobs SET position = $2, total = $3, holder = NULL, leased_at = NULL WHERE id = $1", h.job, h.position, h.total)
	return err
}

// takeFenced takes the lease in the same way, and a token with it. The token is
// written to the row at once, so that from here on no earlier holder's result is
// accepted.
func takeFenced(ctx context.Context, db *pgxpool.Pool, job int64, worker string, ttl time.Duration) (held, error) {
	h := held{job: job}
	err := db.QueryRow(ctx, `UPDATE jobs SET holder = $2, leased_at = clock_timestamp(), fence = nextval('lease_tokens')
		WHERE id = $1 AND (holder IS NULL OR leased_at <= clock_timestamp() - $3::interval)
		RETURNING position, total, fence`, job, worker, ttl).Scan(&h.position, &h.total, &h.token)
	return h, refusal(ctx, db, job, err)
}

var fenced = lease.Column{Table: "jobs", Key: "id", Fence: "fence"}

// finishFenced writes the result if no later holder has been there: the
// comparison is in the UPDATE itself.
func finishFenced(ctx context.Context, db *pgxpool.Pool, h held) error {
	return fenced.Update(ctx, guard.Pgx(db), h.job, h.token,
		"position = $3, total = $4, holder = NULL, leased_at = NULL", h.position, h.total)
}

// refusal finds out why an UPDATE of a lease changed no row.
func refusal(ctx context.Context, db *pgxpool.Pool, job int64, err error) error {
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	var exists bool
	if err := db.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM jobs WHERE id = $1)", job).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		return errNoJob
	}
	return errHeld
}
