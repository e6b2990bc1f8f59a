package scenario

import (
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/micro"
	"drtmd/proto/workload/opmix"
	"drtmd/store/layout"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Scenarios of protocols that run on chips which are a model (protocol.Chips). Their machines do not crash, and their
// messages do not use queue pairs: what is lost the NIC repeats, so that it is late.

// chips are all of a protocol.
func chips(p node.Protocol) []*scenario.Scenario {
	places := spec{name: "places", protocol: p, load: loadMicro, nodes: 2, drawn: []int{1, 2, 3},
		focus:  "items that are inserted, deleted, and looked for in vain",
		faults: chipFaults, keys: few, mix: micro.Mix{0, 10, 5, 35, 25, 0, 0, 0, 25},
		drawnOf: map[string][]string{dimRemote: {"10", "50"}, dimReads: {"default"}, dimReuse: {"yes"}}}
	return []*scenario.Scenario{
		of(spec{name: "smallbank", protocol: p, load: loadBank, drawn: []int{1, 1, 2}, faults: chipFaults}),
		of(spec{name: "micro", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 2, 2}, faults: chipFaults}),
		of(places),
		of(spec{name: "races", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 2},
			focus: "very few records, and faults that only change the order", faults: orderFaults, keys: few,
			mix:     micro.Mix{40, 0, 0, 0, 0, 20, 0, 0, 40},
			drawnOf: map[string][]string{dimRemote: {"50", "50", "10"}, dimReuse: {"no"}, dimPlans: {"few"}}}),
		of(spec{name: "storms", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 2},
			focus:  "transactions that all want a few records, and late messages",
			faults: chipFaults, keys: few, mix: micro.Mix{20, 0, 0, 0, 0, 20, 0, 0, 60},
			drawnOf: map[string][]string{dimRemote: {"50"}, dimReads: {"default"}, dimReuse: {"no"}, dimPlans: {"few"}}}),
		of(spec{name: "skews", protocol: p, load: loadSkews, nodes: 4, drawn: []int{1, 2},
			focus:  "transactions that read one of very few records and write another, and late messages",
			faults: lateChipFaults, drawnOf: map[string][]string{dimReads: {"default"},
				"patience": {"usual"}, "nic": {"slow", "slow", "usual"}, "pairs": {"all"}, "cores": {"all"}, // of hades
				"filters": {"usual"}, "cache": {"usual"}}}),
		of(spec{name: "fields", protocol: p, load: loadFields, nodes: 3, drawn: []int{1, 2},
			focus: "parts of values that are read and written", faults: chipFaults,
			drawnOf: map[string][]string{dimRemote: {"50", "10"}}}),
		of(spec{name: "scans", protocol: p, load: loadRanges, nodes: 2, drawn: []int{1, 2, 2},
			focus: "scans of ranges in which rows come and go", faults: chipFaults,
			drawnOf: map[string][]string{dimRemote: {"2", "10", "50"}}}),
	}
}

// chipRecoveries are of clusters with replicas in which machines die.
func chipRecoveries(p node.Protocol) []*scenario.Scenario {
	return []*scenario.Scenario{
		of(spec{name: "replicas", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 2},
			focus: "replicas of each record, and late messages", faults: chipFaults, replicated: true,
			drawnOf: map[string][]string{dimRemote: {"50", "10"}}}),
		recoveries(p), deaths(p), orderedRecoveries(p)}
}

// boards are all of a protocol whose NICs have cores.
func boards(p node.Protocol) []*scenario.Scenario {
	busy := micro.Mix{40, 0, 0, 0, 0, 20, 0, 0, 40}
	return []*scenario.Scenario{
		of(spec{name: "smallbank", protocol: p, load: loadBank, drawn: []int{1, 1, 2}, faults: chipFaults, replicated: true}),
		of(spec{name: "micro", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 2, 2}, faults: chipFaults, replicated: true}),
		of(spec{name: "places", protocol: p, load: loadMicro, nodes: 2, drawn: []int{1, 2, 3},
			focus:  "items that are inserted, deleted, and looked for in vain",
			faults: chipFaults, keys: few, mix: micro.Mix{0, 10, 5, 35, 25, 0, 0, 0, 25}, replicated: true,
			drawnOf: map[string][]string{dimRemote: {"10", "50"}, dimReads: {"default"}, dimReuse: {"yes"}, dimReplicas: {"2"}}}),
		of(spec{name: "races", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 2},
			focus: "very few records, and faults that only change the order", faults: orderFaults, keys: few, mix: busy,
			drawnOf: map[string][]string{dimRemote: {"50", "50", "10"}, dimReuse: {"no"}, dimPlans: {"few"}}}),
		of(spec{name: "locals", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 3},
			focus: "transactions of one shard beside those of two, and hosts that stand still", faults: chipFaults, keys: few,
			mix: busy, replicated: true, drawnOf: map[string][]string{dimRemote: {"10", "2"}, dimReuse: {"no"},
				dimReplicas: {"2"}, "local": {"yes"}}}),
		of(spec{name: "skews", protocol: p, load: loadSkews, nodes: 4, drawn: []int{1, 2},
			focus:  "transactions that read one of very few records and write another, and late messages",
			faults: lateChipFaults, drawnOf: map[string][]string{dimReads: {"default"}}}),
		of(spec{name: "scans", protocol: p, load: loadRanges, nodes: 3, drawn: []int{1, 2},
			focus: "scans of ranges in which rows come and go", faults: chipFaults, replicated: true,
			drawnOf: map[string][]string{dimRemote: {"2", "10", "50"}}}),
		recoveries(p), deaths(p), orderedRecoveries(p), roomyTPCC(p), twoLosses(p, loadRanges), twoLosses(p, loadTPCC),
		stills(p),
		of(spec{name: rolesScenario, protocol: p, load: loadMicro, nodes: 3, drawn: []int{2},
			focus:  "threads that run transactions beside others that apply logs",
			faults: chipFaults, replicated: true, drawnOf: map[string][]string{dimRemote: {"50", "10"}, "roles": {"apart"}}}),
		of(spec{name: "recovery-bank", protocol: p, load: loadBank, nodes: 4, drawn: []int{1, 2},
			focus:  "functions that NICs execute, short logs, and machines that die and come back with nothing",
			faults: deathFaults, membership: true, replicated: true,
			drawnOf: map[string][]string{dimRemote: {"50"}, "logs": {"short"}, "ship": {"hop", "hop", "coordinator"}}}),
		of(spec{name: "recovery-pins", protocol: p, load: loadMicro, nodes: 4, drawn: []int{1}, keys: pinnedKeys, fibers: 12,
			focus:  "NICs whose memory is full of what their hosts have not applied, and machines that die",
			faults: deathFaults, membership: true, replicated: true,
			drawnOf: map[string][]string{dimRemote: {"50"}, dimSkew: {"0"}, dimLines: {"1"}, dimReads: {"default"},
				dimReuse: {"no"}, dimPlans: {"few"}},
			fixed: option.Settings{"nic-memory": pinnedMemory}}),
	}
}

