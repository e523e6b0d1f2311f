package play

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/report"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// faultRun is one schedule in which something is done to an actor, and how it
// ended.
type faultRun struct {
	fault    report.Fault
	verdict  oracle.Verdict
	schedule explore.Schedule
	steps    []string
	rows     []report.Row
	outcome  oracle.Outcome
	// mild: the outcome shows in answers only, and not in what is left.
	mild bool
	// over: the actor has no such step.
	over bool
	// held: the actor stood before its next step when the fault came, so that
	// there is a later point as well.
	held bool
}

// driver takes the steps of one such run.
type driver struct {
	explore.Execution
	run *run
	fr  *faultRun
	// torn are the files that did not parse at the moment of the fault.
	torn []string
	// refused says why the application did not start after the fault.
	refused error
	// again is the answer to a request that was sent a second time.
	again *oracle.Response
}

func (d *driver) step(ctx context.Context, actor int) error {
	e, err := d.Step(ctx, actor)
	if err != nil {
		return err
	}
	d.fr.schedule = append(d.fr.schedule, actor)
	d.fr.steps = append(d.fr.steps, e.Step)
	// An answer that is on its way must have come when the fault does.
	return d.run.quiet(ctx, quietLooks)
}

func (d *driver) ready(actor int) bool { return d.Actors()[actor].State == explore.Ready }

// finish lets an actor go on for as long as it can.
func (d *driver) finish(ctx context.Context, actor int) error {
	for d.ready(actor) {
		if err := d.step(ctx, actor); err != nil {
			return err
		}
	}
	return nil
}

