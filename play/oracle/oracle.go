package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hints say what is known of noise that two serial runs do not show. The zero
// Hints are right for most applications.
type Hints struct {
	// NoiseColumns ("table.column") are not compared.
	NoiseColumns []string
	// IDColumns hold identities and are renamed one-to-one.
	IDColumns []string
	// TimeColumns hold moments and are masked.
	TimeColumns []string
	// NoiseJSON are paths in JSON bodies ("$.a.b[*].c") that are not compared,
	// with all that is below them.
	NoiseJSON []string
	// IgnoreResponses compares of the answers only whether the request was
	// accepted (below 400), refused, or not answered.
	IgnoreResponses bool
}

// run is one recorded serial run.
type run struct {
	order []int
	out   Outcome
	view  *view
	forms map[uint64]string // by the set of compared answers
}

// series are the runs of one serial order.
type series struct {
	order   []int
	members uint64
	runs    []*run
}

// Oracle knows the serial outcomes of some requests and judges others by them.
type Oracle struct {
	actors    int
	hints     Hints
	noiseJSON map[string]bool
	named     func(int) string
	now       func() time.Time
	start     time.Time
	last      time.Time // of the serial runs

	orders []*series // in the order of Orders
	byKey  map[string]*series

	spots   []*spot
	columns map[string]*spot
	docs    map[string]*node
	plans   map[string]*plan
	bodies  map[bodyKey]*body

	learned   bool
	constants map[idKey]bool
	explained map[uint64]map[string][]*series // serial forms by members and answers
	raw       map[string]Verdict
	buf       []byte
}

// New makes an oracle for this many concurrent requests, at most 8.
func New(actors int, hints Hints) *Oracle {
	o := &Oracle{
		actors: actors, hints: hints, now: time.Now, noiseJSON: map[string]bool{},
		byKey: map[string]*series{}, columns: map[string]*spot{}, docs: map[string]*node{},
		plans: map[string]*plan{}, bodies: map[bodyKey]*body{},
	}
	o.named = func(a int) string { return string(rune('A' + a)) }
	o.start = o.now()
	for _, p := range hints.NoiseJSON {
		o.noiseJSON[generalise(p)] = true
	}
	for _, order := range Orders(actors) {
		s := &series{order: order, members: set(order)}
		o.orders = append(o.orders, s)
		o.byKey[orderKey(order)] = s
	}
	return o
}

// Names sets how sentences name the actors; the default is A, B, C. It is to be
// called before the first run is recorded.
func (o *Oracle) Names(named func(actor int) string) {
	if named != nil {
		o.named = named
	}
}

func (o *Oracle) name(actor int) string { return o.named(actor) }

// Orders are all serial orders of all subsets of the actors, the empty one
// first, smaller subsets before larger ones.
func Orders(actors int) [][]int {
	all := [][]int{{}}
	for from := 0; from < len(all); from++ {
		for a := range actors {
			if !slices.Contains(all[from], a) {
				all = append(all, append(slices.Clone(all[from]), a))
			}
		}
	}
	return all
}

func set(order []int) uint64 {
	var m uint64
	for _, a := range order {
		m |= 1 << a
	}
	return m
}

func orderKey(order []int) string {
	b := make([]byte, len(order))
	for i, a := range order {
		b[i] = byte(a)
	}
	return string(b)
}

// AddSerial records one run of the actors in this order, without concurrency.
// It is an error if the order is not one of [Orders] or the outcome's answers
// are not those of its members. The outcome is kept and must not be changed.
func (o *Oracle) AddSerial(order []int, out Outcome) error {
	s := o.byKey[orderKey(order)]
	if s == nil {
		return fmt.Errorf("record a serial run of the actors %v: this is no order of some of %d actors", order, o.actors)
	}
	for a := range o.actors {
		in := s.members&(1<<a) != 0
		if has := a < len(out.Responses) && out.Responses[a] != nil; has != in {
			return fmt.Errorf("record the serial run %q: the answer of %s is there: %t, want %t", o.orderName(order), o.name(a), has, in)
		}
	}
	if out.Stuck {
		return &UnstableError{Order: slices.Clone(order), Name: o.orderName(order), Where: "progress", First: "the run got stuck although nothing ran at the same time", Do: "see why the request does not end when it runs alone"}
	}
	s.runs = append(s.runs, &run{order: s.order, out: out})
	o.last = o.now()
	o.learned = false
	return nil
}

// Ready learns the noise from the serial runs. It fails with
// [*IncompleteError] if an order was not recorded twice, and with
// [*UnstableError] if two runs of one order differ in more than noise.
func (o *Oracle) Ready() error {
	var missing []string
	for _, s := range o.orders {
		if len(s.runs) < 2 {
			missing = append(missing, o.orderName(s.order))
		}
	}
	if len(missing) > 0 {
		return &IncompleteError{Missing: missing}
	}
	return o.learn()
}

// Noise names the places where equal serial runs differed, for the report.
func (o *Oracle) Noise() []string {
	var list []string
	for _, s := range o.spots {
		if s.noisy() && !s.drop && (s.typ != ID || s.column == "") {
			list = append(list, s.name)
		}
	}
	return list
}

// orderName is "A then B", or "nothing" for the empty order.
func (o *Oracle) orderName(order []int) string {
	if len(order) == 0 {
		return "none of them"
	}
	names := make([]string, len(order))
	for i, a := range order {
		names[i] = o.name(a)
	}
	return strings.Join(names, " then ")
}

// IncompleteError says which serial orders have not been recorded twice.
type IncompleteError struct{ Missing []string }

func (e *IncompleteError) Error() string {
	return fmt.Sprintf("judge outcomes by serial ones: %d serial orders were not recorded twice (%s): record each of Orders twice", len(e.Missing), strings.Join(e.Missing, "; "))
}

// UnstableError says that two serial runs of one order differ in more than ids,
// moments and other values: nothing could be told from an interleaved run.
type UnstableError struct {
	Order []int
	Name  string // the order, in words
	Where string // the table, column, path or answer
	First string // what the first run has there
	Other string // what the other has
	Do    string
}

func (e *UnstableError) Error() string {
	msg := fmt.Sprintf("compare two runs of the serial order %q: %s: ", e.Name, e.Where)
	if e.Other == "" {
		msg += e.First
	} else {
		msg += fmt.Sprintf("%s in one, %s in the other", e.First, e.Other)
	}
	return msg + "; " + e.Do
}
