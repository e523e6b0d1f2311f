package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// Entry is one transition of a history.
type Entry struct {
	// Seq counts a thing's transitions from 1, without a gap.
	Seq  int64     `json:"seq"`
	From State     `json:"from"`
	To   State     `json:"to"`
	At   time.Time `json:"at"`
	// By and Note are the caller's words.
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
}

// Object is a thing in a store.
type Object struct {
	ID    string
	State State
	// Seq is the number of transitions so far.
	Seq int64
	// Data is the thing's value, JSON of the caller's; nil if it has none.
	Data json.RawMessage
	// History are the last transitions, oldest first; as many as
	// ObjectOptions.History.
	History []Entry
	// Version names this state of the object; package httpcond makes an ETag of
	// it.
	Version store.Version
}

// ObjectOptions are for [NewObjects].
type ObjectOptions struct {
	// Prefix is where the objects are kept: the thing id is at Prefix/id.
	Prefix string
	// History is how many transitions an object keeps, so that it does not grow
	// for ever; 0 means 50, below zero means none.
	History int
	// Retry bounds the attempts where others change the object without moving it
	// from the state in question; Attempts 0 means store.UntilDeadline.
	Retry store.Retry
	// Now is the clock of the history; nil means time.Now.
	Now func() time.Time
}

// Objects are things in a store, one object each. It is safe for concurrent use.
type Objects struct {
	s    *store.Store
	m    *Machine
	opts ObjectOptions
}

// NewObjects returns the things at Options.Prefix of s, which must enforce
// create-only and if-version.
func NewObjects(s *store.Store, m *Machine, opts ObjectOptions) (*Objects, error) {
	const op = "new objects of a state machine"
	if err := backend.CheckKey(op, opts.Prefix); err != nil {
		return nil, err
	}
	if strings.HasSuffix(opts.Prefix, "/") {
		return nil, &store.InvalidError{Op: op, What: fmt.Sprintf("prefix %q", opts.Prefix), Why: "leave out the slash at the end"}
	}
	caps := s.Capabilities()
	for _, kind := range []backend.Kind{backend.KindCreateOnly, backend.KindIfVersion} {
		if !caps.Put.Has(kind) {
			return nil, &store.UnsupportedError{Backend: caps.Name, Op: op, Cond: kind}
		}
	}
	if opts.History == 0 {
		opts.History = 50
	}
	if opts.Retry.Attempts == 0 {
		opts.Retry.Attempts = store.UntilDeadline
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Objects{s: s, m: m, opts: opts}, nil
}

// stored is an object as it is kept.
type stored struct {
	State   State           `json:"state"`
	Seq     int64           `json:"seq"`
	Data    json.RawMessage `json:"data,omitempty"`
	History []Entry         `json:"history,omitempty"`
}

func (o *Objects) key(id string) string { return o.opts.Prefix + "/" + id }

// Create makes a thing in an initial state; empty means the machine's only one.
// data is JSON, or nil. *store.ConflictError says that the thing is there
// already.
func (o *Objects) Create(ctx context.Context, id string, initial State, data json.RawMessage) (Object, error) {
	s, err := o.m.initial(initial)
	if err != nil {
		return Object{}, err
	}
	st := stored{State: s, Data: data}
	return o.write(ctx, id, st, store.CreateOnly())
}

// Get reads a thing; *store.NotFoundError says that there is none.
func (o *Objects) Get(ctx context.Context, id string) (Object, error) {
	item, err := o.s.Get(ctx, o.key(id))
	if err != nil {
		return Object{}, err
	}
	st, err := o.decode(item)
	if err != nil {
		return Object{}, err
	}
	return object(id, st, item.Version), nil
}

// Step is what may go with a transition of an object. The zero value is nothing.
type Step struct {
	// By and Note go into the history.
	By, Note string
	// Version, if not empty, demands that the object is as a caller has shown it
	// to somebody (Object.Version, or the one of an ETag): a round trip back to
	// the same state is not overlooked then.
	Version store.Version
	// Effect changes the object's value in the same write. It gets the current
	// value (nil if there is none), may run several times and must have no other
	// effects. Its error ends the transition and is returned.
	Effect func(data json.RawMessage) (json.RawMessage, error)
}

// Transition moves the thing id. It is one conditional write: on the version
// that was read, whose state was from. If the thing is elsewhere it returns
// *[LostError]; *store.NotFoundError if it is not there, *[IllegalError] if the
// table does not have the transition, *store.UnknownOutcomeError if the outcome
// is not known.
func (o *Objects) Transition(ctx context.Context, id string, from, to State, step Step) (Object, error) {
	if err := o.m.allow(from, to); err != nil {
		return Object{}, err
	}
	var out Object
	var stop error
	err := o.s.Retry(ctx, o.key(id), o.opts.Retry, func(ctx context.Context) error {
		var again bool
		out, again, stop = o.try(ctx, id, from, to, step)
		switch {
		case stop == nil:
			return nil
		case again:
			return stop
		}
		return errStop
	})
	if errors.Is(err, errStop) {
		err = stop
	}
	return out, err
}

// errStop ends a retry loop with an error that must not be repeated, although it
// is a conflict.
var errStop = errors.New("stop")

// try asks for another attempt if the object has changed since it was read: its
// state may be the same.
func (o *Objects) try(ctx context.Context, id string, from, to State, step Step) (out Object, again bool, err error) {
	item, err := o.s.Get(ctx, o.key(id))
	if err != nil {
		return Object{}, false, err
	}
	st, err := o.decode(item)
	if err != nil {
		return Object{}, false, err
	}
	if st.State != from || step.Version != "" && step.Version != item.Version {
		return Object{}, false, &LostError{Machine: o.m.Name(), ID: id, From: from, To: to, Current: st.State, Version: item.Version}
	}
	if step.Effect != nil {
		if st.Data, err = step.Effect(slices.Clone(st.Data)); err != nil {
			return Object{}, false, err
		}
	}
	st.State = to
	st.Seq++
	if o.opts.History > 0 {
		st.History = append(st.History, Entry{Seq: st.Seq, From: from, To: to, At: o.opts.Now().UTC(), By: step.By, Note: step.Note})
		st.History = st.History[max(0, len(st.History)-o.opts.History):]
	}
	out, err = o.write(ctx, id, st, store.IfVersion(item.Version))
	_, again = errors.AsType[*store.ConflictError](err)
	return out, again, err
}

func (o *Objects) write(ctx context.Context, id string, st stored, cond store.Condition) (Object, error) {
	value, err := json.Marshal(st)
	if err != nil {
		return Object{}, &store.InvalidError{Op: "write " + o.m.Name(), What: fmt.Sprintf("data of %q", id), Why: err.Error()}
	}
	v, err := o.s.Put(ctx, o.key(id), value, cond)
	if err != nil {
		return Object{}, err
	}
	return object(id, st, v), nil
}

func (o *Objects) decode(item store.Item) (stored, error) {
	var st stored
	if err := json.Unmarshal(item.Value, &st); err != nil {
		return st, &store.CorruptError{Key: item.Key, Why: "an object of a state machine is expected: " + err.Error()}
	}
	if !slices.Contains(o.m.table.States, st.State) {
		return st, &store.CorruptError{Key: item.Key, Why: fmt.Sprintf("%s has no state %q", o.m.Name(), st.State)}
	}
	return st, nil
}

func object(id string, st stored, v store.Version) Object {
	return Object{ID: id, State: st.State, Seq: st.Seq, Data: st.Data, History: st.History, Version: v}
}
