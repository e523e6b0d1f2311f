//go:build amd64 || arm64

package file

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/play/explore"
	"github.com/holdfast-dev/holdfast/play/gate/file/tree"
)

// noFailure checks that the programs ended well and the gate held everything.
func noFailure(t *testing.T, x *execution) {
	t.Helper()
	for _, err := range x.failed {
		t.Errorf("the gate failed: %v", err)
	}
	for i, a := range x.actors {
		if a.proc.err != nil {
			t.Errorf("program %c: %v: %s", 'A'+i, a.proc.err, a.proc.out.String())
		}
	}
}

func wantTrace(t *testing.T, x *execution, want ...string) {
	t.Helper()
	if !slices.Equal(x.trace, want) {
		t.Errorf("steps:\n%s\nwant:\n%s", strings.Join(x.trace, "\n"), strings.Join(want, "\n"))
	}
}

// replaceSteps are those of one program that replaces a file with care.
func replaceSteps(who, name string) []string {
	tmp := "tmp-" + who + "1.tmp"
	return []string{who + " open " + tmp + " O_CREAT|O_EXCL", who + " write " + tmp + " [0:7]",
		who + " fsync " + tmp, who + " rename " + tmp + " → " + name, who + " fsync ."}
}

func TestStepsOfReplace(t *testing.T) {
	w := newWorld(t, Config{}, role("replace"))
	w.put("data.json", `{"n":0}`)
	x := w.run("")
	noFailure(t, x)
	wantTrace(t, x, replaceSteps("A", "data.json")...)
	if got := w.read("data.json"); got != `{"n":1}` {
		t.Errorf("data.json is %s", got)
	}
}

// outcomes explores all traces and counts what they leave in a file.
func outcomes(t *testing.T, w *world, file string) (map[string]int, explore.Result) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := map[string]int{}
	res, err := explore.Explore(ctx, w, explore.Options{MaxRuns: 500, Visit: func(explore.Run) error {
		noFailure(t, w.last)
		b, err := os.ReadFile(w.dir + "/" + file)
		seen[string(b)]++
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !res.Complete || res.Inconclusive > 0 {
		t.Errorf("complete %v, inconclusive %v %v", res.Complete, res.Inconclusive, res.Reasons)
	}
	return seen, res
}

func TestReduction(t *testing.T) {
	w := newWorld(t, Config{}, role("replace"), role("replace"))
	w.put("data.json", `{"n":0}`)
	seen, res := outcomes(t, w, "data.json")
	t.Logf("two careful replacements: 252 schedules, %d runs, outcomes %v", res.Runs, seen)
	if res.Runs > 6 || seen[`{"n":1}`] != res.Runs {
		t.Errorf("%d runs with %v", res.Runs, seen)
	}
}

func TestLostUpdate(t *testing.T) {
	w := newWorld(t, Config{}, role("rmw"), role("rmw"))
	w.put("counter.json", `{"N":0}`)
	seen, res := outcomes(t, w, "counter.json")
	t.Logf("read-modify-write: %d runs, outcomes %v", res.Runs, seen)
	if seen[`{"N":1}`] == 0 || seen[`{"N":2}`] < 2 || len(seen) != 2 {
		t.Errorf("outcomes %v", seen)
	}
}

func TestLocksHold(t *testing.T) {
	for _, name := range []string{"locked", "record"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{}, role(name), role(name))
			w.put("counter.json", `{"N":0}`)
			seen, res := outcomes(t, w, "counter.json")
			t.Logf("%s: %d runs, outcomes %v", name, res.Runs, seen)
			if len(seen) != 1 || seen[`{"N":2}`] == 0 {
				t.Errorf("outcomes %v", seen)
			}
		})
	}
}

