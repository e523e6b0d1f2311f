package app

import (
	"context"
	"fmt"
	"strings"
)

// BuildError says that the build command failed.
type BuildError struct {
	Command []string
	Dir     string
	// Err is what became of it (*exec.ExitError), or the end of the context.
	Err error
	// Tail are its last lines of output, 100 at most.
	Tail []string
}

func (e *BuildError) Error() string {
	where := ""
	if e.Dir != "" {
		where = " in " + e.Dir
	}
	return fmt.Sprintf("build with %s%s: %v%s", strings.Join(e.Command, " "), where, e.Err, quoteTail(e.Tail, 40))
}

func (e *BuildError) Unwrap() error { return e.Err }

// Build runs the command that makes the application and waits for it. When ctx
// ends, its process group is killed. env is on top of the caller's environment.
// The error is a *[BuildError] or, where the command can not be run, a
// *[StartError].
func Build(ctx context.Context, words []string, dir string, env []string) error {
	p, err := Start(ctx, Options{Command: words, Dir: dir, Env: env})
	if err != nil {
		return err
	}
	var cause error
	select {
	case <-p.Exited():
	case <-ctx.Done():
		cause = context.Cause(ctx)
		p.Kill()
		<-p.Exited()
	}
	if cause == nil {
		cause = p.ExitError().Err
	}
	if cause == nil {
		return nil
	}
	return &BuildError{Command: words, Dir: dir, Err: cause, Tail: p.Tail()}
}
