// Package clustertest gives tests a throwaway PostgreSQL server.
//
// Where there is no PostgreSQL, a test that needs one is skipped and says so;
// with CI=true in the environment it fails instead, because there a skipped
// test is one that nobody notices.
package clustertest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/play/gate/postgres/cluster"
)

const timeout = 60 * time.Second

// Start starts a cluster that ends with the test.
func Start(tb testing.TB, o cluster.Options) *cluster.Cluster {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), timeout)
	defer cancel()
	c, err := cluster.Start(ctx, o)
	if err != nil {
		Missing(tb, err)
		tb.Fatalf("start PostgreSQL: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			tb.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return c
}

// Missing skips the test, or with CI=true fails it, when err says that there
// is no PostgreSQL. On any other error it does nothing.
func Missing(tb testing.TB, err error) {
	tb.Helper()
	var missing *cluster.NotFoundError
	if !errors.As(err, &missing) {
		return
	}
	if os.Getenv("CI") == "true" {
		tb.Fatalf("this test needs PostgreSQL, and CI=true: %v", err)
	}
	tb.Skipf("this test needs PostgreSQL: %v", err)
}
