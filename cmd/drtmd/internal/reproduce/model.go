package reproduce

import (
	"context"
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/sim"
)

// model is a simulated cluster under a workload.
type model struct {
	protocol string
	settings option.Settings // of the protocol
	workload workload.Workload
	// functions are those that NICs may execute; nil: none.
	functions []workload.Function
	preset    string
	tune      func(*sim.CostModel) // what differs from the preset; nil: nothing
	nodes     int
	perNIC    int        // nodes that share a NIC; 0 = 1
	workers   int        // per node
	rpc       rpc.Config // what is not 0 of it; see node.Config.RPC
	fibers    int        // per worker
	replicas  int        // 0 = 1
	mutation  string
	seed      uint64
	warmup    time.Duration
	measured  time.Duration
	every     int // transactions of which one is timed; 0 = none
	onEvent   func(sim.Event)
	watch     workload.Watch // follows transactions; nil: nobody does
	onStep    func(f *fiber.Fiber, name string)
}

// clientPs is the CPU time in picoseconds that drawing a transaction takes, as in drtmd bench.
const clientPs = 25_000

// run runs the model and checks what the workload can check.
func (m *model) run(ctx context.Context) (*load.Result, error) {
	p, err := node.FindProtocol(m.protocol)
	if err != nil {
		return nil, err
	}
	cost, err := sim.Preset(m.preset)
	if err != nil {
		return nil, err
	}
	if m.tune != nil {
		m.tune(cost)
	}
	r, err := load.Run(ctx, load.Options{Workload: m.workload, Seed: m.seed, Virtual: true,
		Warmup: m.warmup, Duration: m.measured, ChargePs: clientPs, SampleEvery: m.every, Watch: m.watch,
		Open: func(ctx context.Context) (*node.Cluster, error) {
			return node.NewSimulated(ctx, node.SimulatedConfig{Cost: cost, OnEvent: m.onEvent, OnStep: m.onStep, PerNIC: m.perNIC, Config: node.Config{
				Protocol: p, Options: m.settings, Workload: m.workload, Functions: m.functions, Nodes: m.nodes, Workers: m.workers,
				Fibers: m.fibers, Replicas: m.replicas, Seed: m.seed, Mutation: m.mutation, RPC: m.rpc}})
		}})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s under %s: %w", m.protocol, m.workload.Name(), err)
	case r.Conserved != nil:
		return nil, fmt.Errorf("the sums of %s under %s: %w", m.workload.Name(), m.protocol, r.Conserved)
	case r.Audit != nil:
		return nil, fmt.Errorf("the replicas of %s under %s: %w", m.workload.Name(), m.protocol, r.Audit)
	}
	return r, nil
}

// finished is how many transactions ended in a second of virtual time, committed or rolled back by their
// own rules.
func finished(r *load.Result) float64 {
	n := r.Sum.Outcomes(proto.Committed) + r.Sum.Outcomes(proto.RolledBack)
	return float64(n) / r.Elapsed.Seconds()
}
