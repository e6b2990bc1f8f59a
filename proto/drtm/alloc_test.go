package drtm_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/verbs/fiber"
)

// shapes are transactions whose steady state the tests and benchmarks look at.
var shapes = []struct {
	name    string
	attempt int
	d       *proto.Decl
}{
	{"local", 0, declare(reading(full, keyOn(0, 1)), writing(full, keyOn(0, 2)),
		writing(small, keyOn(0, 3)))},
	{"local, read-only", 0, declare(reading(full, keyOn(0, 1)), reading(large, keyOn(0, 2)))},
	{"remote", 0, declare(writing(full, keyOn(1, 1)), writing(small, keyOn(0, 2)))},
	{"remote leases, read-only", 0, declare(reading(full, keyOn(1, 3)), reading(small, keyOn(0, 4)))},
	{"local records leased", 2, declare(reading(full, keyOn(0, 5)), reading(small, keyOn(0, 6)))},
	{"fallback", drtm.DefaultAttempts, declare(writing(full, keyOn(1, 7)),
		writing(small, keyOn(0, 8)))},
}

// touch reads what is declared, and writes what may be written.
type touch struct {
	d   *proto.Decl
	buf [200]byte
}

func (x *touch) Execute(tx proto.Txn) error {
	for i := range x.d.Accesses {
		a := &x.d.Accesses[i]
		b := x.buf[:sizes[a.Table]]
		if err := tx.Read(a.Table, a.Key, b); err != nil {
			return err
		}
		if a.Mode == proto.ModeRead {
			continue
		}
		b[0]++
		if err := tx.Write(a.Table, a.Key, b); err != nil {
			return err
		}
	}
	return nil
}

// unrecorded is a cluster on one thread, whose transactions are logged or not, and not recorded.
func unrecorded(t testing.TB, durable string) *cluster {
	return start(t, host{make: func(ctx context.Context, c node.Config) (*node.Cluster, error) {
		return node.NewLocal(ctx, node.LocalConfig{Config: c, Threads: 1})
	}}, settings{node: func(cfg *node.Config) {
		cfg.Record, cfg.Options = nil, option.Settings{"durable": durable}
	}})
}

// TestTransactionsDoNotAllocate in their steady state.
func TestTransactionsDoNotAllocate(t *testing.T) { doNotAllocate(t, "false") }

// TestLoggedTransactionsDoNotAllocate in their steady state.
func TestLoggedTransactionsDoNotAllocate(t *testing.T) { doNotAllocate(t, "true") }

func doNotAllocate(t *testing.T, durable string) {
	c := unrecorded(t, durable)
	for _, x := range shapes {
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			p := &touch{d: x.d}
			run := func() error {
				tx, err := e.Begin(f, x.d, x.attempt)
				if err != nil {
					return err
				}
				if err := p.Execute(tx); err != nil {
					tx.Abort(err)
					return err
				}
				return tx.Commit()
			}
			// What else the process does while the fiber waits may allocate as well, but not in
			// every round; what a transaction allocates shows in each.
			const n, rounds = 200, 5
			var before, after runtime.MemStats
			least := math.Inf(1)
			for round := range 1 + rounds {
				runtime.ReadMemStats(&before)
				for range n {
					if err := run(); proto.AbortReason(err) != 0 {
						if err := f.Sleep(100 * us); err != nil {
							return err
						}
					} else if err != nil {
						return err
					}
				}
				runtime.ReadMemStats(&after)
				if round > 0 {
					least = min(least, float64(after.Mallocs-before.Mallocs)/n)
				}
			}
			if least > 0.2 {
				return fmt.Errorf("%s: at least %.2f allocations per transaction", x.name, least)
			}
			return nil
		})
	}
}

// BenchmarkTransactions runs each shape on one fiber of one thread.
func BenchmarkTransactions(b *testing.B) {
	for i := range 2 * len(shapes) {
		x, durable, logged := shapes[i/2], "false", ""
		if i%2 == 1 {
			durable, logged = "true", ", logged"
		}
		b.Run(x.name+logged, func(b *testing.B) {
			c := unrecorded(b, durable)
			b.ReportAllocs()
			c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
				p := &touch{d: x.d}
				for b.Loop() {
					tx, err := e.Begin(f, x.d, x.attempt)
					if err == nil {
						if err = p.Execute(tx); err == nil {
							err = tx.Commit()
						} else {
							tx.Abort(err)
						}
					}
					if proto.AbortReason(err) == 0 && err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
