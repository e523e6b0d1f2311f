package oracle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// stamped is an application whose only call changes nothing but answers with
// what format makes of the world.
func stamped(calls ...func(w *world) *Response) application {
	return application{setup: func(w *world) {
		w.table("things", []int{0}, Column{Name: "id", Type: ID}, Column{Name: "name", Type: Plain})
		w.insert("things", 1, "seed")
	}, calls: calls}
}

func base64(w *world, n int) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789./"
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[w.rnd.IntN(len(alphabet))]
	}
	return string(b)
}

func TestTextNoise(t *testing.T) {
	text := func(f func(w *world) string) func(w *world) *Response {
		return func(w *world) *Response { return &Response{Status: 200, Body: f(w), ContentType: "text/plain"} }
	}
	thing := func(w *world) int {
		id := w.next("things")
		w.insert("things", id, "new")
		return id
	}
	right := map[string]func(w *world) string{
		"an id":        func(w *world) string { return fmt.Sprintf("created %d, 7 left", thing(w)) },
		"a time stamp": func(w *world) string { return "it is " + w.now() + " now, 7 left" },
		"an HTTP date": func(w *world) string {
			return "as of " + w.clock.Add(time.Duration(w.rnd.IntN(1e12))).Format(time.RFC1123) + ", 7 left"
		},
		"milliseconds": func(w *world) string {
			return fmt.Sprintf("t=%d&n=7", w.clock.Add(time.Duration(w.rnd.IntN(1e12))).UnixMilli())
		},
		"random words":  func(w *world) string { return strings.Repeat("x+", w.rnd.IntN(5)) + w.uuid() + " 7 left" },
		"a bcrypt hash": func(w *world) string { return "$2a$10$" + base64(w, 53) + " 7 left" },
		"a signed token": func(w *world) string {
			return "eyJhbGciOiJIUzI1NiJ9." + base64(w, 40) + "." + base64(w, 43) + "; 7 left"
		},
		"a time it took":  func(w *world) string { return fmt.Sprintf("done in %dms, 7 left", 10+w.rnd.IntN(1e6)) },
		"a moment for it": func(w *world) string { return "open until 2026-03-05 17:00:00, it is " + w.now() + ", 7 left" },
	}
	for name, f := range right {
		t.Run(name, func(t *testing.T) {
			app := stamped(text(f), text(f))
			o := app.oracle(t)
			var out Outcome
			for again := range 5 {
				out = app.apart(func(w *world) []*Response {
					for range again {
						w.uuid()
					}
					b := text(f)(w)
					return []*Response{text(f)(w), b}
				})
				check(t, o, o.Judge(out), expectation{order: []int{0, 1}})
			}
			for _, alter := range []func(string) string{
				func(s string) string { return strings.Replace(s, "7", "8", 1) + " " },
				func(s string) string {
					return strings.Replace(strings.Replace(s, "7 left", "8 left", 1), "n=7", "n=8", 1)
				},
				func(s string) string { return strings.Replace(s, "17:00:00", "16:00:00", 1) },
			} {
				r := *out.Responses[0]
				r.Body = alter(r.Body)
				if r.Body == out.Responses[0].Body {
					continue
				}
				if v := o.Judge(Outcome{Tables: out.Tables, Responses: []*Response{&r, out.Responses[1]}}); v.OK {
					t.Errorf("judged right: %q", r.Body)
				}
			}
		})
	}
}

