// Package right lets one statement insert or find.
package right

import (
	"database/sql"
	"net/http"
)

const upsert = `
-- one row per target
INSERT INTO shortlinks (code, target) VALUES ($1, $2)
ON CONFLICT (target) WHERE deleted_at IS NULL DO UPDATE SET target = EXCLUDED.target
RETURNING code`

type Links struct{ db *sql.DB }

func (l *Links) create(w http.ResponseWriter, r *http.Request) {
	var code string
	if err := l.db.QueryRowContext(r.Context(), upsert, r.FormValue("code"), r.FormValue("target")).Scan(&code); err != nil {
		http.Error(w, "no", 500)
		return
	}
	w.Write([]byte(code))
}

func Routes(l *Links) { http.HandleFunc("POST /links", l.create) }
