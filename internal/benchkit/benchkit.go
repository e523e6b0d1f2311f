// Package benchkit is what the benchmarks of this module share: a folder and a
// PostgreSQL server for one run, callers at full speed for a while, and tables.
//
// Everything works durably on the same disk: SQLite with synchronous=FULL,
// PostgreSQL with fsync on. Ways that are compared run one after the other in the
// same minute.
package benchkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// Place is where a run keeps its data.
type Place struct {
	Dir string
	// Postgres is the address of a database; empty if there is none.
	Postgres string
	Out      io.Writer

	stop func() error
}

// Options are for Prepare.
type Options struct {
	// Dir is where the data goes; empty means the temporary directory.
	Dir string
	// PostgresURL names a database to use; empty starts a throwaway server.
	// Without one that is possible, PostgreSQL is left out and said so.
	PostgresURL string
}

// Prepare makes the place of a run.
func Prepare(ctx context.Context, out io.Writer, opts Options) (*Place, error) {
	dir, err := os.MkdirTemp(opts.Dir, "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	p := &Place{Dir: dir, Out: out, Postgres: opts.PostgresURL, stop: func() error { return nil }}
	// A server that runs as another user must be able to enter.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if p.Postgres != "" {
		return p, nil
	}
	server, err := pgtest.Start(ctx, pgtest.Options{Dir: dir, Durable: true, Settings: map[string]string{
		"shared_buffers": "256MB", "max_wal_size": "4GB",
	}})
	if errors.Is(err, pgtest.ErrNotInstalled) {
		fmt.Fprintln(out, "PostgreSQL is left out:", err)
		return p, nil
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Postgres, p.stop = server.URL("postgres"), server.Stop
	return p, nil
}

// Close stops the server and removes the data.
func (p *Place) Close() error { return errors.Join(p.stop(), os.RemoveAll(p.Dir)) }

// PostgresFor is the address with a pool of so many connections, at least two.
func (p *Place) PostgresFor(conns int) string {
	u, err := url.Parse(p.Postgres)
	if err != nil {
		return p.Postgres
	}
	q := u.Query()
	q.Set("pool_max_conns", fmt.Sprint(max(conns, 2)))
	u.RawQuery = q.Encode()
	return u.String()
}

// Table prints a title and aligned rows.
func (p *Place) Table(title string, header []string, rows [][]string) error {
	fmt.Fprintf(p.Out, "\n%s\n", title)
	t := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, strings.Join(header, "\t")+"\t")
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	return t.Flush()
}

// Sample is what so many callers did in a while.
type Sample struct {
	// Rate is calls per second.
	Rate float64
	// P50 and P99 are times of one call.
	P50, P99 time.Duration
}

// Measure runs f in so many goroutines, each at full speed, for d. f gets the
// number of its goroutine and of its call. What the end of the time interrupts
// is not counted.
func Measure(ctx context.Context, d time.Duration, callers int, f func(ctx context.Context, caller, call int) error) (Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, callers)
	times := make([][]time.Duration, callers)
	began := time.Now()
	for c := range callers {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				start := time.Now()
				if err := f(ctx, c, n); err != nil {
					if ctx.Err() == nil {
						errs[c] = err
						cancel()
					}
					return
				}
				times[c] = append(times[c], time.Since(start))
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	all := slices.Concat(times...)
	slices.Sort(all)
	s := Sample{Rate: float64(len(all)) / took.Seconds()}
	if len(all) > 0 {
		s.P50, s.P99 = all[len(all)/2], all[len(all)*99/100]
	}
	return s, errors.Join(errs...)
}