// A clock that counts seconds gives both runs of each order the same moment,
// and all later runs another one.
func TestCoarseClock(t *testing.T) {
	at := epochStart
	call := func(w *world) *Response {
		w.insert("things", w.next("things"), at.Format(time.DateTime))
		return answer(200, `{"since":%d,"slot":"2026-03-05 10:00:00"}`, at.Unix())
	}
	for name, later := range map[string]time.Duration{"later": 4 * time.Second, "same": 0} {
		t.Run(name, func(t *testing.T) {
			at = epochStart
			app := stamped(call, call)
			o := app.oracle(t)
			at = at.Add(later)
			out := app.apart(func(w *world) []*Response { return []*Response{call(w), call(w)} })
			check(t, o, o.Judge(out), expectation{order: []int{0, 1}})
			out.Responses[0] = answer(200, `{"since":%d,"slot":"2026-03-05 11:00:00"}`, at.Unix())
			check(t, o, o.Judge(out), expectation{kind: WriteSkew, says: []string{"these answers"}})
		})
	}
	// The last serial order runs a second later than the others, and the
	// outcome, which is that of the order before it, in that second.
	at = epochStart
	counted := func(w *world) *Response {
		r := call(w)
		r.Header = map[string]string{"ETag": fmt.Sprint(len(w.find("things").Rows))}
		return r
	}
	app := stamped(counted, counted)
	o := New(2, Hints{})
	o.start, o.now = epochStart, func() time.Time { return epochStart.Add(2 * time.Second) }
	for i, order := range Orders(2) {
		if i == 4 {
			at = at.Add(time.Second)
		}
		for k := range 2 {
			if err := o.AddSerial(order, app.serial(2*i+k, order)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := o.Ready(); err != nil {
		t.Fatal(err)
	}
	check(t, o, o.Judge(app.apart(func(w *world) []*Response { return []*Response{counted(w), counted(w)} })), expectation{order: []int{0, 1}})
}

func TestTemplate(t *testing.T) {
	for _, c := range []struct {
		a, b, next string
		fits       bool
	}{
		{"created 17, 7 left", "created 1017, 7 left", "created 3, 7 left", true},
		{"created 17, 7 left", "created 1017, 7 left", "created 3, 8 left", false},
		{"created 17, 7 left", "created 1017, 7 left", "created 3 4, 7 left", false},
		{`v="xYabcdefghij0123" n=1`, `v="zWabcdefghij9876" n=1`, `v="a/bXcdefg+hij987=" n=1`, true},
		{`v="xYabcdefghij0123" n=1`, `v="zWabcdefghij9876" n=1`, `v="a/bXcdefg+hij987=" n=2`, false},
		{"a+b/c.", "d+e/f.", "g/hi.", true},
		{"/orders/17/items/18", "/orders/19/items/20", "/orders/21/items/22", true},
		{"/orders/17/items/18", "/orders/19/items/20", "/orders/21/22", false},
	} {
		s := plainSpot()
		at := epochStart
		tm := newTemplate(s.mask(c.a, at), s.mask(c.b, at))
		for _, v := range []string{c.a, c.b, c.next} {
			_, n, rest := tm.match(s.mask(v, at))
			if fits := n == len(tm.parts) && len(rest) == 0; fits != (c.fits || v != c.next) {
				t.Errorf("the template of %q and %q (%q) fits %q: %t", c.a, c.b, tm.key, v, fits)
			}
		}
	}
}

func plainSpot() *spot {
	s := &spot{}
	s.reset()
	return s
}

// Arrays keep their order unless two equal serial runs show that it means
// nothing.
func TestArrays(t *testing.T) {
	list := func(shuffle bool) func(w *world) *Response {
		return func(w *world) *Response {
			w.insert("things", w.next("things"), "x")
			var items []string
			for _, r := range w.find("things").Rows {
				items = append(items, fmt.Sprintf(`{"id":%s,"tags":["%s","b"]}`, *r[0], *r[1]))
			}
			if shuffle {
				w.rnd.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
			}
			return answer(200, `{"items":[%s]}`, strings.Join(items, ","))
		}
	}
	reversed := func(w *world, f func(w *world) *Response) []*Response {
		a, b := f(w), f(w)
		items := strings.Split(strings.TrimSuffix(strings.TrimPrefix(b.Body, `{"items":[`), "]}"), ",{")
		for i := range items {
			items[i] = strings.TrimPrefix(items[i], "{")
		}
		slices.Reverse(items)
		b.Body = `{"items":[{` + strings.Join(items, ",{") + "]}"
		return []*Response{a, b}
	}
	sorted, random := stamped(list(false), list(false)), stamped(list(true), list(true))
	o := sorted.oracle(t)
	check(t, o, o.Judge(sorted.apart(func(w *world) []*Response { return reversed(w, sorted.calls[0]) })), expectation{kind: WriteSkew})
	o = random.oracle(t)
	out := random.apart(func(w *world) []*Response { return reversed(w, random.calls[0]) })
	check(t, o, o.Judge(out), expectation{order: []int{0, 1}})
	out.Responses[1] = answer(200, "%s", strings.Replace(out.Responses[1].Body, `"seed"`, `"other"`, 1))
	check(t, o, o.Judge(out), expectation{kind: WriteSkew})
}

// Two sequences that were in step in every serial run are no reason to expect
// it of an interleaved one; a foreign key is.
func TestNameSpaces(t *testing.T) {
	in := func(w *world, by string, order, pay, item int) {
		w.insert("orders", order)
		w.insert("payments", pay, by)
		w.insert("items", item, order)
	}
	app := application{setup: func(w *world) {
		w.table("payments", []int{0}, Column{Name: "id", Type: ID}, Column{Name: "paid_by", Type: Plain})
		w.table("orders", []int{0}, Column{Name: "id", Type: ID})
		w.table("items", []int{0}, Column{Name: "id", Type: ID}, Column{Name: "order_id", Type: ID})
	}}
	for _, by := range []string{"ann", "bob"} {
		app.calls = append(app.calls, func(w *world) *Response {
			n := w.next("all")
			in(w, by, n, n, n)
			return answer(201, `{"order":%d}`, n)
		})
	}
	o := app.oracle(t)
	crossed := app.apart(func(w *world) []*Response {
		in(w, "ann", 7, 8, 9)
		in(w, "bob", 8, 7, 5)
		return []*Response{answer(201, `{"order":7}`), answer(201, `{"order":8}`)}
	})
	check(t, o, o.Judge(crossed), expectation{order: []int{0, 1}})
	both := app.apart(func(w *world) []*Response {
		in(w, "ann", 7, 8, 9)
		in(w, "bob", 8, 7, 5)
		w.set("items", 5, "order_id", 7)
		return []*Response{answer(201, `{"order":7}`), answer(201, `{"order":8}`)}
	})
	v := o.Judge(both)
	check(t, o, v, expectation{kind: WriteSkew, says: []string{"refer to each other"}})
}

func TestHints(t *testing.T) {
	app := ledger(100, 10, 20)
	wrong := func(w *world) []*Response {
		w.set("accounts", 1, "balance", 90)
		b := w.entry(20, 80)
		return []*Response{w.entry(10, 90), b}
	}
	app.hints.NoiseColumns = []string{"public.accounts.balance"}
	o := app.oracle(t)
	check(t, o, o.Judge(app.apart(func(w *world) []*Response {
		r := wrong(w)
		r[1].Body = strings.Replace(r[1].Body, ":80", ":70", 1)
		return r
	})), expectation{order: []int{0, 1}})
	app.hints = Hints{IgnoreResponses: true}
	o = app.oracle(t)
	answers := app.apart(func(w *world) []*Response {
		r := wrong(w)
		w.set("accounts", 1, "balance", 70)
		r[1] = html(302, "see elsewhere")
		return r
	})
	check(t, o, o.Judge(answers), expectation{order: []int{0, 1}})
	answers.Responses[1] = answer(400, "")
	check(t, o, o.Judge(answers), expectation{kind: WriteSkew})
}

func TestThreeActors(t *testing.T) {
	app := ledger(100, 1, 2, 4)
	o := app.oracle(t)
	out := app.apart(func(w *world) []*Response {
		w.set("accounts", 1, "balance", 93)
		c := w.entry(4, 95)
		a := w.entry(1, 99)
		return []*Response{a, w.entry(2, 93), c}
	})
	out.Responses[2].Body = strings.Replace(out.Responses[2].Body, ":95", ":95.0", 1)
	check(t, o, o.Judge(out), expectation{order: []int{0, 2, 1}})
	out = app.apart(func(w *world) []*Response {
		w.set("accounts", 1, "balance", 97)
		return []*Response{w.entry(1, 97), w.entry(2, 98), failed(409)}
	})
	check(t, o, o.Judge(out), expectation{order: []int{1, 0}, notes: "C was answered 409"})
}

func TestCanonicalIsBlindToNames(t *testing.T) {
	// A ring of six and two rings of three look alike to colours alone.
	ring := func(next ...int) *form {
		f := &form{}
		for i, n := range next {
			a, b := f.id(idKey{firstSpace, fmt.Sprint(i)}), f.id(idKey{firstSpace, fmt.Sprint(n)})
			f.records = append(f.records, record{text: []byte("r"), ids: []int32{a, b}})
		}
		return f
	}
	six, again := ring(1, 2, 3, 4, 5, 0), ring(2, 3, 4, 5, 1, 0)
	if six.canonical() != again.canonical() {
		t.Errorf("one ring has two forms:\n%s\n%s", six.canonical(), again.canonical())
	}
	// A choice in the ring of four and one in a ring of two lead to different
	// texts; whichever comes first, the smaller one must be found.
	mixed := ring(1, 2, 3, 0, 5, 4, 7, 6).canonical()
	for shift := range 8 {
		next := make([]int, 8)
		for i, n := range []int{1, 2, 3, 0, 5, 4, 7, 6} {
			next[(i*3+shift)%8] = (n*3 + shift) % 8
		}
		if ring(next...).canonical() != mixed {
			t.Errorf("rings of four, two and two have two forms, after a shift by %d", shift)
		}
	}
	if six.canonical() == ring(1, 2, 0, 4, 5, 3).canonical() {
		t.Error("one ring of six and two of three have one form")
	}
}
