package witness

import (
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// Alone searches one instance of entry i for a crash, a retry or an error of the
// surroundings that ends badly.
func (p *Problem) Alone(i int) []*Witness {
	if p.Entries[i].Kind == effect.Library {
		return nil
	}
	s := &search{p: p, codes: []*code{p.codes[i]}, procs: []int{0}, limit: 600, found: map[string]bool{}}
	var prefix []bool
	refuses := map[*effect.Step]bool{}
	for range 6 {
		w := newWorld(prefix)
		s.alone(w, refuses)
		next, ok := w.next()
		if !ok || s.runs > s.limit {
			break
		}
		prefix = next
	}
	s.permitted(refuses)
	s.endless()
	return s.out
}

// alone looks at one world: first the run in which nothing happens, then each
// fault at each step of it.
func (s *search) alone(w *world, refuses map[*effect.Step]bool) {
	base := s.one(w, nil, true)
	if base.stuck || base.alarm != nil {
		return
	}
	if !base.allDone() {
		s.itself(base)
		return
	}
	steps := base.effects()
	if base.actors[0].failed {
		for i := len(steps) - 1; i >= 0; i-- {
			if op := steps[i].Op; op == effect.Read || op == effect.Check {
				refuses[steps[i]] = true
				break
			}
		}
		return
	}
	for _, st := range steps {
		if s.runs > s.limit {
			return
		}
		s.errors(w, base, st)
		s.leftover(w, base, st)
	}
	s.crashes(w, base, steps)
}

// itself is an actor that waits for a lock which only it could give back.
func (s *search) itself(r *run) {
	a := r.actors[0]
	if at := a.at(); !a.done && at != nil && at.On != nil {
		r.events = append(r.events, Event{Actor: 0, Step: at, Result: "waits for itself, for ever"})
		s.single(Deadlock, r, at, nil, []string{"the statement runs on the transaction that holds the lock"}, "A waits for a lock that its own transaction holds")
	}
}

// one runs the single actor.
func (s *search) one(w *world, f *fault, trace bool) *run {
	s.runs++
	r := start(w, s.p, s.codes, s.procs)
	r.trace = trace
	if f != nil {
		c := *f
		r.fault = &c
	}
	r.play(plan{})
	return r
}

// effects lists the steps that ran, in order, without doubles.
func (r *run) effects() []*effect.Step {
	var out []*effect.Step
	for _, e := range r.events {
		if e.Step != nil && !slices.Contains(out, e.Step) {
			out = append(out, e.Step)
		}
	}
	return out
}

// errors lets one step fail.
func (s *search) errors(w *world, base *run, st *effect.Step) {
	if st.On != nil && (st.On.Kind == effect.VarKind || st.On.Kind == effect.MutexKind) {
		return // memory does not fail
	}
	switch st.Op {
	case effect.Read, effect.Check:
		if st.OnErr == effect.OnDrop || st.OnErr == effect.OnLog || st.OnErr == effect.OnBind {
			s.swallowed(w, base, st)
		}
	case effect.Write, effect.Rename, effect.Close, effect.Fsync, effect.Commit, effect.Send:
		s.ignored(w, base, st)
		if (st.Op == effect.Write || st.Op == effect.Commit) && st.OnErr != effect.OnDrop {
			s.undone(w, base, st)
		}
	}
}

// swallowed: the read fails, and the thing is written as if it had been empty.
func (s *search) swallowed(w *world, base *run, st *effect.Step) {
	r := s.one(w, &fault{kind: failStep, step: st}, true)
	if r.stuck || r.actors[0].failed || !r.allDone() {
		return
	}
	table := tableOf(st.On, 0)
	for _, e := range r.events {
		if !e.write || e.table != table || e.Step.Op == effect.Write && e.Step.Mode == effect.Append {
			continue
		}
		got, want := r.outcome(), base.outcome()
		if got.rows[table] == want.rows[table] {
			continue
		}
		s.single(Swallowed, r, e.Step, st, []string{"the read succeeds: " + tell(want, []string{table})}, "the read fails: "+tell(got, []string{table}))
		return
	}
}

// ignored: a step fails, the actor says that all went well, and the result is
// not there.
func (s *search) ignored(w *world, base *run, st *effect.Step) {
	inThread := s.spawned(st)
	if st.OnErr != effect.OnDrop && st.OnErr != effect.OnBind && inThread == nil {
		return
	}
	r := s.one(w, &fault{kind: failStep, step: st}, true)
	if r.stuck || r.actors[0].failed || !r.actors[0].done {
		return
	}
	got, want := r.outcome(), base.outcome()
	diff := got.differs(want)
	if st.Op == effect.Close || st.Op == effect.Fsync {
		// The content may not be there; nothing of the model shows it.
		got.rows = map[string]string{tableOf(st.On, 0): "not on disk"}
		diff = []string{tableOf(st.On, 0)}
	}
	if len(diff) == 0 {
		return
	}
	at := st
	if inThread != nil && st.OnErr != effect.OnDrop {
		at = inThread
	}
	s.single(Ignored, r, at, st, []string{"the step succeeds: " + tell(want, diff)}, "the step fails, success is answered: "+tell(got, diff))
}

// leftover: a step fails, and the temporary file stays for ever.
func (s *search) leftover(w *world, base *run, st *effect.Step) {
	if st.On == nil || st.On.Kind != effect.FileKind || st.Op == effect.Read || st.Op == effect.Check || st.Mode == effect.Temp || !base.temps(false) {
		return
	}
	r := s.one(w, &fault{kind: failStep, step: st}, true)
	if r.stuck || !r.allDone() || !r.temps(true) || base.temps(true) {
		return
	}
	at := st
	for _, e := range r.events {
		if e.Step != nil && e.Step.Mode == effect.Temp {
			at = e.Step
		}
	}
	s.single(Leftover, r, at, st, []string{"the temporary file becomes the file"}, "the temporary file stays, once more with each failure")
}

// temps says whether the run made temporary files, or (there) has some left.
func (r *run) temps(there bool) bool {
	for _, rows := range r.st.rows {
		for _, x := range rows {
			if x.born == "temp" && (!there || x.cur.exists) {
				return true
			}
		}
	}
	return false
}

// spawned gives the Spawn whose body holds the step and whose errors are lost
// although somebody waits for it.
func (s *search) spawned(st *effect.Step) *effect.Step {
	var found *effect.Step
	waits := false
	s.codes[0].entry.Body.Walk(func(x *effect.Step) bool {
		waits = waits || x.Op == effect.Wait
		if x.Op == effect.Spawn && x.OnErr == effect.OnDrop {
			x.Body.Walk(func(y *effect.Step) bool {
				if y == st {
					found = x
				}
				return found == nil
			})
		}
		return true
	})
	if !waits {
		return nil
	}
	return found
}

// undone: the step takes effect but its answer is an error, and on that path
// something is deleted that the good path leaves alone.
func (s *search) undone(w *world, base *run, st *effect.Step) {
	r := s.one(w, &fault{kind: ambiguous, step: st}, true)
	if r.stuck {
		return
	}
	normal := base.effects()
	for _, e := range r.events {
		if e.Step == nil || e.Step.Op != effect.Write || e.Step.Mode != effect.Delete || !e.write || slices.Contains(normal, e.Step) {
			continue
		}
		if e.Step.On.Kind == effect.FileKind && st.On != nil && st.On.Kind == effect.FileKind {
			continue // a temporary file that is cleaned up
		}
		s.single(Undone, r, e.Step, st, []string{"the answer arrives: " + tell(base.outcome(), keys(base.outcome().rows))}, "the answer is lost: "+tell(r.outcome(), keys(r.outcome().rows)))
		return
	}
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// crashes ends the process after each step, and runs the entry again where
// somebody would.
func (s *search) crashes(w *world, base *run, steps []*effect.Step) {
	e := s.codes[0].entry
	want := base.outcome()
	want.rows = normal(want.rows)
	for n := 1; n <= len(steps) && s.runs <= s.limit; n++ {
		r := s.one(w, &fault{kind: crash, after: n}, true)
		if r.fault == nil || !r.fault.used {
			s.durable(base, steps)
			return
		}
		last := steps[min(n, len(steps))-1]
		s.cut(r, last)
		if acked := r.actors[0].acked; acked != nil && (e.Retry != effect.RetryCaller || acked.On.Kind == effect.TopicKind) {
			got := r.outcome()
			if diff := got.differs(base.outcome()); len(diff) > 0 {
				s.single(Lost, r, acked, last, []string{"no crash: " + tell(base.outcome(), diff)}, "crash after the acknowledgement: "+tell(got, diff))
				return
			}
			continue
		}
		if e.Retry == effect.RetryNone {
			continue
		}
		s.repeated(r, want, last)
	}
}

// repeated runs the entry again and compares with one run.
func (s *search) repeated(r *run, want outcome, last *effect.Step) {
	if !r.again() || r.stuck || r.actors[0].failed {
		return
	}
	got := r.outcome()
	got.rows = normal(got.rows)
	got.failed = want.failed
	diff := got.differs(want)
	if len(diff) == 0 {
		return
	}
	twice := doubled(r.events, diff)
	if twice == nil {
		return
	}
	s.single(Twice, r, twice, last, []string{"one run: " + tell(want, diff)}, "a crash, then a second run: "+tell(got, diff))
}

// normal strips what tells the values of a second run from those of the first.
func normal(rows map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range rows {
		out[k] = strings.ReplaceAll(v, ".100", ".")
	}
	return out
}

// doubled finds the step that took effect both times, on what differs.
func doubled(events []Event, diff []string) *effect.Step {
	first, second := map[*effect.Step]bool{}, false
	for _, e := range events {
		second = second || e.Result == "it is run again"
		if e.Step == nil || !e.write || !slices.Contains(diff, e.table) {
			continue
		}
		if second && first[e.Step] {
			return e.Step
		}
		if !second {
			first[e.Step] = true
		}
	}
	return nil
}

// cut looks at the files that a crash leaves emptied.
func (s *search) cut(r *run, last *effect.Step) {
	if last.Op != effect.Write || last.Mode != effect.Truncate || !s.p.read(last.On) {
		return
	}
	s.single(Torn, r, last, nil, []string{"the file holds the old or the new content"}, "the file is empty or cut, also after a restart")
}

// read says whether any entry reads the file: one that nobody reads back is an
// output that can be made again.
func (p *Problem) read(on *effect.Resource) bool {
	for i := range p.Entries {
		found := false
		p.Entries[i].Body.Walk(func(s *effect.Step) bool {
			found = found || s.Op == effect.Read && s.On != nil && sameFile(s.On, on)
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

func sameFile(a, b *effect.Resource) bool {
	if a.Kind != b.Kind || a.Name != b.Name || len(a.Key) != len(b.Key) {
		return false
	}
	if a.Name != "*" {
		return true
	}
	for i := range a.Key {
		if a.Key[i].Val.String() != b.Key[i].Val.String() || local(a.Key[i].Val) {
			return false
		}
	}
	return len(a.Key) > 0
}

// local says whether a value uses a variable of its entry: in another entry the
// same name is another thing.
func local(v effect.Value) bool {
	found := v.Kind == effect.UnknownValue
	v.Paths(func(p string) { found = found || !strings.HasPrefix(p, "in.") })
	for _, a := range v.Args {
		found = found || local(a)
	}
	return found || v.Kind == effect.ApplyValue && v.Name == "fresh"
}

// durable looks at the end of the good run with the power lost: files that were
// published by a rename and not flushed, and names that were not.
func (s *search) durable(base *run, steps []*effect.Step) {
	for _, st := range steps {
		if st.Op != effect.Rename || !s.p.read(st.To) {
			continue
		}
		table, key := base.actors[0].key(st.To)
		r := base.actors[0].named(table, key)
		if r == nil || r.cur.synced && r.cur.named {
			continue
		}
		events := slices.Clone(base.events)
		base.events = append(base.events, Event{Actor: 0, Result: "the power fails", Fault: true})
		got := "the new content may be missing: the file is empty or cut, although success was told"
		if r.cur.synced {
			got = "the old file may be back, although success was told: the folder was not flushed"
		}
		s.single(Lost, base, st, nil, []string{"the new content is there"}, got)
		base.events = events
	}
}

// permitted: a check that can refuse fails itself, and the actor goes on.
func (s *search) permitted(refuses map[*effect.Step]bool) {
	for _, st := range slices.SortedFunc(maps.Keys(refuses), byPos) {
		if st.OnErr != effect.OnDrop && st.OnErr != effect.OnLog && st.OnErr != effect.OnBind || st.On.Kind == effect.VarKind {
			continue
		}
		r := s.one(newWorld(nil), &fault{kind: failStep, step: st}, true)
		if r.stuck || r.actors[0].failed || !r.fault.used {
			continue
		}
		after := false
		for _, e := range r.events {
			after = after || e.Fault
			if after && e.write {
				s.single(Permitted, r, e.Step, st, []string{"the check refuses: nothing is done"}, "the check itself fails: it is done")
				break
			}
		}
	}
}

func byPos(a, b *effect.Step) int {
	if a.Pos.File != b.Pos.File {
		return strings.Compare(a.Pos.File, b.Pos.File)
	}
	return a.Pos.Line*10000 + a.Pos.Col - b.Pos.Line*10000 - b.Pos.Col
}

// endless: every conditional write loses, and the loop never ends.
func (s *search) endless() {
	loops := false
	s.codes[0].entry.Body.Walk(func(x *effect.Step) bool {
		loops = loops || x.Op == effect.Loop && x.Retry && x.Max == 0 && !x.CtxChecked
		return !loops
	})
	if !loops {
		return
	}
	r := s.one(newWorld(nil), &fault{kind: refuseAll}, true)
	if r.alarm != nil && r.alarm.kind == Endless {
		s.single(Endless, r, r.alarm.step, nil, []string{"the loop ends, with an error if others are always first"}, r.alarm.text)
	}
}

// single keeps the witness of one actor.
func (s *search) single(k Kind, r *run, at, cause *effect.Step, expected []string, got string) {
	id := string(k) + " " + at.Pos.String() + string(at.Op)
	if s.found[id] {
		return
	}
	s.found[id] = true
	on := at.On
	if at.Op == effect.Rename {
		on = at.To
	}
	w := &Witness{Kind: k, Events: slices.Clone(r.events), On: on, Write: at, Other: cause, Expected: expected, Got: got,
		Actors: []Actor{{Name: "A", Entry: s.codes[0].entry}}}
	w.Voids = r.voids(w, s)
	s.out = append(s.out, w)
}
