package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// oddKeys are names that a file system, a URL, a SQL pattern or a collation
// would treat specially, in byte order; together with their neighbours.
func oddKeys() []string {
	long := strings.Repeat("k", 200)
	keys := []string{
		" ", " leading", "!", "#hash", "$dollar", "%", "%25", "%2F", "'quote", "*", "+", "+a", "-dash", ".", "..", "../up", "./here",
		"/", "//", "//x", "/x", "A", "AUX", "B", "Z", "_", "_x", "a", "a b", "a-", "a-b", "a.", "a.b", "a/", "a/.", "a/..", "a//b", "a/b", "a/b/c", "a0",
		"a\\b", "aA", "aa", long, long + "/", long + "/x", long + "0", long + long, "~", "~tmp", "é", "Ω", "世界", "😀",
	}
	slices.Sort(keys)
	return keys
}

func checkOddKeys(ctx context.Context, p *Probe) error {
	s, keys := p.Store, oddKeys()
	for _, k := range keys {
		if _, err := s.Put(ctx, p.key(k), []byte("value of "+k), store.CreateOnly()); err != nil {
			return fmt.Errorf("key %q: %w", k, err)
		}
	}
	for _, k := range keys {
		if err := wantValue(ctx, s, p.key(k), "value of "+k); err != nil {
			return err
		}
	}
	i := 0
	for item, err := range s.List(ctx, store.ListOptions{Prefix: p.Prefix, Detail: store.Values, PageSize: 5}) {
		if err != nil {
			return err
		}
		if i == len(keys) || item.Key != p.key(keys[i]) {
			return fmt.Errorf("listing position %d holds %q, want key %q", i, item.Key, append(keys, "the end")[i])
		}
		if string(item.Value) != "value of "+keys[i] || item.Version == "" {
			return fmt.Errorf("listing of %q carries value %.40q and version %q", item.Key, item.Value, item.Version)
		}
		i++
	}
	if i != len(keys) {
		return fmt.Errorf("the listing has %d keys, %d were written", i, len(keys))
	}
	for _, k := range keys {
		if err := s.Delete(ctx, p.key(k), store.None()); err != nil {
			return err
		}
		if err := wantAbsent(ctx, s, p.key(k)); err != nil {
			return err
		}
	}
	return nil
}

func checkBadKeys(ctx context.Context, p *Probe) error {
	for _, key := range []string{"", "a\x00b", "a\nb", "a\x7f", "\xff\xfe", "cut \xe4\xb8", strings.Repeat("x", 513)} {
		_, putErr := p.Store.Put(ctx, key, nil, store.None())
		_, getErr := p.Store.Get(ctx, key)
		delErr := p.Store.Delete(ctx, key, store.None())
		for what, err := range map[string]error{"put": putErr, "get": getErr, "delete": delErr} {
			if !errors.Is(err, store.ErrInvalid) {
				return fmt.Errorf("%s of key %.20q (%d bytes): want an invalid-argument error, got %v", what, key, len(key), err)
			}
		}
	}
	return nil
}

func checkListing(ctx context.Context, p *Probe) error {
	s := p.Store
	for i := range 50 {
		if _, err := s.Put(ctx, p.key(fmt.Sprintf("item/%02d", i)), []byte{byte(i)}, store.None()); err != nil {
			return err
		}
	}
	for _, k := range []string{"item", "item0", "items/1", "iten", "it_m/x", "it%m/x"} {
		if _, err := s.Put(ctx, p.key(k), []byte(k), store.None()); err != nil {
			return err
		}
	}
	expect := func(opts store.ListOptions, want ...string) error {
		after := opts.After
		opts.Prefix = p.key(opts.Prefix)
		if after != "" {
			opts.After = p.key(after)
		}
		var got []string
		for item, err := range s.List(ctx, opts) {
			if err != nil {
				return err
			}
			got = append(got, strings.TrimPrefix(item.Key, p.Prefix))
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			return fmt.Errorf("list %q after %q: got %v, want %v", opts.Prefix, after, got, want)
		}
		return nil
	}
	var numbered []string
	for i := range 50 {
		numbered = append(numbered, fmt.Sprintf("item/%02d", i))
	}
	return firstError(
		func() error { return expect(store.ListOptions{Prefix: "item/", PageSize: 7}, numbered...) },
		func() error {
			return expect(store.ListOptions{Prefix: "item/", After: "item/41", PageSize: 3}, numbered[42:]...)
		},
		func() error { return expect(store.ListOptions{Prefix: "item/", After: "item/415"}, numbered[42:]...) },
		func() error { return expect(store.ListOptions{Prefix: "item/4"}, numbered[40:]...) },
		func() error { return expect(store.ListOptions{Prefix: "item", After: "item/49"}, "item0", "items/1") },
		func() error { return expect(store.ListOptions{Prefix: "it_m"}, "it_m/x") },
		func() error { return expect(store.ListOptions{Prefix: "it%m"}, "it%m/x") },
		func() error { return expect(store.ListOptions{Prefix: "none/"}) },
		func() error { return checkEarlyStop(ctx, p) },
	)
}

// checkEarlyStop leaves a listing in the middle, many times: a backend that
// holds a connection or a cursor for it runs out of them.
func checkEarlyStop(ctx context.Context, p *Probe) error {
	for range 40 {
		for _, err := range p.Store.List(ctx, store.ListOptions{Prefix: p.Prefix, PageSize: 2}) {
			if err != nil {
				return err
			}
			break
		}
	}
	return wantValue(ctx, p.Store, p.key("item/03"), "\x03")
}
