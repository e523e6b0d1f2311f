package outbox

import (
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/guard"
)

// statements are the SQL texts for one table in one dialect. Times are
// milliseconds since 1970 by the clock of the database.
type statements struct {
	create               []string
	insert, insertLocked string
	// claim, and claimSkipping past dead letters: after lane, window, limit,
	// run, token, lease.
	claim, claimSkipping string
	// scanned says how far a claim with the same window looks.
	scanned                         string
	ack, release                    string // with a list of ids behind the token
	unclaim                         string
	fail                            string
	dead, requeue, discard, backlog string
}

// The lock comes before the id: were the id taken first, a transaction could get
// a smaller one than another that has committed already, and its message would
// come second and look like the first.
const insertLocked = `WITH l AS MATERIALIZED (SELECT pg_advisory_xact_lock($5::bigint))
	INSERT INTO TABLE (lane, topic, header, payload, added_at)
	SELECT $1::text, $2::text, $3::text, $4::bytea, NOW FROM l RETURNING id`

// The claim looks at the first message of each lane only. It hops from lane to
// lane by the index, starting behind the lane where the last claim of this relay
// ended: a long backlog of one key costs one hop, and no key is starved by those
// that come before it in the alphabet.
//
// Only the first message of a lane can be claimed by itself; those behind it come
// with it, as a run. So as long as the first one is there, whoever holds it holds
// the lane. Two relays that choose the same first message meet at its row:
// PostgreSQL skips a locked row, and looks at the new version of one that has
// been claimed in between, where due_at says no. SQLite runs one claim at a time.
const claim = `WITH RECURSIVE lanes(lane, n) AS (
		SELECT min(lane), 1 FROM TABLE WHERE lane > $1
		UNION ALL
		SELECT (SELECT min(t.lane) FROM TABLE t WHERE t.lane > l.lane), l.n + 1 FROM lanes l WHERE l.lane IS NOT NULL AND l.n < $2),
	heads(head, head_lane) AS MATERIALIZED (
		SELECT o.id, o.lane FROM lanes l JOIN TABLE o ON o.id =
			(SELECT h.id FROM TABLE h WHERE h.lane = l.lane HEAD ORDER BY h.id LIMIT 1)
		WHERE o.state = 0 AND o.due_at <= NOW
		ORDER BY o.lane LIMIT $3 LOCK),
	run(member, extra) AS MATERIALIZED (
		SELECT head, 1 FROM heads
		UNION ALL
		SELECT m.id, 0 FROM heads CROSS JOIN TABLE m WHERE m.lane = head_lane AND m.id > head AND m.state = 0
			AND m.id < coalesce((SELECT x.id FROM TABLE x WHERE x.lane = head_lane AND x.id > head ORDER BY x.id LIMIT 1 OFFSET $4), 9223372036854775807)
			AND RUN)
	UPDATE TABLE SET token = $5, due_at = NOW + $6, tries = tries + extra FROM run WHERE id = member
	RETURNING id, lane, topic, header, payload, tries, added_at`

const scanned = `WITH RECURSIVE lanes(lane, n) AS (
		SELECT min(lane), 1 FROM TABLE WHERE lane > $1
		UNION ALL
		SELECT (SELECT min(t.lane) FROM TABLE t WHERE t.lane > l.lane), l.n + 1 FROM lanes l WHERE l.lane IS NOT NULL AND l.n < $2)
	SELECT coalesce(max(lane), ''), count(lane) FROM lanes`

