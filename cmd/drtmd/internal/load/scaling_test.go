package load

import (
	"context"
	"math"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload/smallbank"
	"drtmd/verbs/sim"
)

// DrTM §8.3: the throughput of SmallBank with 1 % of the transactions on two customers distributed
// grows 4.52 times from one machine to six. The cluster is the model of theirs, with 8 workers a
// machine; a worker runs one fiber, since theirs wait for their verbs. The tolerance is 15 %.
func TestScalingOfSmallBankIsThatOfDrTM(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("takes too long")
	}
	const paper, tolerance = 4.52, 0.15
	one, six := modelled(t, 1), modelled(t, 6)
	if got := six / one; math.Abs(got/paper-1) > tolerance {
		t.Errorf("speed-up %.2f, paper %.2f: more than %.0f %% apart", got, paper, 100*tolerance)
	}
}

// modelled is the throughput of machines in the simulator.
func modelled(t *testing.T, machines int) float64 {
	t.Helper()
	p, err := node.FindProtocol("drtm")
	if err != nil {
		t.Fatal(err)
	}
	o := smallbank.Default(machines)
	if machines == 1 {
		o.Distributed = 0
	}
	b, err := smallbank.New(o)
	if err != nil {
		t.Fatal(err)
	}
	cost, err := sim.Preset("cx3-56g")
	if err != nil {
		t.Fatal(err)
	}
	const duration = 2 * time.Millisecond
	r, err := Run(context.Background(), Options{Workload: b, Seed: 1, Virtual: true,
		Warmup: 500 * time.Microsecond, Duration: duration, ChargePs: 25_000,
		Open: func(ctx context.Context) (*node.Cluster, error) {
			return node.NewSimulated(ctx, node.SimulatedConfig{Cost: cost, Config: node.Config{
				Protocol: p, Workload: b, Nodes: machines, Workers: 8, Fibers: 1, Seed: 1}})
		}})
	if err != nil {
		t.Fatal(err)
	}
	return float64(r.Sum.Outcomes(proto.Committed)) / duration.Seconds()
}
