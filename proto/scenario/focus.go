package scenario

import (
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/scenario"
)

// Scenarios with a focus: few records, so that what is rare elsewhere happens in every run.

// few are the keys of each table of a node then.
const few = 4

// races have no faults but those that change the order of what happens at the same time.
func races(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "races", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 2, 3},
		focus: "very few records, and faults that only change the order", faults: orderFaults,
		keys: few, drawnOf: map[string][]string{
			dimRemote:   {"50", "10", "10", "2"},
			dimReads:    {"default", "default", "50"},
			dimReuse:    {"no", "yes", "yes", "yes"},
			dimPlans:    {"few", "few", "few", "many"},
			dimRollback: {"0", "20", "50", "50"},
			dimError:    {"3us", "12us", "12us"},
			dimClocks:   {"within", "edge", "edge"}}})
}

// views are of several records, which others write together: what is locked and not yet written is
// seen by whoever does not look at locks.
func views(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "views", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 3},
		focus:  "transactions that read several records which others write",
		faults: orderFaults, keys: few, mix: micro.Mix{45, 0, 0, 0, 0, 25, 0, 0, 30},
		drawnOf: map[string][]string{
			dimRemote:   {"50", "50", "30"},
			dimReads:    {"default"},
			dimReuse:    {"no"},
			dimPlans:    {"few"},
			dimRollback: {"0", "50", "50"},
			"fallback":  {"late"}}}) // of drtm
}

// leases are short, so that commits compete with their ends, and clocks are as good as those of one
// machine, some of the time.
func leases(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "leases", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 3, 4},
		focus: "short leases, clocks that err little or as much as they may", faults: orderFaults,
		keys: few, mix: micro.Mix{35, 0, 0, 0, 0, 15, 0, 0, 50},
		drawnOf: map[string][]string{
			dimRemote:   {"50", "50", "10"},
			dimReads:    {"default"},
			dimReuse:    {"no"},
			dimPlans:    {"few"},
			dimRollback: {"0"},
			dimError:    {"3us", "100ns", "100ns"},
			dimClocks:   {"within", "edge", "edge"}}})
}

// ends are of leases that end when their transactions commit: START takes nearly all of their time. Each
// worker runs one transaction at a time, and polls without rest.
func ends(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "ends", protocol: p, load: loadMicro, nodes: 2, drawn: []int{1},
		focus: "leases that end when their transactions commit", faults: clockFaults,
		fibers: 1, polls: true, keys: few, mix: micro.Mix{10, 0, 0, 0, 0, 0, 0, 0, 90},
		drawnOf: map[string][]string{
			dimLines:    {"1"},
			dimRemote:   {"50"},
			dimReads:    {"default"},
			dimReuse:    {"no"},
			dimPlans:    {"few"},
			dimRollback: {"0"},
			dimError:    {"100ns"},
			dimClocks:   {"within", "edge", "edge"},
			"lease":     {"4us", "3.8us", "3.7us", "3.6us", "3.4us"}, // of drtm
			"fallback":  {"late"}}})
}

// reuse has items that come and go, and queue pairs that break.
func reuse(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "reuse", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 3},
		focus: "items that come and go, and connections that break", faults: breakFaults,
		keys: few, mix: micro.Mix{5, 15, 5, 30, 20, 0, 0, 0, 25},
		drawnOf: map[string][]string{
			dimWords: {"yes", "no", "no"},
			dimReads: {"default"},
			dimReuse: {"yes"},
			dimPlans: {"few"}}})
}

// places are of items that are inserted, deleted and looked for by many: what a transaction did not find
// is another's to insert, and the entry that says so is given back.
func places(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "places", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 3},
		focus:  "items that are inserted, deleted, and looked for in vain",
		faults: orderFaults, keys: few, mix: micro.Mix{0, 10, 5, 35, 25, 0, 0, 0, 25},
		drawnOf: map[string][]string{
			dimWords:    {"yes", "no", "no"},
			dimLines:    {"1"},
			dimSkew:     {"0"},
			dimRemote:   {"10", "10", "50"},
			dimReads:    {"default"},
			dimRollback: {"0"},
			dimReuse:    {"yes"},
			dimPlans:    {"few"},
			"fallback":  {"late"}}}) // of drtm
}

