package outbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// Message is what is to be published.
type Message struct {
	// Key orders messages: those with the same key are published in the order
	// of their commits. Use the id of what the message is about. Without a key
	// there is no order. At most 255 bytes of UTF-8 without NUL.
	Key string
	// Topic, Header and Payload are for the publisher.
	Topic   string
	Header  map[string]string
	Payload []byte
}

// Options are for [New]. The zero value is useful.
type Options struct {
	// Table is where messages are kept; empty means holdfast_outbox.
	Table string
}

// Outbox records messages in a table of the application's own database. It is
// safe for concurrent use.
type Outbox struct {
	table   string
	dialect guard.Dialect
	sql     statements
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

// New checks the options. It does not look at the database. MySQL is refused
// with store.ErrUnsupported.
func New(d guard.Dialect, opts Options) (*Outbox, error) {
	if opts.Table == "" {
		opts.Table = "holdfast_outbox"
	}
	if d != guard.Postgres && d != guard.SQLite {
		return nil, &store.UnsupportedError{Backend: "MySQL", Op: "outbox"}
	}
	if !tableName.MatchString(opts.Table) {
		return nil, &store.InvalidError{Op: "outbox", What: fmt.Sprintf("table %q", opts.Table),
			Why: "a plain name is needed, with a schema before a dot if need be"}
	}
	return &Outbox{table: opts.Table, dialect: d, sql: newStatements(d, opts.Table)}, nil
}

// Schema returns the statements that make the table, for an application that
// keeps its migrations itself.
func (o *Outbox) Schema() []string { return slices.Clone(o.sql.create) }

// Create makes the table if it is absent; several processes may do so at once.
func (o *Outbox) Create(ctx context.Context, h guard.Handle) error {
	for _, statement := range o.sql.create {
		_, err := h.Exec(ctx, statement)
		for tries := 0; tries < 3 && createdMeanwhile(err); tries++ {
			_, err = h.Exec(ctx, statement)
		}
		if err != nil {
			return fmt.Errorf("create table %s: %w", o.table, err)
		}
	}
	return nil
}

// createdMeanwhile is how PostgreSQL's IF NOT EXISTS fails when another session
// creates the same at the same time.
func createdMeanwhile(err error) bool {
	var e interface{ SQLState() string }
	return errors.As(err, &e) && (e.SQLState() == "23505" || e.SQLState() == "42P07")
}

// Add records messages in the transaction tx, for publication after its commit,
// and returns their IDs. It waits for other transactions that have added
// messages of the same keys and have not ended.
func (o *Outbox) Add(ctx context.Context, tx guard.Handle, messages ...Message) ([]int64, error) {
	if tx.Dialect() != o.dialect {
		return nil, &store.InvalidError{Op: "add to outbox", What: "handle", Why: "it speaks another dialect than the outbox was made for"}
	}
	for _, m := range messages {
		if len(m.Key) > 255 || !utf8.ValidString(m.Key) || strings.Contains(m.Key, "\x00") {
			return nil, &store.InvalidError{Op: "add to outbox", What: fmt.Sprintf("key %q", m.Key), Why: "at most 255 bytes of UTF-8 without NUL are needed"}
		}
	}
	if err := o.lock(ctx, tx, messages); err != nil {
		return nil, fmt.Errorf("add to outbox %s: %w", o.table, err)
	}
	ids := make([]int64, len(messages))
	for i, m := range messages {
		var err error
		if ids[i], err = o.insert(ctx, tx, m); err != nil {
			return nil, fmt.Errorf("add to outbox %s a message with key %q: %w", o.table, m.Key, err)
		}
	}
	return ids, nil
}

// lock takes the locks of several keys in one order, so that two transactions
// with the same keys can not deadlock. One key is locked by its insert.
func (o *Outbox) lock(ctx context.Context, tx guard.Handle, messages []Message) error {
	if o.dialect != guard.Postgres {
		return nil // SQLite has one writer at a time
	}
	var locks []int64
	for _, m := range messages {
		if m.Key != "" {
			locks = append(locks, o.lockOf(m.Key))
		}
	}
	slices.Sort(locks)
	if locks = slices.Compact(locks); len(locks) < 2 {
		return nil
	}
	for _, n := range locks {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", n); err != nil {
			return err
		}
	}
	return nil
}

