package marker

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// TimeOf reads the time that an id carries; ok is false if it carries none.
type TimeOf func(id string) (t time.Time, ok bool)

// NewID returns a UUIDv7 for now: unique, sortable by time, and readable by
// [UUIDv7].
func NewID(now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[6:])
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// UUIDv7 reads the milliseconds at the start of a version 7 UUID.
func UUIDv7(id string) (time.Time, bool) {
	h := strings.ReplaceAll(id, "-", "")
	if len(h) != 32 || h[12] != '7' {
		return time.Time{}, false
	}
	if _, err := hex.DecodeString(h); err != nil {
		return time.Time{}, false
	}
	ms, err := strconv.ParseInt(h[:12], 16, 64)
	return time.UnixMilli(ms), err == nil
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// ULID reads the milliseconds in the first ten characters of a ULID.
func ULID(id string) (time.Time, bool) {
	if len(id) != 26 || id[0] > '7' {
		return time.Time{}, false
	}
	var ms int64
	for i, c := range strings.ToUpper(id) {
		digit := strings.IndexRune(crockford, c)
		if digit < 0 {
			return time.Time{}, false
		}
		if i < 10 {
			ms = ms<<5 | int64(digit)
		}
	}
	return time.UnixMilli(ms), true
}

// EpochSuffix reads an id that ends in "-" and the time since 1970: ten digits
// are seconds, thirteen are milliseconds.
func EpochSuffix(id string) (time.Time, bool) {
	digits := id[strings.LastIndexByte(id, '-')+1:]
	if len(digits) == len(id) || (len(digits) != 10 && len(digits) != 13) {
		return time.Time{}, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return time.Time{}, false
	}
	if len(digits) == 10 {
		return time.Unix(int64(n), 0), true
	}
	return time.UnixMilli(int64(n)), true
}