// Scenarios that have the dimension of the roles of threads (protocol.Roles).
const (
	rolesScenario  = "roles"
	lossesOfScans  = "losses-scans"
	lossesOfOrders = "losses-tpcc"
)

// twoLosses are of ordered tables, and two machines in each run that lose their memory: rows that come and go in ranges
// that others scan, or TPC-C.
func twoLosses(p node.Protocol, l load) *scenario.Scenario {
	x := spec{name: lossesOfScans, protocol: p, load: l, nodes: 4, drawn: []int{1, 2, 2},
		focus:  "three replicas of ordered tables, and two machines that lose their memory",
		faults: lossFaults, membership: true, replicated: true, grace: 60 * sim.Millisecond,
		drawnOf: map[string][]string{dimReplicas: {"3"}, dimRemote: {"50", "10"}, "roles": {"all", "apart"}}}
	if l == loadTPCC {
		x.name, x.fixed = lossesOfOrders, option.Settings{"nic-log-bytes": "64KiB"}
		x.drawnOf[dimRemote], x.drawnOf["logs"] = []string{"10", "2"}, []string{"usual"}
	}
	return of(x)
}

// roomyTPCC is tpccRecoveries with logs that have room for what a delivery writes.
func roomyTPCC(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "recovery-tpcc", protocol: p, load: loadTPCC, nodes: 4, drawn: []int{1, 1, 2},
		focus:  "three replicas, functions that NICs execute, and machines that die and come back with nothing",
		faults: deathFaults, membership: true, replicated: true,
		grace:   60 * sim.Millisecond, // to fill so many records, one shard after another
		drawnOf: map[string][]string{dimReplicas: {"3"}, dimRemote: {"10", "2"}, "logs": {"usual"}},
		fixed:   option.Settings{"nic-log-bytes": "64KiB"}})
}

// pinnedKeys are more records of a table of a node than pinnedMemory lets a NIC hold.
const (
	pinnedKeys   = 150
	pinnedMemory = "50KiB"
)

// drawNICPauses has the cores of NICs stand still, for less than a lease.
func drawNICPauses(d *scenario.Drawing) (s sim.Schedule) {
	r := d.Stream("nics")
	for range r.IntN(4) {
		s = append(s, sim.Fault{Kind: sim.PauseNIC, At: upTo(r, d.Until), Node: d.Nodes[r.IntN(len(d.Nodes))],
			For: upTo(r, sim.Of(memberLease)/2)})
	}
	return s
}

// skewsLoad has transactions that read one record and write another.
func skewsLoad(nodes int, kind layout.Kind, s settings) (workload.Workload, error) {
	return opmix.New(opmix.Options{Nodes: nodes, Keys: (8 + nodes - 1) / nodes, ValueBytes: layout.Fit(kind, s.lines),
		Gets: 1, Puts: 1, Theta: s.skew})
}

// drawSlowPaths makes messages between some nodes late by as long as a transaction takes, in one direction, for a
// while: what two nodes hear then does not come in the order in which it was sent.
func drawSlowPaths(d *scenario.Drawing) (s sim.Schedule) {
	for range drawnSlow {
		i, j := d.Rand.IntN(len(d.Nodes)), 1+d.Rand.IntN(max(len(d.Nodes)-1, 1))
		s = append(s, sim.Fault{Kind: sim.DelayRC, At: upTo(d.Rand, d.Until), From: d.Nodes[i],
			To: d.Nodes[(i+j)%len(d.Nodes)], By: upTo(d.Rand, longestSlow), For: upTo(d.Rand, d.Until/4)})
	}
	return s
}

const (
	drawnSlow   = 60
	longestSlow = 20 * sim.Microsecond
)

// drawChipFaults draws what comes and goes.
func drawChipFaults(d *scenario.Drawing) sim.Schedule {
	return sim.RandomSchedule(d.Rand, sim.RandomOptions{Nodes: d.Nodes, Workers: d.Workers,
		Faults: d.Rand.IntN(2*drawnFaults + 1), Horizon: d.Until * 3 / 4, Span: d.Until / 6,
		Weights: []sim.Weight{
			{Kind: sim.CutLink, Weight: 2}, {Kind: sim.DelayRC, Weight: 6}, {Kind: sim.PauseNode, Weight: 2},
			{Kind: sim.PauseWorker, Weight: 3}, {Kind: sim.SlowNIC, Weight: 2}, {Kind: sim.Partition, Weight: 1}}})
}
