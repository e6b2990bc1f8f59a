package scenario

import (
	"time"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/proto/twopl"
	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/proto/workload/smallbank"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Shape of the runs: few accounts, so that transactions meet each other, for some leases' time.
const (
	span        = 3 * sim.Millisecond
	eventLimit  = 20e6
	accounts    = 16
	distributed = 0.5
	anywhere    = 0.4
	// delta bounds the error of a node's clock. Leases last some round trips only, so that many
	// end in the middle of a transaction.
	delta         = 3 * time.Microsecond
	lease         = 30 * time.Microsecond
	leaseReadOnly = 40 * time.Microsecond
	// orphanAfter is much longer than a transaction holds a lock in these runs, faults included.
	orphanAfter = 2 * time.Millisecond
	lockWait    = 200 * time.Microsecond
)

// All lists the scenarios of this package.
func All() []*scenario.Scenario {
	return []*scenario.Scenario{smallBank("smallbank", "drtm"),
		microLoad("micro", "drtm"), smallBank("smallbank-twopl", "twopl"),
		smallBank("smallbank-twopl-local", "twopl-local")}
}

func smallBank(name, protocol string) *scenario.Scenario {
	return of(name, protocol, "SmallBank on "+protocol+": history, money and locks are checked",
		func(nodes int) (workload.Workload, error) {
			o := smallbank.Default(nodes)
			o.Accounts, o.Distributed, o.Anywhere = accounts, distributed, anywhere
			o.HotAccounts, o.HotAccess = 0.25, 0.75
			return smallbank.New(o)
		})
}

func microLoad(name, protocol string) *scenario.Scenario {
	return of(name, protocol, "micro on "+protocol+": insertions, deletions and absent reads too",
		func(nodes int) (workload.Workload, error) {
			o := micro.Default(nodes)
			o.Keys, o.Distributed = 16, distributed
			return micro.New(o)
		})
}

// of makes the scenario of a workload on a protocol.
func of(name, protocol, doc string,
	load func(nodes int) (workload.Workload, error)) *scenario.Scenario {
	p, err := node.FindProtocol(protocol)
	s := &scenario.Scenario{Name: name, Doc: doc, Nodes: 3, MinNodes: 2, MaxNodes: 16, Workers: 1,
		Fibers: 3, Until: span, EventLimit: eventLimit, Steps: steps(protocol), Draw: draw}
	for _, m := range p.Mutations {
		s.Mutations = append(s.Mutations, scenario.Mutation{Name: m.Name, Doc: m.Doc})
	}
	if protocol == "drtm" {
		p.New = newDrTM
		s.Mutations = append(s.Mutations, scenario.Mutation{Name: mutationBeyondDelta,
			Doc: "clocks err by much more than DELTA: not a bug of the code"})
	}
	s.Build = func(e *scenario.Env) error {
		if err != nil {
			return err
		}
		w, err := load(e.Nodes)
		if err != nil {
			return err
		}
		return build(e, p, w)
	}
	return s
}

// newDrTM is the protocol with bounds that fit a run of milliseconds.
func newDrTM(e *node.Env) (proto.Engine, error) {
	cfg, err := node.DrTMConfig(e)
	if err != nil {
		return nil, err
	}
	cfg.OrphanAfter, cfg.LockWait = orphanAfter, lockWait
	cfg.Lease, cfg.LeaseReadOnly = lease, leaseReadOnly
	return drtm.New(cfg)
}

// steps are the marked steps of a protocol.
func steps(protocol string) []string {
	if protocol == "drtm" {
		return drtm.Steps()
	}
	return twopl.Steps()
}
