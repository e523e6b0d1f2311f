package app

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serving starts the test application and a client for it.
func serving(t *testing.T, o Options, co ClientOptions) (*Process, *Client) {
	t.Helper()
	p := start(t, "serve", o)
	ready(t, p)
	c := NewClient(p.Addr(), co)
	t.Cleanup(func() { _ = c.Close() })
	return p, c
}

func mustSend(t *testing.T, c *Client, r Request) *Reply {
	t.Helper()
	reply, err := c.Send(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestClientSendsWhatItIsTold(t *testing.T) {
	_, c := serving(t, Options{}, ClientOptions{Headers: []string{"etag", "Location"}})
	resp, err := c.Do(t.Context(), Request{
		Method:  "POST",
		Path:    "/echo?a=1&b=%20",
		Header:  map[string]string{"Content-Type": "application/json", "X-Key": "v", "Host": "shop.example", "Cookie": "a=1"},
		Cookies: map[string]string{"sid": `x"y z`},
		Body:    []byte(`{"n":1}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "POST /echo?a=1&b=%20 host=shop.example\nAccept-Encoding: \nContent-Type: application/json\n" +
		"Cookie: a=1; sid=x\"y z\nX-Key: v\n{\"n\":1}"
	if resp.Body != want {
		t.Errorf("got  %q\nwant %q", resp.Body, want)
	}
	if len(resp.Header) != 1 || resp.Header["Etag"] != `"7"` || resp.Status != 200 || resp.ContentType != "text/plain; charset=utf-8" {
		t.Errorf("got %+v", resp)
	}
}

func TestClientKeepsItsConnectionAndCookies(t *testing.T) {
	_, c := serving(t, Options{}, ClientOptions{})
	if err := c.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	local := c.conn.LocalAddr().String()
	login := mustSend(t, c, Request{Method: "POST", Path: "/login"})
	if login.Status != 302 {
		t.Errorf("a redirect was followed: %d", login.Status)
	}
	for range 3 {
		r := mustSend(t, c, Request{Method: "GET", Path: "/echo"})
		if got := r.Header.Get("X-Remote"); got != local {
			t.Errorf("connection from %s, want %s", got, local)
		}
		if !strings.Contains(string(r.Body), "Cookie: sid=s3cret\n") {
			t.Errorf("no cookie in %q", r.Body)
		}
	}
	r := mustSend(t, c, Request{Method: "GET", Path: "/echo", Cookies: map[string]string{"sid": "mine"}})
	if !strings.Contains(string(r.Body), "Cookie: sid=mine\n") {
		t.Errorf("the request's own cookie is not the only one: %q", r.Body)
	}
	c.Forget()
	r = mustSend(t, c, Request{Method: "GET", Path: "/echo"})
	if !strings.Contains(string(r.Body), "Cookie: \n") || r.Header.Get("X-Remote") != local {
		t.Errorf("after Forget: %q from %s", r.Body, r.Header.Get("X-Remote"))
	}
}

// A GET on a kept connection that ends without an answer is what http.Transport
// sends a second time.
func TestClientNeverRepeats(t *testing.T) {
	_, c := serving(t, Options{}, ClientOptions{})
	mustSend(t, c, Request{Method: "GET", Path: "/healthz"})
	resp, err := c.Do(t.Context(), Request{Method: "GET", Path: "/once"})
	e, ok := errors.AsType[*NoAnswerError](err)
	if !ok || !e.Sent || resp.Status != 0 || resp.Err != "connection closed without a complete answer" {
		t.Fatalf("got %+v, %v", resp, err)
	}
	if r := mustSend(t, c, Request{Method: "GET", Path: "/asked"}); string(r.Body) != "1" {
		t.Errorf("it was asked %s times", r.Body)
	}
}

// An application that closes idle connections must cost a dial, not a request.
func TestClientReplacesDeadConnection(t *testing.T) {
	_, c := serving(t, Options{Env: []string{"EXTRA=impatient"}}, ClientOptions{})
	mustSend(t, c, Request{Method: "GET", Path: "/healthz"})
	for alive(c.conn) {
		time.Sleep(time.Millisecond) // until the server's idle time is over
	}
	mustSend(t, c, Request{Method: "POST", Path: "/echo", Body: []byte("x")})
}

func TestClientErrors(t *testing.T) {
	_, c := serving(t, Options{}, ClientOptions{})
	if r := mustSend(t, c, Request{Method: "GET", Path: "/early"}); r.Status != 200 || string(r.Body) != "late" {
		t.Errorf("after an informational answer: %d %q", r.Status, r.Body)
	}
	if _, err := c.Send(t.Context(), Request{Method: "GET", Path: "/big"}); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Errorf("a large answer: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	resp, err := c.Do(ctx, Request{Method: "GET", Path: "/wait/never"})
	if !errors.Is(err, context.DeadlineExceeded) || resp.Err != "no answer in time" {
		t.Errorf("a time-out: %+v, %v", resp, err)
	}
	// The connection with the late answer must not serve the next request.
	if r := mustSend(t, c, Request{Method: "GET", Path: "/healthz"}); string(r.Body) != "ok\n" {
		t.Errorf("after a time-out: %q", r.Body)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	nobody := NewClient(l.Addr().String(), ClientOptions{})
	resp, err = nobody.Do(t.Context(), Request{Method: "GET", Path: "/"})
	if e, ok := errors.AsType[*NoAnswerError](err); !ok || e.Sent || resp.Err != "connection refused" {
		t.Errorf("nobody there: %+v, %v", resp, err)
	}
}

func TestCapture(t *testing.T) {
	_, c := serving(t, Options{}, ClientOptions{})
	r := mustSend(t, c, Request{Method: "POST", Path: "/login"})
	for source, want := range map[string]Value{
		"$.user.id":            {Text: "9007199254740993", JSON: "9007199254740993"},
		"$.user.tags[1]":       {Text: "b", JSON: `"b"`},
		"$.user.tags":          {Text: `["a","b"]`, JSON: `["a","b"]`},
		"$.ok":                 {Text: "true", JSON: "true"},
		"header.Authorization": {Text: "Bearer t"},
		"header.location":      {Text: "/accounts/7"},
		"cookie.sid":           {Text: "s3cret"},
	} {
		s, err := ParseSource(source)
		if err != nil {
			t.Fatal(err)
		}
		if s.String() != source {
			t.Errorf("%s prints as %s", source, s)
		}
		if got, err := r.Capture(s); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", source, got, err)
		}
	}
	for source, want := range map[string]string{
		"$.user.name":     `$.user has no member "name"`,
		"$.user.tags[2]":  `$.user.tags has no item 2`,
		"$.ok.x":          `$.ok has no member "x"`,
		"$[0]":            `$ has no item 0`,
		"header.X-Absent": "no such header",
		"cookie.absent":   "no such cookie",
	} {
		s, err := ParseSource(source)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Capture(s); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "status 302") {
			t.Errorf("%s: got %v", source, err)
		}
	}
	for _, bad := range []string{"", "id", "$id", "$..id", "$.", "$.*", "$[x]", "$[-1]", "$[0", "$.a b", "header.", "cookie.a b", "body.id"} {
		if s, err := ParseSource(bad); err == nil {
			t.Errorf("%q was read as %s", bad, s)
		}
	}
}

// TestPromptAcknowledgement: the socket does not delay acknowledgements, neither
// while an answer is awaited nor after one was read.
func TestPromptAcknowledgement(t *testing.T) {
	_, c := serving(t, Options{}, ClientOptions{})
	for range 3 {
		mustSend(t, c, Request{Method: "GET", Path: "/healthz"})
		quick := 0
		if err := c.conn.(*promptConn).raw.Control(func(fd uintptr) {
			quick, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK)
		}); err != nil {
			t.Fatal(err)
		}
		if quick != 1 {
			t.Fatal("acknowledgements may be delayed")
		}
	}
}
