// Package storetest checks that a backend keeps the contract of package store.
//
// Every backend of Holdfast passes it, and users run it on theirs:
//
//	func TestMain(m *testing.M) { storetest.Main(m, openMine) }
//
//	func TestConformance(t *testing.T) {
//		s, _ := openMine(t.Context(), url)
//		storetest.Run(t, s)
//		storetest.RunProcesses(t, storetest.Processes{URL: url})
//	}
//
// A case is a function that returns an error, so that the suite can be run on
// deliberately broken backends as well: this package's own tests do that for
// every kind of defect, which shows that each case can fail. What passing
// means: the cases looked for a violation with real parallelism and did not
// see one. They can not show that there is none.
//
// All keys are under a fresh random prefix and are removed at the end.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// Probe is what a case works on.
type Probe struct {
	Store *store.Store
	// Prefix starts every key that the case may use.
	Prefix string
	// Rounds is how often the winner-takes-one cases are repeated.
	Rounds int
}

// key returns a key of the case.
func (p *Probe) key(name string) string { return p.Prefix + name }

// Case is one property of the contract.
type Case struct {
	Name string
	// Needs says whether the case applies; nil means always.
	Needs func(store.Capabilities) bool
	Check func(ctx context.Context, p *Probe) error
}

// Cases returns the cases that run in one process: first the sequential ones,
// then those that need parallelism to fail.
func Cases() []Case {
	return append(sequentialCases(), parallelCases()...)
}

// Run runs the cases as subtests on s. s stays open.
func Run(t *testing.T, s *store.Store) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if c.Needs != nil && !c.Needs(s.Capabilities()) {
				t.Skipf("the %s backend does not declare this", s.Capabilities().Name)
			}
			if err := RunCase(t.Context(), s, c); err != nil {
				t.Error(err)
			}
		})
	}
}

// caseTime bounds one case; a backend that hangs fails instead of stopping the
// run.
const caseTime = 2 * time.Minute

// RunCase runs one case under a fresh prefix of s and removes its keys.
func RunCase(ctx context.Context, s *store.Store, c Case) error {
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	p := &Probe{Store: s, Prefix: "storetest-" + backend.NewNonce()[:12] + "/", Rounds: 20}
	err := c.Check(ctx, p)
	return errors.Join(err, cleanUp(context.WithoutCancel(ctx), p))
}

func cleanUp(ctx context.Context, p *Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var gone []store.Deletion
	for item, err := range p.Store.List(ctx, store.ListOptions{Prefix: p.Prefix}) {
		if errors.Is(err, store.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
		gone = append(gone, store.Deletion{Key: item.Key})
	}
	if _, err := p.Store.DeleteMany(ctx, gone); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// wantConflict says how err is not the conflict that key and wanted call for.
func wantConflict(err error, key string, wanted store.Condition) error {
	var c *store.ConflictError
	switch {
	case err == nil:
		return fmt.Errorf("%q with condition %s took effect, a conflict is due", key, wanted)
	case !errors.As(err, &c):
		return fmt.Errorf("%q with condition %s: a conflict is due, got %w", key, wanted, err)
	case c.Key != key || c.Wanted != wanted:
		return fmt.Errorf("the conflict names %q and %s instead of %q and %s", c.Key, c.Wanted, key, wanted)
	}
	return nil
}

// wantValue reads key and compares.
func wantValue(ctx context.Context, s *store.Store, key, value string) error {
	item, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	if string(item.Value) != value {
		return fmt.Errorf("%q holds %.60q, want %.60q", key, item.Value, value)
	}
	return nil
}

// wantAbsent reads key and demands a not-found.
func wantAbsent(ctx context.Context, s *store.Store, key string) error {
	item, err := s.Get(ctx, key)
	if err == nil {
		return fmt.Errorf("%q holds %.60q, it should be absent", key, item.Value)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%q should be absent, got: %w", key, err)
	}
	return nil
}

// firstError returns the first error of steps run in order.
func firstError(steps ...func() error) error {
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}
