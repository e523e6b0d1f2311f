package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world is an in-memory database with sequences, a clock and random values,
// which are different in each.
type world struct {
	rnd    *rand.Rand
	seq    map[string]int
	clock  time.Time
	tables []Table
}

var epochStart = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

func newWorld(seed int) *world {
	return &world{
		rnd: rand.New(rand.NewPCG(uint64(seed), 1)), seq: map[string]int{},
		clock: epochStart.Add(time.Duration(seed) * 37311 * time.Microsecond),
	}
}

// next is the next number of a sequence. Each starts elsewhere in each world.
func (w *world) next(seq string) int {
	if w.seq[seq] == 0 {
		w.seq[seq] = 100 + w.rnd.IntN(100000)
	}
	w.seq[seq]++
	return w.seq[seq]
}

func (w *world) now() string {
	w.clock = w.clock.Add(time.Duration(1+w.rnd.IntN(900)) * time.Microsecond)
	return w.clock.Format("2006-01-02 15:04:05.000000+00")
}

func (w *world) uuid() string {
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", w.rnd.Uint32(), w.rnd.IntN(1<<16), w.rnd.IntN(1<<12), w.rnd.IntN(1<<12), w.rnd.Uint64N(1<<48))
}

func (w *world) table(name string, key []int, columns ...Column) {
	w.tables = append(w.tables, Table{Name: name, Key: key, Columns: columns})
}

func (w *world) find(name string) *Table {
	i := slices.IndexFunc(w.tables, func(t Table) bool { return t.Name == name })
	return &w.tables[i]
}

func (w *world) insert(table string, cells ...any) {
	row := make([]*string, len(cells))
	for i, c := range cells {
		if c != nil {
			s := fmt.Sprint(c)
			row[i] = &s
		}
	}
	t := w.find(table)
	t.Rows = append(t.Rows, row)
}

// get and set address a row by its first column.
func (w *world) get(table string, id any, column string) string {
	t := w.find(table)
	return *w.row(table, id)[slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == column })]
}

func (w *world) set(table string, id any, column string, value any) {
	t := w.find(table)
	s := fmt.Sprint(value)
	w.row(table, id)[slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == column })] = &s
}

func (w *world) row(table string, id any) []*string {
	t := w.find(table)
	i := slices.IndexFunc(t.Rows, func(r []*string) bool { return *r[0] == fmt.Sprint(id) })
	if i < 0 {
		return nil
	}
	return t.Rows[i]
}

func (w *world) outcome(responses ...*Response) Outcome {
	for i := range w.tables {
		rows := w.tables[i].Rows
		w.rnd.Shuffle(len(rows), func(a, b int) { rows[a], rows[b] = rows[b], rows[a] })
	}
	return Outcome{Tables: w.tables, Responses: responses}
}

func answer(status int, format string, args ...any) *Response {
	return &Response{Status: status, Body: fmt.Sprintf(format, args...), ContentType: "application/json"}
}

func html(status int, format string, args ...any) *Response {
	return &Response{Status: status, Body: fmt.Sprintf(format, args...), ContentType: "text/html; charset=utf-8"}
}

func failed(status int, codes ...string) *Response {
	return &Response{Status: status, Body: `{"error":"failed"}`, ContentType: "application/json", Codes: codes}
}

// application is what the serial runs do: set-up and one call for each actor.
type application struct {
	setup func(w *world)
	calls []func(w *world) *Response
	hints Hints
}

// serial runs one order in a new world.
func (a application) serial(seed int, order []int) Outcome {
	w := newWorld(seed)
	a.setup(w)
	responses := make([]*Response, len(a.calls))
	for _, actor := range order {
		responses[actor] = a.calls[actor](w)
	}
	return w.outcome(responses...)
}

// oracle has seen every serial order twice.
func (a application) oracle(t *testing.T) *Oracle {
	t.Helper()
	o, err := a.learned()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (a application) learned() (*Oracle, error) {
	o := New(len(a.calls), a.hints)
	// The worlds' clock is fixed, so that bare numbers are moments of it.
	o.start = epochStart
	o.now = func() time.Time { return epochStart.Add(5 * time.Second) }
	seed := 1
	for _, order := range Orders(len(a.calls)) {
		for range 2 {
			if err := o.AddSerial(order, a.serial(seed, order)); err != nil {
				return nil, err
			}
			seed++
		}
	}
	return o, o.Ready()
}

// apart makes the outcome of an interleaving: f changes a new world by hand.
func (a application) apart(f func(w *world) []*Response) Outcome {
	w := newWorld(77)
	a.setup(w)
	return w.outcome(f(w)...)
}
