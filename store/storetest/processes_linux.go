package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/backend"
)

// Processes says how RunProcesses reaches the store.
type Processes struct {
	// URL is what the workers' opener gets. See Main.
	URL string
	// Leftovers, if not nil, is asked after the kills: what a backend leaves
	// behind for good, such as temporary files.
	Leftovers func(ctx context.Context) ([]string, error)
	// Rounds is how often the winner-takes-one cases are repeated; 0 means 20.
	Rounds int
	// Kills is how many writers are killed; 0 means 12.
	Kills int
}

// RunProcesses runs the cases that need several processes, as subtests, with
// workers started from the test binary (see Main). s is the same store as the
// URL names.
func RunProcesses(t *testing.T, s *store.Store, p Processes) {
	t.Helper()
	if p.Rounds == 0 {
		p.Rounds = 20
	}
	if p.Kills == 0 {
		p.Kills = 12
	}
	cases := []struct {
		name  string
		check func(context.Context, *store.Store, Processes, string) error
	}{
		{"one winner across processes", processWinners},
		{"counter across processes", processCounter},
		{"linearizable across processes", processHistory},
		{"kill -9 and SIGSTOP of writers", processKills},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), caseTime)
			defer cancel()
			probe := &Probe{Store: s, Prefix: "storetest-" + backend.NewNonce()[:12] + "/"}
			err := c.check(ctx, s, p, probe.Prefix)
			if err := errors.Join(err, cleanUp(context.WithoutCancel(ctx), probe)); err != nil {
				t.Error(err)
			}
		})
	}
}

func startWorkers(ctx context.Context, url string, n int) ([]*worker, error) {
	workers := make([]*worker, n)
	errs := together(n, func(i int) error {
		var err error
		workers[i], err = startWorker(ctx, url)
		return err
	})
	return workers, errors.Join(errs...)
}

// askAll gives all workers a command at the same time.
func askAll(workers []*worker, c func(i int) command) ([]reply, error) {
	replies := make([]reply, len(workers))
	errs := together(len(workers), func(i int) error {
		var err error
		replies[i], err = workers[i].ask(c(i))
		return err
	})
	return replies, errors.Join(errs...)
}

func endAll(workers []*worker) error {
	errs := make([]error, len(workers))
	for i, w := range workers {
		if w != nil {
			errs[i] = w.end()
		}
	}
	return errors.Join(errs...)
}

// processWinners lets 4 processes with 8 goroutines each fight for one key:
// to create it, to replace one version of it, to delete one version of it.
func processWinners(ctx context.Context, s *store.Store, p Processes, prefix string) (err error) {
	workers, err := startWorkers(ctx, p.URL, 4)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endAll(workers)) }()
	fight := func(c command) error {
		c.N = contenders / len(workers)
		replies, err := askAll(workers, func(int) command { return c })
		if err != nil {
			return err
		}
		wins, conflicts := 0, 0
		for _, r := range replies {
			wins += r.Wins
			conflicts += r.Conflicts
		}
		if wins != 1 || conflicts != contenders-1 {
			return fmt.Errorf("%s of %q version %q: %d winners and %d conflicts among %d", c.Do, c.Key, c.Version, wins, conflicts, contenders)
		}
		return nil
	}
	for round := range p.Rounds {
		key := fmt.Sprintf("%swin/%d", prefix, round)
		if err := fight(command{Do: "put", Key: key}); err != nil {
			return err
		}
		for _, do := range []string{"put", "delete"} {
			item, err := s.Get(ctx, key)
			if err != nil {
				return err
			}
			if err := fight(command{Do: do, Key: key, Version: string(item.Version)}); err != nil {
				return err
			}
		}
		if err := wantAbsent(ctx, s, key); err != nil {
			return err
		}
	}
	return nil
}

// processCounter is the compare-and-set counter by 8 processes × 25.
func processCounter(ctx context.Context, s *store.Store, p Processes, prefix string) (err error) {
	const processes, each = 8, 25
	workers, err := startWorkers(ctx, p.URL, processes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endAll(workers)) }()
	if _, err := askAll(workers, func(int) command { return command{Do: "count", Key: prefix + "n", N: each} }); err != nil {
		return err
	}
	return wantValue(ctx, s, prefix+"n", strconv.Itoa(processes*each))
}

// processHistory has 4 processes make random operations on 2 keys while one of
// them is stopped and continued and another is killed, and checks that one
// order explains all answers.
func processHistory(ctx context.Context, s *store.Store, p Processes, prefix string) error {
	workers, err := startWorkers(ctx, p.URL, 4)
	if err != nil {
		return err
	}
	const operations = 150
	keys := []string{prefix + "h/1", prefix + "h/2"}
	for i, w := range workers {
		n := operations
		if i == 1 {
			// More than it can do before it is killed.
			n = 100_000
		}
		if err := w.tell(command{Do: "history", Keys: keys, N: n, Worker: i}); err != nil {
			return err
		}
		w.listen()
	}
	for n := range 3 {
		if err := stopFor(ctx, workers[0], 10*time.Millisecond); err != nil {
			return err
		}
		if n == 0 {
			workers[1].kill()
		}
	}
	var records []Record
	for i, w := range workers {
		if i != 1 {
			if err := w.end(); err != nil {
				return fmt.Errorf("worker %d: %w", i, err)
			}
		}
		records = append(records, recordsOf(w)...)
	}
	answered := 0
	for _, r := range records {
		if r.Return != 0 && r.Outcome != "failed" {
			answered++
		}
	}
	if answered < 3*operations {
		return fmt.Errorf("%d operations were answered, at least %d were due", answered, 3*operations)
	}
	return CheckHistory(records)
}

