package drtm_test

import (
	"testing"

	"drtmd/proto/check"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
)

// seeds bounds how many runs a mutation may survive.
const seeds = 40

// short makes leases about as long as a few round trips of the simulated network, so that many
// end in the middle of a transaction.
func short(cfg *drtm.Config) { cfg.Lease, cfg.LeaseReadOnly = 12*us, 12*us }

// violated runs random transactions with a mutation and reports whether the checker found a
// violation, or a node noticed itself that something was wrong.
func violated(t *testing.T, m drtm.Mutation, seed uint64) string {
	t.Helper()
	c := start(t, onSim, settings{
		node: func(cfg *node.Config) {
			cfg.Nodes, cfg.Workers, cfg.Seed = 2, 2, seed
		},
		drtm: func(cfg *drtm.Config) {
			short(cfg)
			cfg.Mutation = m
		}})
	torn, err := c.try(60)
	if err != nil {
		return err.Error()
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

// TestEachMutationIsCaught switches the deliberate bugs on, one at a time.
func TestEachMutationIsCaught(t *testing.T) {
	for _, m := range drtm.Mutations() {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(seeds) {
				if what := violated(t, m, seed+1); what != "" {
					t.Logf("seed %d: %s", seed+1, what)
					return
				}
			}
			t.Errorf("%s: no violation in %d seeds", m, seeds)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		for seed := range uint64(3) {
			if what := violated(t, 0, seed+1); what != "" {
				t.Errorf("seed %d: %s", seed+1, what)
			}
		}
	})
}
