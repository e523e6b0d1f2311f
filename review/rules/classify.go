package rules

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/witness"
)

// class is what a family makes of a witness.
type class struct {
	rule string
	say  string // the message; what is wrong, in one sentence
	void *witness.Void
	// severity and confidence are the rule's and medium unless set.
	severity   Severity
	confidence Confidence
	at         *effect.Step
}

// Classify makes the finding of a witness, or nil if it is none of the rules'
// business.
func (s *Set) Classify(w *witness.Witness) *Finding {
	c := s.base(w)
	if c == nil {
		return nil
	}
	leads := ""
	if v := void(w, c); v != nil {
		v.severity = c.severity
		leads = c.rule
		c = v
	}
	rule := s.Get(c.rule)
	f := &Finding{Rule: rule, Leads: leads, Severity: rule.Severity, Confidence: c.confidence, Witness: w, Message: c.say}
	if c.severity != "" {
		f.Severity = c.severity
	}
	if f.Confidence == "" {
		f.Confidence = Medium
	}
	f.Severity = lower(f.Severity, w)
	if w.Rollout {
		f.Severity = Note
	}
	f.Confidence = doubt(f.Confidence, w)
	if w.NoSchema && (c.rule == "HF110" || leads == "HF110") {
		f.Confidence = Low // there may be a unique index that nobody showed us
	}
	at := c.at
	if at == nil {
		at = w.Write
	}
	if at != nil {
		f.Pos = place(at, w)
	}
	f.Fix = fill(rule.Fix, w, c)
	return f
}

func (s *Set) base(w *witness.Witness) *class {
	switch w.Kind {
	case witness.NonSerial, witness.Memory:
		return race(w)
	case witness.Deadlock, witness.Hang, witness.Endless, witness.LostLock:
		return waiting(w)
	}
	return fault(w)
}

// place is where the finding is shown: the step, or the innermost call that is
// known when the step itself has no place.
func place(s *effect.Step, w *witness.Witness) effect.Pos {
	if !s.Pos.IsZero() {
		return s.Pos
	}
	if n := len(s.Via); n > 0 {
		return s.Via[n-1]
	}
	return w.Actors[0].Entry.Pos
}

// lower takes a schedule that is possible but unusual one step down: a command
// that somebody starts twice, a controller beside itself.
func lower(s Severity, w *witness.Witness) Severity {
	if s != Blocking || len(w.Actors) < 2 {
		return s
	}
	for _, a := range w.Actors {
		if a.Entry.Kind != effect.Main && a.Entry.Kind != effect.Startup {
			return s
		}
	}
	return ShouldFix
}

// doubt lowers the confidence where something unknown decides: a key that
// nobody knows may never be the same for two actors.
func doubt(c Confidence, w *witness.Witness) Confidence {
	for _, s := range []*effect.Step{w.Read, w.Write, w.Other} {
		if s == nil || s.On == nil {
			continue
		}
		for _, k := range s.On.Key {
			if unknown(k.Val) {
				return Low
			}
		}
	}
	return c
}

func unknown(v effect.Value) bool {
	if v.Kind == effect.UnknownValue {
		return true
	}
	for _, a := range v.Args {
		if unknown(a) {
			return true
		}
	}
	return false
}

// fill puts names into the advice.
func fill(text string, w *witness.Witness, c *class) string {
	col := "n"
	keys := []string{}
	if w.Write != nil {
		for _, a := range w.Write.Set {
			if a.Col != "*" {
				col = a.Col
				break
			}
		}
		if w.Write.On != nil {
			for _, k := range w.Write.On.Key {
				keys = append(keys, k.Col+" = ...")
			}
		}
	}
	key := strings.Join(keys, " AND ")
	if key == "" {
		key = "its key"
	}
	why := ""
	if c.void != nil {
		why = c.void.Why
	}
	on := w.On
	if c.at != nil && c.at.On != nil {
		on = c.at.On
	}
	return strings.NewReplacer("{name}", Name(on), "{col}", col, "{key}", key, "{void}", why).Replace(text)
}

// who names the actors for a message: "two POST /x requests at once".
func who(w *witness.Witness) string {
	if len(w.Actors) < 2 {
		return w.Actors[0].Entry.Title()
	}
	a, b := w.Actors[0].Entry, w.Actors[1].Entry
	if a != b {
		return fmt.Sprintf("%s and %s at once", a.Title(), b.Title())
	}
	switch a.Kind {
	case effect.HTTP, effect.GRPC:
		return fmt.Sprintf("two %s requests at once", a.Title())
	case effect.Main:
		return fmt.Sprintf("two runs of %s at once", a.Title())
	case effect.Consumer:
		return fmt.Sprintf("two messages for %s at once", a.Title())
	}
	return fmt.Sprintf("two instances of %s at once", a.Title())
}
