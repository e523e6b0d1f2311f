package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// operation is one change that a random call makes.
type operation struct {
	kind   int
	row    int
	amount int
}

const operations = 5

// randomApp is a small application of random calls over three tables: counters,
// entries with an identity, a token and a time, and links between new entries.
func randomApp(rnd *rand.Rand, actors int) application {
	app := application{setup: func(w *world) {
		w.table("counters", []int{0}, Column{Name: "id", Type: ID}, Column{Name: "value", Type: Plain})
		w.table("entries", []int{0}, Column{Name: "id", Type: ID}, Column{Name: "counter_id", Type: ID}, Column{Name: "note", Type: Plain},
			Column{Name: "at", Type: Time}, Column{Name: "token", Type: Plain})
		w.table("links", nil, Column{Name: "entry_id", Type: ID, References: "entries.id"}, Column{Name: "prior_id", Type: ID, References: "entries.id"})
		for i := range 3 {
			w.insert("counters", i+1, 10*i)
		}
	}}
	for actor := range actors {
		var ops []operation
		for range 1 + rnd.IntN(3) {
			ops = append(ops, operation{rnd.IntN(operations), 1 + rnd.IntN(3), rnd.IntN(4)})
		}
		app.calls = append(app.calls, func(w *world) *Response { return w.perform(actor, ops) })
	}
	return app
}

func (w *world) perform(actor int, ops []operation) *Response {
	last := 0
	body := ""
	for step, op := range ops {
		v := atoi(w.get("counters", op.row, "value"))
		switch op.kind {
		case 0:
			w.set("counters", op.row, "value", v+op.amount)
		case 1:
			w.set("counters", op.row, "value", v*2+actor)
		case 2:
			if v < 5*op.amount {
				return answer(422, `{"error":"too little in %d","at":"%s"}`, op.row, w.now())
			}
		default:
			id := w.next("entries")
			w.insert("entries", id, op.row, v%5+10*step, w.now(), w.uuid())
			if last != 0 {
				w.insert("links", id, last)
			}
			last = id
			body = fmt.Sprintf(`,"id":%d,"request":"%s"`, id, w.uuid())
		}
	}
	return answer(200, `{"first":%s%s}`, w.get("counters", 1, "value"), body)
}

// TestSerialOutcomesAreRight: with other identities, times and row orders, what
// a serial order leaves is right, by an order that gives the same.
func TestSerialOutcomesAreRight(t *testing.T) {
	for seed := range 60 {
		rnd := rand.New(rand.NewPCG(uint64(seed), 7))
		app := randomApp(rnd, 2+seed%2)
		o := app.oracle(t)
		for i, order := range Orders(len(app.calls)) {
			if len(order) < len(app.calls) {
				continue
			}
			out := app.serial(1000+i, order)
			v := o.Judge(out)
			if !v.OK {
				t.Fatalf("seed %d, order %v: %s\n%+v", seed, order, v.Sentence, v.Diff)
			}
			if again := app.serial(2000, v.Order); o.Judge(again).Key != v.Key {
				t.Fatalf("seed %d: order %v is explained by %v, which ends differently", seed, order, v.Order)
			}
		}
	}
}

// TestAlteredOutcomesAreWrong: with one cell or answer changed to what no order
// gives, or one link turned, nothing explains the outcome.
func TestAlteredOutcomesAreWrong(t *testing.T) {
	altered := 0
	for seed := range 60 {
		rnd := rand.New(rand.NewPCG(uint64(seed), 9))
		app := randomApp(rnd, 2+seed%2)
		o := app.oracle(t)
		full := Orders(len(app.calls))
		order := full[len(full)-1]
		for n := range alterations {
			out := app.serial(1000+n, order)
			if !alter(rnd, &out, n) {
				continue
			}
			altered++
			if v := o.Judge(out); v.OK {
				t.Fatalf("seed %d, alteration %d: judged right by %v", seed, n, v.Order)
			} else if v.Kind == "" || v.Sentence == "" || len(v.Diff) == 0 {
				t.Fatalf("seed %d, alteration %d: a finding without words: %+v", seed, n, v)
			}
		}
	}
	if altered < 200 {
		t.Errorf("only %d outcomes were altered", altered)
	}
}

const alterations = 7

