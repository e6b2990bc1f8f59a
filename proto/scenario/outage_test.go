package scenario

import (
	"context"
	"slices"
	"testing"

	"drtmd/proto/node"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// TestOutagesStrikeWhereLocksAreHeld: the seeds have links that go away for less and for more than the
// retries of the queue pairs, by themselves and with the interface, at steps between lock and commit
// and between commit and the end of write-back; and all of them come back before the managers end.
func TestOutagesStrikeWhereLocksAreHeld(t *testing.T) {
	for name, protocol := range map[string]string{"micro": "drtm", "smallbank-twopl": "twopl"} {
		s := find(t, name)
		p, err := node.FindProtocol(protocol)
		if err != nil {
			t.Fatal(err)
		}
		var struck [2][2]int // cut or down, short or long
		at := map[string]int{}
		for seed := uint64(1); seed <= 30; seed++ {
			r, err := scenario.Run(context.Background(), s, scenario.Options{Seed: seed, Random: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range r.Outcomes {
				kind := slices.Index([]sim.FaultKind{sim.CutLink, sim.DownInterface}, o.Fault.Kind)
				if kind < 0 || !o.Struck || o.Hits == 0 || o.At > span {
					continue
				}
				if o.At+o.Fault.For > span+grace/2 {
					t.Errorf("%s, seed %d: %v ends too late for what is owed", name, seed, o.Fault)
				}
				long := 0
				if o.Fault.For > retries {
					long = 1
				}
				struck[kind][long]++
				if slices.Contains(p.Simulation.Steps.Held, o.Fault.Step) {
					at[o.Fault.Step]++
				}
			}
		}
		for kind, lengths := range struck {
			for long, n := range lengths {
				if n == 0 {
					t.Errorf("%s: no outage of kind %d, long %d", name, kind, long)
				}
			}
		}
		if len(at) < 3 {
			t.Errorf("%s: outages struck at %v only", name, at)
		}
		t.Logf("%s: cut and down, short and long %v; at %v", name, struck, at)
	}
}
