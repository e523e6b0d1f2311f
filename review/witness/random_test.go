package witness_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// The programs of these tests are small enough to be run on numbers by the
// twin below, which shares nothing with the interpreter: cells are integers,
// a schedule is a list of actors, and every interleaving is tried.

// op is one step of a random program on the cells x and y.
type op struct {
	kind string // read, write, add
	cell int
	from int // of a write: the cell whose read value it uses, -1 for none
}

func randomOps(r *rand.Rand) []op {
	var ops []op
	read := [2]bool{}
	for range 1 + r.IntN(4) {
		o := op{kind: []string{"read", "write", "add"}[r.IntN(3)], cell: r.IntN(2), from: -1}
		if o.kind == "read" {
			read[o.cell] = true
		}
		if c := r.IntN(2); o.kind == "write" && read[c] {
			o.from = c
		}
		ops = append(ops, o)
	}
	return ops
}

// ways of protecting a whole program.
const (
	bare         = "bare"
	mutex        = "mutex"
	serializable = "serializable"
)

// program writes the ops as an entry, protected as a whole or not.
func program(name string, ops []op, way string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "entry %s http {\n", name)
	tx := ""
	switch way {
	case mutex:
		b.WriteString("  lock mutex:m\n")
	case serializable:
		b.WriteString("  t := begin iso=serializable\n")
		tx = " tx=t"
	}
	for i, o := range ops {
		row := fmt.Sprintf("table:t%d[id = 1]", o.cell)
		switch {
		case o.kind == "read":
			fmt.Fprintf(&b, "  v%d := read %s cols(n)%s\n", o.cell, row, tx)
		case o.kind == "add":
			fmt.Fprintf(&b, "  write update %s set(n = col.n + in.a%d)%s\n", row, i, tx)
		case o.from >= 0:
			fmt.Fprintf(&b, "  write update %s set(n = v%d.n + in.a%d)%s\n", row, o.from, i, tx)
		default:
			fmt.Fprintf(&b, "  write update %s set(n = in.a%d)%s\n", row, i, tx)
		}
	}
	switch way {
	case mutex:
		b.WriteString("  unlock mutex:m\n")
	case serializable:
		b.WriteString("  commit tx=t\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// twin runs a schedule on numbers; each input is a power of two of its own, so
// that equal results mean equal computations.
func twin(progs [2][]op, schedule []int) [2]int {
	cells := [2]int{1, 2}
	var local [2][2]int
	var pc [2]int
	for _, a := range schedule {
		o := progs[a][pc[a]]
		in := 1 << (4 + 8*a + 2*pc[a])
		pc[a]++
		switch {
		case o.kind == "read":
			local[a][o.cell] = cells[o.cell]
		case o.kind == "add":
			cells[o.cell] += in
		case o.from >= 0:
			cells[o.cell] = local[a][o.from] + in
		default:
			cells[o.cell] = in
		}
	}
	return cells
}

// interleavings calls visit for each order of n steps of A and m steps of B.
func interleavings(n, m int, prefix []int, visit func([]int)) {
	if n == 0 && m == 0 {
		visit(prefix)
		return
	}
	if n > 0 {
		interleavings(n-1, m, append(slices.Clone(prefix), 0), visit)
	}
	if m > 0 {
		interleavings(n, m-1, append(slices.Clone(prefix), 1), visit)
	}
}

// anomaly says whether any interleaving ends outside of both serial orders.
func anomaly(progs [2][]op) bool {
	n, m := len(progs[0]), len(progs[1])
	ab := twin(progs, append(slices.Repeat([]int{0}, n), slices.Repeat([]int{1}, m)...))
	ba := twin(progs, append(slices.Repeat([]int{1}, m), slices.Repeat([]int{0}, n)...))
	found := false
	interleavings(n, m, nil, func(s []int) {
		got := twin(progs, s)
		found = found || got != ab && got != ba
	})
	return found
}

// TestAgainstNumbers: a witness exists exactly if some interleaving on numbers
// is an anomaly, and the schedule it shows is one. (With at most four steps per
// actor two preemptions miss few of the orders; how few is bounded below.)
func TestAgainstNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	missed, anomalies, right := 0, 0, 0
	for range 250 {
		progs := [2][]op{randomOps(r), randomOps(r)}
		text := program("a", progs[0], bare) + program("b", progs[1], bare)
		want := anomaly(progs)
		w := pairOf(t, text)
		switch {
		case want && w == nil:
			missed++
		case !want && w != nil:
			t.Fatalf("a witness for a program without anomalies:\n%s%s", text, show(w))
		case want:
			anomalies++
			replay(t, text, progs, w)
		default:
			right++
		}
		for _, way := range []string{mutex, serializable} {
			if w := pairOf(t, program("a", progs[0], way)+program("b", progs[1], way)); w != nil {
				t.Fatalf("a witness under %s:\n%s%s", way, text, show(w))
			}
		}
	}
	if anomalies < 40 || right < 100 {
		t.Errorf("only %d with and %d without anomalies: the programs say little", anomalies, right)
	}
	if missed*100 > anomalies {
		t.Errorf("%d of %d anomalies are missed", missed, anomalies+missed)
	}
	t.Logf("%d anomalies found, %d missed, %d programs without", anomalies, missed, right)
}

// pairOf searches entries a and b for an outcome without a serial order.
func pairOf(t *testing.T, text string) *witness.Witness {
	t.Helper()
	p, err := effect.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range witness.New(p, witness.Options{Blind: true}).Pair(0, 1) {
		if w.Kind == witness.NonSerial {
			return w
		}
		// Row locks in two orders are a deadlock, which no protection of this test
		// prevents.
		if w.Kind != witness.Deadlock {
			t.Fatalf("kind %s:\n%s", w.Kind, text)
		}
	}
	return nil
}

// replay runs the schedule of a witness on numbers. Reads of a cell that only
// one of the two uses are not in it; they run where they stand.
func replay(t *testing.T, text string, progs [2][]op, w *witness.Witness) {
	t.Helper()
	var schedule []int
	var pc [2]int
	for _, e := range w.Events {
		if e.Step == nil {
			continue
		}
		for pc[e.Actor] < len(progs[e.Actor]) && !same(progs[e.Actor][pc[e.Actor]], e.Step) {
			pc[e.Actor]++
			schedule = append(schedule, e.Actor)
		}
		pc[e.Actor]++
		schedule = append(schedule, e.Actor)
	}
	n, m := len(progs[0]), len(progs[1])
	schedule = append(append(schedule, slices.Repeat([]int{0}, max(n-pc[0], 0))...), slices.Repeat([]int{1}, max(m-pc[1], 0))...)
	if len(schedule) != n+m {
		t.Fatalf("%d steps in the schedule, %d in the programs:\n%s%s", len(schedule), n+m, text, show(w))
	}
	got := twin(progs, schedule)
	ab := twin(progs, append(slices.Repeat([]int{0}, n), slices.Repeat([]int{1}, m)...))
	ba := twin(progs, append(slices.Repeat([]int{1}, m), slices.Repeat([]int{0}, n)...))
	if got == ab || got == ba {
		t.Fatalf("the schedule is no anomaly on numbers: %v, serial %v and %v\n%s%s", got, ab, ba, text, show(w))
	}
}

// same says whether a step of a schedule is an op.
func same(o op, s *effect.Step) bool {
	return (o.kind == "read") == (s.Op == effect.Read) && s.On.Name == fmt.Sprintf("t%d", o.cell)
}

// BenchmarkPair is the cost of one pair without a finding, the usual case.
func BenchmarkPair(b *testing.B) {
	for name, text := range map[string]string{
		"guarded": `entry w http {
  t := begin
  a := read table:accounts[id = in.id] cols(balance) tx=t lock=update missing=error
  if a.balance < in.amount {
    return fail
  }
  write update table:accounts[id = in.id] set(balance = a.balance - in.amount) tx=t
  write insert table:ledger set(account = in.id, amount = in.amount) tx=t
  commit tx=t
}
`,
		"long": "entry w http {\n" + strings.Repeat("  write update table:t[id = in.id] set(n = col.n + in.x)\n", 12) + "}\n",
	} {
		b.Run(name, func(b *testing.B) {
			p, err := effect.Parse(text)
			if err != nil {
				b.Fatal(err)
			}
			pr := witness.New(p, witness.Options{})
			for b.Loop() {
				if w := pr.Pair(0, 0); len(w) > 0 {
					b.Fatal(show(w[0]))
				}
			}
		})
	}
}
