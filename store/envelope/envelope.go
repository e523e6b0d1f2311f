// Package envelope is the stored form of a value in backends whose own tag
// cannot tell two writes of equal content apart (object stores with content
// hashes) or that have no tag at all (files).
//
// An envelope holds the nonce of the write, so equal values get different
// bytes and different tags, and a checksum over nonce, length and value, so a
// reader notices a value that was cut off, mixed of two writes, or not written
// by Holdfast. The checksum (CRC-32C) finds accidents, not forgeries.
//
// Layout, integers big-endian: "HFE1", nonce (16 bytes), length of the value
// (8 bytes), CRC-32C of the 24 bytes before and the value (4 bytes), value.
// The layout is stable: later versions get another magic and this one stays
// readable.
package envelope

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
)

// HeaderBytes is the length of everything before the value.
const HeaderBytes = 4 + 16 + 8 + 4

const magic = "HFE1"

func table() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// Encode returns the envelope of value. The nonce is 32 hexadecimal digits.
func Encode(nonce string, value []byte) ([]byte, error) {
	out := make([]byte, HeaderBytes+len(value))
	copy(out, magic)
	if len(nonce) != 32 {
		return nil, fmt.Errorf("encode envelope: the nonce %q does not have 32 digits", nonce)
	}
	if _, err := hex.Decode(out[4:20], []byte(nonce)); err != nil {
		return nil, fmt.Errorf("encode envelope: nonce %q: %w", nonce, err)
	}
	binary.BigEndian.PutUint64(out[20:28], uint64(len(value)))
	copy(out[HeaderBytes:], value)
	binary.BigEndian.PutUint32(out[28:32], sum(out))
	return out, nil
}

// sum covers nonce, length and value.
func sum(b []byte) uint32 {
	t := table()
	return crc32.Update(crc32.Checksum(b[4:28], t), t, b[HeaderBytes:])
}

// Decode checks the envelope and returns the nonce and the value, which
// aliases b.
func Decode(b []byte) (nonce string, value []byte, err error) {
	nonce, n, err := Header(b)
	if err != nil {
		return "", nil, err
	}
	if got := uint64(len(b) - HeaderBytes); got != n {
		return "", nil, fmt.Errorf("the header says %d bytes and %d follow", n, got)
	}
	if binary.BigEndian.Uint32(b[28:32]) != sum(b) {
		return "", nil, fmt.Errorf("the checksum does not match")
	}
	return nonce, b[HeaderBytes:], nil
}

// Header reads the nonce and the length of the value from the first
// HeaderBytes bytes, without checking the value.
func Header(b []byte) (nonce string, length uint64, err error) {
	if len(b) < HeaderBytes {
		return "", 0, fmt.Errorf("it has %d bytes, less than a header", len(b))
	}
	if string(b[:4]) != magic {
		return "", 0, fmt.Errorf("it does not start with %q", magic)
	}
	return hex.EncodeToString(b[4:20]), binary.BigEndian.Uint64(b[20:28]), nil
}
