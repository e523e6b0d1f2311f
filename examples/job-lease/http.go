package main

import (
	"encoding/json"
	"errors"
	"log"
	"net/http"

	"github.com/jackc/pgx/v5/pgconn"
)

// What a request can be refused for.
var (
	errBadRequest = errors.New("the request is not understood")
	errNoJob      = errors.New("there is no such job")
	errHeld       = errors.New("another worker has the lease")
	errQuota      = errors.New("the quota is too low")
)

// race is what Holdfast's errors say about a lost race.
type race interface {
	error
	Race() (status int, title string)
}

// problem is an error as RFC 9457 has it, with the SQLSTATE where there is one.
type problem struct {
	Title    string `json:"title"`
	Status   int    `json:"status"`
	SQLState string `json:"sqlstate,omitempty"`
}

func writeProblem(w http.ResponseWriter, err error) {
	p := problem{Title: "Internal Server Error", Status: http.StatusInternalServerError}
	for known, status := range map[error]int{
		errBadRequest: http.StatusBadRequest,
		errNoJob:      http.StatusNotFound,
		errHeld:       http.StatusLocked,
		errQuota:      http.StatusUnprocessableEntity,
	} {
		if errors.Is(err, known) {
			p.Title, p.Status = known.Error(), status
		}
	}
	if lost, ok := errors.AsType[race](err); ok {
		p.Status, p.Title = lost.Race()
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		p.SQLState = pgErr.Code
	}
	if p.Status == http.StatusInternalServerError {
		log.Printf("error: %v", err)
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

func writeJSON(w http.ResponseWriter, status int, contentType string, body any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Printf("write answer: %v", err)
	}
}

// readJSON reads a request's body into v.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.Join(errBadRequest, err)
	}
	return nil
}
