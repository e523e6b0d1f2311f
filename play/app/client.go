package app

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/play/oracle"
)

// defaultMaxBody is the largest answer that is read, in bytes.
const defaultMaxBody = 1 << 20

// Request is one HTTP request, ready to be sent.
type Request struct {
	Method string
	// Path begins with a slash and may have a query.
	Path    string
	Header  map[string]string
	Cookies map[string]string
	Body    []byte
}

// String is the request as a report shows it: method, path and body.
func (r Request) String() string {
	s := r.Method + " " + r.Path
	if len(r.Body) > 0 {
		s += " " + string(r.Body)
	}
	return s
}

// ClientOptions are the choices of a client; the zero value is useful.
type ClientOptions struct {
	// Headers are the names of the headers that [Client.Do] keeps.
	Headers []string
	// MaxBody is the largest answer in bytes; 0 is 1 MiB. A larger one is an
	// error: a comparison of two cut-off bodies would hide a difference.
	MaxBody int64
}

// Client is one actor: one keep-alive connection and one cookie jar. It is used
// by one goroutine at a time.
//
// It writes to its own connection instead of using http.Transport, which sends
// a GET a second time when a kept connection turns out to be dead. Here a dead
// connection is replaced before a request is sent, never after.
type Client struct {
	addr string
	opts ClientOptions
	jar  http.CookieJar
	conn net.Conn
	in   *bufio.Reader
}

// NewClient makes a client for the application at addr (host:port). It opens
// nothing yet.
func NewClient(addr string, o ClientOptions) *Client {
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	c := &Client{addr: addr, opts: o}
	c.Forget()
	return c
}

// Forget empties the cookie jar and keeps the connection.
func (c *Client) Forget() {
	c.jar, _ = cookiejar.New(nil) // without options it returns no error
}

// Close closes the connection. The client can still be used afterwards; it then
// opens a new one.
func (c *Client) Close() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn, c.in = nil, nil
	return err
}

// NoAnswerError says that a request got no complete answer. The request may
// have had its effect all the same.
type NoAnswerError struct {
	Method, Path string
	Addr         string
	// Sent: the request was written, or a part of it.
	Sent bool
	Err  error
}

func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("%s %s to %s: %v", e.Method, e.Path, e.Addr, e.Err)
}

func (e *NoAnswerError) Unwrap() error { return e.Err }

// Warm makes sure that the connection is open, so that the next request costs
// no dial. A connection that the application has closed is replaced.
func (c *Client) Warm(ctx context.Context) error {
	if c.conn != nil && c.in.Buffered() == 0 && alive(c.conn) {
		return nil
	}
	_ = c.Close() // it is dead already
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return fmt.Errorf("connect to the application at %s: %w", c.addr, plain(err))
	}
	c.conn = prompt(conn)
	c.in = bufio.NewReader(c.conn)
	return nil
}

// alive reports whether the other end has neither closed the connection nor
// sent something that nobody asked for.
func alive(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = errors.Is(err, unix.EAGAIN)
		return true
	})
	return err == nil && quiet
}

// Reply is a whole answer.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// Response is the part of the answer that is compared: of the headers only
// those named, with several values of one joined by ", ".
func (r *Reply) Response(headers []string) oracle.Response {
	o := oracle.Response{Status: r.Status, Body: string(r.Body), ContentType: r.Header.Get("Content-Type")}
	for _, h := range headers {
		v := r.Header.Values(h)
		if len(v) == 0 {
			continue
		}
		if o.Header == nil {
			o.Header = map[string]string{}
		}
		o.Header[http.CanonicalHeaderKey(h)] = strings.Join(v, ", ")
	}
	return o
}

// Do sends a request once and returns what is compared of the answer. Without an
// answer the response has Status 0 and the reason in Err, in words that are the
// same in every run, and the error is as that of [Client.Send].
func (c *Client) Do(ctx context.Context, r Request) (oracle.Response, error) {
	reply, err := c.Send(ctx, r)
	if err != nil {
		return oracle.Response{Err: reason(err)}, err
	}
	return reply.Response(c.opts.Headers), nil
}

// Send sends a request once and returns the whole answer. The error is a
// *[NoAnswerError], and the connection is then closed. When ctx ends first, the
// application sees a client that hangs up.
func (c *Client) Send(ctx context.Context, r Request) (*Reply, error) {
	fail := func(sent bool, err error) (*Reply, error) {
		_ = c.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, &NoAnswerError{Method: r.Method, Path: r.Path, Addr: c.addr, Sent: sent, Err: plain(err)}
	}
	req, err := c.httpRequest(r)
	if err != nil {
		return fail(false, err)
	}
	if err := c.Warm(ctx); err != nil {
		return fail(false, err)
	}
	conn := c.conn
	// A deadline in the past wakes a read or write that is under way.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	writeErr := req.Write(conn)
	resp, err := c.readHead(req)
	if err != nil {
		stop()
		// An application may answer and close before it has read all; only
		// without an answer does the failed write say what happened.
		return fail(true, cmpErr(writeErr, err))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.opts.MaxBody+1))
	switch {
	case err != nil:
		stop()
		return fail(true, fmt.Errorf("read the answer's body: %w", plain(err)))
	case int64(len(body)) > c.opts.MaxBody:
		stop()
		return fail(true, fmt.Errorf("the answer is larger than %d bytes", c.opts.MaxBody))
	}
	// When the deadline was set after the last byte came, the connection is of
	// no more use although the answer is complete.
	if !stop() || resp.Close || writeErr != nil {
		_ = c.Close()
	}
	c.jar.SetCookies(c.jarURL(req.URL), resp.Cookies())
	return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// readHead reads the answer's head and passes over informational ones (100
// Continue, 103 Early Hints). 101 ends HTTP and is an answer.
func (c *Client) readHead(req *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.in, req)
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

func (c *Client) httpRequest(r Request) (*http.Request, error) {
	req, err := http.NewRequest(r.Method, "http://"+c.addr+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("User-Agent", "holdfast")
	for k, v := range r.Header {
		if http.CanonicalHeaderKey(k) == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	var cookies []string
	if h := req.Header.Get("Cookie"); h != "" {
		cookies = append(cookies, h)
	}
	for _, k := range c.jar.Cookies(c.jarURL(req.URL)) {
		if _, ok := r.Cookies[k.Name]; !ok {
			cookies = append(cookies, k.Name+"="+k.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Cookies)) {
		cookies = append(cookies, name+"="+r.Cookies[name])
	}
	if cookies != nil {
		// Not by AddCookie, which drops bytes that it does not like.
		req.Header.Set("Cookie", strings.Join(cookies, "; "))
	}
	return req, nil
}

// jarURL is the URL under which cookies are kept. It says https so that a cookie
// marked Secure is kept and sent: an application under test answers without TLS
// what it answers with TLS elsewhere.
func (c *Client) jarURL(u *url.URL) *url.URL {
	j := *u
	j.Scheme = "https"
	return &j
}

// cmpErr picks what to tell when writing and reading failed.
func cmpErr(write, read error) error {
	if write != nil && (errors.Is(read, io.EOF) || errors.Is(read, io.ErrUnexpectedEOF)) {
		return write
	}
	return read
}

// plain takes the addresses out of a network error: the local port differs from
// run to run, and answers are compared.
func plain(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err
	}
	return err
}

// reason is an error of Send in words that are the same in every run.
func reason(err error) string {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection closed without a complete answer"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "given up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	}
	if e, ok := errors.AsType[*NoAnswerError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}
