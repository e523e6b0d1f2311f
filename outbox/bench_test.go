package outbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/guard"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
)

// benchEverywhere is on the disk; PostgreSQL syncs every commit.
func benchEverywhere(b *testing.B, f func(b *testing.B, r *rig)) {
	for _, kind := range []string{"sqlite", "postgres"} {
		b.Run(kind, func(b *testing.B) {
			var r *rig
			var err error
			if kind == "sqlite" {
				r, err = openSQLiteWith(filepath.Join(b.TempDir(), "outbox.db"), "synchronous(FULL)")
			} else {
				s, serr := pgtest.Start(b.Context(), pgtest.Options{Dir: os.TempDir(), Durable: true})
				if serr != nil {
					b.Fatal(serr)
				}
				b.Cleanup(func() { _ = s.Stop() })
				r, err = openPostgres(b.Context(), s.URL("postgres")+"&pool_max_conns=64")
			}
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(r.close)
			if err := r.o.Create(b.Context(), r.h); err != nil {
				b.Fatal(err)
			}
			f(b, r)
		})
	}
}

// BenchmarkRelay is how many messages a second go out to a publisher that costs
// nothing, from a backlog of 20,000: by one relay and by four, of 1,000 keys, of
// one key, and without keys.
//
//	go test -run '^$' -bench Relay -benchtime 1x ./outbox
func BenchmarkRelay(b *testing.B) {
	const messages = 20_000
	benchEverywhere(b, func(b *testing.B, r *rig) {
		for _, keys := range []int{1000, 1, 0} {
			for _, relays := range []int{1, 4} {
				b.Run(fmt.Sprintf("keys=%d/relays=%d", keys, relays), func(b *testing.B) {
					for b.Loop() {
						fill(b, r, messages, keys)
						start := time.Now()
						drain(b, r, messages, relays)
						b.ReportMetric(messages/time.Since(start).Seconds(), "msg/s")
					}
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	})
}

func fill(b *testing.B, r *rig, messages, keys int) {
	for done := 0; done < messages; done += 2000 {
		batch := make([]Message, 2000)
		for i := range batch {
			batch[i].Payload = []byte(`{"order":123456,"state":"paid"}`)
			if keys > 0 {
				batch[i].Key = fmt.Sprint("order ", (done+i)%keys)
			}
		}
		r.add(b, batch...)
	}
	if r.kind == "postgres" {
		if _, err := r.h.Exec(b.Context(), "VACUUM ANALYZE holdfast_outbox"); err != nil {
			b.Fatal(err)
		}
	}
}

func drain(b *testing.B, r *rig, messages, relays int) {
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var published atomic.Int64
	var wg sync.WaitGroup
	for range relays {
		relay, err := r.relay(func(context.Context, Delivery) error {
			if published.Add(1) == int64(messages) {
				stop()
			}
			return nil
		}, RelayOptions{Poll: time.Millisecond})
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() { _ = relay.Run(ctx) })
	}
	wg.Wait()
	if left := r.backlog(b).Waiting; left != 0 {
		b.Fatalf("%d messages are left", left)
	}
}

// BenchmarkAdd compares, in one run, a transaction that changes a row with one
// that also records a message, at 1, 16 and 64 writers with keys of their own.
func BenchmarkAdd(b *testing.B) {
	benchEverywhere(b, func(b *testing.B, r *rig) {
		if _, err := r.h.Exec(b.Context(), "CREATE TABLE orders (id integer PRIMARY KEY, n integer NOT NULL)"); err != nil {
			b.Fatal(err)
		}
		update := "UPDATE orders SET n = n + 1 WHERE id = ?"
		if r.kind == "postgres" {
			update = "UPDATE orders SET n = n + 1 WHERE id = $1"
		}
		for id := range 64 {
			if _, err := r.h.Exec(b.Context(), fmt.Sprintf("INSERT INTO orders VALUES (%d, 0)", id)); err != nil {
				b.Fatal(err)
			}
		}
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
				for b.Loop() {
					var done [2]int64
					for range 8 {
						for with := range done {
							done[with] += burst(b, writers, func(w int) error {
								return r.inTx(b.Context(), func(tx guard.Handle) error {
									_, err := tx.Exec(b.Context(), update, w)
									if err == nil && with == 1 {
										_, err = r.o.Add(b.Context(), tx, text(fmt.Sprint("order ", w), "paid"))
									}
									return err
								})
							})
						}
					}
					b.ReportMetric(float64(done[0])/(8*burstTime.Seconds()), "bare/s")
					b.ReportMetric(float64(done[1])/(8*burstTime.Seconds()), "with-message/s")
					b.ReportMetric(100*(1-float64(done[1])/float64(done[0])), "%cost")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	})
}

const burstTime = 400 * time.Millisecond

func burst(b *testing.B, writers int, f func(w int) error) int64 {
	var n atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for w := range writers {
		wg.Go(func() {
			for time.Since(start) < burstTime {
				if err := f(w); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load()
}
