package oracle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// maxRaw bounds the memory for outcomes that were seen before.
const maxRaw = 4096

// Verdict is what the oracle says of one outcome. Its slices are shared between
// equal verdicts and must not be changed.
type Verdict struct {
	// OK: a serial order explains the outcome.
	OK bool
	// Order is that serial order, of a subset of the actors; where the outcome
	// is a finding although its state is explained, the one that explains the
	// state.
	Order []int
	Kind  Kind
	// Sentence says for people what is wrong.
	Sentence string
	// Nearest is the serial order with the fewest differing cells, and Diff are
	// these; for findings only.
	Nearest []int
	Diff    []Difference
	// Key is equal for outcomes that are the same finding, in every process.
	Key string
	// Notes say what is no finding but should be known.
	Notes []string
}

// trial is one outcome before the oracle.
type trial struct {
	o   *Oracle
	out *Outcome

	acked    uint64 // must be in the order, and the answers must be the serial ones
	conflict uint64 // refused for a conflict: if present, the answer must be the serial one
	silent   uint64 // server error or no answer: the answer is not compared

	forms map[uint64]string // by the set of compared answers
	view  *view
	near  []candidate // of every order of a possible set, nearest first
	notes []string
}

// candidate is a serial order that the outcome could be meant to equal.
type candidate struct {
	*series
	view *view
	diff []Difference
}

// Judge says whether a serial order explains the outcome, and if not, of what
// kind the finding is. [Oracle.Ready] must have returned nil before.
func (o *Oracle) Judge(out Outcome) Verdict {
	if !o.learned {
		if err := o.Ready(); err != nil {
			return Verdict{Sentence: err.Error(), Key: "not ready", Notes: []string{err.Error()}}
		}
	}
	o.buf = rawKey(o.buf[:0], &out)
	if v, ok := o.raw[string(o.buf)]; ok {
		return v
	}
	v := o.judge(&out)
	if !v.OK {
		if found := o.drift(&out); len(found) > 0 {
			v = o.again(&out, found, v)
		}
	}
	if len(o.raw) < maxRaw {
		o.raw[string(o.buf)] = v
	}
	return v
}

// again judges with what drift found. If the serial runs do not bear it, it was
// no clock.
func (o *Oracle) again(out *Outcome, found []*spot, before Verdict) Verdict {
	if err := o.learn(); err == nil {
		return o.judge(out)
	}
	for _, s := range found {
		s.coarse = false
	}
	if err := o.learn(); err != nil {
		before.Notes = append(slices.Clone(before.Notes), err.Error())
		return before
	}
	return o.judge(out)
}

func (o *Oracle) judge(out *Outcome) Verdict {
	t := &trial{o: o, out: out, forms: map[uint64]string{}}
	t.classes()
	if s, all := t.explain(); s != nil {
		return t.explained(s, all)
	}
	return t.unexplained()
}

func (t *trial) response(a int) *Response {
	if a < len(t.out.Responses) && t.out.Responses[a] != nil {
		return t.out.Responses[a]
	}
	return &Response{Err: "none was recorded"}
}

// conflictCodes are SQLSTATEs that say: nothing was done, try again.
var conflictCodes = [...]string{"40001", "40P01"}

// conflicted tells whether an answer is a refusal for a conflict.
func conflicted(r *Response) bool {
	switch r.Status {
	case 409, 412, 423, 429, 503:
		return true
	}
	if r.Status < 400 {
		return false
	}
	for _, code := range conflictCodes {
		if hasCode(r, code) {
			return true
		}
	}
	return false
}

func hasCode(r *Response, code string) bool {
	return slices.Contains(r.Codes, code) || r.Status >= 400 && strings.Contains(r.Body, code)
}

func (t *trial) classes() {
	for a := range t.o.actors {
		r := t.response(a)
		switch {
		case conflicted(r):
			t.conflict |= 1 << a
		case r.Status == 0 || r.Status >= 500:
			t.silent |= 1 << a
		default:
			t.acked |= 1 << a
		}
	}
}

// form is the canonical form with these answers.
func (t *trial) form(mask uint64) string {
	s, ok := t.forms[mask]
	if !ok {
		s = t.o.form(t.out, mask).canonical()
		t.forms[mask] = s
	}
	return s
}

