package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/store"
)

func both(c store.Capabilities) bool    { return c.Put.CreateOnly && c.Put.IfVersion }
func deletes(c store.Capabilities) bool { return c.Put.CreateOnly && c.Delete.IfVersion }

func sequentialCases() []Case {
	return []Case{
		{Name: "create-only", Needs: both, Check: checkCreateOnly},
		{Name: "if-version", Needs: both, Check: checkIfVersion},
		{Name: "blind write", Check: checkBlind},
		{Name: "conditional delete", Needs: deletes, Check: checkDelete},
		{Name: "missing key", Needs: both, Check: checkMissing},
		{Name: "versions never repeat", Needs: both, Check: checkVersions},
		{Name: "empty version is refused", Check: checkEmptyVersion},
		{Name: "undeclared conditions are refused", Check: checkUndeclared},
		{Name: "values of all kinds", Check: checkValues},
		{Name: "values belong to the caller", Check: checkOwnership},
		{Name: "odd keys", Check: checkOddKeys},
		{Name: "bad keys are refused", Check: checkBadKeys},
		{Name: "listing", Check: checkListing},
		{Name: "ended context", Check: checkEndedContext},
		{Name: "bulk delete", Needs: deletes, Check: checkBulkDelete},
		{Name: "batch", Needs: func(c store.Capabilities) bool { return c.Batch }, Check: checkBatch},
		{Name: "guarded add", Needs: func(c store.Capabilities) bool { return c.Add }, Check: checkAdd},
	}
}

func checkCreateOnly(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("a")
	v, err := s.Put(ctx, key, []byte("one"), store.CreateOnly())
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, key, []byte("two"), store.CreateOnly())
	if bad := wantConflict(err, key, store.CreateOnly()); bad != nil {
		return bad
	}
	var c *store.ConflictError
	if errors.As(err, &c) && c.Found != "" && c.Found != v {
		return fmt.Errorf("the conflict found version %q, the key has %q", c.Found, v)
	}
	return wantValue(ctx, s, key, "one")
}

func checkIfVersion(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("a")
	v1, err := s.Put(ctx, key, []byte("one"), store.CreateOnly())
	if err != nil {
		return err
	}
	item, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	if item.Version != v1 || item.Key != key {
		return fmt.Errorf("get returned key %q version %q, put returned %q for %q", item.Key, item.Version, v1, key)
	}
	v2, err := s.Put(ctx, key, []byte("two"), store.IfVersion(v1))
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, key, []byte("three"), store.IfVersion(v1))
	if bad := wantConflict(err, key, store.IfVersion(v1)); bad != nil {
		return bad
	}
	if err := wantValue(ctx, s, key, "two"); err != nil {
		return err
	}
	_, err = s.Put(ctx, key, []byte("three"), store.IfVersion(v2))
	return err
}

func checkBlind(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("a")
	seen := map[store.Version]bool{}
	for i := range 3 {
		v, err := s.Put(ctx, key, []byte("same"), store.None())
		if err != nil {
			return err
		}
		if v == "" || seen[v] {
			return fmt.Errorf("write %d got version %q, which is empty or was used before", i, v)
		}
		seen[v] = true
	}
	return firstError(
		func() error { return wantValue(ctx, s, key, "same") },
		func() error { return s.Delete(ctx, key, store.None()) },
		func() error { return wantAbsent(ctx, s, key) },
		func() error { return s.Delete(ctx, key, store.None()) },
	)
}

func checkDelete(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("a")
	v1, err := s.Put(ctx, key, []byte("one"), store.CreateOnly())
	if err != nil {
		return err
	}
	v2, err := s.Put(ctx, key, []byte("two"), store.None())
	if err != nil {
		return err
	}
	if bad := wantConflict(s.Delete(ctx, key, store.IfVersion(v1)), key, store.IfVersion(v1)); bad != nil {
		return bad
	}
	if err := wantValue(ctx, s, key, "two"); err != nil {
		return err
	}
	if err := s.Delete(ctx, key, store.IfVersion(v2)); err != nil {
		return err
	}
	if err := wantAbsent(ctx, s, key); err != nil {
		return err
	}
	return wantConflict(s.Delete(ctx, key, store.IfVersion(v2)), key, store.IfVersion(v2))
}

