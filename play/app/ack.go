package app

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// promptConn acknowledges what it receives at once. An application that writes
// the head and the body of an answer in two pieces, as many do, sends the second
// only when the first has been acknowledged (Nagle's algorithm), and the kernel
// likes to wait 40 ms with that: the application would look as if it slept in
// the middle of its answer.
type promptConn struct {
	net.Conn
	raw syscall.RawConn
}

func prompt(conn net.Conn) net.Conn {
	s, ok := conn.(syscall.Conn)
	if !ok {
		return conn
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return conn
	}
	return &promptConn{Conn: conn, raw: raw}
}

// Read acknowledges at once what comes. The kernel forgets the setting from time
// to time, so it is made before and after each read; that it cannot be made
// costs time and nothing else.
func (c *promptConn) Read(b []byte) (int, error) {
	c.ack()
	n, err := c.Conn.Read(b)
	c.ack()
	return n, err
}

func (c *promptConn) ack() {
	_ = c.raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
}

// SyscallConn is that of the connection itself.
func (c *promptConn) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }
