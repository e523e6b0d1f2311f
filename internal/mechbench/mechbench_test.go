package mechbench_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/mechbench"
)

// All tables come out at tiny sizes.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	err := mechbench.Run(t.Context(), &out, mechbench.Options{Writers: []int{1, 4}, Time: 30 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "FOR UPDATE") || strings.Contains(out.String(), "NaN") {
		t.Errorf("not all cells:\n%s", &out)
	}
	if rows := strings.Count(out.String(), "store"); rows < 2 {
		t.Errorf("%d rows of stores:\n%s", rows, &out)
	}
	t.Log(out.String())
}

func TestUnknownTable(t *testing.T) {
	err := mechbench.Run(t.Context(), &bytes.Buffer{}, mechbench.Options{Only: []string{"countre"}})
	if err == nil || !strings.Contains(err.Error(), "countre") || !strings.Contains(err.Error(), "counter") {
		t.Errorf("an unknown table: %v", err)
	}
}