func checkMissing(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("never")
	other, err := s.Put(ctx, p.key("other"), []byte("x"), store.CreateOnly())
	if err != nil {
		return err
	}
	if err := wantAbsent(ctx, s, key); err != nil {
		return err
	}
	_, err = s.Put(ctx, key, []byte("x"), store.IfVersion(other))
	if bad := wantConflict(err, key, store.IfVersion(other)); bad != nil {
		return bad
	}
	return wantAbsent(ctx, s, key)
}

// checkVersions plays A → B → A, and delete → create of the same value: the
// first version must not match again.
func checkVersions(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("a")
	seen := map[store.Version]string{}
	note := func(v store.Version, step string) error {
		if before, used := seen[v]; used {
			return fmt.Errorf("version %q of %s was given before, to %s", v, step, before)
		}
		seen[v] = step
		return nil
	}
	first, err := s.Put(ctx, key, []byte("A"), store.CreateOnly())
	if err != nil {
		return err
	}
	if err := note(first, "the first A"); err != nil {
		return err
	}
	for _, value := range []string{"B", "A"} {
		v, err := s.Put(ctx, key, []byte(value), store.None())
		if err != nil {
			return err
		}
		if err := note(v, value+" again"); err != nil {
			return err
		}
	}
	_, err = s.Put(ctx, key, []byte("C"), store.IfVersion(first))
	if bad := wantConflict(err, key, store.IfVersion(first)); bad != nil {
		return fmt.Errorf("after A, B, A: %w", bad)
	}
	if err := s.Delete(ctx, key, store.None()); err != nil {
		return err
	}
	again, err := s.Put(ctx, key, []byte("A"), store.CreateOnly())
	if err != nil {
		return err
	}
	if err := note(again, "A after delete and create"); err != nil {
		return err
	}
	_, err = s.Put(ctx, key, []byte("C"), store.IfVersion(first))
	if bad := wantConflict(err, key, store.IfVersion(first)); bad != nil {
		return fmt.Errorf("after delete and create: %w", bad)
	}
	return nil
}

func checkEmptyVersion(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("a")
	if _, err := s.Put(ctx, key, []byte("one"), store.None()); err != nil {
		return err
	}
	if _, err := s.Put(ctx, key, []byte("two"), store.IfVersion("")); !errors.Is(err, store.ErrInvalid) {
		return fmt.Errorf("put if-version with an empty version: want an invalid-argument error, got %v", err)
	}
	if err := s.Delete(ctx, key, store.IfVersion("")); !errors.Is(err, store.ErrInvalid) {
		return fmt.Errorf("delete if-version with an empty version: want an invalid-argument error, got %v", err)
	}
	if err := s.Delete(ctx, key, store.CreateOnly()); !errors.Is(err, store.ErrInvalid) {
		return fmt.Errorf("delete create-only: want an invalid-argument error, got %v", err)
	}
	return wantValue(ctx, s, key, "one")
}

func checkUndeclared(ctx context.Context, p *Probe) error {
	s, key, caps := p.Store, p.key("a"), p.Store.Capabilities()
	v, err := s.Put(ctx, key, []byte("one"), store.None())
	if err != nil {
		return err
	}
	refused := func(what string, declared bool, err error) error {
		if !declared && !errors.Is(err, store.ErrUnsupported) {
			return fmt.Errorf("%s is not declared: want a refusal, got %v", what, err)
		}
		return nil
	}
	if !caps.Put.CreateOnly {
		_, err = s.Put(ctx, key, []byte("two"), store.CreateOnly())
		if bad := refused("create-only", false, err); bad != nil {
			return bad
		}
	}
	if !caps.Put.IfVersion {
		_, err = s.Put(ctx, key, []byte("two"), store.IfVersion(v))
		if bad := refused("if-version", false, err); bad != nil {
			return bad
		}
	}
	if !caps.Delete.IfVersion {
		if bad := refused("conditional delete", false, s.Delete(ctx, key, store.IfVersion(v))); bad != nil {
			return bad
		}
	}
	if !caps.Batch {
		_, err := s.Batch(ctx, []store.Op{{Key: key, Value: []byte("two")}})
		if bad := refused("batch", false, err); bad != nil {
			return bad
		}
	}
	if !caps.Add {
		_, _, err := s.Add(ctx, key, 1, 0, 10)
		if bad := refused("add", false, err); bad != nil {
			return bad
		}
	}
	return wantValue(ctx, s, key, "one")
}