// sets calls f with every possible set of actors that had an effect, larger
// ones first, until it returns false.
func (t *trial) sets(f func(members uint64) bool) {
	failed := t.conflict | t.silent
	for n := bits.OnesCount64(failed); n >= 0; n-- {
		for sub := failed; ; sub = (sub - 1) & failed {
			if bits.OnesCount64(sub) == n && !f(t.acked|sub) {
				return
			}
			if sub == 0 {
				break
			}
		}
	}
}

// explain finds the serial orders with the outcome's form: the first one, and
// all of the same members.
func (t *trial) explain() (first *series, all []*series) {
	t.sets(func(members uint64) bool {
		mask := members &^ t.silent
		all = t.o.serial(members, mask)[t.form(mask)]
		return len(all) == 0
	})
	if len(all) == 0 {
		return nil, nil
	}
	return all[0], all
}

// serial gives the serial orders of these members by their form.
func (o *Oracle) serial(members, mask uint64) map[string][]*series {
	k := members<<32 | mask
	m, ok := o.explained[k]
	if !ok {
		m = map[string][]*series{}
		for _, s := range o.orders {
			if s.members == members {
				f := o.serialForm(s.runs[0], mask)
				m[f] = append(m[f], s)
			}
		}
		o.explained[k] = m
	}
	return m
}

// explained judges an outcome whose state and answers a serial order has: it
// can still have ended in a deadlock, a server error or a broken invariant.
func (t *trial) explained(s *series, all []*series) Verdict {
	v := Verdict{Order: s.order, Nearest: s.order}
	victims, errors := t.deadlocked(), t.serverErrors()
	switch {
	case t.out.Stuck:
		v.Kind, v.Sentence = Deadlock, t.stuckSentence()
		v.Key = digest(string(v.Kind), "stuck")
	case victims != 0:
		v.Kind, v.Sentence = Deadlock, t.deadlockSentence(victims)
		v.Key = digest(string(v.Kind))
		v.Diff = t.answerDiff(victims)
	case errors != 0:
		v.Kind, v.Sentence = ServerError, t.serverErrorSentence(errors)
		v.Key = digest(string(v.Kind), t.statuses(errors))
		v.Diff = t.answerDiff(errors)
	default:
		if broken := t.broken(all); len(broken) > 0 {
			v.Kind = Invariant
			v.Sentence = fmt.Sprintf("%s does not hold after %s ran at the same time, though it holds after %s", enumerate(broken, "and"), t.names(t.everyone(), "and"), t.o.orderName(s.order))
			v.Key = digest(string(v.Kind), strings.Join(broken, ","), t.keyForm())
			for _, name := range broken {
				v.Diff = append(v.Diff, Difference{Label: "invariant " + name, Observed: "does not hold", Serial: "holds"})
			}
		}
	}
	if v.Kind == "" {
		v.OK, v.Nearest, v.Key = true, nil, digest("ok", t.keyForm())
	}
	t.noteFailures(s)
	v.Notes = t.notes
	return v
}

// answerDiff sets failed answers beside those of the first order of all actors.
func (t *trial) answerDiff(actors uint64) []Difference {
	i := slices.IndexFunc(t.o.orders, func(s *series) bool { return s.members == t.everyone() })
	serial := t.o.orders[i].runs[0].out.Responses
	var list []Difference
	for _, a := range actorsOf(actors) {
		list = append(list, Difference{Label: t.o.name(a) + " answers", Observed: t.o.showAnswer(t.response(a)), Serial: t.o.showAnswer(serial[a]), actor: a})
	}
	return list
}

// noteFailures says what became of the requests that failed.
func (t *trial) noteFailures(s *series) {
	for a := range t.o.actors {
		bit := uint64(1) << a
		if (t.conflict|t.silent)&bit == 0 {
			continue
		}
		r := t.response(a)
		effect := "had no effect"
		if s.members&bit != 0 {
			effect = "its effect is in the final state"
		}
		switch {
		case r.Status == 0 && !r.Broken:
			t.note("%s got no answer; %s", t.o.name(a), effect)
		case r.Status >= 500 && r.Status != 503 && hasCode(r, "40001"):
			t.note("%s was answered %d after a serialization failure (40001) and %s; 409 or 503 would tell the client to try again", t.o.name(a), r.Status, effect)
		case t.conflict&bit != 0 && s.members&bit == 0:
			t.note("%s was answered %d for a conflict and %s", t.o.name(a), r.Status, effect)
		}
	}
}

