package idempotency

import (
	"strings"

	"github.com/holdfast-dev/holdfast/guard"
)

// statements are the SQL texts for one table in one dialect. Seconds since 1970
// are taken from the database, so that all clients measure by one clock.
type statements struct {
	create []string
	// claim inserts the key: after scope, key, fingerprint, seconds to live, and
	// the number of the lock for PostgreSQL.
	claim string
	// read finds a record: fingerprint, status, header, body, expired.
	read string
	// revive takes an expired record for a new request.
	revive string
	record string
	sweep  string
}

// The advisory lock of PostgreSQL's claim is held until the end of the
// transaction, so that a copy learns at once that the first request is running,
// instead of waiting for it at the unique index. It decides nothing else: whoever
// gets the lock still has to get the row in, and that is up to the index.
const postgresClaim = `INSERT INTO TABLE (scope, idempotency_key, fingerprint, expires_at)
	SELECT $1::text, $2::text, $3::bytea, NOW + $4::bigint WHERE pg_try_advisory_xact_lock($5::bigint)
	ON CONFLICT (scope, idempotency_key) DO NOTHING`

// An expired record is revived under the same lock; a transaction that has it
// already gets it again.
const postgresRevive = `UPDATE TABLE SET fingerprint = $1, status = 0, header = '', body = '', expires_at = NOW + $2::bigint
	WHERE scope = $3 AND idempotency_key = $4 AND expires_at <= NOW AND pg_try_advisory_xact_lock($5::bigint)`

// FOR UPDATE re-reads a row that somebody has just revived, under READ
// COMMITTED; SKIP LOCKED leaves one that is being revived.
const postgresSweep = `DELETE FROM TABLE t USING (SELECT scope, idempotency_key FROM TABLE
		WHERE expires_at <= NOW ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED) d
	WHERE t.scope = d.scope AND t.idempotency_key = d.idempotency_key`

func newStatements(d guard.Dialect, table string) statements {
	index := table[strings.LastIndex(table, ".")+1:] + "_expiry"
	switch d {
	case guard.Postgres:
		return fill(table, "extract(epoch FROM now())::bigint", statements{
			create: []string{`CREATE TABLE IF NOT EXISTS TABLE (
				scope text COLLATE "C" NOT NULL,
				idempotency_key text COLLATE "C" NOT NULL,
				fingerprint bytea NOT NULL,
				status integer NOT NULL DEFAULT 0,
				header text NOT NULL DEFAULT '',
				body bytea NOT NULL DEFAULT '',
				expires_at bigint NOT NULL,
				PRIMARY KEY (scope, idempotency_key))`,
				"CREATE INDEX IF NOT EXISTS " + index + " ON TABLE (expires_at)"},
			claim:  postgresClaim,
			read:   "SELECT fingerprint, status, header, body, expires_at <= NOW FROM TABLE WHERE scope = $1 AND idempotency_key = $2",
			revive: postgresRevive,
			record: "UPDATE TABLE SET status = $1, header = $2, body = $3 WHERE scope = $4 AND idempotency_key = $5",
			sweep:  postgresSweep,
		})
	case guard.MySQL:
		return fill(table, "UNIX_TIMESTAMP()", statements{
			// Bytes, not text: MySQL's usual collations take "A" and "a" for
			// the same key.
			create: []string{`CREATE TABLE IF NOT EXISTS TABLE (
				scope VARBINARY(255) NOT NULL,
				idempotency_key VARBINARY(255) NOT NULL,
				fingerprint VARBINARY(255) NOT NULL,
				status INT NOT NULL DEFAULT 0,
				header MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
				body LONGBLOB NOT NULL,
				expires_at BIGINT NOT NULL,
				PRIMARY KEY (scope, idempotency_key),
				INDEX ` + index + ` (expires_at)) ENGINE=InnoDB`},
			// IGNORE would also cut what is too long; lengths are checked
			// before.
			claim: "INSERT IGNORE INTO TABLE (scope, idempotency_key, fingerprint, header, body, expires_at) VALUES (?, ?, ?, '', '', NOW + ?)",
			// A locking read sees the newest committed row. A plain one would
			// look at the snapshot of REPEATABLE READ, which may be older than
			// the row that stopped the insert.
			read:   "SELECT fingerprint, status, header, body, expires_at <= NOW FROM TABLE WHERE scope = ? AND idempotency_key = ? LOCK IN SHARE MODE",
			revive: "UPDATE TABLE SET fingerprint = ?, status = 0, header = '', body = '', expires_at = NOW + ? WHERE scope = ? AND idempotency_key = ? AND expires_at <= NOW",
			record: "UPDATE TABLE SET status = ?, header = ?, body = ? WHERE scope = ? AND idempotency_key = ?",
			sweep:  "DELETE FROM TABLE WHERE expires_at <= NOW ORDER BY expires_at LIMIT ?",
		})
	}
	return fill(table, "CAST(strftime('%s', 'now') AS INTEGER)", statements{
		create: []string{`CREATE TABLE IF NOT EXISTS TABLE (
			scope TEXT NOT NULL,
			idempotency_key TEXT NOT NULL,
			fingerprint BLOB NOT NULL,
			status INTEGER NOT NULL DEFAULT 0,
			header TEXT NOT NULL DEFAULT '',
			body BLOB NOT NULL DEFAULT x'',
			expires_at INTEGER NOT NULL,
			PRIMARY KEY (scope, idempotency_key)) WITHOUT ROWID`,
			"CREATE INDEX IF NOT EXISTS " + index + " ON TABLE (expires_at)"},
		claim:  "INSERT INTO TABLE (scope, idempotency_key, fingerprint, expires_at) VALUES (?, ?, ?, NOW + ?) ON CONFLICT (scope, idempotency_key) DO NOTHING",
		read:   "SELECT fingerprint, status, header, body, expires_at <= NOW FROM TABLE WHERE scope = ? AND idempotency_key = ?",
		revive: "UPDATE TABLE SET fingerprint = ?, status = 0, header = '', body = x'', expires_at = NOW + ? WHERE scope = ? AND idempotency_key = ? AND expires_at <= NOW",
		record: "UPDATE TABLE SET status = ?, header = ?, body = ? WHERE scope = ? AND idempotency_key = ?",
		sweep:  "DELETE FROM TABLE WHERE (scope, idempotency_key) IN (SELECT scope, idempotency_key FROM TABLE WHERE expires_at <= NOW ORDER BY expires_at LIMIT ?)",
	})
}

func fill(table, now string, s statements) statements {
	r := strings.NewReplacer("CREATE TABLE IF NOT EXISTS TABLE", "CREATE TABLE IF NOT EXISTS "+table, "TABLE", table, "NOW", now)
	for i := range s.create {
		s.create[i] = r.Replace(s.create[i])
	}
	for _, text := range []*string{&s.claim, &s.read, &s.revive, &s.record, &s.sweep} {
		*text = r.Replace(*text)
	}
	return s
}
