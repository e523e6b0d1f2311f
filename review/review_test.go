package review_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/review"
	"github.com/holdfast-dev/holdfast/review/effect"
	"github.com/holdfast-dev/holdfast/review/effectfront"
	"github.com/holdfast-dev/holdfast/review/front"
	"github.com/holdfast-dev/holdfast/review/report"
)

const racy = `entry bank.Withdraw http "POST /withdraw" @bank.go:10 {
  a := read table:accounts[id = in.id] cols(balance) missing=error @bank.go:12
  write update table:accounts[id = in.id] set(balance = a.balance - in.amount) @bank.go:16
}
`

const guarded = `entry bank.Withdraw http "POST /withdraw" @bank.go:10 {
  t := begin @bank.go:11
  a := read table:accounts[id = in.id] cols(balance) missing=error tx=t lock=update @bank.go:12
  write update table:accounts[id = in.id] set(balance = a.balance - in.amount) tx=t @bank.go:16
  commit tx=t @bank.go:17
}
`

// text is a front end that gives a program and comments.
type text struct {
	program string
	ignores []front.Ignore
}

func (text) Name() string { return "text" }

func (f text) Analyze(context.Context, front.Request) (*front.Result, error) {
	p, err := effect.Parse(f.program)
	return &front.Result{Program: p, Ignores: f.ignores, Packages: 1}, err
}

func run(t *testing.T, f text, o review.Options) *report.Report {
	t.Helper()
	o.FrontEnds = []front.FrontEnd{f}
	r, err := review.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ids(r *report.Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, f.Rule.ID)
	}
	return out
}

func TestVerdict(t *testing.T) {
	r := run(t, text{program: racy}, review.Options{})
	if !slices.Equal(ids(r), []string{"HF101"}) || r.Verdict() != "RECOMMEND CHANGES" {
		t.Errorf("racy: %v, %s", ids(r), r.Verdict())
	}
	if r.Paths[0].Finding != "HF101" {
		t.Errorf("path: %+v", r.Paths[0])
	}
	r = run(t, text{program: guarded}, review.Options{})
	if len(r.Findings) != 0 || r.Verdict() != "NO BLOCKING FINDING" {
		t.Errorf("guarded: %v, %s", ids(r), r.Verdict())
	}
	if p := r.Paths[0]; !strings.Contains(p.Guard, "FOR UPDATE") || p.GuardPos.Line != 12 {
		t.Errorf("the guard is %+v", p)
	}
}

// TestIgnore: a comment with rule and reason suppresses; others are reported.
func TestIgnore(t *testing.T) {
	at := func(line int) effect.Pos { return effect.Pos{File: "bank.go", Line: line} }
	r := run(t, text{program: racy, ignores: []front.Ignore{
		{Pos: at(15), Rule: "HF101", Reason: "one client only"},
		{Pos: at(16), Rule: "HF101"},
		{Pos: at(99), Rule: "HF101", Reason: "nothing is here"},
	}}, review.Options{})
	if len(r.Findings) != 0 || r.Ignored != 1 {
		t.Errorf("%v, %d suppressed", ids(r), r.Ignored)
	}
	if len(r.Bad) != 2 || r.Bad[0].Pos.Line != 16 || r.Bad[1].Pos.Line != 99 {
		t.Errorf("wrong comments: %+v", r.Bad)
	}
	r = run(t, text{program: racy, ignores: []front.Ignore{{Pos: at(15), Rule: "HF102", Reason: "another rule"}}}, review.Options{})
	if len(r.Findings) != 1 || len(r.Bad) != 1 {
		t.Errorf("another rule's comment: %v, %+v", ids(r), r.Bad)
	}
}

func TestBaseline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known.json")
	var b bytes.Buffer
	if err := review.WriteBaseline(&b, run(t, text{program: racy}, review.Options{})); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	// The same defect some lines further down is known; another is not.
	moved := strings.NewReplacer("go:12", "go:112", "go:16", "go:116").Replace(racy)
	other := strings.ReplaceAll(strings.ReplaceAll(racy, "accounts", "stocks"), "Withdraw", "Take")
	r := run(t, text{program: moved + other}, review.Options{Baseline: file})
	if len(r.Findings) != 1 || r.Baselined != 1 || r.Findings[0].Witness.On.Name != "stocks" {
		t.Errorf("%v, %d known", ids(r), r.Baselined)
	}
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := review.Run(t.Context(), review.Options{FrontEnds: []front.FrontEnd{text{program: racy}}, Baseline: file})
	var broken *review.BaselineError
	if !errors.As(err, &broken) {
		t.Errorf("a broken baseline: %v", err)
	}
}

