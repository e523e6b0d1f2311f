package review

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/review/report"
	"github.com/holdfast-dev/holdfast/review/rules"
)

// side is what is kept of the older state of a comparison.
type side struct {
	Fingerprints map[string]bool   `json:"fingerprints"`
	Guards       map[string]string `json:"guards"` // by entry, resource and kind of write
}

// GitError says that git could not give a state to compare with.
type GitError struct {
	Args []string
	Text string // what git said
	Err  error
}

func (e *GitError) Error() string {
	return fmt.Sprintf("git %s: %v: %s; name a revision that `git rev-parse` knows", strings.Join(e.Args, " "), e.Err, strings.TrimSpace(e.Text))
}

func (e *GitError) Unwrap() error { return e.Err }

// compare reviews the working tree (or the patch) and the revision, and keeps
// what is new.
func compare(ctx context.Context, o Options) (*report.Report, error) {
	g, err := openRepo(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	rev := o.Diff
	if rev == "" {
		rev = "HEAD"
	}
	commit, err := g.run(ctx, nil, "rev-parse", "--verify", rev+"^{commit}")
	if err != nil {
		return nil, err
	}
	commit = strings.TrimSpace(commit)
	head := o
	head.Diff, head.Patch = "", nil
	if o.Patch != nil {
		dir, done, err := g.worktree(ctx, commit)
		if err != nil {
			return nil, err
		}
		defer done()
		patched := &repo{top: dir, sub: g.sub}
		if _, err := patched.run(ctx, o.Patch, "apply", "--whitespace=nowarn", "-"); err != nil {
			return nil, err
		}
		head.Dir = filepath.Join(dir, g.sub)
	}
	old, err := g.older(ctx, o, commit)
	if err != nil {
		return nil, err
	}
	r, err := analyse(ctx, head)
	if err != nil {
		return nil, err
	}
	reduce(r, old)
	r.Diff = rev
	return r, nil
}

// reduce keeps the findings that the older side does not have.
func reduce(r *report.Report, old *side) {
	r.Removed = map[string]string{}
	kept := r.Findings[:0]
	for _, f := range r.Findings {
		print := f.Fingerprint()
		if old.Fingerprints[print] {
			continue
		}
		for _, p := range r.Paths {
			if p.Finding == f.Rule.ID && p.Resource == rules.Name(f.Witness.On) {
				if guard := old.Guards[pathKey(p)]; guard != "" && r.Removed[print] == "" {
					r.Removed[print] = guard
				}
			}
		}
		kept = append(kept, f)
	}
	r.Findings = kept
}

// pathKey names a write path without lines.
func pathKey(p report.Path) string {
	entry, _, _ := strings.Cut(p.Entry, " and ")
	return entry + "\x00" + p.Resource + "\x00" + p.What
}

// repo is a git repository and the module's folder in it.
type repo struct {
	top, sub string
}

func openRepo(ctx context.Context, dir string) (*repo, error) {
	if dir == "" {
		dir = "."
	}
	g := &repo{top: dir}
	top, err := g.run(ctx, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	prefix, err := g.run(ctx, nil, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	return &repo{top: strings.TrimSpace(top), sub: strings.TrimSpace(prefix)}, nil
}

func (g *repo) run(ctx context.Context, in []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", g.top}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", &GitError{args, errOut.String(), err}
	}
	return out.String(), nil
}

// worktree checks a commit out into a temporary folder.
func (g *repo) worktree(ctx context.Context, commit string) (dir string, done func(), err error) {
	base, err := os.MkdirTemp("", "holdfast-review-")
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(base, "tree")
	if _, err := g.run(ctx, nil, "worktree", "add", "--detach", dir, commit); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(base))
	}
	return dir, func() {
		// Also when ctx has ended: the entry in .git/worktrees must go.
		_, _ = g.run(context.WithoutCancel(ctx), nil, "worktree", "remove", "--force", dir)
		_ = os.RemoveAll(base)
	}, nil
}

// older reviews the commit, or takes the result from the cache. The cache only
// saves time: whatever is wrong with it, the commit is analysed again.
func (g *repo) older(ctx context.Context, o Options, commit string) (*side, error) {
	file := cacheFile(o, commit, g.sub)
	if b, err := os.ReadFile(file); err == nil {
		var s side
		if json.Unmarshal(b, &s) == nil && s.Fingerprints != nil {
			return &s, nil
		}
	}
	dir, done, err := g.worktree(ctx, commit)
	if err != nil {
		return nil, err
	}
	defer done()
	o.Dir, o.Diff, o.Patch, o.Baseline = filepath.Join(dir, g.sub), "", nil, ""
	s := &side{Fingerprints: map[string]bool{}, Guards: map[string]string{}}
	r, err := analyse(ctx, o)
	var nothing *NothingError
	if errors.As(err, &nothing) {
		return s, nil // the module is new
	}
	if err != nil {
		return nil, err
	}
	for _, f := range r.Findings {
		s.Fingerprints[f.Fingerprint()] = true
	}
	for _, p := range r.Paths {
		if p.Guard != "" {
			s.Guards[pathKey(p)] = fmt.Sprintf("%s (%s)", p.Guard, p.GuardPos)
		}
	}
	s.cache(file)
	return s, nil
}

// cache keeps the result. It need not survive a power failure, and an error
// costs only the time of the next run; but a reader must never see half of it.
func (s *side) cache(file string) {
	b, err := json.Marshal(s)
	if err != nil || file == "" || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	t, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return
	}
	_, err = t.Write(b)
	if err = errors.Join(err, t.Close()); err == nil {
		err = os.Rename(t.Name(), file)
	}
	if err != nil {
		_ = os.Remove(t.Name())
	}
}

// cacheFile is where the result for a commit is kept; empty where the system
// has no cache folder. The program itself is part of the key: another build may
// find something else.
func cacheFile(o Options, commit, sub string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	info, err := os.Stat(exe)
	if err != nil {
		return ""
	}
	key := fmt.Sprintf("%s\x00%s\x00%v\x00%v\x00%s\x00%d\x00%d", commit, sub, o.Patterns, o.Notes, o.Version, info.Size(), info.ModTime().UnixNano())
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(dir, "holdfast", "review", hex.EncodeToString(sum[:16])+".json")
}