// returns are of entries that are given back, and come back to their keys between the CAS of another machine,
// which has their old address, and the READ behind it. A third machine deletes the record, too: its entry is there for a
// moment, in which it can be leased, before it is given back. Leases are long, so that a record can be written while
// somebody counts on one.
func returns(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "returns", protocol: p, load: loadScript, nodes: 3, drawn: []int{1}, fibers: 1,
		focus:  "entries that are given back, and come back to their keys while others have their addresses",
		faults: stallFaults, script: []string{"rB rD wA", "dB;uD;uD;uD;iB uD;uB uD;uB uD", "dB"},
		drawnOf: map[string][]string{
			dimWords:   {"yes"},
			dimError:   {"100ns"},
			"lease":    {"60us"}, // of drtm
			"fallback": {"late"}}})
}

// scans are of ranges in which rows come and go, so that their tables split and merge.
func scans(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "scans", protocol: p, load: loadRanges, nodes: 2, drawn: []int{1, 2, 2},
		focus: "scans of ranges in which rows come and go", faults: orderFaults,
		drawnOf: map[string][]string{
			dimRemote: {"2", "10", "50"},
			dimError:  {"3us"}}})
}

// leaves are of tables with two leaves, so that one is often split while a key is looked for in vain.
func leaves(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "leaves", protocol: p, load: loadRanges, nodes: 2, drawn: []int{2, 3}, keys: 24,
		focus: "rows of two leaves, which split and merge while others look for rows in vain", faults: orderFaults,
		drawnOf: map[string][]string{
			dimLines:    {"1"},
			dimReads:    {"default"},
			dimRollback: {"0"},
			dimRemote:   {"2"},
			dimError:    {"3us"}}})
}

// chains are of transactions in pieces, and of readers that must not see half of one.
func chains(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "chains", protocol: p, load: loadChained, nodes: 2, drawn: []int{1, 2, 2, 3},
		focus: "transactions in pieces", faults: orderFaults,
		fixed: option.Settings{protocol.OptChopped: "true"},
		drawnOf: map[string][]string{
			dimRemote: {"2", "10", "50"},
			dimError:  {"3us"}}})
}

// barriers are of pieces that are deferred to a barrier, and of transactions that subscribe to them.
func barriers(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "barriers", protocol: p, load: loadChained, nodes: 2, drawn: []int{1, 2, 2, 3}, deferred: true,
		focus: "pieces that are deferred to a barrier, and subscribers", faults: orderFaults,
		fixed:   option.Settings{protocol.OptChopped: "true"},
		drawnOf: map[string][]string{dimRemote: {"2"}, dimError: {"3us"}}})
}

// barrierLogs are the same on machines that crash, and publish what was deferred when they come back.
func barrierLogs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-barriers", protocol: p, load: loadChained, nodes: 2, drawn: []int{1, 2}, deferred: true,
		focus:  "pieces that are deferred to a barrier, and machines that log them, crash, and recover",
		faults: durableFaults, durable: true, fixed: chainedSettings("64KiB"),
		drawnOf: map[string][]string{dimRemote: {"2"}, dimError: {"3us"}}})
}

// tpccChains are those of TPC-C, with few records.
func tpccChains(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "chains-tpcc", protocol: p, load: loadTPCC, nodes: 2, drawn: []int{2, 2, 3},
		focus: "transactions in pieces", faults: orderFaults,
		fixed: option.Settings{protocol.OptChopped: "true"},
		drawnOf: map[string][]string{
			dimRemote: {"2", "10"},
			dimError:  {"3us"}}})
}

// holds are of locks that are held for long, by workers that have lost the processor.
func holds(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "holds", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 3},
		focus:  "workers that lose the processor while they hold locks, and between two reads",
		faults: holdFaults, keys: few, mix: micro.Mix{50, 0, 0, 0, 0, 0, 0, 0, 50},
		drawnOf: map[string][]string{
			dimWords:    {"no", "no", "yes"},
			dimLines:    {"1"},
			dimRemote:   {"10", "10", "50"},
			dimReads:    {"default"},
			dimReuse:    {"no"},
			dimPlans:    {"few"},
			dimRollback: {"0", "50"},
			"fallback":  {"late"}}}) // of drtm
}

