package drtm_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// seeds bounds how many runs a mutation may survive.
const seeds = 300

// honestSeeds are run without a mutation on each host.
const honestSeeds = 10

// pauser stops a worker now and then inside of its regions and their commits, as a system does
// that gives the processor to another thread: hardware would abort the region.
type pauser struct {
	f *fiber.Fiber // that runs a transaction
	r *rand.Rand
}

// pause is an htm.Config.Spurious that aborts nothing.
func (p *pauser) pause() bool {
	if p.f != nil && p.r.IntN(6) == 0 {
		p.f.Charge(p.r.Int64N(int64(40*us)) * 1000) // picoseconds
	}
	return false
}

// pausing runs a program with its worker's pauser knowing the fiber.
type pausing struct {
	proto.Program
	p *pauser
	f *fiber.Fiber
}

func (x pausing) Execute(tx proto.Txn) error {
	x.p.f = x.f
	return x.Program.Execute(tx)
}

// violated runs random transactions with a mutation and reports what the checker found, or a node
// that noticed itself that something was wrong. Leases last some round trips, so that many end in
// the middle of a transaction.
func violated(t *testing.T, h host, m drtm.Mutation, seed uint64) string {
	t.Helper()
	pausers := map[[2]int]*pauser{}
	c := start(t, h, settings{
		node: func(cfg *node.Config) {
			cfg.Nodes, cfg.Workers, cfg.Seed = 2, 2, seed
		},
		drtm: func(cfg *drtm.Config) {
			p := &pauser{r: rand.New(rand.NewPCG(seed, uint64(cfg.Node)<<8|uint64(cfg.Index)))}
			pausers[[2]int{int(cfg.Node), cfg.Index}] = p
			cfg.Region.Spurious = p.pause
			cfg.Lease, cfg.LeaseReadOnly = 30*us, 30*us
			cfg.Mutation = m
		}})
	end := c.Now() + 20*time.Millisecond
	torn, err := c.try(60, func(f *fiber.Fiber, w *node.Worker, r *proto.Runner,
		p proto.Program) proto.Program {
		r.GiveUp = func() bool { return c.Now() > end } // a mutation may make it impossible
		return pausing{p, pausers[[2]int{int(w.Node), w.Index}], f}
	})
	if err != nil && proto.AbortReason(err) == 0 {
		return err.Error() // a failed invariant
	}
	if err := c.Stop(); err != nil {
		return err.Error()
	}
	res := c.judge()
	switch {
	case res.Verdict != check.Serializable:
		return res.Violations[0].Text
	case torn > 0:
		return "torn reads"
	}
	return ""
}

// TestEachMutationIsCaught switches deliberate bugs on, one at a time. Package scenario searches for
// all of them.
func TestEachMutationIsCaught(t *testing.T) {
	for _, m := range []drtm.Mutation{drtm.NoConfirm, drtm.SoftTimeInValid, drtm.NoStateCheck,
		drtm.NoKeyCheckLocal, drtm.UnlockBeforeWriteBack} {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				if what := violated(t, onSim, m, seed+1); what != "" {
					t.Logf("seed %d: %s", seed+1, what)
					return
				}
			}
			t.Errorf("%s: no violation in %d seeds", m, seeds)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		for _, h := range []host{onSim, onHCA} {
			for seed := range uint64(honestSeeds) {
				if what := violated(t, h, 0, seed+1); what != "" {
					t.Errorf("%s, seed %d: %s", h.name, seed+1, what)
				}
			}
		}
	})
}
