package idempotency

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/store"
)

// exchange is one request and what came back.
type exchange struct {
	status int
	header http.Header
	body   string
}

func send(t *testing.T, h http.Handler, method, target, body string, header ...string) exchange {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	resp := w.Result()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return exchange{resp.StatusCode, resp.Header, string(b)}
}

// pay is a handler that has an effect and answers with its number.
func pay(w http.ResponseWriter, r *http.Request, tx *sql.Tx) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(r.Context(), "INSERT INTO effects VALUES (?)", string(body)); err != nil {
		return err
	}
	var n int
	if err := tx.QueryRowContext(r.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(string(body), "refuse"):
		http.Error(w, "the card was declined", http.StatusPaymentRequired)
		return nil
	case strings.HasPrefix(string(body), "break"):
		return errors.New("a secret of the inside")
	case strings.HasPrefix(string(body), "long"):
		_, _ = io.WriteString(w, strings.Repeat("x", 2000))
		return nil
	case strings.HasPrefix(string(body), "empty"):
		w.WriteHeader(http.StatusNoContent)
		return nil
	case strings.HasPrefix(string(body), "conflict"):
		return &InProgressError{Key: "of an inner call"}
	}
	w.Header().Set("Location", fmt.Sprintf("/payments/%d", n))
	w.Header().Add("Link", "<a>")
	w.Header().Add("Link", "<b>")
	w.Header().Set("Set-Cookie", "session=1")
	w.WriteHeader(http.StatusCreated)
	_, err = fmt.Fprintf(w, "payment %d\n", n)
	return err
}

func TestHandler(t *testing.T) {
	k, _ := sqliteKeys(t, Options{})
	r := prepare(t, newRig(k))
	user := func(r *http.Request) string { return r.Header.Get("User") }
	h := k.Handler(HTTPOptions{Scope: user, MaxBody: 100, MaxAnswer: 1000, Logger: slog.New(slog.DiscardHandler)}, pay)
	type step struct {
		name, target, body, key, user string
		status                        int
		answer                        string // the beginning
		replayed                      bool
		effects                       int64 // after it
	}
	for _, s := range []step{
		{name: "first", body: "10", key: `"a"`, status: 201, answer: "payment 1\n", effects: 1},
		{name: "copy", body: "10", key: `"a"`, status: 201, answer: "payment 1\n", replayed: true, effects: 1},
		{name: "copy, bare key", body: "10", key: `a`, status: 201, answer: "payment 1\n", replayed: true, effects: 1},
		{name: "another body", body: "11", key: `"a"`, status: 422, answer: `{"title":"This idempotency key was used for another request","status":422,`, effects: 1},
		{name: "another query", target: "/payments?x=1", body: "10", key: `"a"`, status: 422, answer: `{"title":"This`, effects: 1},
		{name: "another user", body: "10", key: `"a"`, user: "bob", status: 201, answer: "payment 2\n", effects: 2},
		{name: "no key", body: "10", status: 400, answer: `{"title":"An idempotency key is required","status":400,"detail":"send a new`, effects: 2},
		{name: "bad key", body: "10", key: `"a`, status: 400, answer: `{"title":"The idempotency key is not valid"`, effects: 2},
		{name: "long body", body: strings.Repeat("1", 101), key: "b", status: 413, answer: `{"title":"The request is too large"`, effects: 2},
		{name: "refusal", body: "refuse", key: "c", status: 402, answer: "the card was declined", effects: 2},
		{name: "refusal again", body: "refuse", key: "c", status: 402, answer: "the card was declined", effects: 2},
		{name: "the key of a refusal is free", body: "12", key: "c", status: 201, answer: "payment 3\n", effects: 3},
		{name: "failure", body: "break", key: "d", status: 500, answer: `{"title":"Internal Server Error","status":500,"detail":"nothing was done"}`, effects: 3},
		{name: "long answer", body: "long", key: "e", status: 500, answer: `{"title":"Internal Server Error"`, effects: 3},
		{name: "no content", body: "empty", key: "f", status: 204, effects: 4},
		{name: "no content, copy", body: "empty", key: "f", status: 204, replayed: true, effects: 4},
	} {
		headers := []string{"User", "alice"}
		if s.user != "" {
			headers[1] = s.user
		}
		if s.key != "" {
			headers = append(headers, HeaderName, s.key)
		}
		if s.target == "" {
			s.target = "/payments"
		}
		got := send(t, h, "POST", s.target, s.body, headers...)
		if got.status != s.status || !strings.HasPrefix(got.body, s.answer) || s.answer == "" && got.body != "" ||
			(got.header.Get(ReplayedHeader) == "true") != s.replayed {
			t.Errorf("%s: got %d %q %v, want %d %q", s.name, got.status, got.body, got.header, s.status, s.answer)
		}
		if n := r.effects(t); n != s.effects {
			t.Errorf("%s: %d effects, want %d", s.name, n, s.effects)
		}
		if problem := got.header.Get("Content-Type") == "application/problem+json"; problem != strings.HasPrefix(got.body, "{") {
			t.Errorf("%s: content type of %q: %v", s.name, got.body, got.header)
		}
	}
	// The recorded headers come back in their order; a cookie only the first
	// time.
	first := send(t, h, "POST", "/payments", "20", HeaderName, "z")
	second := send(t, h, "POST", "/payments", "20", HeaderName, "z")
	if first.header.Get("Set-Cookie") == "" || second.header.Get("Set-Cookie") != "" {
		t.Errorf("cookies: %v, %v", first.header, second.header)
	}
	first.header.Del("Set-Cookie")
	second.header.Del(ReplayedHeader)
	if fmt.Sprint(first) != fmt.Sprint(second) || first.header.Get("Location") != "/payments/5" || len(first.header["Link"]) != 2 ||
		first.header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("first %v, second %v", first, second)
	}
}

