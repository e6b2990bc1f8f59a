package scenario

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"drtmd/proto"
	"drtmd/proto/chop"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/workload/micro"
	"drtmd/store/layout"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Shape of the runs: few accounts, so that transactions meet each other, for some leases' time.
const (
	span = 3 * sim.Millisecond
	// shortSpan is that of the scenarios for crashes at every step.
	shortSpan = 80 * sim.Microsecond
	// deathSpan is the same where machines become members of a registry first.
	deathSpan  = 150 * sim.Microsecond
	eventLimit = 20e6
	// deathLimit is that where nodes that wait for a dead one ask again and again.
	deathLimit = 3e6
	accounts   = 16
	// delta bounds the error of a node's clock. Leases last some round trips only, so that many
	// end in the middle of a transaction.
	delta = 3 * time.Microsecond
	lease = 30 * time.Microsecond
)

// load names a workload.
type load uint8

const (
	loadBank load = iota + 1
	loadMicro
	loadRanges
	loadChained
	loadTPCC
	loadSkews
	loadFields
	loadScript
	loadClients
)

// chopLayer is whose the deliberate bugs of the analysis of pieces are.
const chopLayer = "chop"

// All lists the scenarios of this package: those of each protocol that runs on several machines, and
// more for each that is no variant of another. A program may add its own protocols.
func All(own ...node.Protocol) (all []*scenario.Scenario) {
	for _, p := range node.Protocols(own...) {
		if p.OneThread {
			continue
		}
		if p.Chips != nil && p.Chips.Cores {
			all = append(all, boards(p)...)
			continue
		}
		if p.Chips != nil {
			all = append(append(all, chips(p)...), chipRecoveries(p)...)
			continue
		}
		all = append(all, of(spec{name: "smallbank", protocol: p, load: loadBank, drawn: []int{1, 1, 2}}),
			// While a worker is paused only another one of its machine can do what its leases forbid.
			of(spec{name: "micro", protocol: p, load: loadMicro, nodes: 2, drawn: []int{1, 2, 2, 3}}))
		all = append(all, small(p))
		if p.Replicates {
			all = append(all, replicas(p), gaps(p))
		}
		if p.Simulation.Undoes {
			all = append(all, cuts(p))
		}
		if p.Offers.Has(proto.OfferRecovery) {
			all = append(all, recoveries(p), deaths(p))
			if !p.Declared {
				all = append(all, clients(p))
			}
		}
		if p.Simulation.Atomics {
			all = append(all, atomics(p))
			if p.Offers.Has(proto.OfferRecovery) {
				all = append(all, lostAtomics(p))
			}
		}
		if p.Family != "" {
			continue
		}
		all = append(all, races(p), views(p), reuse(p), places(p), holds(p), crashes(p), breaks(p), removals(p),
			members(spec{protocol: p}),
			of(spec{name: "smallbank", protocol: p, load: loadBank, short: true}),
			of(spec{name: "micro", protocol: p, load: loadMicro, short: true}))
		if p.Scans {
			all = append(all, scans(p))
		}
		if p.Offers.Has(proto.OfferLeases) {
			all = append(all, leaves(p))
		}
		if p.Offers.Has(proto.OfferChains) {
			all = append(all, chains(p), barriers(p), tpccChains(p))
		}
		if _, index := p.Tables(); index == layout.HopscotchInline {
			all = append(all, moves(p))
		}
		if p.Replicates {
			all = append(all, fullLogs(p))
		}
		if p.Offers.Has(proto.OfferRecovery) {
			all = append(all, stills(p), commits(p), deathsInPairs(p))
		}
		if p.Scans && p.Offers.Has(proto.OfferRecovery) {
			all = append(all, orderedRecoveries(p), tpccRecoveries(p))
		}
		if p.Simulation.Queues {
			all = append(all, queues(p))
		}
		if p.Offers.Has(proto.OfferLogs) {
			all = append(all, fields(p), recoveriesOfLogs(p), logSteps(p), fewLogs(p), relapses(p), homeLogs(p), fieldLogs(p),
				partLogs(p))
		}
		if p.Offers.Has(proto.OfferLogs | proto.OfferChains) {
			all = append(all, chainedLogs(p), barrierLogs(p), tpccLogs(p), chainSteps(p), tpccSteps(p))
		}
		if p.Offers.Has(proto.OfferLeases) {
			all = append(all, leases(p), ends(p), inRounds(p))
		}
		if len(p.Simulation.Steps.Leased) > 0 {
			all = append(all, returns(p))
		}
	}
	return append(append(all, followedClocks()), allRepairs()...)
}