// others lets all but one go on for as long as they can.
func (d *driver) others(ctx context.Context, but int) error {
	for i := range d.Actors() {
		if i != but {
			if err := d.finish(ctx, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// playFault plays one fault.
func (p *player) playFault(ctx context.Context, ft report.Fault) (fr *faultRun, err error) {
	p.stage.mayKill(ft.Kind != string(scenario.Pause))
	defer p.stage.mayKill(false)
	x, err := p.stage.Begin(ctx)
	if err != nil {
		return nil, err
	}
	fr = &faultRun{fault: ft}
	d := &driver{Execution: x, run: p.stage.last(), fr: fr}
	err = p.driveFault(ctx, d, ft)
	complete := err == nil && !fr.over
	if endErr := x.End(ctx, complete); endErr != nil && err == nil {
		err = endErr
	}
	if err != nil || fr.over {
		return fr, err
	}
	fr.rows, fr.outcome = d.run.rows, p.stage.left()
	fr.verdict = p.judgeFault(d, ft)
	fr.mild = !slices.ContainsFunc(fr.verdict.Diff, func(d oracle.Difference) bool { return d.Table != "" })
	return fr, nil
}

// driveFault takes the steps around a fault.
func (p *player) driveFault(ctx context.Context, d *driver, ft report.Fault) error {
	v := ft.Actor
	for range ft.After {
		if !d.ready(v) {
			d.fr.over = true
			return nil
		}
		if err := d.step(ctx, v); err != nil {
			return err
		}
	}
	d.fr.held = d.ready(v)
	switch scenario.ScheduleKind(ft.Kind) {
	case scenario.Pause:
		return p.drivePause(ctx, d, v)
	case scenario.Crash:
		return p.driveCrash(ctx, d, ft, false)
	}
	// A retry after a lost answer, or after a crash on the way.
	if !d.fr.held && !ft.Undelivered {
		return p.driveLostAnswer(ctx, d, v)
	}
	return p.driveCrash(ctx, d, ft, true)
}

func (p *player) drivePause(ctx context.Context, d *driver, v int) error {
	if !d.fr.held {
		d.fr.over = true
		return nil
	}
	d.run.addRow(report.Row{Actor: v, Kind: report.RowFault, Step: "is paused for longer than " + p.sc.Pause.String()})
	if err := p.stage.passTime(ctx, p.sc.PauseWaits); err != nil {
		return err
	}
	d.run.expectChange()
	if err := d.others(ctx, v); err != nil {
		return err
	}
	d.run.addRow(report.Row{Actor: v, Kind: report.RowFault, Step: "wakes up"})
	if err := d.finish(ctx, v); err != nil {
		return err
	}
	return d.others(ctx, -1)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// driveCrash kills the actor's process where it stands, or with its next step
// made and its result not delivered, and lets the others go on.
func (p *player) driveCrash(ctx context.Context, d *driver, ft report.Fault, again bool) error {
	v := ft.Actor
	if !d.fr.held {
		d.fr.over = true
		return nil
	}
	if ft.Undelivered {
		if err := d.run.makeUndelivered(ctx, v); err != nil {
			return err
		}
	}
	if err := p.stage.kill(ctx, d.run, v); err != nil {
		return err
	}
	d.run.addRow(report.Row{Actor: v, Kind: report.RowFault, Step: "is killed (kill -9)"})
	var err error
	if d.torn, err = p.stage.tornNow(); err != nil {
		return err
	}
	if p.sc.Pause > 0 {
		// Who breaks locks by their age does so sooner or later.
		if err := p.stage.passTime(ctx, p.sc.PauseWaits); err != nil {
			return err
		}
		d.run.expectChange()
	}
	if d.refused = p.stage.startAgain(ctx, v); d.refused != nil {
		return ctx.Err()
	}
	if again {
		if err := p.sendAgain(ctx, d, v); err != nil {
			return err
		}
	}
	return d.others(ctx, -1)
}

func (p *player) driveLostAnswer(ctx context.Context, d *driver, v int) error {
	d.run.addRow(report.Row{Actor: v, Kind: report.RowFault, Step: "the answer is lost"})
	if err := p.sendAgain(ctx, d, v); err != nil {
		return err
	}
	return d.others(ctx, -1)
}

func (p *player) sendAgain(ctx context.Context, d *driver, v int) error {
	d.run.sendAgain(v)
	if err := d.finish(ctx, v); err != nil {
		return err
	}
	d.again = d.run.actors[v].reply
	return nil
}

// judgeFault says what is wrong with how a run with a fault has ended.
func (p *player) judgeFault(d *driver, ft report.Fault) oracle.Verdict {
	out := p.stage.left()
	name := p.stage.name(ft.Actor)
	retry := ft.Kind == string(scenario.Retry)
	if retry {
		out.Responses[ft.Actor] = &oracle.Response{Err: "the answer was lost"}
	}
	v := p.oracle.Judge(out)
	left := p.stage.leftFiles()
	locks := slices.DeleteFunc(slices.Clone(left), func(s string) bool { return !isLock(s) })
	switch {
	case ft.Kind == string(scenario.Pause):
		return p.judgePause(v, ft)
	case d.refused != nil:
		return special(oracle.ServerError, fmt.Sprintf("the application does not start again after %s was killed: %v", name, firstLine(d.refused)), "refused")
	case !v.OK && len(d.torn) > 0:
		return special(oracle.TornFile, fmt.Sprintf("%s was killed while %s was half written: %s", name, strings.Join(d.torn, " and "), v.Sentence), d.torn...)
	case len(locks) > 0 && (out.Stuck || !v.OK || p.refusedSince(out, ft.Actor)):
		return special(oracle.LeftOver, fmt.Sprintf("%s was killed and leaves %s behind, for which the others wait or are refused ever after", name, strings.Join(locks, " and ")), locks...)
	case !v.OK && !retry && d.run.actors[ft.Actor].reply != nil && p.explainsWithout(out, ft.Actor):
		return special(oracle.LostAcknowledged, fmt.Sprintf("%s had its answer when the process was killed, but its effect is not there", name), "acked")
	case !v.OK && retry:
		return special(oracle.DuplicateEffect, fmt.Sprintf("%s was sent twice, since no answer came, and that shows: %s", name, twice(v)), v.Key)
	case !v.OK:
		return v
	case retry && d.again != nil && d.again.Status > 0 && d.again.Status < 400 && !slices.Contains(v.Order, ft.Actor):
		return special(oracle.LostAcknowledged, fmt.Sprintf("%s was sent again and answered %s, but its effect is not there", name, d.again), "again")
	case len(left) > 0:
		return special(oracle.LeftOver, fmt.Sprintf("%s was killed and leaves %s behind; nothing that came after it, a restart included, removes it", name, strings.Join(left, " and ")), left...)
	}
	return v
}

// twice says where it shows that something was done twice.
func twice(v oracle.Verdict) string {
	for _, d := range v.Diff {
		if d.Table != "" {
			return fmt.Sprintf("%s is %s, and sent once it is %s", d.Label, strings.TrimSpace(d.Observed), strings.TrimSpace(d.Serial))
		}
	}
	return v.Sentence
}

// refusedSince reports whether another actor was refused, as it is in no serial
// order, because of what a killed one has left.
func (p *player) refusedSince(out oracle.Outcome, killed int) bool {
	for i, r := range out.Responses {
		if i != killed && r != nil && (r.Status == 0 || r.Status >= 400) {
			return true
		}
	}
	return false
}

// judgePause names a finding by what the pause did. One in which the paused
// actor's lock was taken away is that of the lock.
func (p *player) judgePause(v oracle.Verdict, ft report.Fault) oracle.Verdict {
	if v.OK {
		return v
	}
	if p.files == nil {
		return v
	}
	if lock := brokenLock(p.files.gate.Log(), p.stage.name(ft.Actor)); lock != "" {
		s := special(oracle.StaleLock, fmt.Sprintf("%s was paused for longer than its lock %s is honoured; another one took the lock, and %s went on as if it still held it: %s",
			p.stage.name(ft.Actor), p.files.gate.StableName(lock), p.stage.name(ft.Actor), v.Sentence), p.files.gate.StableName(lock), string(v.Kind))
		s.Diff = v.Diff
		return s
	}
	return v
}

// special is a verdict that does not come from the oracle.
func special(kind oracle.Kind, sentence string, key ...string) oracle.Verdict {
	h := sha256.Sum256([]byte(string(kind) + "\x00" + strings.Join(key, "\x00")))
	return oracle.Verdict{Kind: kind, Sentence: sentence, Key: hex.EncodeToString(h[:8])}
}

func firstLine(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// kill ends an actor's process, or its instance of the application, at once.
func (f *files) kill(ctx context.Context, r *run, actor int) error {
	sent := r.strike(actor)
	if len(f.who[actor].Run) > 0 {
		f.mu.Lock()
		p := f.programs[actor]
		f.mu.Unlock()
		if p == nil {
			return nil
		}
		if err := p.proc.stop(ctx); err != nil {
			return err
		}
	} else if err := f.services[f.who[actor].Instance].proc.stop(ctx); err != nil {
		return err
	}
	return r.forget(ctx, actor, sent)
}

// startAgain replaces the instance of an actor that was killed.
func (f *files) startAgain(ctx context.Context, actor int) error {
	a := f.who[actor]
	if len(a.Run) > 0 {
		return nil
	}
	f.gate.Hold(false)
	for _, c := range f.services[a.Instance].clients {
		c.Close()
	}
	s, err := f.startService(ctx, a.Instance)
	if s != nil {
		f.services[a.Instance] = s
	}
	if err != nil {
		f.doubt = true
		return err
	}
	for i, c := range s.clients {
		if err := c.Warm(ctx); err != nil {
			return err
		}
		if !f.shared {
			f.gate.Attribute(s.proc.number(), f.name(i))
		}
	}
	f.gate.Hold(true)
	return nil
}