func TestBlockedIsDisabled(t *testing.T) {
	w := newWorld(t, Config{}, role("locked"), role("locked"))
	w.put("counter.json", `{"N":0}`)
	ex, err := w.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := ex.(*execution)
	step := func(actor int) explore.Event {
		e, err := x.Step(t.Context(), actor)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	step(0) // open
	step(0) // flock
	step(1) // open
	if e := step(1); !e.Blocked || x.actors[1].state != explore.Blocked {
		t.Errorf("the second flock is not blocked: %+v", e)
	}
	for x.actors[0].state == explore.Ready {
		label := x.actors[0].held.Label
		e := step(0)
		if unlocks := strings.HasPrefix(label, "close counter.lock"); unlocks != slices.Contains(e.Woke, 1) {
			t.Errorf("%q woke %v", label, e.Woke)
		}
	}
	for x.actors[1].state == explore.Ready {
		step(1)
	}
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	noFailure(t, x)
}

func TestVariety(t *testing.T) {
	w := newWorld(t, Config{}, role("variety"))
	x := w.run("")
	noFailure(t, x)
	for _, want := range []string{"A mkdir d", "A truncate d/f to 5", "A read d/f [1:11]", "A write d/f [0:2]",
		"A symlink link → d/f", "A link d/f → d/g", "A list d", "A access d/none", "A copy d/f to d/copy", "A unlink d/copy"} {
		if !slices.Contains(x.trace, want) {
			t.Errorf("no step %q in\n%s", want, strings.Join(x.trace, "\n"))
		}
	}
}

func TestPreemption(t *testing.T) {
	w := newWorld(t, Config{}, role("preempt"))
	ex, err := w.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := ex.(*execution)
	for x.actors[0].state == explore.Ready {
		// Held for so long that signals come. One that broke the call would make
		// the program come with it again, which is an error of Step.
		time.Sleep(2 * time.Millisecond)
		if _, err := x.Step(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.End(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	noFailure(t, x)
	if got := w.read("log"); got != strings.Repeat("line\n", 5) {
		t.Errorf("log is %q", got)
	}
	if len(x.trace) != 10 {
		t.Errorf("%d steps: %v", len(x.trace), x.trace)
	}
}

func TestThreadsAndChildren(t *testing.T) {
	w := newWorld(t, Config{}, role("threads"))
	w.start["sub"] = tree.Node{Mode: os.ModeDir | 0o777}
	x := w.run("")
	noFailure(t, x)
	wantTrace(t, x, "A open sub/a O_CREAT|O_TRUNC", "A write sub/a [0:1]", "A open sub/b O_CREAT|O_TRUNC",
		"A write sub/b [0:1]", "A open sub/c O_CREAT|O_TRUNC", "A write sub/c [0:1]")
	w = newWorld(t, Config{}, role("children"))
	x = w.run("")
	noFailure(t, x)
	if got := w.read("second"); got != "one\n" {
		t.Errorf("second is %q", got)
	}
	if !slices.Contains(x.trace, "A write first [0:4]") || !slices.Contains(x.trace, "A rename first → second") {
		t.Errorf("steps %q", x.trace)
	}
}

func TestMappingIsReported(t *testing.T) {
	w := newWorld(t, Config{}, role("mapping"))
	w.put("data.json", "{}  ")
	x := w.run("")
	if len(x.failed) != 1 {
		t.Fatalf("failures %v", x.failed)
	}
	if nc, ok := errors.AsType[*NotCoveredError](x.failed[0]); !ok || nc.File != "data.json" {
		t.Errorf("failure %v", x.failed[0])
	}
}

func TestScripts(t *testing.T) {
	const python = `
import json, os, tempfile
with open("counter.json") as f: v = json.load(f)
v["N"] += 1
fd, tmp = tempfile.mkstemp(dir=".", suffix=".json")
with os.fdopen(fd, "w") as f: json.dump(v, f)
os.replace(tmp, "counter.json")
`
	const node = `
const fs = require("fs");
const v = JSON.parse(fs.readFileSync("counter.json", "utf8"));
v.N++;
const tmp = "counter." + process.pid + "." + Date.now() + ".tmp";
fs.writeFileSync(tmp, JSON.stringify(v));
fs.renameSync(tmp, "counter.json");
`
	for _, c := range []struct {
		name, lost string
		words      []string
	}{
		{"python", `{"N": 1}`, []string{"python3", "-c", python}},
		{"node", `{"N":1}`, []string{"node", "-e", node}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := exec.LookPath(c.words[0]); err != nil {
				t.Skip(err)
			}
			if c.name == "python" {
				c.words = []string{pythonPath(t), "-I", "-c", python}
			}
			cmd := command{words: c.words}
			w := newWorld(t, Config{}, cmd, cmd)
			w.put("counter.json", `{"N": 0}`)
			serial := w.run("")
			noFailure(t, serial)
			if got := strings.ReplaceAll(w.read("counter.json"), " ", ""); got != `{"N":2}` {
				t.Errorf("one after the other leaves %s", got)
			}
			// The first reads, the second does everything, the first goes on.
			read := slices.IndexFunc(serial.trace, func(s string) bool { return strings.HasPrefix(s, "A read counter.json [0") }) + 1
			own := slices.IndexFunc(serial.trace, func(s string) bool { return s[0] == 'B' })
			x := w.run(strings.Repeat("A", read) + strings.Repeat("B", len(serial.trace)-own))
			noFailure(t, x)
			if got := w.read("counter.json"); got != c.lost {
				t.Errorf("interleaved leaves %s: %q", got, x.trace)
			}
			again := w.run(strings.Repeat("A", read) + strings.Repeat("B", len(serial.trace)-own))
			if !slices.Equal(again.trace, x.trace) {
				t.Errorf("replayed steps:\n%s\nwere:\n%s", strings.Join(again.trace, "\n"), strings.Join(x.trace, "\n"))
			}
		})
	}
}

func TestOtherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a program as another user; as the same user everything else runs")
	}
	c := role("replace")
	c.cred = &syscall.Credential{Uid: 65534, Gid: 65534}
	// The test binary may be below a directory that another user can not enter.
	bin := t.TempDir()
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(bin+"/program", self, 0o755)
	}
	if err = errors.Join(err, os.Chmod(bin, 0o755)); err != nil {
		t.Fatal(err)
	}
	c.words = []string{bin + "/program"}
	w := newWorld(t, Config{}, c)
	if err := errors.Join(os.Chmod(w.dir, 0o777), os.Chmod(filepath.Dir(w.dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	x := w.run("")
	noFailure(t, x)
	info, err := os.Stat(w.dir + "/data.json")
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 65534 || info.Mode() != 0o600 {
		t.Errorf("the file belongs to %d, mode %v", st.Uid, info.Mode())
	}
	// And what this user must not do is refused.
	if err := os.Chmod(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	x = w.run("")
	if x.actors[0].proc.err == nil || !strings.Contains(x.actors[0].proc.out.String(), "permission denied") {
		t.Errorf("created a file without permission: %s", x.actors[0].proc.out.String())
	}
}

func TestKilledWhileHeld(t *testing.T) {
	w := newWorld(t, Config{}, role("locked"), role("locked"))
	w.put("counter.json", `{"N":0}`)
	ex, err := w.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x := ex.(*execution)
	for range 2 { // open, flock
		if _, err := x.Step(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.gate.Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range x.actors {
		select {
		case <-a.proc.exited:
		case <-time.After(10 * time.Second):
			t.Fatal("a program with a held step lives on after Abort")
		}
		a.over = true
	}
	if err := w.gate.Release(t.Context(), x.actors[0].held.ID, false); !errors.Is(err, ErrGone) {
		t.Errorf("release of a step of a killed program: %v", err)
	}
	if err := x.End(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}

func TestStartErrors(t *testing.T) {
	w := newWorld(t, Config{})
	if _, err := w.gate.Add([]string{"no-such-program-here"}, 3); err == nil {
		t.Error("a program that is not there was accepted")
	}
	in, err := w.gate.Add([]string{"./not-there"}, 3)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(in.Command()[0], in.Command()[1:]...)
	cmd.ExtraFiles = in.Files()
	err = in.Started(t.Context(), cmd.Start())
	if se, ok := errors.AsType[*StartError](err); !ok || !strings.Contains(se.Error(), "no such file") {
		t.Errorf("error %v", err)
	}
	_ = cmd.Wait()
}