// spec says what a scenario is made of.
type spec struct {
	name     string // without the protocol's
	protocol node.Protocol
	load     load
	nodes    int   // 0: 3
	drawn    []int // workers of a machine; nil: one
	// short runs have few transactions, and these take rare paths soon: a crash at each of their steps
	// is affordable.
	short bool
	// A scenario with a focus says what its runs are for, and has less of everything else.
	focus   string
	faults  faultSet
	fibers  int                 // of a worker; 0: 3
	polls   bool                // workers poll without rest, as they do outside of the simulator
	keys    int                 // of each table of a node, and mix, of micro; 0: those of all
	singles bool                // transactions of micro that only read may read one record
	mix     micro.Mix           //
	drawnOf map[string][]string // what its seeds draw from, by dimension
	fixed   option.Settings     // options of the protocol
	// removal has the others remove the last machine in the middle of a run.
	removal bool
	// membership has the machines be members of a registry.
	membership bool
	// durable clusters have machines that log their transactions and recover by themselves.
	durable bool
	// deferred has transactions of chained whose last piece waits at a barrier.
	deferred bool
	// frames has transactions of rows that write both edges of a row.
	frames bool
	// replicated clusters have more than one replica of each record.
	replicated bool
	// unrecorded runs take no history, whose records are loaded as a whole: what the load checks is all.
	unrecorded bool
	// script is what the clients of each node run again and again, of loadScript.
	script []string
	// small worlds have one transaction of each node.
	small bool
	// grace is how long managers go on after the end of the run; 0: grace.
	grace sim.Time
}

// defaultName is the name of the default protocol, asked once: there are hundreds of scenarios.
var defaultName = sync.OnceValue(func() string { return node.DefaultProtocol().Name })

// fullName is the name of the scenario. That of the default protocol does not name it.
func (x spec) fullName() string {
	name := x.name
	if x.protocol.Name != defaultName() {
		name += "-" + x.protocol.Name
	}
	if x.short {
		name += "-steps"
	}
	return name
}

func (x spec) doc() string {
	doc := x.name + " on " + x.protocol.Name + ", history, sums and locks checked"
	if x.focus != "" {
		load := "micro"
		switch x.load {
		case loadScript:
			load = "script"
		case loadRanges:
			load = "ranges"
		case loadChained:
			load = "chained"
		case loadTPCC:
			load = "tpcc"
		case loadSkews, loadClients:
			load = "opmix"
		case loadFields:
			load = "rows"
		}
		doc = load + " on " + x.protocol.Name + " with " + x.focus + "; history, sums and locks checked"
	}
	if x.unrecorded {
		doc = strings.Replace(doc, "history, sums", "content, sums", 1)
	}
	if x.durable {
		doc += "; in the end all machines are up, nothing is locked, and no update is missing"
	}
	switch {
	case x.small:
		doc += "; for --every-order"
	case x.short:
		doc += "; a short run, for --every-step"
	}
	return doc
}

// of makes a scenario.
func of(x spec) *scenario.Scenario {
	p, steps := &x.protocol, x.steps()
	s := &scenario.Scenario{Name: x.fullName(), Doc: x.doc(), Nodes: 3, MinNodes: 2, MaxNodes: 16,
		Workers: 1, DrawnWorkers: x.drawn, Fibers: 3, Until: span, EventLimit: eventLimit,
		Steps: slices.Concat(steps.All, steps.NoLineWords),
		Draw:  x.draw, Dimensions: x.dimensions()}
	if x.nodes > 0 {
		s.Nodes = x.nodes
	}
	if p.Chips != nil {
		s.Preset = p.Chips.Preset
	}
	if x.dies() {
		s.EventLimit = deathLimit
	}
	if x.fibers > 0 {
		s.Fibers = x.fibers
	}
	if x.short {
		s.Fibers, s.Until = 2, shortSpan
	}
	if x.short && x.membership {
		s.Until, s.Deaths = deathSpan, true
	}
	for _, m := range p.Mutations {
		m.Of = cmp.Or(m.Of, p.FamilyName())
		s.Mutations = append(s.Mutations, m)
	}
	if x.load == loadChained {
		s.Mutations = append(s.Mutations, chop.Mutations()...)
		for i := range s.Mutations {
			s.Mutations[i].Of = cmp.Or(s.Mutations[i].Of, chopLayer)
		}
	}
	if p.Clocks {
		s.Mutations = append(s.Mutations, scenario.Mutation{Name: mutationBeyondDelta, Of: p.FamilyName(),
			Doc: "clocks err by much more than DELTA: not a bug of the code"})
	}
	s.Build = func(e *scenario.Env) error {
		set := readSettings(e.Setting)
		chopping, err := chop.MutationNamed(e.Mutation)
		if x.load != loadChained || err != nil {
			chopping = 0
		}
		w, err := x.workload(e.Nodes, set, chopping)
		if err != nil {
			return err
		}
		return x.build(e, w, set, chopping)
	}
	return s
}

// options of the protocol's engines in a run: those that fit so short a time, and what was drawn.
func (x spec) options(setting func(string) string) option.Settings {
	all := x.protocol.Simulation.Options.Clone()
	for _, d := range x.protocol.Simulation.Dimensions {
		for _, v := range d.Values {
			if v.Name == setting(d.Name) {
				maps.Copy(all, v.Options)
			}
		}
	}
	maps.Copy(all, x.fixed)
	if setting(dimPieces) == "no" {
		delete(all, protocol.OptChopped)
	}
	return all
}