func newStatements(d guard.Dialect, table string) statements {
	index := table[strings.LastIndex(table, ".")+1:]
	postgres := d == guard.Postgres
	now, lock := "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)", ""
	create := []string{`CREATE TABLE IF NOT EXISTS ` + table + ` (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		lane TEXT NOT NULL,
		topic TEXT NOT NULL,
		header TEXT NOT NULL,
		payload BLOB NOT NULL,
		added_at INTEGER NOT NULL,
		state INTEGER NOT NULL DEFAULT 0,
		tries INTEGER NOT NULL DEFAULT 0,
		due_at INTEGER NOT NULL DEFAULT 0,
		token TEXT NOT NULL DEFAULT '',
		last_error TEXT NOT NULL DEFAULT '')`}
	if postgres {
		now, lock = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint", "FOR UPDATE OF o SKIP LOCKED"
		create = []string{`CREATE TABLE IF NOT EXISTS ` + table + ` (
		id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		lane text COLLATE "C" NOT NULL,
		topic text NOT NULL,
		header text NOT NULL,
		payload bytea NOT NULL,
		added_at bigint NOT NULL,
		state smallint NOT NULL DEFAULT 0,
		tries integer NOT NULL DEFAULT 0,
		due_at bigint NOT NULL DEFAULT 0,
		token text NOT NULL DEFAULT '',
		last_error text NOT NULL DEFAULT '')`}
	}
	create = append(create, "CREATE INDEX IF NOT EXISTS "+index+"_lane ON "+table+" (lane, id)",
		"CREATE INDEX IF NOT EXISTS "+index+"_dead ON "+table+" (lane, id) WHERE state <> 0")
	// A dead letter stops its lane: it is the first message, and not claimed. A
	// run does not reach across one that lies further back.
	blocking := strings.NewReplacer("HEAD", "", "RUN", "NOT EXISTS (SELECT 1 FROM TABLE d WHERE d.lane = head_lane AND d.state <> 0)").Replace(claim)
	skipping := strings.NewReplacer("HEAD", "AND h.state = 0", "RUN", "true").Replace(claim)
	r := strings.NewReplacer("TABLE", table, "NOW", now, "LOCK", lock)
	text := func(s string) string {
		s = r.Replace(s)
		if !postgres {
			s = strings.ReplaceAll(s, "$", "?")
		}
		return s
	}
	return statements{
		create:        create,
		insert:        text("INSERT INTO TABLE (lane, topic, header, payload, added_at) VALUES ($1, $2, $3, $4, NOW) RETURNING id"),
		insertLocked:  r.Replace(insertLocked),
		claim:         text(blocking),
		claimSkipping: text(skipping),
		scanned:       text(scanned),
		ack:           text("DELETE FROM TABLE WHERE token = $1 AND id IN "),
		release:       text("UPDATE TABLE SET token = '', due_at = 0 WHERE token = $1 AND id IN "),
		unclaim:       text("UPDATE TABLE SET token = '', due_at = 0, tries = tries - 1 WHERE token = $1 AND id = $2"),
		fail:          text("UPDATE TABLE SET token = '', due_at = NOW + $1, tries = $2, state = $3, last_error = $4 WHERE token = $5 AND id = $6"),
		dead:          text("SELECT id, lane, topic, header, payload, tries, last_error, added_at FROM TABLE WHERE state <> 0 AND id > $1 ORDER BY id LIMIT $2"),
		requeue:       text("UPDATE TABLE SET state = 0, tries = 0, due_at = 0, token = '' WHERE id = $1 AND state <> 0"),
		discard:       text("DELETE FROM TABLE WHERE id = $1 AND state <> 0"),
		backlog: text("SELECT count(CASE WHEN state = 0 THEN 1 END), count(CASE WHEN state <> 0 THEN 1 END), " +
			"coalesce(NOW - min(CASE WHEN state = 0 THEN added_at END), 0) FROM TABLE"),
	}
}

// list is the text of n placeholders in parentheses, the first one numbered 2.
func list(d guard.Dialect, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(map[bool]string{true: "(", false: ", "}[i == 0])
		b.WriteByte(map[bool]byte{true: '$', false: '?'}[d == guard.Postgres])
		b.WriteString(strconv.Itoa(i + 2))
	}
	return b.String() + ")"
}