func TestHandlerOptions(t *testing.T) {
	k, _ := sqliteKeys(t, Options{})
	r := prepare(t, newRig(k))
	h := k.Handler(HTTPOptions{Optional: true, RecordRefusals: true, Headers: []string{"location"},
		Key: func(r *http.Request, body []byte) (string, error) {
			if id := r.Header.Get("Webhook-Id"); id != "bad" {
				return id, nil
			}
			return "", errors.New("no")
		},
		Fingerprint: func(*http.Request, []byte) []byte { return nil },
		Error: func(w http.ResponseWriter, r *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusTeapot)
		},
	}, pay)
	for i, want := range []struct {
		key, body, answer string
		status            int
	}{
		{"", "10", "payment 1\n", 201},
		{"", "10", "payment 2\n", 201}, // optional: nothing says that it is a copy
		{"", "break", "a secret of the inside\n", 418},
		{"1", "10", "payment 3\n", 201},
		{"1", "the same id in another body", "payment 3\n", 201},
		{"2", "refuse", "the card was declined\n", 402},
		{"2", "refuse", "the card was declined\n", 402},
		{"3", "break", "a secret of the inside\n", 418},
		{"bad", "10", `{"title":"The idempotency key is not valid","status":400,"detail":"no"}` + "\n", 400},
	} {
		got := send(t, h, "POST", "/webhooks", want.body, "Webhook-Id", want.key)
		if got.status != want.status || got.body != want.answer {
			t.Errorf("%d: got %d %q, want %d %q", i, got.status, got.body, want.status, want.answer)
		}
		if want.status == 201 && got.header.Get("Location") == "" {
			t.Errorf("%d: %v", i, got.header)
		}
	}
	// Two without a key, one webhook, one recorded refusal.
	if n := r.effects(t); n != 4 {
		t.Errorf("%d effects", n)
	}
}

