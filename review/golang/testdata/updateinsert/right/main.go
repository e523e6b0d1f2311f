// Package right uses the database's own upsert.
package right

import (
	"database/sql"
	"net/http"
)

type Tasks struct{ db *sql.DB }

func (t *Tasks) move(w http.ResponseWriter, r *http.Request) {
	_, err := t.db.Exec("INSERT INTO task_buckets (task_id, bucket_id) VALUES (?, ?) ON DUPLICATE KEY UPDATE bucket_id = VALUES(bucket_id)", r.PathValue("id"), r.FormValue("bucket"))
	if err != nil {
		http.Error(w, "no", 500)
		return
	}
}

func Routes(t *Tasks) { http.HandleFunc("PUT /tasks/{id}", t.move) }
