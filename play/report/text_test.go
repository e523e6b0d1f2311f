package report

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// golden compares got with a file in testdata, or rewrites it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with go test -update", err)
	}
	old, now := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	for i := range max(len(old), len(now)) {
		if i >= len(old) || i >= len(now) || old[i] != now[i] {
			t.Errorf("%s differs from line %d on; rewrite it with go test -update and look at the diff\nwas: %q\nis:  %q",
				path, i+1, old[min(i, len(old)-1)], now[min(i, len(now)-1)])
			return
		}
	}
}

func text(t *testing.T, r *Report, o TextOptions) string {
	t.Helper()
	var b bytes.Buffer
	if err := Text(&b, r, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTextGolden(t *testing.T) {
	for name, r := range samples() {
		golden(t, name+".80.txt", []byte(text(t, r, TextOptions{Width: 80})))
		golden(t, name+".140.txt", []byte(text(t, r, TextOptions{Width: 140, Verbose: true})))
	}
	golden(t, "lost-update.color.txt", []byte(text(t, lostUpdate(), TextOptions{Color: true})))
}

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestTextKeepsWidthAndControls(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(samples())) {
		r := samples()[name]
		for _, width := range []int{0, 64, 80, 100, 140, 200} {
			for _, color := range []bool{false, true} {
				for _, verbose := range []bool{false, true} {
					out := text(t, r, TextOptions{Width: width, Color: color, Verbose: verbose})
					if !color && strings.ContainsAny(out, "\x1b\x07\x00") {
						t.Errorf("%s: a control character reaches the terminal", name)
					}
					out = ansi.ReplaceAllString(out, "")
					if strings.Contains(out, "\x1b") {
						t.Errorf("%s: an escape sequence of the application reaches the terminal", name)
					}
					checkLines(t, fmt.Sprintf("%s at %d", name, width), out, width)
				}
			}
		}
	}
}

func checkLines(t *testing.T, what, out string, width int) {
	t.Helper()
	if width == 0 {
		width = defaultWidth
	}
	for i, l := range strings.Split(out, "\n") {
		if n := cellWidth(l); n > width && !strings.HasPrefix(l, "replay: ") {
			t.Errorf("%s: line %d has %d cells: %q", what, i+1, n, l)
		}
		if strings.TrimRight(l, " ") != l {
			t.Errorf("%s: line %d ends in a space: %q", what, i+1, l)
		}
	}
}

// The claims that a report must not make, and those it must.
func TestTextClaims(t *testing.T) {
	for name, r := range samples() {
		out := strings.ToLower(text(t, r, TextOptions{}))
		for _, word := range []string{"race-free", "race free", "safe", "no races"} {
			if strings.Contains(out, word) {
				t.Errorf("%s says %q", name, word)
			}
		}
	}
	if out := text(t, noFindings(), TextOptions{}); !strings.Contains(out, nothingFound) {
		t.Errorf("no verdict in\n%s", out)
	}
	empty := noFindings()
	for i := range empty.Passes {
		empty.Passes[i].Schedules = 0
	}
	if out := text(t, empty, TextOptions{}); strings.Contains(out, nothingFound) || !strings.Contains(out, "says nothing") {
		t.Errorf("a run without schedules claims something:\n%s", out)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriteErrors(t *testing.T) {
	r := lostUpdate()
	for name, err := range map[string]error{
		"text": Text(failingWriter{}, r, TextOptions{}),
	} {
		if err == nil || !strings.Contains(err.Error(), r.Scenario) {
			t.Errorf("%s: error %v does not name the scenario", name, err)
		}
	}
}

// A report that names an actor it does not have is an error in every form, not
// a panic or a row that is silently left out.
func TestUnknownActor(t *testing.T) {
	for _, actor := range []int{-1, 2} {
		r, s := lostUpdate(), lostUpdate()
		r.Findings[0].Rows[3].Actor = actor
		s.Findings[0].Schedule[2] = actor
		for form, err := range map[string]error{
			"text": Text(&bytes.Buffer{}, r, TextOptions{}), "json": JSON(&bytes.Buffer{}, r), "junit": JUnit(&bytes.Buffer{}, s),
			"html": HTML(&bytes.Buffer{}, r), "svg": SVG(&bytes.Buffer{}, s, 0),
		} {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("names actor %d and there are 2", actor)) {
				t.Errorf("%s, actor %d: error %v", form, actor, err)
			}
		}
	}
}
