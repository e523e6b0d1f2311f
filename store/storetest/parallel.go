package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// contenders is how many goroutines fight for one key.
const contenders = 32

func parallelCases() []Case {
	return []Case{
		{Name: "32 create-only have one winner", Needs: both, Check: checkParallelCreate},
		{Name: "32 if-version have one winner", Needs: both, Check: checkParallelIfVersion},
		{Name: "32 conditional deletes have one winner", Needs: deletes, Check: checkParallelDelete},
		{Name: "delete and replace of one version have one winner", Needs: deletes, Check: checkDeleteAgainstReplace},
		{Name: "compare-and-set counter", Needs: both, Check: checkCounter},
		{Name: "guarded stock", Needs: func(c store.Capabilities) bool { return c.Add }, Check: checkStock},
		{Name: "no torn read under a writer", Check: checkTornReads},
		{Name: "listing under writes", Check: checkListingUnderWrites},
		{Name: "watch", Check: checkWatch},
		{Name: "linearizable history", Needs: deletes, Check: checkHistory},
	}
}

// together runs n goroutines that start as close to each other as can be had
// and returns their errors by number.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var ready, wg sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		wg.Go(func() {
			ready.Done()
			<-start
			errs[i] = f(i)
		})
	}
	ready.Wait()
	close(start)
	wg.Wait()
	return errs
}

// oneWinner says how errs is not one success and conflicts for the rest.
func oneWinner(errs []error) (winner int, err error) {
	winner = -1
	for i, e := range errs {
		switch {
		case e == nil && winner >= 0:
			return 0, fmt.Errorf("contenders %d and %d both won", winner, i)
		case e == nil:
			winner = i
		case !errors.Is(e, store.ErrConflict):
			return 0, fmt.Errorf("contender %d: neither won nor conflict: %w", i, e)
		}
	}
	if winner < 0 {
		return 0, fmt.Errorf("nobody won; the first lost with: %w", errs[0])
	}
	return winner, nil
}