// crashes are of machines that are in the middle of a step, and come back.
func crashes(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "crashes", protocol: p, load: loadMicro, nodes: 2,
		drawn: []int{1, 2}, focus: "machines that crash at marked steps and restart",
		faults: crashFaults, drawnOf: map[string][]string{dimRemote: {"10", "10", "50"}}})
}

// durableSettings have transactions logged, and locks of the dead called orphaned while these are down.
func durableSettings(logBytes string) option.Settings {
	return option.Settings{"durable": "true", protocol.OptLogBytes: logBytes, protocol.OptOrphanAfter: "60us"}
}

// recoveriesOfLogs are of machines that crash, come back with their memory, and recover from their own logs.
func recoveriesOfLogs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 1, 2},
		focus:  "machines that log their transactions, crash at marked steps, and recover",
		faults: durableFaults, durable: true, fixed: durableSettings("64KiB"),
		drawnOf: map[string][]string{dimRemote: {"50", "50", "10"}, dimPlans: {"few"}}})
}

// fewLogs are the same with few records, where the fallback handler comes soon.
func fewLogs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-few", protocol: p, load: loadMicro, nodes: 2, drawn: []int{1, 2},
		focus:  "few records, and machines that log their transactions, crash, and recover",
		faults: durableFaults, durable: true, keys: few, fixed: durableSettings("64KiB"),
		drawnOf: map[string][]string{dimRemote: {"50"}, dimPlans: {"few"}, dimReads: {"default"},
			"fallback": {"late", "soon", "soon"}}}) // of drtm
}

// logSteps is the same for a crash at every step.
func logSteps(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable", protocol: p, load: loadMicro, nodes: 2, short: true,
		faults: durableFaults, durable: true, fixed: durableSettings("64KiB")})
}

// fields are of records that are loaded in part, which they are only where nobody takes a history.
func fields(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "fields", protocol: p, load: loadFields, nodes: 2, drawn: []int{2, 2, 3},
		focus:  "accesses to parts of values, without a history",
		faults: orderFaults, unrecorded: true, drawnOf: map[string][]string{dimWords: {"yes"}, dimRemote: {"2", "10", "50"}}})
}

// fieldLogs are of updates of parts of values, of which the logs have no more.
func fieldLogs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-fields", protocol: p, load: loadFields, nodes: 2, drawn: []int{1, 2},
		focus:  "updates of parts of values, and machines that log them, crash, and recover",
		faults: durableFaults, durable: true, fixed: durableSettings("64KiB"),
		drawnOf: map[string][]string{dimRemote: {"50", "50", "10"}, "fallback": {"late", "soon"}}}) // of drtm
}

// partLogs are the same of records that are loaded in part, which nobody takes a history of. Recovery compares the log of an
// update with the record.
func partLogs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-parts", protocol: p, load: loadFields, nodes: 2, drawn: []int{1, 2},
		focus:  "updates of two distant fields of records, without a history, and machines that log them, crash, and recover",
		faults: durableFaults, durable: true, unrecorded: true, frames: true, fixed: durableSettings("64KiB"),
		drawnOf: map[string][]string{dimWords: {"yes"}, dimRemote: {"2", "10", "50"}}})
}

// chainedLogs are of transactions in pieces, on machines that crash between and in these, and finish them.
func chainedLogs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-chains", protocol: p, load: loadChained, nodes: 2, drawn: []int{1, 2},
		focus:  "transactions in pieces, and machines that log them, crash, and recover",
		faults: durableFaults, durable: true, fixed: chainedSettings("64KiB"),
		drawnOf: map[string][]string{dimRemote: {"50", "10"}, dimError: {"3us"}}})
}

// tpccLogs are those of TPC-C, with few records.
func tpccLogs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-tpcc", protocol: p, load: loadTPCC, nodes: 2, drawn: []int{1, 2},
		focus:  "transactions in pieces, and machines that log them, crash, and recover",
		faults: durableFaults, durable: true, fixed: chainedSettings("256KiB"),
		drawnOf: map[string][]string{dimRemote: {"10", "50"}, dimError: {"3us"}}})
}

// chainSteps and tpccSteps are the same for a crash at every step.
func chainSteps(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-chains", protocol: p, load: loadChained, nodes: 2, short: true,
		faults: durableFaults, durable: true, fixed: chainedSettings("64KiB")})
}

