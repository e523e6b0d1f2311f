// Package racy takes "no row changed" for "no row there".
package racy

import (
	"database/sql"
	"net/http"
)

type Tasks struct{ db *sql.DB }

func (t *Tasks) move(w http.ResponseWriter, r *http.Request) {
	id, bucket := r.PathValue("id"), r.FormValue("bucket")
	res, err := t.db.Exec("UPDATE task_buckets SET bucket_id = ? WHERE task_id = ?", bucket, id)
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	n, err := res.RowsAffected()
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
	if n == 0 {
		if _, err = t.db.Exec("INSERT INTO task_buckets (task_id, bucket_id) VALUES (?, ?)", id, bucket); err != nil {
			http.Error(w, "no", 500)
			return
		}
	}
}

func Routes(t *Tasks) { http.HandleFunc("PUT /tasks/{id}", t.move) }
