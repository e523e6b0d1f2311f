package witness

import (
	"slices"

	"github.com/holdfast-dev/holdfast/review/effect"
)

// effect runs one effect. It changes nothing when the actor has to wait.
func (a *actor) effect(s *effect.Step) verdict {
	if f := a.run.fault; f != nil {
		if v, hit := f.strike(a, s); hit {
			return v
		}
	}
	if s.Void != "" && s.Op != effect.Read && s.Op != effect.Check && s.Op != effect.Write {
		a.run.note(a, s, "no effect: %s", s.Void)
		a.pc++
		return moved
	}
	a.looked = a.looked || looks(s) || s.Op == effect.Write && a.run.blind
	switch s.Op {
	case effect.Read, effect.Check:
		return a.read(s)
	case effect.Write:
		return a.write(s)
	case effect.Rename:
		return a.rename(s)
	case effect.Guard:
		a.guard(s)
	case effect.Lock:
		return a.lock(s)
	case effect.Unlock:
		a.unlock(s)
	case effect.Begin:
		return a.begin(s)
	case effect.Commit:
		return a.commit(s)
	case effect.Rollback:
		if t := a.tx(s.Tx); t != nil {
			a.rollback(t)
		}
		a.run.note(a, s, "rolled back")
	case effect.Send:
		return a.send(s)
	case effect.Ack:
		a.acked = s
		a.run.note(a, s, "acknowledged")
	case effect.Fsync:
		a.fsync(s)
	case effect.Wait:
		return a.wait(s)
	case effect.Sleep:
		a.run.note(a, s, "waits")
	}
	a.pc++
	return moved
}

// connection says whether the step must wait for a connection of the pool.
func (a *actor) connection(t *tx, s *effect.Step) bool {
	if a.run.pool == 0 || t != nil || s.On == nil || s.On.Kind != effect.TableKind {
		return false
	}
	return a.run.openTxs() >= a.run.pool
}

func (r *run) openTxs() int {
	n := 0
	for _, t := range r.st.txs {
		if !t.closed {
			n++
		}
	}
	return n
}

func (a *actor) read(s *effect.Step) verdict {
	st := a.run.st
	t := a.tx(s.Tx)
	if a.connection(t, s) {
		return waits
	}
	a.snapshot(t)
	table, key := a.key(s.On)
	if s.Agg != "" {
		return a.aggregate(s, t, table, key)
	}
	st.materialise(table, key, s.Op == effect.Read)
	for _, r := range st.rows[table] {
		if s.Lock != "" && s.Void == "" {
			// A locking read waits for, and then sees, what is committed.
			if h := r.heldAgainst(t, s.Lock != "share"); h != nil && st.matches(a, r, r.cur, key, s.Where) {
				if s.Lock == "skip" {
					continue
				}
				if s.Lock == "nowait" {
					a.run.note(a, s, "refused: the row is locked")
					a.fail(s, "locked")
					return moved
				}
				return waits
			}
		}
		d := r.see(t)
		if s.Lock != "" && s.Void == "" && r.pendTx != t {
			d = r.cur
		}
		if !st.matches(a, r, d, key, s.Where) {
			continue
		}
		return a.got(s, t, r, d)
	}
	if t.validates() {
		t.scans[table] = st.changes[table]
	}
	a.run.touch(a, s, table, false, "not found")
	if s.Missing == "error" {
		a.fail(s, "notfound")
		return moved
	}
	a.bind(s.Bind, &record{fields: map[string]term{"found": falseTerm, "err": nilTerm, "ok": falseTerm}})
	a.pc++
	return moved
}

// got ends a read that found its row.
func (a *actor) got(s *effect.Step, t *tx, r *row, d data) verdict {
	if s.Lock != "" && s.Void == "" && t != nil {
		r.locks[t] = r.locks[t] || s.Lock != "share"
	}
	if t.validates() {
		if _, ok := t.reads[r]; !ok {
			t.reads[r] = t.version(r)
		}
	}
	if s.Fence != nil {
		// A read that carries the token shuts the older holders out, too: without it
		// an old write may still come between this read and the write that follows.
		if n := a.eval(*s.Fence); len(n.parts) == 0 {
			r.fence = max(r.fence, int(n.c))
		}
	}
	if d.torn && s.Op == effect.Read {
		a.run.note(a, s, "reads an empty or cut file")
		a.run.raise(Torn, s, s.On, "a reader gets an empty or cut file")
		return moved
	}
	ver := int64(t.version(r))
	fields := map[string]term{"found": trueTerm, "ok": trueTerm, "err": nilTerm}
	if r.isVersioned() {
		fields["version"] = number(ver)
	}
	rec := &record{row: r, data: d.clone(), fields: fields}
	a.bind(s.Bind, rec)
	a.run.touched(a, s, r.table, false, func() string { return a.describe(s, rec) })
	a.pc++
	return moved
}

