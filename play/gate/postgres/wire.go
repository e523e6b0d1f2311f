package postgres

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

const (
	headerLen = 5
	// maxMessage is the server's own limit of a message body (about 1 GiB).
	maxMessage = 0x3fffffff
	readSize   = 8192
	// keptSize is the largest buffer that is kept between messages.
	keptSize = 1 << 16
)

// reader cuts a stream into protocol messages. What it returns is valid until
// the next call of fill.
type reader struct {
	src        io.Reader
	buf        []byte
	start, end int
}

func newReader(src io.Reader) *reader {
	return &reader{src: src, buf: make([]byte, readSize)}
}

// fill reads until at least one whole message is there.
func (r *reader) fill() error {
	for {
		n, err := r.frame()
		if err != nil {
			return err
		}
		if n > 0 && r.end-r.start >= n {
			return nil
		}
		if err := r.more(n); err != nil {
			return err
		}
	}
}

// more reads once, with room for a message of want bytes. The room grows with
// what has arrived, so that a wrong length alone does not take memory.
func (r *reader) more(want int) error {
	if r.start == r.end {
		r.start, r.end = 0, 0
		if len(r.buf) > keptSize {
			r.buf = make([]byte, readSize)
		}
	}
	if r.end == len(r.buf) || (r.start > 0 && r.start+want > len(r.buf)) {
		have := r.end - r.start
		dst := r.buf
		if have*2 > len(r.buf) {
			dst = make([]byte, 2*len(r.buf))
		}
		copy(dst, r.buf[r.start:r.end])
		r.buf, r.start, r.end = dst, 0, have
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil
	}
	return err
}

// frame gives the length of the first message with its header, 0 while the
// header is not complete.
func (r *reader) frame() (int, error) {
	if r.end-r.start < headerLen {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(r.buf[r.start+1:])
	if n < 4 || n > maxMessage {
		return 0, fmt.Errorf("message %q has the impossible length %d", r.buf[r.start], n)
	}
	return int(n) + 1, nil
}

// next takes the next whole message, header included, without reading.
func (r *reader) next() (kind byte, raw []byte, ok bool) {
	n, err := r.frame()
	if err != nil || n == 0 || r.end-r.start < n {
		return 0, nil, false
	}
	raw = r.buf[r.start : r.start+n : r.start+n]
	r.start += n
	return raw[0], raw, true
}

// startup takes one start-up packet (length, code, no type byte).
func (r *reader) startup() ([]byte, error) {
	const least, most = 8, 10_000
	for {
		have := r.end - r.start
		if have >= 4 {
			n := int(int32(binary.BigEndian.Uint32(r.buf[r.start:])))
			if n < least || n > most {
				return nil, fmt.Errorf("start-up packet has the impossible length %d: is this a PostgreSQL client?", n)
			}
			if have >= n {
				raw := r.buf[r.start : r.start+n : r.start+n]
				r.start += n
				return raw, nil
			}
		}
		if err := r.more(most); err != nil {
			return nil, err
		}
	}
}

// buffered is the number of bytes that were read and not taken.
func (r *reader) buffered() int { return r.end - r.start }

// counted is a socket that knows how many of its bytes have been dealt with:
// who reads again has done with what was read before.
type counted struct {
	net.Conn
	read uint64 // by the reading goroutine alone
	done atomic.Uint64
}

func (c *counted) Read(b []byte) (int, error) {
	c.done.Store(c.read)
	n, err := c.Conn.Read(b)
	c.read += uint64(n)
	return n, err
}

// outbox collects bytes for one socket. put and take are guarded by the
// connection's mutex; the socket is written without it, because a peer that
// does not read would otherwise stop the other direction too, and with it
// itself (the server can block on its output while it owes us nothing else).
type outbox struct {
	writing sync.Mutex
	dst     net.Conn
	pending []byte
	spare   []byte
	sending bool // taken from pending, and not yet with the kernel
}

func (o *outbox) put(b []byte) {
	o.pending = append(o.pending, b...)
}

// flush writes what is pending, in the order of the puts.
func (o *outbox) flush(guard *sync.Mutex) error {
	o.writing.Lock()
	defer o.writing.Unlock()
	guard.Lock()
	b := o.pending
	o.pending, o.spare = o.spare[:0], nil
	o.sending = len(b) > 0
	guard.Unlock()
	var err error
	if len(b) > 0 {
		_, err = o.dst.Write(b)
	}
	guard.Lock()
	defer guard.Unlock()
	o.sending = false
	if cap(b) <= keptSize {
		o.spare = b[:0]
	}
	return err
}
