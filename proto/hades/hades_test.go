package hades_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/hades"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// TestImpossibleSizesAreRefusedInWords: before any memory is registered.
func TestImpossibleSizesAreRefusedInWords(t *testing.T) {
	w, err := micro.New(micro.Default(2))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ option, value, says string }{
		{hades.OptReadBits, "0", "it has 0 bits"},
		{hades.OptNICBits, "0", "it has 0 bits"},
		{hades.OptWriteBits, "500", "no power of two"},
		{hades.OptIndexBits, "0", "are not found"},
		{hades.OptSets, "1000", "a power of two"},
		{hades.OptTagBits, "1", "10 transactions and tags of 1 bits"},
		{hades.OptPerCore, "0", "not 0"},
	} {
		cfg := node.Config{Protocol: hades.Protocol(), Workload: w, Nodes: 2, Workers: 5,
			Options: option.Settings{c.option: c.value}}
		if err := cfg.Complete(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("--%s %s: %v, want %q", c.option, c.value, err, c.says)
		}
	}
}

// TestEveryoneCommitsWhoLocksEverything (§VI): many transactions want a few records, and all commit, though cores
// have one pair of filters for four fibers, and NICs two pairs in all.
func TestEveryoneCommitsWhoLocksEverything(t *testing.T) {
	raceskip.Simulated(t)
	for _, p := range []node.Protocol{hades.Protocol(), hades.Hybrid()} {
		t.Run(p.Name, func(t *testing.T) {
			o := micro.Default(3)
			o.Keys = 4
			w, err := micro.New(o)
			if err != nil {
				t.Fatal(err)
			}
			cost, err := sim.Preset(p.Preset)
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			c, err := node.NewSimulated(ctx, node.SimulatedConfig{Cost: cost, Config: node.Config{Protocol: p, Workload: w,
				Nodes: 3, Workers: 2, Fibers: 4, Record: &node.Recording{}, Options: option.Settings{hades.OptPerCore: "1",
					hades.OptNICPairs: "2", hades.OptPatience: "1"}}})
			if err != nil {
				t.Fatal(err)
			}
			const each = 30
			var counts workload.Counts
			err = c.Start("client", 4, func(f *fiber.Fiber, w *node.Worker, i int) error {
				r := rand.New(rand.NewPCG(uint64(w.Node), uint64(4*w.Index+i)))
				left := each
				d := workload.Driver{Client: c.Config.Workload.NewClient(w.Node, r), Counts: &counts,
					Over: func() bool { left--; return left < 0 }, Runner: proto.Runner{Engine: w.Engine, Rand: r}}
				return d.Run(f)
			}).Wait(ctx)
			locked := uint64(0)
			for _, w := range c.Workers() {
				locked += w.Engine.Stats().Fallbacks
			}
			if err := errors.Join(err, c.Stop()); err != nil {
				t.Fatal(err)
			}
			h, err := c.History()
			if err != nil {
				t.Fatal(err)
			}
			res, err := check.History(ctx, h, check.Options{UserAborts: true})
			if err != nil || res.Verdict != check.Serializable {
				t.Errorf("%v, %v", res, err)
			}
			if err := errors.Join(h.Close(), c.Close()); err != nil {
				t.Error(err)
			}
			var given uint64
			for i := range counts.Kinds {
				given += counts.Kinds[i].Outcomes[proto.Aborted]
			}
			if locked == 0 || given > 0 {
				t.Errorf("%d transactions were given up, and %d attempts have locked everything", given, locked)
			}
		})
	}
}
