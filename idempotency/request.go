package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/store"
)

// MinTTL is the least time for which an answer is kept. Clients and queues
// retry for hours; a key that is forgotten before they give up guards nothing.
const MinTTL = 24 * time.Hour

// DefaultTTL is the time for which an answer is kept unless Options say
// otherwise: longer than the redelivery windows of the usual webhook senders,
// which end after three days.
const DefaultTTL = 7 * 24 * time.Hour

// maxName bounds scopes and keys, in bytes.
const maxName = 255

// Request names one request of a client.
type Request struct {
	// Scope separates clients, and operations: the same key in another scope is
	// another key. Put the authenticated principal into it, or a client that
	// guesses the key of another is given that client's answer. At most 255
	// bytes; may be empty.
	Scope string
	// Key is what the client calls the request, or the id of the delivery. 1 to
	// 255 bytes of UTF-8 without control characters.
	Key string
	// Fingerprint tells the request from another one that comes with the same
	// key by mistake; see [Fingerprint]. If it is empty, here or in the record,
	// nothing is compared.
	Fingerprint []byte
}

// Fingerprint is the SHA-256 of the parts with their lengths, so that the parts
// "ab", "c" and "a", "bc" differ.
func Fingerprint(parts ...[]byte) []byte {
	h := sha256.New()
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write(p)
	}
	return h.Sum(nil)
}

func (r Request) check() error {
	if len(r.Scope) > maxName || !plain(r.Scope) {
		return &store.InvalidError{Op: "idempotency", What: fmt.Sprintf("scope %q", r.Scope),
			Why: "at most 255 bytes of UTF-8 without control characters are needed; hash a longer one"}
	}
	if r.Key == "" || len(r.Key) > maxName || !plain(r.Key) {
		return &store.InvalidError{Op: "idempotency", What: fmt.Sprintf("key %q", r.Key),
			Why: "1 to 255 bytes of UTF-8 without control characters are needed"}
	}
	if len(r.Fingerprint) > maxName {
		return &store.InvalidError{Op: "idempotency", What: "fingerprint", Why: "it has more than 255 bytes; use Fingerprint"}
	}
	return nil
}

func plain(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// ttlOrError turns the zero into the default and refuses what is too short.
func ttlOrError(ttl time.Duration) (time.Duration, error) {
	if ttl == 0 {
		return DefaultTTL, nil
	}
	if ttl < MinTTL {
		return 0, &store.InvalidError{Op: "idempotency", What: fmt.Sprintf("TTL %s", ttl),
			Why: fmt.Sprintf("at least %s is needed: clients retry for hours, and a copy that comes after the expiry has its effect again", MinTTL)}
	}
	return ttl, nil
}

// Field is one header line of an answer.
type Field struct {
	Name  string `json:"n"`
	Value string `json:"v"`
}

// Answer is what the first request was told, and what its copies are told. The
// zero value is fine where nobody waits for an answer.
type Answer struct {
	Status int     `json:"s,omitempty"`
	Header []Field `json:"h,omitempty"`
	Body   []byte  `json:"b,omitempty"`
}

func (a Answer) empty() bool { return a.Status == 0 && len(a.Header) == 0 && len(a.Body) == 0 }

// Result is the answer, and where it comes from.
type Result struct {
	Answer
	// Replayed says that the answer was recorded before: this call had no
	// effect of its own.
	Replayed bool
	// Settled says that the answer to this call's own commit was lost and that
	// the record was found afterwards. Replayed is false then.
	Settled bool
	// Attempts is how many transactions were begun: more than one after
	// serialization failures, deadlocks and waiting.
	Attempts int
}

func encodeHeader(fields []Field) (string, error) {
	if len(fields) == 0 {
		return "", nil
	}
	b, err := json.Marshal(fields)
	return string(b), err
}

func decodeHeader(text string) (fields []Field, err error) {
	if text == "" {
		return nil, nil
	}
	err = json.Unmarshal([]byte(text), &fields)
	return fields, err
}

var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$`)

func checkTable(name string) error {
	if !tableName.MatchString(name) {
		return &store.InvalidError{Op: "idempotency", What: fmt.Sprintf("table %q", name),
			Why: "a plain name is needed, with a schema before a dot if need be"}
	}
	return nil
}
