package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-dev/holdfast/store"
)

// Record is one operation of a history: when it was called, when its answer
// came, on one clock for all clients. Every written value is unique in its
// history, so a value names the write it came from.
type Record struct {
	Client int
	Kind   string // "get", "put", "delete"
	Key    string
	// Value is what a put wrote, or what a get returned.
	Value string
	// Cond and Wanted are the condition of a put or delete.
	Cond   string
	Wanted string
	// Call and Return are nanoseconds; Return is 0 if no answer ever came.
	Call, Return int64
	// Outcome is "ok", "conflict", "absent" (get only), "unknown" or "failed"
	// (nothing was written).
	Outcome string
	// Version is what a successful put or get returned.
	Version string
}

// cell is the state of one key in the model: the unique value it holds, or ""
// if it is absent.
type cell string

// model is a register with the three conditions, one state per key. An
// operation whose outcome is unknown may have taken effect or not; porcupine
// then follows both.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{cell("")} },
		Step: func(state, input, output any) []any { return step(state.(cell), input.(Record)) },
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byKey := map[string][]porcupine.Operation{}
			for _, op := range history {
				key := op.Input.(Record).Key
				byKey[key] = append(byKey[key], op)
			}
			parts := make([][]porcupine.Operation, 0, len(byKey))
			for _, part := range byKey {
				parts = append(parts, part)
			}
			return parts
		},
		Equal: func(a, b any) bool { return a == b },
	}
	return m.ToModel()
}

// step returns the states that can follow; none means that the record cannot
// stand at this place. Wanted holds the value of the wanted version here.
func step(now cell, r Record) []any {
	if r.Kind == "get" {
		if (r.Outcome == "absent" && now == "") || (r.Outcome == "ok" && now == cell(r.Value) && now != "") {
			return []any{now}
		}
		return nil
	}
	holds := true
	switch r.Cond {
	case "create-only":
		holds = now == ""
	case "if-version":
		holds = now != "" && now == cell(r.Wanted)
	}
	next := cell(r.Value)
	if r.Kind == "delete" {
		next = ""
	}
	switch {
	case r.Outcome == "unknown" && holds:
		return []any{now, next}
	case r.Outcome == "unknown":
		return []any{now}
	case r.Outcome == "ok" && holds:
		return []any{next}
	case r.Outcome == "conflict" && !holds:
		return []any{now}
	}
	return nil
}

// CheckHistory says how records are not linearizable: there is no order of the
// operations that agrees with real time and explains every answer. It also
// demands that no version was seen with two values.
func CheckHistory(records []Record) error {
	values := map[string]string{}
	for _, r := range records {
		if r.Outcome != "ok" || r.Version == "" {
			continue
		}
		if before, seen := values[r.Version]; seen && before != r.Value {
			return fmt.Errorf("version %q stands for value %q and for %q", r.Version, before, r.Value)
		}
		values[r.Version] = r.Value
	}
	var ops []porcupine.Operation
	for _, r := range records {
		// A write that failed for certain and a read without an answer say
		// nothing about the state.
		if r.Outcome == "failed" || (r.Kind == "get" && (r.Return == 0 || r.Outcome == "unknown")) {
			continue
		}
		if r.Cond == "if-version" {
			value, known := values[r.Wanted]
			if !known {
				return fmt.Errorf("a condition on %q wanted version %q, which nothing returned", r.Key, r.Wanted)
			}
			r.Wanted = value
		}
		if r.Return == 0 || r.Outcome == "unknown" {
			// It may take effect at any later time.
			r.Outcome, r.Return = "unknown", math.MaxInt64
		}
		ops = append(ops, porcupine.Operation{ClientId: r.Client, Input: r, Output: r, Call: r.Call, Return: r.Return})
	}
	switch porcupine.CheckOperationsTimeout(model(), ops, time.Minute) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return fmt.Errorf("the history of %d operations is not linearizable", len(ops))
	}
	return fmt.Errorf("the history of %d operations could not be checked within a minute", len(ops))
}

// client makes random operations and records them.
type client struct {
	number int
	s      *store.Store
	rng    *rand.Rand
	keys   []string
	now    func() int64
	// known is the latest version of each key that this client has seen; it
	// is often stale, which is the point.
	known map[string]store.Version
	// record is called before (Return 0) and after each operation.
	record func(Record)
	writes int
}

func (c *client) run(ctx context.Context, operations int) {
	for i := 0; i < operations && ctx.Err() == nil; i++ {
		c.one(ctx)
	}
}

func (c *client) one(ctx context.Context) {
	r := Record{Client: c.number, Key: c.keys[c.rng.IntN(len(c.keys))]}
	cond := store.None()
	v, have := c.known[r.Key]
	dice := c.rng.IntN(10)
	switch {
	case dice < 4:
		r.Kind = "get"
	case dice < 6 && have:
		r.Kind, cond = "put", store.IfVersion(v)
	case dice < 7:
		r.Kind, cond = "put", store.CreateOnly()
	case dice < 8:
		r.Kind = "put"
	case dice < 9 && have:
		r.Kind, cond = "delete", store.IfVersion(v)
	default:
		r.Kind = "delete"
	}
	if r.Kind == "put" {
		c.writes++
		r.Value = fmt.Sprintf("c%d-w%d-%d", c.number, c.writes, c.rng.Uint64())
	}
	r.Cond, r.Wanted = cond.Kind().String(), string(cond.Version())
	r.Call = c.now()
	c.record(r)
	r.Outcome, r.Version = c.apply(ctx, &r, cond)
	r.Return = c.now()
	c.record(r)
}

func (c *client) apply(ctx context.Context, r *Record, cond store.Condition) (outcome, version string) {
	var v store.Version
	var err error
	switch r.Kind {
	case "get":
		var item store.Item
		item, err = c.s.Get(ctx, r.Key)
		v, r.Value = item.Version, string(item.Value)
	case "put":
		v, err = c.s.Put(ctx, r.Key, []byte(r.Value), cond)
	case "delete":
		err = c.s.Delete(ctx, r.Key, cond)
	}
	switch {
	case err == nil:
		if v != "" {
			c.known[r.Key] = v
		}
		return "ok", string(v)
	case errors.Is(err, store.ErrNotFound):
		return "absent", ""
	case errors.Is(err, store.ErrConflict):
		return "conflict", ""
	case errors.Is(err, store.ErrUnknownOutcome):
		return "unknown", ""
	case r.Kind == "get":
		return "unknown", ""
	}
	return "failed", ""
}

func checkHistory(ctx context.Context, p *Probe) error {
	const clients, operations = 6, 60
	keys := []string{p.key("h/1"), p.key("h/2"), p.key("h/3")}
	start := time.Now()
	histories := make([][]Record, clients)
	together(clients, func(i int) error {
		c := &client{number: i, s: p.Store, rng: rand.New(rand.NewPCG(uint64(i), rand.Uint64())), keys: keys,
			now: func() int64 { return int64(time.Since(start)) }, known: map[string]store.Version{}}
		c.record = func(r Record) {
			if r.Return != 0 {
				histories[i] = append(histories[i], r)
			}
		}
		c.run(ctx, operations)
		return nil
	})
	var all []Record
	failed := 0
	for _, h := range histories {
		for _, r := range h {
			all = append(all, r)
			if r.Outcome == "failed" || r.Outcome == "unknown" {
				failed++
			}
		}
	}
	if len(all) < clients*operations || failed > 0 {
		return fmt.Errorf("%d of %d operations were answered, %d of them failed", len(all), clients*operations, failed)
	}
	return CheckHistory(all)
}
