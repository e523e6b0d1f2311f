package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(producerEnv); ok {
		main()
		return
	}
	os.Exit(m.Run())
}

// Three processes, one of which dies: nothing is missing from the list, and
// every marker is pruned in the end.
func TestLosesNothing(t *testing.T) {
	var out bytes.Buffer
	lost, err := run(t.Context(), config{producers: 3, jobs: 4, work: 100 * time.Millisecond, maxAge: time.Second}, &out)
	if err != nil || lost != 0 {
		t.Fatalf("%d lost, %v\n%s", lost, err, &out)
	}
	// Process 0 dies in its third job.
	want := fmt.Sprintf("%d jobs registered by 3 processes: %d finished, 1 died; %d markers pruned; 0 lost", 11, 10, 11)
	if !strings.Contains(out.String(), want) || !strings.Contains(out.String(), "of process 2") {
		t.Errorf("said:\n%s\nwant: %s", &out, want)
	}
}