func checkParallelCreate(ctx context.Context, p *Probe) error {
	for round := range p.Rounds {
		key := p.key(fmt.Sprintf("create/%d", round))
		errs := together(contenders, func(i int) error {
			_, err := p.Store.Put(ctx, key, []byte(strconv.Itoa(i)), store.CreateOnly())
			return err
		})
		winner, err := oneWinner(errs)
		if err == nil {
			err = wantValue(ctx, p.Store, key, strconv.Itoa(winner))
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func checkParallelIfVersion(ctx context.Context, p *Probe) error {
	key := p.key("a")
	v, err := p.Store.Put(ctx, key, []byte("start"), store.CreateOnly())
	if err != nil {
		return err
	}
	for round := range p.Rounds {
		versions := make([]store.Version, contenders)
		errs := together(contenders, func(i int) error {
			var err error
			versions[i], err = p.Store.Put(ctx, key, []byte(strconv.Itoa(i)), store.IfVersion(v))
			return err
		})
		winner, err := oneWinner(errs)
		if err == nil {
			err = wantValue(ctx, p.Store, key, strconv.Itoa(winner))
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		v = versions[winner]
	}
	return nil
}

func checkParallelDelete(ctx context.Context, p *Probe) error {
	for round := range p.Rounds {
		key := p.key(fmt.Sprintf("delete/%d", round))
		v, err := p.Store.Put(ctx, key, []byte("x"), store.CreateOnly())
		if err != nil {
			return err
		}
		errs := together(contenders, func(int) error { return p.Store.Delete(ctx, key, store.IfVersion(v)) })
		_, err = oneWinner(errs)
		if err == nil {
			err = wantAbsent(ctx, p.Store, key)
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// checkDeleteAgainstReplace is the shape of a cleaner against an owner: both
// saw the same version, one of them must lose.
func checkDeleteAgainstReplace(ctx context.Context, p *Probe) error {
	for round := range p.Rounds {
		key := p.key(fmt.Sprintf("owner/%d", round))
		v, err := p.Store.Put(ctx, key, []byte("x"), store.CreateOnly())
		if err != nil {
			return err
		}
		errs := together(contenders/4, func(i int) error {
			if i%2 == 0 {
				return p.Store.Delete(ctx, key, store.IfVersion(v))
			}
			_, err := p.Store.Put(ctx, key, []byte("y"), store.IfVersion(v))
			return err
		})
		winner, err := oneWinner(errs)
		if err == nil && winner%2 == 0 {
			err = wantAbsent(ctx, p.Store, key)
		} else if err == nil {
			err = wantValue(ctx, p.Store, key, "y")
		}
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

// increment adds one to the decimal counter at key by compare-and-set.
func increment(ctx context.Context, s *store.Store, key string) error {
	_, err := s.Update(ctx, key, store.Retry{Attempts: store.UntilDeadline, Cap: 20 * time.Millisecond}, func(item store.Item, exists bool) ([]byte, error) {
		n := 0
		if exists {
			var err error
			if n, err = strconv.Atoi(string(item.Value)); err != nil {
				return nil, err
			}
		}
		return []byte(strconv.Itoa(n + 1)), nil
	})
	return err
}

func checkCounter(ctx context.Context, p *Probe) error {
	const writers, each = 8, 25
	key := p.key("counter")
	errs := together(writers, func(int) error {
		for range each {
			if err := increment(ctx, p.Store, key); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return wantValue(ctx, p.Store, key, strconv.Itoa(writers*each))
}

func checkStock(ctx context.Context, p *Probe) error {
	const stock = 20
	key := p.key("stock")
	if _, _, err := p.Store.Add(ctx, key, stock, 0, stock); err != nil {
		return err
	}
	var sold atomic.Int64
	errs := together(contenders, func(int) error {
		_, _, err := p.Store.Add(ctx, key, -1, 0, stock)
		var out *store.BoundsError
		if errors.As(err, &out) {
			return nil
		}
		if err == nil {
			sold.Add(1)
		}
		return err
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if sold.Load() != stock {
		return fmt.Errorf("%d of a stock of %d were sold", sold.Load(), stock)
	}
	return wantValue(ctx, p.Store, key, "0")
}

// tearable is a value whose halves belong together: the number, then the
// number's low byte repeated, in a length that depends on the number.
func tearable(n uint64) []byte {
	b := make([]byte, 8, 8+64<<10)
	binary.BigEndian.PutUint64(b, n)
	return append(b, bytes.Repeat([]byte{byte(n)}, 1+int(n%7)*9000)...)
}

// pairing is a version and the write that a read found under it.
type pairing struct {
	version store.Version
	write   uint64
}

// readPairings reads until done: each read is exactly one write, and the
// numbers never go back.
func readPairings(ctx context.Context, s *store.Store, key string, done <-chan struct{}) ([]pairing, error) {
	var pairs []pairing
	for last := uint64(0); ; {
		item, err := s.Get(ctx, key)
		if err != nil {
			return pairs, err
		}
		if len(item.Value) < 8 || !bytes.Equal(item.Value, tearable(binary.BigEndian.Uint64(item.Value))) {
			return pairs, fmt.Errorf("torn read of %d bytes", len(item.Value))
		}
		n := binary.BigEndian.Uint64(item.Value)
		if n < last {
			return pairs, fmt.Errorf("read write %d after write %d", n, last)
		}
		last = n
		pairs = append(pairs, pairing{item.Version, n})
		select {
		case <-done:
			return pairs, nil
		default:
		}
	}
}

// checkTornReads reads while a writer replaces values of different lengths:
// each read is exactly one write, with that write's version.
func checkTornReads(ctx context.Context, p *Probe) error {
	const writes, readers = 120, 4
	key := p.key("torn")
	v, err := p.Store.Put(ctx, key, tearable(0), store.None())
	if err != nil {
		return err
	}
	versions := map[store.Version]uint64{v: 0}
	done := make(chan struct{})
	pairs, errs := make([][]pairing, readers), make([]error, readers)
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() { pairs[r], errs[r] = readPairings(ctx, p.Store, key, done) })
	}
	var writeErr error
	for n := uint64(1); n <= writes && writeErr == nil; n++ {
		v, writeErr = p.Store.Put(ctx, key, tearable(n), store.None())
		versions[v] = n
	}
	close(done)
	wg.Wait()
	if err := errors.Join(append(errs, writeErr)...); err != nil {
		return err
	}
	for _, list := range pairs {
		for _, pair := range list {
			if n, known := versions[pair.version]; !known || n != pair.write {
				return fmt.Errorf("a read paired version %q with write %d; the version belongs to write %d (known: %t)", pair.version, pair.write, n, known)
			}
		}
	}
	return nil
}

// checkListingUnderWrites lists while other keys between them come and go:
// the resident keys are in every listing, once, in order.
func checkListingUnderWrites(ctx context.Context, p *Probe) error {
	const residents, listings = 40, 12
	for i := range residents {
		if _, err := p.Store.Put(ctx, p.key(fmt.Sprintf("l/%03d", i*10)), []byte("r"), store.None()); err != nil {
			return err
		}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	var churnErr error
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			key := p.key(fmt.Sprintf("l/%03d", (i*37)%(residents*10)/10*10+1+i%9))
			_, err := p.Store.Put(ctx, key, []byte("c"), store.None())
			if err == nil && i%3 != 0 {
				err = p.Store.Delete(ctx, key, store.None())
			}
			if err != nil {
				churnErr = err
				return
			}
		}
	})
	check := func() error {
		next, last := 0, ""
		for item, err := range p.Store.List(ctx, store.ListOptions{Prefix: p.key("l/"), Detail: store.Values, PageSize: 7}) {
			if err != nil {
				return err
			}
			if item.Key <= last {
				return fmt.Errorf("%q is listed after %q", item.Key, last)
			}
			last = item.Key
			if string(item.Value) == "r" {
				if want := p.key(fmt.Sprintf("l/%03d", next*10)); item.Key != want {
					return fmt.Errorf("resident %q is missing, %q came", want, item.Key)
				}
				next++
			}
		}
		if next != residents {
			return fmt.Errorf("%d of %d residents were listed", next, residents)
		}
		return nil
	}
	var err error
	for range listings {
		if err = check(); err != nil {
			break
		}
	}
	close(done)
	wg.Wait()
	return errors.Join(err, churnErr)
}

// checkWatch writes until the watch has seen a write, a replacement and a
// deletion. It writes again and again because a watch promises only what
// happens after it has begun, and a test can not see when that is.
func checkWatch(ctx context.Context, p *Probe) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var sawPut, sawDelete atomic.Bool
	watched := make(chan error, 1)
	go func() {
		for ev, err := range p.Store.Watch(ctx, p.key("w/")) {
			if err != nil {
				watched <- err
				return
			}
			if ev.Key != p.key("w/a") {
				watched <- fmt.Errorf("event for %q, which is not watched", ev.Key)
				return
			}
			if ev.Deleted {
				sawDelete.Store(true)
			} else if string(ev.Value) == "x" && ev.Version != "" {
				sawPut.Store(true)
			}
			if sawPut.Load() && sawDelete.Load() {
				watched <- nil
				return
			}
		}
		watched <- errors.New("the watch ended by itself")
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		// Write until a write was seen, then delete until that was seen: a
		// polling watch may miss a key that comes and goes between two looks.
		var err error
		if !sawPut.Load() || sawDelete.Load() {
			_, err = p.Store.Put(ctx, p.key("w/a"), []byte("x"), store.None())
		} else {
			err = p.Store.Delete(ctx, p.key("w/a"), store.None())
		}
		if err == nil {
			_, err = p.Store.Put(ctx, p.key("elsewhere"), []byte("x"), store.None())
		}
		select {
		case result := <-watched:
			return result
		case <-tick.C:
		}
		if err != nil {
			cancel()
			<-watched
			return err
		}
	}
}