func (t *trial) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// broken are the invariants that hold in some serial run that explains the
// outcome but not in the outcome.
func (t *trial) broken(all []*series) []string {
	var names []string
	for _, name := range t.out.Violated {
		holds := false
		for _, s := range all {
			for _, r := range s.runs {
				holds = holds || !slices.Contains(r.out.Violated, name)
			}
		}
		if holds {
			names = append(names, name)
		} else {
			t.note("the invariant %s holds neither here nor after %s", name, t.o.orderName(all[0].order))
		}
	}
	return names
}

// deadlocked are the actors that a deadlock made fail without a proper answer.
func (t *trial) deadlocked() (m uint64) {
	for a := range t.o.actors {
		if r := t.response(a); r.Status >= 500 && r.Status != 503 && hasCode(r, "40P01") {
			m |= 1 << a
		}
	}
	return m
}

// serverErrors are the actors with a server error that no serial run gives them.
func (t *trial) serverErrors() (m uint64) {
	for a := range t.o.actors {
		if t.silent&(1<<a) != 0 && t.response(a).failed() && !t.o.servesError(a) {
			m |= 1 << a
		}
	}
	return m
}

func (o *Oracle) servesError(a int) bool {
	return slices.ContainsFunc(o.orders, func(s *series) bool {
		return s.members&(1<<a) != 0 && slices.ContainsFunc(s.runs, func(r *run) bool { return r.out.Responses[a].failed() })
	})
}

// failed tells of a server error.
func (r *Response) failed() bool { return r.Status >= 500 || r.Broken }

func (t *trial) seen() *view {
	if t.view == nil {
		t.view = t.o.view(t.out)
	}
	return t.view
}

func (t *trial) everyone() uint64 { return 1<<t.o.actors - 1 }

// keyForm is the whole outcome in canonical form. Of an answer with a status
// that no serial run gave this actor only the status counts: nothing is known
// of the noise in it.
func (t *trial) keyForm() string {
	var mask uint64
	var rest []string
	for a := range t.o.actors {
		if t.o.knownStatus(a, t.response(a).Status) {
			mask |= 1 << a
		} else {
			rest = append(rest, t.statuses(1<<a))
		}
	}
	return t.form(mask) + strings.Join(rest, "\n")
}

func (o *Oracle) knownStatus(a, status int) bool {
	return slices.ContainsFunc(o.orders, func(s *series) bool {
		return s.members&(1<<a) != 0 && s.runs[0].out.Responses[a].Status == status
	})
}

func (t *trial) statuses(mask uint64) string {
	var b strings.Builder
	for a := range t.o.actors {
		if mask&(1<<a) != 0 {
			fmt.Fprintf(&b, "%d:%d ", a, t.response(a).Status)
		}
	}
	return b.String()
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// rawKey writes all of an outcome so that different ones differ.
func rawKey(b []byte, out *Outcome) []byte {
	str := func(s string) {
		b = strconv.AppendInt(b, int64(len(s)), 10)
		b = append(append(b, ':'), s...)
	}
	for i := range out.Tables {
		t := &out.Tables[i]
		str(t.Name)
		b = strconv.AppendInt(append(b, 'r'), int64(len(t.Rows)), 10)
		for _, c := range t.Columns {
			str(c.Name)
		}
		for _, row := range t.Rows {
			for _, cell := range row {
				if cell == nil {
					b = append(b, '~')
					continue
				}
				str(*cell)
			}
			b = append(b, '\n')
		}
	}
	for _, r := range out.Responses {
		if r == nil {
			b = append(b, '~')
			continue
		}
		b = strconv.AppendInt(append(b, 's'), int64(r.Status), 10)
		for _, k := range slices.Sorted(maps.Keys(r.Header)) {
			str(k)
			str(r.Header[k])
		}
		b = append(b, '|')
		str(r.Body)
		str(r.ContentType)
		str(r.Err)
		for _, c := range r.Codes {
			str(c)
		}
	}
	b = append(b, '!')
	for _, n := range out.Violated {
		str(n)
	}
	if out.Stuck {
		b = append(b, 'S')
	}
	return b
}
