package tpcc_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload/tpcc"
	"drtmd/verbs/fiber"
)

// TestTransactionsDoNotAllocate: the five transactions, in their mix, in the steady state, whole and in pieces, with logs and
// without.
func TestTransactionsDoNotAllocate(t *testing.T) {
	for _, x := range []string{"nocc", "drtm", "drtm --chopped", "drtm --durable", "drtm --chopped --durable", "twopl"} {
		t.Run(x, func(t *testing.T) {
			words := strings.Split(x, " --")
			name, options := words[0], option.Settings{}
			for _, flag := range words[1:] {
				options[flag] = "true"
			}
			o := tpcc.Default(1)
			o.Items, o.Customers, o.Orders = 500, 30, 10_000
			w, err := tpcc.New(o)
			if err != nil {
				t.Fatal(err)
			}
			p, err := node.FindProtocol(name)
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			c, err := node.NewLocal(ctx, node.LocalConfig{Config: node.Config{Protocol: p, Workload: w, Options: options}})
			if err != nil {
				t.Fatal(err)
			}
			least := math.Inf(1)
			err = c.Start("test", 1, func(f *fiber.Fiber, worker *node.Worker, _ int) error {
				client := w.NewClient(0, rand.New(rand.NewPCG(1, 2)))
				run := proto.Runner{Engine: worker.Engine, Rand: rand.New(rand.NewPCG(3, 4))}
				const n, rounds = 1000, 5
				var before, after runtime.MemStats
				for round := range rounds {
					runtime.ReadMemStats(&before)
					for i := range n {
						if i%16 == 0 { // as workload.Driver does: places of deleted records are given back by softtime
							if err := f.Rest(); err != nil {
								return err
							}
						}
						d, program := client.Next()
						res, err := run.Run(f, d, program)
						if err != nil {
							return err
						}
						client.Done(res.Outcome)
					}
					runtime.ReadMemStats(&after)
					if round > 0 {
						least = min(least, float64(after.Mallocs-before.Mallocs)/n)
					}
				}
				return nil
			}).Wait(ctx)
			if err := errors.Join(err, c.Stop()); err != nil {
				t.Error(err)
			}
			if tally := c.Verify(); tally.Wrong != "" {
				t.Error(tally.Wrong)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if least > 0.05 {
				t.Errorf("at least %.2f allocations per transaction", least)
			}
		})
	}
}
