package load

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tatp"
	"drtmd/verbs/fiber"
)

// BenchmarkSmallBank runs local transactions on one fiber: what they cost in CPU time, which other
// load on the machine disturbs less than what they take.
func BenchmarkSmallBank(b *testing.B) {
	for _, name := range []string{"nocc", "drtm", "twopl", "twopl-local", "fasst", "farm"} {
		b.Run(name, func(b *testing.B) {
			p, err := node.FindProtocol(name)
			if err != nil {
				b.Fatal(err)
			}
			o := smallbank.Default(1)
			o.Distributed = 0
			w, err := smallbank.New(o)
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			c, err := node.NewLocal(ctx, node.LocalConfig{Config: node.Config{Protocol: p,
				Workload: w, Fibers: 1, Seed: 1}})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			tasks := c.Start("bench", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
				d := workload.Driver{Runner: proto.Runner{Engine: w.Engine, Rand: w.Rand},
					Client: c.Config.Workload.NewClient(0, w.Rand), Counts: &workload.Counts{},
					Over: func() bool { return !b.Loop() }}
				begin := threadTime()
				err := d.Run(f)
				b.ReportMetric(float64((threadTime()-begin).Nanoseconds())/float64(b.N), "cpu-ns/op")
				return err
			})
			if err := errors.Join(tasks.Wait(ctx), c.Close()); err != nil {
				b.Error(err)
			}
		})
	}
}

// BenchmarkReplicas runs SmallBank and TATP as Dandelion has them (§7) on three nodes with three copies of each record,
// whose workers share a thread: what a transaction costs in CPU time at all three, messages included.
func BenchmarkReplicas(b *testing.B) {
	const nodes, fibers = 3, 16
	bank, bankErr := func() (workload.Workload, error) {
		o := smallbank.Default(nodes)
		o.Accounts, o.HotAccounts, o.ValueBytes, o.OneKeyBalance = 20_000, 1, 8, true
		o.PlaceAnywhere()
		return smallbank.New(o)
	}()
	phones, phonesErr := func() (workload.Workload, error) {
		o := tatp.Default(nodes)
		o.Subscribers, o.ValueBytes, o.NoNumbers, o.FailedCommit = 20_000, 48, true, true
		return tatp.New(o)
	}()
	if err := errors.Join(bankErr, phonesErr); err != nil {
		b.Fatal(err)
	}
	for _, w := range []workload.Workload{phones, bank} {
		for _, name := range []string{"fasst", "dnl4", "dnl2", "dnl1"} {
			b.Run(w.Name()+"/"+name, func(b *testing.B) {
				p, err := node.FindProtocol(name)
				if err != nil {
					b.Fatal(err)
				}
				ctx := context.Background()
				c, err := node.NewLocal(ctx, node.LocalConfig{Config: node.Config{Protocol: p, Workload: w, Nodes: nodes,
					Replicas: nodes, Fibers: fibers, Seed: 1}})
				if err != nil {
					b.Fatal(err)
				}
				over := false // all fibers are on one thread
				var begin time.Duration
				tasks := c.Start("bench", fibers, func(f *fiber.Fiber, w *node.Worker, _ int) error {
					if begin == 0 {
						begin = threadTime()
					}
					d := workload.Driver{Runner: proto.Runner{Engine: w.Engine, Rand: w.Rand},
						Client: c.Config.Workload.NewClient(w.Node, w.Rand), Counts: &workload.Counts{}, YieldEvery: 4,
						Over: func() bool { over = over || !b.Loop(); return over }}
					err := d.Run(f)
					b.ReportMetric(float64((threadTime()-begin).Nanoseconds())/float64(b.N), "cpu-ns/op")
					return err
				})
				if err := errors.Join(tasks.Wait(ctx), c.Close()); err != nil {
					b.Error(err)
				}
			})
		}
	}
}

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
