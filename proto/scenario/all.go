package scenario

import (
	"strings"
	"time"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/proto/twopl"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Shape of the runs: few accounts, so that transactions meet each other, for some leases' time.
const (
	span = 3 * sim.Millisecond
	// shortSpan is that of the scenarios for crashes at every step.
	shortSpan  = 80 * sim.Microsecond
	eventLimit = 20e6
	accounts   = 16
	// delta bounds the error of a node's clock. Leases last some round trips only, so that many
	// end in the middle of a transaction.
	delta = 3 * time.Microsecond
	lease = 30 * time.Microsecond // that of transactions that only read is a third longer
	// orphanAfter is much longer than a transaction holds a lock in these runs, faults included.
	orphanAfter = 2 * time.Millisecond
	lockWait    = 200 * time.Microsecond
)

// load names a workload.
type load uint8

const (
	loadBank load = iota + 1
	loadMicro
)

// All lists the scenarios of this package.
func All() []*scenario.Scenario {
	return []*scenario.Scenario{
		of(spec{name: "smallbank", protocol: "drtm", load: loadBank, drawn: []int{1, 1, 2}}),
		// While a worker is paused only another one of its machine can do what its leases forbid.
		of(spec{name: "micro", protocol: "drtm", load: loadMicro, nodes: 2, drawn: []int{1, 2, 2, 3}}),
		races(), views(), leases(), reuse(),
		crashes("drtm"), breaks("drtm"), removals("drtm"),
		of(spec{name: "smallbank-steps", protocol: "drtm", load: loadBank, short: true}),
		of(spec{name: "micro-steps", protocol: "drtm", load: loadMicro, short: true}),
		of(spec{name: "smallbank-twopl", protocol: "twopl", load: loadBank, drawn: []int{1, 1, 2}}),
		of(spec{name: "smallbank-twopl-local", protocol: "twopl-local", load: loadBank,
			drawn: []int{1, 1, 2}}),
		of(spec{name: "micro-twopl", protocol: "twopl", load: loadMicro, nodes: 2,
			drawn: []int{1, 2, 2, 3}}),
		of(spec{name: "micro-twopl-local", protocol: "twopl-local", load: loadMicro, nodes: 2,
			drawn: []int{1, 2, 2, 3}}),
		crashes("twopl"), breaks("twopl"), removals("twopl"),
		followedClocks()}
}

// spec says what a scenario is made of.
type spec struct {
	name, protocol string
	load           load
	nodes          int   // 0: 3
	drawn          []int // workers of a machine; nil: one
	// short runs have few transactions, and these take the fallback handler soon: a crash at each
	// of their steps is affordable.
	short bool
	// A scenario with a focus says what its runs are for, and has less of everything else.
	focus   string
	faults  faultSet
	keys    int                 // of each table of a node, and mix, of micro; 0: those of all
	mix     micro.Mix           //
	drawnOf map[string][]string // what its seeds draw from, by dimension
	// leases have a length that is drawn.
	leases bool
	// removal has the others remove the last machine in the middle of a run.
	removal bool
}

func (x spec) doc() string {
	load, _, _ := strings.Cut(x.name, "-")
	doc := load + " on " + x.protocol + ", history, sums and locks checked"
	if x.focus != "" {
		doc = "micro on " + x.protocol + " with " + x.focus + "; history, sums and locks checked"
	}
	if x.short {
		doc += "; a short run, for --every-step"
	}
	return doc
}

// of makes a scenario.
func of(x spec) *scenario.Scenario {
	p, err := node.FindProtocol(x.protocol)
	s := &scenario.Scenario{Name: x.name, Doc: x.doc(), Nodes: 3, MinNodes: 2, MaxNodes: 16,
		Workers: 1, DrawnWorkers: x.drawn, Fibers: 3, Until: span, EventLimit: eventLimit,
		Steps: steps(x.protocol), Draw: x.draw, Dimensions: x.dimensions()}
	if x.nodes > 0 {
		s.Nodes = x.nodes
	}
	if x.short {
		s.Fibers, s.Until = 2, shortSpan
	}
	// A variant of a protocol, such as twopl-local, has the same steps.
	family, _, _ := strings.Cut(x.protocol, "-")
	for _, m := range p.Mutations {
		of := family
		if m.Of != "" {
			of = m.Of
		}
		s.Mutations = append(s.Mutations, scenario.Mutation{Name: m.Name, Doc: m.Doc, Of: of,
			Equivalent: m.Equivalent})
	}
	if x.protocol == "drtm" {
		s.Mutations = append(s.Mutations, scenario.Mutation{Name: mutationBeyondDelta, Of: family,
			Doc: "clocks err by much more than DELTA: not a bug of the code"})
	}
	s.Build = func(e *scenario.Env) error {
		if err != nil {
			return err
		}
		set := readSettings(e.Setting)
		w, err := x.workload(e.Nodes, set)
		if err != nil {
			return err
		}
		p := p
		if x.protocol == "drtm" {
			p.New = func(e *node.Env) (proto.Engine, error) { return newDrTM(e, set) }
		}
		return x.build(e, p, w, set)
	}
	return s
}

// newDrTM is the protocol with bounds that fit a run of milliseconds.
func newDrTM(e *node.Env, set settings) (proto.Engine, error) {
	cfg, err := node.DrTMConfig(e)
	if err != nil {
		return nil, err
	}
	cfg.OrphanAfter, cfg.LockWait = orphanAfter, lockWait
	cfg.Lease, cfg.LeaseReadOnly = set.lease, set.lease*4/3
	if set.eager {
		cfg.RegionAborts, cfg.Attempts = 1, 2 // then the fallback handler
	}
	return drtm.New(cfg)
}

// steps are the marked steps of a protocol.
func steps(protocol string) []string {
	if protocol == "drtm" {
		return drtm.Steps()
	}
	return twopl.Steps()
}
