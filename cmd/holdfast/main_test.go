package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-dev/holdfast/play/gate/file"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster/clustertest"
)

func TestMain(m *testing.M) {
	file.ShimMain(os.Args)
	testscript.Main(m, map[string]func(){"holdfast": func() { os.Exit(run()) }})
}

// TestScripts runs the sessions in testdata/script, which read as a user's.
func TestScripts(t *testing.T) {
	if _, err := cluster.FindBinDir(t.Context()); err != nil {
		clustertest.Missing(t, err)
		t.Fatal(err)
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			// The examples are built with the caller's caches.
			for _, name := range []string{"HOME", "GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS", "PATH", "HOLDFAST_PG_BIN", "PYENV_ROOT", "PYENV_VERSION"} {
				if v, ok := os.LookupEnv(name); ok {
					env.Setenv(name, v)
				}
			}
			env.Setenv("EXAMPLES", examples)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

// exits CODE COMMAND...: the command must end with exactly this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if e, ok := err.(interface{ ExitCode() int }); ok {
		got = string(rune('0' + e.ExitCode()))
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("%v exited with %s, want %s", args[1:], got, args[0])
	}
}
