package storebench_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/storebench"
)

// All tables come out at tiny sizes; the sizes of the index are checked by the
// benchmark itself.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	err := storebench.Run(t.Context(), &out, storebench.Options{
		Writers: []int{1, 4}, Time: 50 * time.Millisecond, Markers: []int{200}, Samples: 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CAS list", "group", "more", "age-prune half"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no table with %q in:\n%s", want, &out)
		}
	}
	rows := strings.Count(out.String(), "\n  ")
	if rows < 2*2+2+2*3+2 {
		t.Errorf("%d rows:\n%s", rows, &out)
	}
	t.Log(out.String())
}

func TestUnknownTable(t *testing.T) {
	err := storebench.Run(t.Context(), &bytes.Buffer{}, storebench.Options{Only: []string{"writres"}})
	if err == nil || !strings.Contains(err.Error(), "writres") {
		t.Errorf("an unknown table: %v", err)
	}
}