func checkValues(ctx context.Context, p *Probe) error {
	s := p.Store
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := 1 << 20
	if limit := s.Capabilities().MaxValueBytes; limit > 0 {
		large = min(large, limit)
		_, err := s.Put(ctx, p.key("over"), make([]byte, limit+1), store.None())
		if !errors.Is(err, store.ErrInvalid) {
			return fmt.Errorf("a value over the declared limit: want an invalid-argument error, got %v", err)
		}
	}
	values := map[string][]byte{
		"nil": nil, "empty": {}, "every byte": every, "large": bytes.Repeat([]byte("0123456789abcdef"), large/16),
		"text": []byte("grüße, 世界 \x00 'quoted' \\ ;--"),
	}
	for name, value := range values {
		if _, err := s.Put(ctx, p.key(name), value, store.None()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		item, err := s.Get(ctx, p.key(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !bytes.Equal(item.Value, value) {
			return fmt.Errorf("%s: %d bytes came back as %d other bytes", name, len(value), len(item.Value))
		}
	}
	return nil
}

func checkOwnership(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("a")
	value := []byte("mine")
	if _, err := s.Put(ctx, key, value, store.None()); err != nil {
		return err
	}
	value[0] = 'X'
	item, err := s.Get(ctx, key)
	if err != nil {
		return err
	}
	if string(item.Value) != "mine" {
		return fmt.Errorf("a change of the slice after the write changed the stored value to %q", item.Value)
	}
	item.Value[0] = 'Y'
	return wantValue(ctx, s, key, "mine")
}

func checkEndedContext(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("a")
	v, err := s.Put(ctx, key, []byte("one"), store.None())
	if err != nil {
		return err
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	expired, cancelExpired := context.WithTimeout(ctx, -1)
	defer cancelExpired()
	for cause, ended := range map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: expired} {
		_, getErr := s.Get(ended, key)
		_, blindErr := s.Put(ended, key, []byte("two"), store.None())
		_, condErr := s.Put(ended, key, []byte("two"), store.IfVersion(v))
		delErr := s.Delete(ended, key, store.None())
		var listErr error
		for _, err := range s.List(ended, store.ListOptions{Prefix: p.Prefix}) {
			listErr = err
		}
		for what, err := range map[string]error{"get": getErr, "blind put": blindErr, "conditional put": condErr, "delete": delErr, "list": listErr} {
			if !errors.Is(err, cause) || errors.Is(err, store.ErrUnknownOutcome) {
				return fmt.Errorf("%s with an ended context: want %v and nothing sent, got %v", what, cause, err)
			}
		}
	}
	return wantValue(ctx, s, key, "one")
}

func checkBulkDelete(ctx context.Context, p *Probe) error {
	s := p.Store
	var ds []store.Deletion
	for i := range 30 {
		key := p.key(fmt.Sprintf("d/%02d", i))
		v, err := s.Put(ctx, key, []byte("x"), store.None())
		if err != nil {
			return err
		}
		switch i % 3 {
		case 0:
			ds = append(ds, store.Deletion{Key: key})
		case 1:
			ds = append(ds, store.Deletion{Key: key, Cond: store.IfVersion(v)})
		case 2:
			if _, err := s.Put(ctx, key, []byte("newer"), store.None()); err != nil {
				return err
			}
			ds = append(ds, store.Deletion{Key: key, Cond: store.IfVersion(v)})
		}
	}
	n, err := s.DeleteMany(ctx, ds)
	if err != nil {
		return err
	}
	if n != 20 {
		return fmt.Errorf("bulk delete says %d keys are gone, 20 should be", n)
	}
	left := 0
	for item, err := range s.List(ctx, store.ListOptions{Prefix: p.key("d/"), Detail: store.Values}) {
		if err != nil {
			return err
		}
		if string(item.Value) != "newer" {
			return fmt.Errorf("%q is left with %q", item.Key, item.Value)
		}
		left++
	}
	if left != 10 {
		return fmt.Errorf("%d keys with a newer version are left, 10 should be", left)
	}
	return nil
}

func checkBatch(ctx context.Context, p *Probe) error {
	s, a, b, c := p.Store, p.key("a"), p.key("b"), p.key("c")
	vs, err := s.Batch(ctx, []store.Op{
		{Key: b, Value: []byte("b1"), Cond: store.CreateOnly()},
		{Key: a, Value: []byte("a1"), Cond: store.CreateOnly()},
	})
	if err != nil {
		return err
	}
	if item, err := s.Get(ctx, b); err != nil || item.Version != vs[0] {
		return fmt.Errorf("after a batch %q has version %q, the batch said %q (%v)", b, item.Version, vs[0], err)
	}
	_, err = s.Batch(ctx, []store.Op{
		{Key: a, Value: []byte("a2"), Cond: store.IfVersion(vs[1])},
		{Key: b, Delete: true, Cond: store.IfVersion(vs[1])},
		{Key: c, Value: []byte("c2")},
	})
	if bad := wantConflict(err, b, store.IfVersion(vs[1])); bad != nil {
		return bad
	}
	return firstError(
		func() error { return wantValue(ctx, s, a, "a1") },
		func() error { return wantValue(ctx, s, b, "b1") },
		func() error { return wantAbsent(ctx, s, c) },
		func() error {
			_, err := s.Batch(ctx, []store.Op{
				{Key: a, Value: []byte("a3"), Cond: store.IfVersion(vs[1])},
				{Key: b, Delete: true, Cond: store.IfVersion(vs[0])},
			})
			return err
		},
		func() error { return wantValue(ctx, s, a, "a3") },
		func() error { return wantAbsent(ctx, s, b) },
		func() error {
			_, err := s.Batch(ctx, []store.Op{{Key: a}, {Key: a}})
			if !errors.Is(err, store.ErrInvalid) {
				return fmt.Errorf("a key twice in a batch: want an invalid-argument error, got %v", err)
			}
			return nil
		},
	)
}

func checkAdd(ctx context.Context, p *Probe) error {
	s, key := p.Store, p.key("n")
	lowest, highest := store.Unbounded()
	add := func(delta, lo, hi, want int64) error {
		sum, v, err := s.Add(ctx, key, delta, lo, hi)
		if err != nil {
			return err
		}
		item, err := s.Get(ctx, key)
		if err != nil {
			return err
		}
		if sum != want || string(item.Value) != fmt.Sprint(want) || item.Version != v {
			return fmt.Errorf("add %d gave %d, version %q; stored %q, version %q; want %d", delta, sum, v, item.Value, item.Version, want)
		}
		return nil
	}
	refuse := func(delta, lo, hi, current int64) error {
		_, _, err := s.Add(ctx, key, delta, lo, hi)
		var out *store.BoundsError
		if !errors.As(err, &out) || out.Current != current {
			return fmt.Errorf("add %d within %d..%d: want a refusal at %d, got %v", delta, lo, hi, current, err)
		}
		return nil
	}
	return firstError(
		func() error { return refuse(-1, 0, 10, 0) },
		func() error { return wantAbsent(ctx, s, key) },
		func() error { return add(5, 0, 10, 5) },
		func() error { return add(5, 0, 10, 10) },
		func() error { return refuse(1, 0, 10, 10) },
		func() error { return add(-10, 0, 10, 0) },
		func() error { return add(math.MaxInt64, lowest, highest, math.MaxInt64) },
		func() error { return refuse(1, lowest, highest, math.MaxInt64) },
		func() error { return add(math.MinInt64, lowest, highest, -1) },
	)
}