// recordsOf joins each announcement with its answer; one without an answer
// stays as it is.
func recordsOf(w *worker) []Record {
	var records []Record
	for _, r := range w.replies {
		if r.Record == nil {
			continue
		}
		if n := len(records); r.Record.Return != 0 && n > 0 && records[n-1].Return == 0 {
			records[n-1] = *r.Record
			continue
		}
		records = append(records, *r.Record)
	}
	return records
}

// stopFor stops a process for d and lets it go on for as long.
func stopFor(ctx context.Context, w *worker, d time.Duration) error {
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGCONT} {
		if err := w.cmd.Process.Signal(sig); err != nil {
			return err
		}
		if err := pause(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// pause is the schedule of the kills and stops, not a synchronisation: where
// it hits a writer is random on purpose.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// processKills keeps 4 writers busy, kills one after the other in the middle
// of its writes and stops others for a while. Then every acknowledged write
// must be there, no unacknowledged one may be there in part, and the shared
// counter must lie between its acknowledged and its attempted increments.
func processKills(ctx context.Context, s *store.Store, p Processes, prefix string) error {
	const writers = 4
	var all []*worker
	start := func() (*worker, error) {
		w, err := startWorker(ctx, p.URL)
		if err != nil {
			return nil, err
		}
		number := len(all)
		all = append(all, w)
		if err := w.tell(command{Do: "load", Key: prefix, Worker: number}); err != nil {
			return nil, err
		}
		w.listen()
		return w, nil
	}
	var running []*worker
	for range writers {
		w, err := start()
		if err != nil {
			return err
		}
		running = append(running, w)
	}
	for n := range p.Kills {
		if err := pause(ctx, time.Duration(rand.IntN(30))*time.Millisecond); err != nil {
			return err
		}
		if err := stopFor(ctx, running[(n+1)%writers], time.Duration(5+rand.IntN(15))*time.Millisecond); err != nil {
			return err
		}
		running[n%writers].kill()
		w, err := start()
		if err != nil {
			return err
		}
		running[n%writers] = w
	}
	if err := pause(ctx, 50*time.Millisecond); err != nil {
		return err
	}
	if err := endAll(running); err != nil {
		return err
	}
	if err := verifyLoad(ctx, s, prefix, all); err != nil {
		return err
	}
	if p.Leftovers == nil {
		return nil
	}
	left, err := p.Leftovers(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%d things are left behind for good: %.200q", len(left), left)
	}
	return err
}

func verifyLoad(ctx context.Context, s *store.Store, prefix string, all []*worker) error {
	tried, acked := 0, 0
	for number, w := range all {
		last := map[string]int{}
		ackedOf := map[string]int{}
		for _, r := range w.replies {
			switch {
			case r.Err != "":
				return fmt.Errorf("writer %d: %s", number, r.Err)
			case r.Try != "":
				last[r.Try] = r.Seq
			case r.Ack != "":
				ackedOf[r.Ack] = r.Seq
			}
		}
		tried += last["shared"]
		acked += ackedOf["shared"]
		for n := 1; n <= ackedOf["own"]; n++ {
			if err := wantValue(ctx, s, ownKey(prefix, number, n), strconv.Itoa(n)); err != nil {
				return fmt.Errorf("writer %d, acknowledged key %d: %w", number, n, err)
			}
		}
		if err := verifyChain(ctx, s, prefix, number, ackedOf["chain"], last["chain"]); err != nil {
			return err
		}
	}
	if acked == 0 {
		return errors.New("no increment was acknowledged: the load did not run")
	}
	item, err := s.Get(ctx, prefix+"shared")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(item.Value))
	if err != nil {
		return err
	}
	if n < acked || n > tried {
		return fmt.Errorf("the shared counter is %d after %d acknowledged and %d attempted increments", n, acked, tried)
	}
	return nil
}

func verifyChain(ctx context.Context, s *store.Store, prefix string, number, acked, tried int) error {
	item, err := s.Get(ctx, chainKey(prefix, number))
	if errors.Is(err, store.ErrNotFound) && acked == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writer %d after %d acknowledged replacements: %w", number, acked, err)
	}
	n := binary.BigEndian.Uint64(item.Value)
	if string(tearable(n)) != string(item.Value) {
		return fmt.Errorf("writer %d left a torn value of %d bytes", number, len(item.Value))
	}
	if int(n) < acked || int(n) > tried {
		return fmt.Errorf("writer %d: replacement %d is stored, %d were acknowledged and %d attempted", number, n, acked, tried)
	}
	return nil
}
