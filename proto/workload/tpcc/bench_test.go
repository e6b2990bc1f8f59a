package tpcc_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload/tpcc"
	"drtmd/verbs/fiber"
)

// Bars, in commits per second of one thread with one warehouse: those of Silo with all five transactions, and of
// DBx1000 with payments and new orders alike. Both are cited (docs/BENCH.md).
const (
	barFull      = 53_000
	barPayOrders = 89_000
)

// benchSeconds is how much CPU time each case takes: DRTMD_TPCC_SECONDS, or a little, so that the benchmark cannot rot.
func benchSeconds() float64 {
	if s, err := strconv.ParseFloat(os.Getenv("DRTMD_TPCC_SECONDS"), 64); err == nil {
		return s
	}
	return 0.2
}

// cpu is what the thread has used.
func cpu() time.Duration {
	var u syscall.Rusage
	const thread = 1 // RUSAGE_THREAD
	if syscall.Getrusage(thread, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkOneThread runs TPC-C on shared memory with one worker and one warehouse: commits per second of the thread's
// CPU time, against the bars. Other programs on the machine change that less than commits per second.
func BenchmarkOneThread(b *testing.B) {
	for _, x := range []struct {
		name string
		mix  [5]int
		bar  float64
	}{{"full", [5]int{45, 43, 4, 4, 4}, barFull}, {"payment+new-order", [5]int{50, 50}, barPayOrders}} {
		for _, chopped := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/chopped=%v", x.name, chopped), func(b *testing.B) {
				oneThread(b, x.mix, chopped, x.bar)
			})
		}
	}
}

func oneThread(b *testing.B, mix [5]int, chopped bool, bar float64) {
	o := tpcc.Default(1)
	o.Mix = mix
	if benchSeconds() < 1 {
		o.Items, o.Customers = 1000, 300
	} else {
		o.Orders = int(benchSeconds() * barPayOrders)
	}
	w, err := tpcc.New(o)
	if err != nil {
		b.Fatal(err)
	}
	p, err := node.FindProtocol("drtm")
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	c, err := node.NewLocal(ctx, node.LocalConfig{Config: node.Config{Protocol: p, Workload: w,
		Options: option.Settings{"chopped": fmt.Sprint(chopped)}}})
	if err != nil {
		b.Fatal(err)
	}
	var commits float64
	var used, wall time.Duration
	err = c.Start("bench", 1, func(f *fiber.Fiber, worker *node.Worker, _ int) error {
		client := w.NewClient(0, rand.New(rand.NewPCG(1, 2)))
		run := proto.Runner{Engine: worker.Engine, Rand: rand.New(rand.NewPCG(3, 4))}
		one := func() (proto.Outcome, error) {
			d, program := client.Next()
			res, err := run.Run(f, d, program)
			client.Done(res.Outcome)
			return res.Outcome, err
		}
		for range 500 {
			if _, err := one(); err != nil {
				return err
			}
		}
		begin, before := time.Now(), cpu()
		if before == 0 {
			return errors.New("this system does not tell the CPU time of a thread")
		}
		for until := before + time.Duration(benchSeconds()*float64(time.Second)); cpu() < until; {
			for i := range 32 {
				if i%16 == 0 { // as workload.Driver does: places of deleted records are given back by softtime
					if err := f.Rest(); err != nil {
						return err
					}
				}
				outcome, err := one()
				if err != nil {
					return err
				}
				if outcome == proto.Committed {
					commits++
				}
			}
		}
		used, wall = cpu()-before, time.Since(begin)
		return nil
	}).Wait(ctx)
	if err := errors.Join(err, c.Stop()); err != nil {
		b.Fatal(err)
	}
	if tally := c.Verify(); tally.Wrong != "" {
		b.Error(tally.Wrong)
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(commits/used.Seconds(), "commits/cpu-s")
	b.ReportMetric(commits/wall.Seconds(), "commits/s")
	b.ReportMetric(commits/used.Seconds()/bar, "of-the-bar")
}
