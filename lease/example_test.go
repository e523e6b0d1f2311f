package lease_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/lease"
	"github.com/holdfast-dev/holdfast/store"
)

// A job that one worker at a time does, and whose result only the present
// holder of the lease can write.
func Example() {
	ctx := context.Background()
	s, err := store.Open(ctx, "mem:")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	m, err := lease.New(s, lease.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := lease.NewGuarded(s, "reports/monthly")
	if err != nil {
		fmt.Println(err)
		return
	}
	var past lease.Token
	err = m.Do(ctx, "monthly report", func(ctx context.Context, l *lease.Lease) error {
		past = l.Token()
		_, err := report.Save(ctx, l.Token(), []byte("May: 7 orders"))
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	err = m.Do(ctx, "monthly report", func(ctx context.Context, l *lease.Lease) error {
		_, err := report.Save(ctx, l.Token(), []byte("May: 9 orders"))
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	// A write of the first holder that arrives late.
	_, err = report.Save(ctx, past, []byte("May: 7 orders"))
	var stale *lease.StaleError
	fmt.Println("refused:", errors.As(err, &stale))
	now, err := report.Read(ctx)
	fmt.Println(string(now.Value), err)
	// Output:
	// refused: true
	// May: 9 orders <nil>
}