func (r *run) raise(k Kind, s *effect.Step, on *effect.Resource, text string) {
	if r.alarm == nil {
		r.alarm = &alarm{kind: k, step: s, on: on, text: text}
	}
}

// aggregate reads a set: a count is computed from the rows that are known, the
// rest is an opaque function of them.
func (a *actor) aggregate(s *effect.Step, t *tx, table string, key []keyTerm) verdict {
	st := a.run.st
	base := "count of " + table
	for _, k := range key {
		base += " " + k.col + "=" + k.val.String()
	}
	n, now := int64(0), []term{}
	for _, r := range st.rows[table] {
		d := r.see(t)
		is := st.matches(a, r, d, key, s.Where)
		was := r.slot != nil && r.slot.exists && st.matches(a, r, data{exists: true}, key, s.Where)
		if is {
			n++
			now = append(now, st.whole(r, d))
		}
		if was {
			n--
		}
	}
	if t.validates() {
		t.scans[table] = st.changes[table]
	}
	v := single(&atom{key: base, kind: inputAtom}).plus(1, number(n))
	if s.Agg != "count" {
		args := []term{single(&atom{key: "rows of " + base[len("count of "):], kind: initialAtom})}
		slices.SortFunc(now, func(x, y term) int { return cmpString(x.String(), y.String()) })
		v = apply(s.Agg, append(args, now...)...)
	}
	fields := map[string]term{"err": nilTerm, s.Agg: v, "value": v}
	if s.Agg == "exists" || s.Agg == "count" {
		fields["found"] = boolean(n > 0 || n == 0 && st.w.ask("any "+base, false))
	}
	a.bind(s.Bind, &record{fields: fields, agg: &v})
	a.run.touch(a, s, table, false, "%s = %s", s.Agg, v)
	a.pc++
	return moved
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// snapshot takes the transaction's snapshot at its first statement.
func (a *actor) snapshot(t *tx) {
	if t == nil || t.snap != nil || t.iso != "repeatable read" && t.iso != "serializable" {
		return
	}
	t.snap = map[*row]seen{}
	for _, rows := range a.run.st.rows {
		for _, r := range rows {
			t.snap[r] = seen{r.cur, r.ver}
		}
	}
}

func (a *actor) guard(s *effect.Step) {
	t := a.tx(s.Tx)
	table, key := a.key(s.On)
	a.run.st.materialise(table, key, true)
	for _, r := range a.run.st.rows[table] {
		if t != nil && a.run.st.matches(a, r, r.cur, key, nil) {
			t.reads[r] = r.ver
		}
	}
	if t != nil {
		t.scans[table] = a.run.st.changes[table]
	}
	a.run.note(a, s, "watches")
}

func (a *actor) begin(s *effect.Step) verdict {
	if a.run.pool > 0 && a.run.openTxs() >= a.run.pool {
		return waits
	}
	iso := s.Iso
	if iso == "" {
		iso = a.run.iso
	}
	t := &tx{name: s.Bind, actor: a, iso: iso, reads: map[*row]int{}, scans: map[string]int{}, begun: s}
	a.txs = append(a.txs, t)
	a.run.st.txs = append(a.run.st.txs, t)
	a.bind(s.Bind, &record{fields: map[string]term{"err": nilTerm}})
	if iso == "" {
		a.run.note(a, s, "begins a transaction")
	} else {
		a.run.note(a, s, "begins a transaction (%s)", iso)
	}
	a.pc++
	return moved
}

func (a *actor) commit(s *effect.Step) verdict {
	t := a.tx(s.Tx)
	if t == nil {
		a.pc++
		return moved
	}
	if !t.valid(a.run.st) {
		a.rollback(t)
		a.run.note(a, s, "refused: serialization failure")
		a.fail(s, "conflict")
		return moved
	}
	a.run.st.apply(t)
	t.end(a.run.st)
	a.run.note(a, s, "committed")
	if s.Bind != "" {
		a.bind(s.Bind, &record{fields: map[string]term{"err": nilTerm, "ok": trueTerm}})
	}
	if f := a.run.fault; f != nil && f.kind == ambiguous && f.step == s && !f.used {
		f.used = true
		a.run.note(a, s, "committed, but the answer is lost: an error")
		a.fail(s, "unknown")
		return moved
	}
	a.pc++
	return moved
}

// valid says whether everything the transaction read is still so.
func (t *tx) valid(st *state) bool {
	if !t.validates() {
		return true
	}
	for r, v := range t.reads {
		if r.ver != v {
			return false
		}
	}
	for table, n := range t.scans {
		if st.changes[table] != n {
			return false
		}
	}
	return true
}

// apply makes the transaction's writes visible.
func (s *state) apply(t *tx) {
	for table, rows := range s.rows {
		for _, r := range rows {
			if r.pendTx == t {
				r.cur, r.pendTx = r.pend, nil
				r.ver++
				s.changes[table]++
			}
		}
	}
}

func (a *actor) rollback(t *tx) {
	for _, rows := range a.run.st.rows {
		for _, r := range rows {
			if r.pendTx == t {
				r.pendTx, r.pend = nil, data{}
			}
		}
	}
	t.end(a.run.st)
}

// end frees what the transaction holds.
func (t *tx) end(s *state) {
	t.closed = true
	for _, rows := range s.rows {
		for _, r := range rows {
			delete(r.locks, t)
		}
	}
	for _, l := range s.locks {
		for holder, h := range l.holders {
			if holder == t.actor && h.step.Tx != "" && h.step.Tx == t.name {
				delete(l.holders, holder)
			}
		}
	}
}

func (a *actor) send(s *effect.Step) verdict {
	if s.Mode == effect.Get {
		a.run.note(a, s, "answered")
		a.ok(s)
		return moved
	}
	sig := string(s.On.Kind) + ":" + s.On.Name
	for _, v := range s.Set {
		sig += " " + v.Col + "=" + a.run.st.w.resolve(a.eval(v.Val)).String()
	}
	for lockName := range a.lost {
		if s.Idem == nil && s.Fence == nil {
			a.run.note(a, s, "sent without holding %s any more", lockName)
			a.run.raise(LostLock, s, s.On, "an effect outside under a lock that another holds")
			return moved
		}
	}
	if s.Idem != nil {
		sig = string(s.On.Kind) + ":" + s.On.Name + " with key " + a.run.st.w.resolve(a.eval(*s.Idem)).String()
		if slices.Contains(a.run.st.sends, sig) {
			a.run.note(a, s, "sent again with the same key: no second effect")
			a.ok(s)
			return moved
		}
	}
	a.run.st.sends = append(a.run.st.sends, sig)
	a.run.touch(a, s, "sent", true, "sent")
	a.ok(s)
	return moved
}

// ok ends a step that succeeded and has nothing to bind but that.
func (a *actor) ok(s *effect.Step) {
	if s.Bind != "" {
		v := a.unknown("answer")
		a.bind(s.Bind, &record{fields: map[string]term{"err": nilTerm, "ok": trueTerm, "value": v}})
	}
	a.pc++
}

func (a *actor) fsync(s *effect.Step) {
	table, key := a.key(s.On)
	if s.On.Kind == effect.DirKind {
		for _, rows := range a.run.st.rows {
			for _, r := range rows {
				r.cur.named = true
			}
		}
		a.run.note(a, s, "folder durable")
		return
	}
	if r := a.opened(table, key); r != nil {
		r.cur.synced = true
	}
	a.run.note(a, s, "content durable")
}

// wait ends when the threads have; a thread that failed fails it, unless its
// errors are dropped.
func (a *actor) wait(s *effect.Step) verdict {
	failed := false
	for _, k := range a.kids {
		if len(s.Args) > 0 && k.childOf != s.Args[0].Name {
			continue
		}
		if !k.done {
			return waits
		}
		failed = failed || k.failed && k.started.OnErr != effect.OnDrop && k.started.OnErr != effect.OnLog
	}
	if failed {
		a.fail(s, "error")
		return moved
	}
	a.pc++
	return moved
}