func tpccSteps(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-tpcc", protocol: p, load: loadTPCC, nodes: 2, short: true,
		faults: durableFaults, durable: true, fixed: chainedSettings("256KiB")})
}

// chainedSettings are durableSettings of transactions in pieces.
func chainedSettings(logBytes string) option.Settings {
	s := durableSettings(logBytes)
	s[protocol.OptChopped] = "true"
	return s
}

// breaks are of queue pairs with requests that are late: these must not take effect any more when what
// they were for was done in another way.
func breaks(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "breaks", protocol: p, load: loadMicro, nodes: 2,
		drawn: []int{1, 2}, focus: "connections that break while requests are late",
		faults: lateFaults, keys: few, mix: micro.Mix{60, 5, 5, 5, 5, 5, 5, 0, 10},
		drawnOf: map[string][]string{
			dimRemote: {"50"},
			dimReads:  {"default"},
			dimReuse:  {"no"},
			dimPlans:  {"few"}}})
}

// moves are of tables that move records to make room for others, while workers have lost the processor that
// read or write them.
func moves(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "moves", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 3},
		focus:  "records that are moved in their tables while others read and write them",
		faults: holdFaults, mix: micro.Mix{0, 25, 5, 40, 20, 0, 0, 0, 10},
		drawnOf: map[string][]string{
			dimSkew:     {"0"},
			dimLines:    {"1", "2", "4"},
			dimRemote:   {"10", "50"},
			dimReads:    {"default"},
			dimReuse:    {"yes"},
			dimPlans:    {"few"},
			dimRollback: {"0"},
			"slots":     {"scarce"}}}) // of farm
}

// queues are of workers with many transactions at once, whose messages wait for each other: the other
// worker has lost the processor, and its memory for messages fills up.
func queues(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "queues", protocol: p, load: loadMicro, nodes: 2, drawn: []int{1},
		focus:  "many transactions of each worker, whose messages wait for room",
		faults: holdFaults, fibers: 16, mix: micro.Mix{30, 0, 0, 0, 0, 40, 0, 0, 30},
		drawnOf: map[string][]string{
			dimSkew:         {"0"},
			dimRemote:       {"50"},
			dimLines:        {"1", "5"},
			dimReads:        {"default"},
			dimReuse:        {"no"},
			dimPlans:        {"few"},
			dimRollback:     {"0"},
			"optimisations": {"all", "none"},
			"rings":         {"small"}}}) // both of farm
}

// replicas are of records with backups, and of nothing that takes one away.
func replicas(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "replicas", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 2},
		focus: "backups, and faults that only change the order", faults: orderFaults, keys: few,
		replicated: true, drawnOf: map[string][]string{dimRemote: {"50", "10"}}})
}

// fullLogs are of logs that have room for one commit or two, and whose hosts lose the processor or cannot be
// reached: commits wait for room.
func fullLogs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "full-logs", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1},
		focus: "logs at backups that are full most of the time", faults: fullFaults, fibers: 24,
		mix: micro.Mix{45, 5, 5, 15, 0, 0, 0, 0, 30}, replicated: true,
		fixed: option.Settings{protocol.OptLogBytes: "4KiB"},
		drawnOf: map[string][]string{
			dimSkew:     {"0"},
			dimLines:    {"2", "5"},
			dimRemote:   {"50", "2"},
			dimReads:    {"default"},
			dimReuse:    {"no"},
			dimPlans:    {"few"},
			dimRollback: {"0"}}})
}

// gaps are of logs at backups whose records do not arrive, or late, and are sent again.
func gaps(p node.Protocol) *scenario.Scenario {
	s := of(spec{name: "gaps", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 2},
		focus: "backups, and connections that break while requests are late", faults: lateFaults, keys: few,
		replicated: true, drawnOf: map[string][]string{dimRemote: {"50", "10"}}})
	s.EventLimit = eventLimit / 10 // a record that never arrives is asked for without end
	return s
}

// removals are of a member that does not know that it was removed.
func removals(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "removals", protocol: p, load: loadMicro, nodes: 3,
		drawn: []int{1, 2}, focus: "a machine that the others remove", faults: breakFaults, removal: true})
}
