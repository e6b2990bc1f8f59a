package reproduce

import (
	"context"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/check"
	"drtmd/proto/node"
)

// TestMixesAreStrictlySerializable: a small run of a mix of Table V with TPC-C, under each protocol of the figures. Every
// application commits.
func TestMixesAreStrictlySerializable(t *testing.T) {
	raceskip.Simulated(t)
	names := tableV()[4]
	const nodes, cores, scale = 2, 4, 100
	for _, protocol := range []string{farmName, hybridName, hadesName} {
		w, err := (&Run{}).newMix(names, nodes, cores, scale)
		if err != nil {
			t.Fatal(err)
		}
		p, err := node.FindProtocol(protocol)
		if err != nil {
			t.Fatal(err)
		}
		got, err := load.Run(t.Context(), load.Options{Workload: w, Seed: 1, Virtual: true, Duration: 60 * time.Microsecond,
			ChargePs: clientPs, Open: func(ctx context.Context) (*node.Cluster, error) {
				return node.NewSimulated(ctx, node.SimulatedConfig{Config: node.Config{Protocol: p, Workload: w, Nodes: nodes,
					Workers: cores, Fibers: hadesPerCore, Seed: 1, Record: &node.Recording{}}})
			}})
		if err != nil || got.Conserved != nil {
			t.Fatalf("%s: %v, %v", protocol, err, got.Conserved)
		}
		for i, name := range names {
			if finishedOf(got, uint8(i+1)) == 0 {
				t.Errorf("%s: %s commits nothing", protocol, name)
			}
		}
		c, err := check.History(t.Context(), got.History, check.Options{UserAborts: true})
		if err != nil || c.Verdict != check.Serializable {
			t.Errorf("%s: %v, %v", protocol, c, err)
		}
		if err := got.History.Close(); err != nil {
			t.Error(err)
		}
	}
}
