package play

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"syscall"

	"github.com/holdfast-dev/holdfast/play/app"
	"github.com/holdfast-dev/holdfast/play/gate/file"
	"github.com/holdfast-dev/holdfast/play/oracle"
	"github.com/holdfast-dev/holdfast/play/scenario"
)

// guarded is a process behind the file gate.
type guarded struct {
	*app.Process
	in *file.Instance
}

func (g *guarded) number() int { return g.in.Number() }

// launch starts a program behind the gate. known is told of it before its first
// step can come.
func launch(ctx context.Context, g *file.Gate, o app.Options, known func(instance int)) (*guarded, error) {
	in, err := g.Add(o.Command, 3)
	if err != nil {
		return nil, err
	}
	known(in.Number())
	o.Command, o.Files = in.Command(), in.Files()
	p, err := app.Start(ctx, o)
	if err := in.Started(ctx, err); err != nil {
		if p != nil {
			p.Kill()
			err = errors.Join(err, p.Stop(ctx))
		}
		return nil, err
	}
	return &guarded{p, in}, nil
}

// stop ends the process and waits until the gate has heard of it.
func (g *guarded) stop(ctx context.Context) error {
	// Nothing that it could do on its way out is of interest, and the next run
	// must not wait for it.
	g.Kill()
	if err := g.Process.Stop(ctx); err != nil {
		return err
	}
	return g.gone(ctx)
}

// gone waits until no process of the program is left.
func (g *guarded) gone(ctx context.Context) error {
	select {
	case <-g.in.Ended():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// program is a program that an actor runs.
type program struct {
	proc *guarded
	out  bytes.Buffer
}

// runProgram runs an actor's program to its end.
func (f *files) runProgram(ctx context.Context, actor int) oracle.Response {
	p, err := f.startProgram(ctx, actor)
	if err != nil {
		return oracle.Response{Program: true, Err: err.Error()}
	}
	select {
	case <-p.proc.Exited():
	case <-ctx.Done():
		return oracle.Response{Program: true, Err: "it was given up"}
	}
	if err := p.proc.gone(ctx); err != nil {
		return oracle.Response{Program: true, Err: "it was given up"}
	}
	return p.response()
}

func (f *files) startProgram(ctx context.Context, actor int) (*program, error) {
	a := f.who[actor]
	words, err := a.Run.Expand(f.base)
	if err != nil {
		return nil, err
	}
	p := &program{}
	o := app.Options{Command: words, Dir: f.sc.Dir, Instance: actor, Output: f.output, Stdout: &p.out, Logger: f.log}
	if o.Env, err = scenario.Environment(a.Env, f.base); err != nil {
		return nil, err
	}
	p.proc, err = launch(ctx, f.gate, o, func(instance int) {
		f.gate.Attribute(instance, f.name(actor))
		f.owns(instance, actor)
	})
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.programs[actor] = p
	return p, nil
}

// owns notes whose steps come from an instance.
func (f *files) owns(instance, actor int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owners[instance] = actor
}

// running are the programs of the run.
func (f *files) running() []*program {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.programs))
}

// endPrograms kills the programs of a run that has ended.
func (f *files) endPrograms(ctx context.Context) error {
	var errs []error
	for _, p := range f.running() {
		errs = append(errs, p.proc.stop(ctx))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.programs)
	return errors.Join(errs...)
}

// response is a program's end as an answer.
func (p *program) response() oracle.Response {
	r := oracle.Response{Program: true, Status: 200, Body: p.out.String(), ContentType: "text/plain"}
	e := p.proc.ExitError()
	var exit *exec.ExitError
	if !errors.As(e.Err, &exit) {
		return r
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return oracle.Response{Program: true, Err: "killed by a signal: " + ws.Signal().String()}
	}
	r.Exit, r.Status = exit.ExitCode(), 500
	if r.Exit == exitTempFail {
		r.Status = 503
	}
	return r
}

// exitTempFail is EX_TEMPFAIL of sysexits.h: nothing was done, try again.
const exitTempFail = 75