// alter changes an outcome in one way; it reports false where there is nothing
// to change.
func alter(rnd *rand.Rand, out *Outcome, n int) bool {
	rows := func(table string) *[][]*string {
		i := slices.IndexFunc(out.Tables, func(t Table) bool { return t.Name == table })
		return &out.Tables[i].Rows
	}
	one := func(list [][]*string) []*string { return list[rnd.IntN(len(list))] }
	odd := "-77"
	counters, entries, links := rows("counters"), rows("entries"), rows("links")
	if n != 0 && n != 5 && n != 6 && len(*entries) == 0 || n == 3 && len(*links) == 0 {
		return false
	}
	switch n {
	case 0:
		one(*counters)[1] = &odd
	case 1:
		one(*entries)[2] = &odd
	case 2:
		one(*entries)[1] = &odd // refers to no counter
	case 3:
		l := one(*links)
		l[0], l[1] = l[1], l[0]
		return !slices.ContainsFunc(*links, func(m []*string) bool { return *m[0] == *l[1] && *m[1] == *l[0] })
	case 4:
		*entries = append(*entries, one(*entries))
	case 5:
		out.Responses[0].Body = `{"first":-77}`
	case 6:
		i := rnd.IntN(len(*counters))
		*counters = slices.Delete(*counters, i, i+1)
	}
	return true
}

// FuzzBody: what a body means does not depend on how often it is looked at, and
// nothing an application answers brings the oracle down.
func FuzzBody(f *testing.F) {
	for _, s := range []string{`{"b":[1,2.50,1e3],"a":{"id":17}}`, `[]`, `null`, `-0.0e-5`, `{"a":1,"a":2}`, "<p>17</p>", "2026-03-04 10:00:00.5+00:00 Mon, 02 Jan 2006 15:04:05 GMT", "1e999999999999999999999", `"\ud800"`, "12:", "\x00?@"} {
		f.Add("application/json", s, s)
		f.Add("", s, "x"+s)
		f.Add("text/html", s, s+"1")
	}
	f.Fuzz(func(t *testing.T, contentType, body, other string) {
		once := canonicalBody(contentType, body)
		if twice := canonicalBody(contentType, once); twice != once {
			t.Errorf("canonical form of %q: %q, of that %q", body, once, twice)
		}
		answered := func(s string) Outcome {
			return Outcome{Responses: []*Response{{Status: 200, Body: s, ContentType: contentType}}}
		}
		o := New(1, Hints{})
		for _, out := range []Outcome{answered(body), answered(other)} {
			if err := o.AddSerial(nil, Outcome{Responses: []*Response{nil}}); err != nil {
				t.Fatal(err)
			}
			if err := o.AddSerial([]int{0}, out); err != nil {
				t.Fatal(err)
			}
		}
		if o.Ready() != nil {
			return
		}
		for _, s := range []string{body, other, once} {
			if v := o.Judge(answered(s)); !v.OK {
				t.Errorf("learned from %q and %q, %q is judged: %s", body, other, s, v.Sentence)
			}
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	app := ledger(100, 10, 20)
	inner := app.setup
	app.setup = func(w *world) {
		inner(w)
		w.table("audit", nil, Column{Name: "at", Type: Time}, Column{Name: "what", Type: Plain})
		for i := range 9 {
			w.insert("accounts", i+2, 100)
			w.insert("ledger", i+2, i+2, 100, "2026-01-01 00:00:00+00", "opening")
			w.insert("audit", "2026-01-01 00:00:00+00", fmt.Sprintf("opened %d", i))
		}
	}
	o, err := app.learned()
	if err != nil {
		b.Fatal(err)
	}
	outcomes := func(balance string) []Outcome {
		var list []Outcome
		for i := range 64 {
			w := newWorld(5000 + i)
			app.setup(w)
			responses := []*Response{app.calls[0](w), app.calls[1](w)}
			w.set("accounts", 1, "balance", balance)
			list = append(list, w.outcome(responses...))
		}
		return list
	}
	run := func(name string, list []Outcome, fresh bool) {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if fresh && i%len(list) == 0 {
					clear(o.raw)
				}
				o.Judge(list[i%len(list)])
			}
		})
	}
	run("right", outcomes("70"), true)
	run("finding", outcomes("90"), true)
	run("seen before", outcomes("70"), false)
}
