package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// redeemFunc notes that an account has used a coupon, which it may do once, and
// returns the number of the redemption.
type redeemFunc func(ctx context.Context, db *pgxpool.Pool, coupon string, account int64) (int64, error)

var redemptions = map[string]redeemFunc{
	"unchecked":        redeemUnchecked,
	"where-not-exists": redeemWhereNotExists,
	"unique":           redeemUnique,
}

func handleRedeem(db *pgxpool.Pool, redeem redeemFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Account int64 `json:"account"`
		}
		if err := readJSON(w, r, &body); err != nil {
			writeProblem(w, err)
			return
		}
		id, err := redeem(r.Context(), db, r.PathValue("coupon"), body.Account)
		if err != nil {
			if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == foreignKeyViolation {
				err = fmt.Errorf("%w: %w", errNoAccount, err)
			}
			writeProblem(w, err)
			return
		}
		w.Header().Set("Location", fmt.Sprintf("/redemptions/%d", id))
		writeJSON(w, http.StatusCreated, "application/json", map[string]int64{"id": id})
	}
}

// The SQLSTATEs that are handled.
const (
	foreignKeyViolation = "23503"
	uniqueViolation     = "23505"
)

// redeemUnchecked looks whether the coupon has been used, and then uses it. A
// second request can look before the first has written.
func redeemUnchecked(ctx context.Context, db *pgxpool.Pool, coupon string, account int64) (id int64, err error) {
	var used bool
	err = db.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM redemptions WHERE coupon = $1 AND account = $2)", coupon, account).Scan(&used)
	if err != nil {
		return 0, err
	}
	if used {
		return 0, errRedeemed
	}
	return insertRedemption(ctx, db, coupon, account)
}

// redeemWhereNotExists does both in one statement. It is no better: a statement
// looks at a snapshot, and the row of another statement that has not ended is
// not in it.
func redeemWhereNotExists(ctx context.Context, db *pgxpool.Pool, coupon string, account int64) (id int64, err error) {
	err = db.QueryRow(ctx, `INSERT INTO redemptions (coupon, account)
		SELECT $1, $2 WHERE NOT EXISTS (SELECT 1 FROM redemptions WHERE coupon = $1 AND account = $2)
		RETURNING id`, coupon, account).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errRedeemed
	}
	return id, err
}

// redeemUnique leaves the check to the unique index of unique.sql, which also
// sees rows that are not committed yet and waits for them.
func redeemUnique(ctx context.Context, db *pgxpool.Pool, coupon string, account int64) (id int64, err error) {
	id, err = insertRedemption(ctx, db, coupon, account)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == uniqueViolation {
		return 0, fmt.Errorf("%w: %w", errRedeemed, err)
	}
	return id, err
}

func insertRedemption(ctx context.Context, db *pgxpool.Pool, coupon string, account int64) (id int64, err error) {
	err = db.QueryRow(ctx, "INSERT INTO redemptions (coupon, account) VALUES ($1, $2) RETURNING id", coupon, account).Scan(&id)
	return id, err
}