// A copy is told 409 while the first request is inside its transaction.
func TestHandlerInProgress(t *testing.T) {
	k, _ := pgxKeys(t, Options{})
	r := prepare(t, newRig(k))
	inside, goOn := make(chan struct{}), make(chan struct{})
	h := k.Handler(HTTPOptions{}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		close(inside)
		<-goOn
		_, err := tx.Exec(r.Context(), "INSERT INTO effects VALUES ('x')")
		return err
	})
	answer := make(chan exchange)
	go func() { answer <- send(t, h, "POST", "/", "x", HeaderName, "k") }()
	<-inside
	got := send(t, h, "POST", "/", "x", HeaderName, "k")
	close(goOn)
	if got.status != 409 || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, `"status":409`) {
		t.Errorf("got %+v", got)
	}
	if got := <-answer; got.status != 200 || got.body != "" {
		t.Errorf("got %+v", got)
	}
	if n := r.effects(t); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// A handler runs again, on the same body, when the database breaks it off.
func TestHandlerRunsAgain(t *testing.T) {
	k, pool := pgxKeys(t, Options{})
	r := prepare(t, newRig(k))
	tries := 0
	h := k.Handler(HTTPOptions{}, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx) error {
		body, _ := io.ReadAll(r.Body)
		tries++
		w.Header().Set("Location", fmt.Sprint("/", tries))
		if _, err := fmt.Fprintf(w, "try %d of %s", tries, body); err != nil {
			return err
		}
		if tries < 3 {
			_, err := tx.Exec(r.Context(), "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")
			return err
		}
		_, err := tx.Exec(r.Context(), "INSERT INTO effects VALUES ('x')")
		return err
	})
	got := send(t, h, "POST", "/", "body", HeaderName, "k")
	if got.body != "try 3 of body" || got.header.Get("Location") != "/3" || r.effects(t) != 1 {
		t.Errorf("got %+v, %d effects", got, r.effects(t))
	}
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections are out", n)
	}
	// And gives up in the end, without an effect.
	tries = -10
	got = send(t, h, "POST", "/", "body", HeaderName, "k2")
	if got.status != 503 || got.header.Get("Retry-After") == "" || r.effects(t) != 1 || tries != -5 {
		t.Errorf("got %+v, %d effects, tries %d", got, r.effects(t), tries)
	}
}

// The client goes away in the middle: nothing stays half done.
func TestHandlerCancelled(t *testing.T) {
	k, _ := pgxKeys(t, Options{})
	r := prepare(t, newRig(k))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := k.Do(ctx, Request{Key: "k"}, func(ctx context.Context, tx pgx.Tx) (Answer, error) {
		_, err := insert("x", Answer{})(ctx, guard.Pgx(tx))
		cancel()
		return created, err
	})
	if err == nil || errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("got %v", err)
	}
	got, err := k.Do(t.Context(), Request{Key: "k"}, func(ctx context.Context, tx pgx.Tx) (Answer, error) {
		return insert("x", created)(ctx, guard.Pgx(tx))
	})
	if err != nil || got.Replayed || r.effects(t) != 1 {
		t.Errorf("got %+v, %v, %d effects", got, err, r.effects(t))
	}
}

func TestParseHeader(t *testing.T) {
	for in, want := range map[string]string{
		`"8e03978e-40d5-43e8"`:     "8e03978e-40d5-43e8",
		` 8e03978e `:               "8e03978e",
		`"a\"b\\c"`:                `a"b\c`,
		`a"b`:                      `a"b`,
		`""`:                       "!",
		``:                         "!",
		`"a`:                       "!",
		`"a" b`:                    "!",
		`"a";p=1`:                  "!",
		`"a\b"`:                    "!",
		`"a\`:                      "!",
		"a\tb":                     "!",
		"ä":                        "!",
		strings.Repeat("k", 256):   "!",
		strings.Repeat("k", 255):   strings.Repeat("k", 255),
		`"` + "\x7f" + `"`:         "!",
		`"unusual, but a string"`:  "unusual, but a string",
		`unusual, and not a token`: "unusual, and not a token",
	} {
		got, err := ParseHeader(http.Header{HeaderName: {in}}, HeaderName)
		if want == "!" {
			if !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%q: got %q, %v", in, got, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	if got, err := ParseHeader(http.Header{}, HeaderName); got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := ParseHeader(http.Header{HeaderName: {"a", "a"}}, HeaderName); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}