// lockOf is the number of a key's advisory lock. Keys with the same number wait
// for each other for nothing; there is one such pair in 2^64.
func (o *Outbox) lockOf(key string) int64 {
	sum := sha256.Sum256([]byte("holdfast outbox\x00" + o.table + "\x00" + key))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

func (o *Outbox) insert(ctx context.Context, tx guard.Handle, m Message) (id int64, err error) {
	header := ""
	if len(m.Header) > 0 {
		b, err := json.Marshal(m.Header)
		if err != nil {
			return 0, err
		}
		header = string(b)
	}
	payload := m.Payload
	if payload == nil {
		payload = []byte{}
	}
	args := []any{lane(m.Key), m.Topic, header, payload}
	query := o.sql.insert
	if o.dialect == guard.Postgres && m.Key != "" {
		query, args = o.sql.insertLocked, append(args, o.lockOf(m.Key))
	}
	return id, tx.QueryRow(ctx, query, args...).Scan(&id)
}

// lane is the queue of a message: messages of a key share one, and a message
// without a key has one of its own.
func lane(key string) string {
	if key != "" {
		return "k" + key
	}
	return "u" + rand.Text()
}

func keyOf(lane string) string {
	if key, ok := strings.CutPrefix(lane, "k"); ok {
		return key
	}
	return ""
}

// DeadLetter is a message that has failed too often.
type DeadLetter struct {
	ID int64
	Message
	Tries     int
	LastError string
	Added     time.Time
}

// Dead returns up to limit dead letters with IDs above after, in the order of
// their IDs.
func (o *Outbox) Dead(ctx context.Context, h guard.Handle, after int64, limit int) (_ []DeadLetter, err error) {
	rows, err := h.Query(ctx, o.sql.dead, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list dead letters of %s: %w", o.table, err)
	}
	defer func() {
		if cerr := rows.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("list dead letters of %s: %w", o.table, cerr)
		}
	}()
	var letters []DeadLetter
	for rows.Next() {
		var d DeadLetter
		var lane, header string
		var added int64
		if err := rows.Scan(&d.ID, &lane, &d.Topic, &header, &d.Payload, &d.Tries, &d.LastError, &added); err != nil {
			return nil, fmt.Errorf("list dead letters of %s: %w", o.table, err)
		}
		d.Key, d.Added = keyOf(lane), time.UnixMilli(added)
		if d.Header, err = decodeHeader(d.ID, header); err != nil {
			return nil, err
		}
		letters = append(letters, d)
	}
	return letters, rows.Err()
}

func decodeHeader(id int64, text string) (header map[string]string, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &header); err != nil {
		return nil, &store.CorruptError{Key: fmt.Sprint(id), Why: "the header of the message: " + err.Error()}
	}
	return header, nil
}

// Requeue gives a dead letter MaxTries new tries. It goes to its old place: in
// front of later messages of its key that wait. It is store.ErrNotFound if there
// is no such dead letter.
func (o *Outbox) Requeue(ctx context.Context, h guard.Handle, id int64) error {
	return o.one(ctx, h, "requeue", o.sql.requeue, id)
}

// Discard deletes a dead letter, and with it what stops its key. It is
// store.ErrNotFound if there is no such dead letter.
func (o *Outbox) Discard(ctx context.Context, h guard.Handle, id int64) error {
	return o.one(ctx, h, "discard", o.sql.discard, id)
}

func (o *Outbox) one(ctx context.Context, h guard.Handle, what, query string, id int64) error {
	n, err := h.Exec(ctx, query, id)
	if err != nil {
		return fmt.Errorf("%s dead letter %d of %s: %w", what, id, o.table, err)
	}
	if n == 0 {
		return &store.NotFoundError{Key: fmt.Sprintf("%s, dead letter %d", o.table, id)}
	}
	return nil
}

// Backlog is what an outbox holds, for metrics and alarms.
type Backlog struct {
	// Waiting counts messages to be published, Dead those set aside.
	Waiting, Dead int64
	// Oldest is how long the oldest waiting message has been there.
	Oldest time.Duration
}

// Backlog counts. It reads the whole table.
func (o *Outbox) Backlog(ctx context.Context, h guard.Handle) (Backlog, error) {
	var b Backlog
	var oldest int64
	if err := h.QueryRow(ctx, o.sql.backlog).Scan(&b.Waiting, &b.Dead, &oldest); err != nil {
		return Backlog{}, fmt.Errorf("count messages of %s: %w", o.table, err)
	}
	b.Oldest = max(0, time.Duration(oldest)*time.Millisecond)
	return b, nil
}