// TestNotes: a note is counted, and shown when asked for.
func TestNotes(t *testing.T) {
	program := strings.Replace(guarded, "{\n", "{\n  test TestConcurrentWithdraw claims @bank_test.go:5\n", 1)
	if r := run(t, text{program: program}, review.Options{}); len(r.Findings) != 0 || r.Notes != 1 {
		t.Errorf("%v, %d notes", ids(r), r.Notes)
	}
	if r := run(t, text{program: program}, review.Options{Notes: true}); !slices.Equal(ids(r), []string{"HF180"}) {
		t.Errorf("%v", ids(r))
	}
}

// TestParallelIsDeterministic: the order of findings does not depend on the
// workers.
func TestParallelIsDeterministic(t *testing.T) {
	var b strings.Builder
	for i := range 12 {
		b.WriteString(strings.NewReplacer("accounts", fmt.Sprintf("t%d", i%5), "Withdraw", fmt.Sprintf("W%d", i), "go:16", fmt.Sprintf("go:%d", 20+i)).Replace(racy))
	}
	var want string
	for _, n := range []int{1, 2, 8} {
		var out bytes.Buffer
		if err := report.Text(&out, run(t, text{program: b.String()}, review.Options{Parallel: n}), report.TextOptions{Paths: true}); err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = out.String()
		} else if want != out.String() {
			t.Errorf("%d workers: another report", n)
		}
	}
}

// gitRepo makes a repository with one committed program.
func gitRepo(t *testing.T, program string) (dir string, git func(args ...string)) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	dir = t.TempDir()
	git = func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	write(t, dir, program)
	git("add", ".")
	git("commit", "-qm", "first")
	return dir, git
}

func write(t *testing.T, dir, program string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "bank.effect"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
}

func diffOptions(dir string) review.Options {
	return review.Options{Dir: dir, Patterns: []string{"bank.effect"}, FrontEnds: []front.FrontEnd{effectfront.FrontEnd{}}, Diff: "HEAD"}
}

// TestDiff: an old finding is left out, a new one is reported, and one that a
// removed protection lets through says so although its own line is unchanged.
func TestDiff(t *testing.T) {
	old := strings.NewReplacer("accounts", "old", "Withdraw", "Old").Replace(racy)
	dir, _ := gitRepo(t, old+guarded)
	for range 2 { // the second time from the cache
		r, err := review.Run(t.Context(), diffOptions(dir))
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Findings) != 0 {
			t.Errorf("nothing changed: %v", ids(r))
		}
	}
	write(t, dir, old+strings.Replace(guarded, " lock=update", "", 1))
	r, err := review.Run(t.Context(), diffOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids(r), []string{"HF101"}) || r.Findings[0].Witness.On.Name != "accounts" {
		t.Fatalf("lock removed: %v", ids(r))
	}
	if why := r.Removed[r.Findings[0].Fingerprint()]; !strings.Contains(why, "FOR UPDATE") || !strings.Contains(why, "bank.go:12") {
		t.Errorf("removed protection: %q", why)
	}
}

// TestDiffSeesTheSchema: taking a unique index away raises the insert that it
// guarded.
func TestDiffSeesTheSchema(t *testing.T) {
	const link = `entry links.Add http "POST /links" @links.go:3 {
  l := check table:links[target = in.target] @links.go:4
  if l.found {
    return
  }
  write insert table:links set(target = in.target, code = fresh()) @links.go:8
}
`
	dir, _ := gitRepo(t, "table links (target, code) unique links_target (target) @schema.sql:1\n"+link)
	write(t, dir, "table links (target, code) @schema.sql:1\n"+link)
	r, err := review.Run(t.Context(), diffOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids(r), []string{"HF110"}) {
		t.Fatalf("%v", ids(r))
	}
	if why := r.Removed[r.Findings[0].Fingerprint()]; !strings.Contains(why, "links_target") {
		t.Errorf("removed protection: %q", why)
	}
}

// TestPatch: a patch is reviewed without being applied to the working tree.
func TestPatch(t *testing.T) {
	dir, git := gitRepo(t, guarded)
	write(t, dir, strings.Replace(guarded, " lock=update", "", 1))
	cmd := exec.Command("git", "-C", dir, "diff")
	patch, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	git("checkout", "-q", ".")
	o := diffOptions(dir)
	o.Diff, o.Patch = "", patch
	r, err := review.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ids(r), []string{"HF101"}) {
		t.Errorf("%v", ids(r))
	}
	out, err := exec.Command("git", "-C", dir, "worktree", "list").Output()
	if err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("work trees are left: %s %v", out, err)
	}
	o.Patch = []byte("nonsense\n")
	var failed *review.GitError
	if _, err := review.Run(t.Context(), o); !errors.As(err, &failed) {
		t.Errorf("a patch that does not apply: %v", err)
	}
}

func TestNothing(t *testing.T) {
	_, err := review.Run(t.Context(), review.Options{Dir: t.TempDir(), Patterns: []string{"none.effect"}, FrontEnds: []front.FrontEnd{effectfront.FrontEnd{}}})
	var nothing *review.NothingError
	if !errors.As(err, &nothing) || len(nothing.Problems) != 1 {
		t.Errorf("%v", err)
	}
}
