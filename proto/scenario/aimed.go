package scenario

import (
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/protocol"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Scenarios for one thing, which their faults bring about in most runs and others hardly ever.

// inRounds are of transactions that read two records of their own node in two rounds, while the other node writes both, now and
// then: the second one is written back and free again, and the first one is still locked, with the old value.
func inRounds(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "rounds", protocol: p, load: loadScript, nodes: 2, drawn: []int{1}, fibers: 1,
		focus:  "transactions that read in two rounds what another node writes back, record by record",
		faults: roundFaults, script: []string{"uD uB;uA;uA;uA", "rB rD"},
		drawnOf: map[string][]string{
			dimError:   {"3us", "12us"},
			dimClocks:  {"edge"},
			"fallback": {"late"}}}) // of drtm
}

const (
	drawnLooks  = 300
	longestLook = 20 * sim.Microsecond
	rarePPM     = 60_000
	longStall   = 20 * sim.Microsecond
)

// drawRounds has memory stall, which pulls the write-backs of a transaction apart, and workers lose the processor between two
// accesses, for about as long as another transaction takes.
func drawRounds(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	for _, n := range d.Nodes {
		s = append(s, sim.Fault{Kind: sim.StallMemory, Node: n, PPM: rarePPM, By: longStall})
	}
	for range drawnLooks {
		s = append(s, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep, Step: steps.Fine[0],
			Count: 1 + d.Rand.IntN(4*pauseCounts), For: upTo(d.Rand, longestLook)})
	}
	return s
}

// relapses are of machines that crash again while they recover: what they owe to another one, which is down, too, is not done yet.
func relapses(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-twice", protocol: p, load: loadMicro, nodes: 2, drawn: []int{1, 2},
		focus:  "machines that log their transactions, crash, and crash again while they recover",
		faults: relapseFaults, durable: true, keys: few, mix: micro.Mix{60, 5, 5, 5, 0, 5, 0, 0, 20},
		fixed: durableSettings("64KiB"),
		drawnOf: map[string][]string{dimRemote: {"50"}, dimPlans: {"few"}, dimReads: {"default"}, dimReuse: {"no"},
			dimRollback: {"0"}, "fallback": {"late", "soon"}}}) // of drtm
}

// drawnRelapses are the times that one machine is down for long, while the other one crashes twice.
const drawnRelapses = 3

// drawRelapses has one machine crash for long, and the other one, soon, in a commit, and again when it has come back.
func drawRelapses(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	crash := func(node string, at, length sim.Time) {
		s = append(s, sim.Fault{Kind: sim.CrashNode, Kept: true, Node: node, At: at, For: length})
	}
	for i := range drawnRelapses {
		first, second := d.Nodes[d.Rand.IntN(2)], d.Nodes[0]
		if first == second {
			second = d.Nodes[1]
		}
		at := d.Until/drawnRelapses*sim.Time(i) + upTo(d.Rand, d.Until/(2*drawnRelapses))
		crash(first, at, longestRestart)
		at += upTo(d.Rand, 10*sim.Microsecond)
		crash(second, at, upTo(d.Rand, 20*sim.Microsecond))
		crash(second, at+60*sim.Microsecond+upTo(d.Rand, 100*sim.Microsecond), upTo(d.Rand, 20*sim.Microsecond))
	}
	for range drawnRelapses {
		s = append(s, sim.Fault{Kind: sim.CrashNode, Kept: true, Step: steps.NoLineWords[d.Rand.IntN(len(steps.NoLineWords))],
			Count: 1 + d.Rand.IntN(pauseCounts), For: upTo(d.Rand, longestRestart)})
	}
	return s
}

// atomics are of devices whose atomics and the CPU's do not exclude each other, as they show it: what the CPU stores between
// the two halves of an atomic is lost.
func atomics(p node.Protocol) *scenario.Scenario {
	remote, more := []string{"50", "10"}, ""
	if p.Offers.Has(proto.OfferLeases) { // drtm: tables that only their own node accesses are the CPU's
		remote, more = []string{"0", "0", "10"}, ", and tables that only their own node accesses"
	}
	return of(spec{name: "atomics", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 3},
		focus:  "atomics of NICs that do not exclude the CPU's" + more,
		faults: atomicFaults, keys: few, mix: micro.Mix{25, 5, 5, 25, 5, 5, 0, 0, 30},
		drawnOf: map[string][]string{
			dimWords:    {"no"},
			dimLines:    {"1", "2"},
			dimRemote:   remote,
			dimReads:    {"default"},
			dimReuse:    {"no", "yes"},
			dimPlans:    {"few"},
			dimRollback: {"0", "20"},
			"fallback":  {"late", "soon"}}}) // of drtm
}

// lostAtomics are of such devices, and machines that die: what the others recover a CPU has locked, and NICs ask for it.
func lostAtomics(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "recovery-atomics", protocol: p, load: loadMicro, nodes: 4, drawn: []int{1, 1, 2},
		focus:  "replicas, machines that die, and atomics of NICs that do not exclude the CPU's",
		faults: splitDeathFaults, membership: true, replicated: true, keys: few, grace: 30 * sim.Millisecond,
		drawnOf: map[string][]string{
			dimWords:  {"no"},
			dimLines:  {"1", "2"},
			dimRemote: {"50"}}})
}

// deathsInPairs are of two replicas, and of two machines that die at once, of which one may have had what the other one logged: what
// is lost with both is not asked for, and all else stays.
func deathsInPairs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "pairs", protocol: p, load: loadMicro, nodes: 4, drawn: []int{1, 1, 2},
		focus:  "two replicas, and two machines that die at once, while items come and go",
		faults: pairFaults, membership: true, replicated: true, keys: few, grace: 30 * sim.Millisecond,
		mix: micro.Mix{5, 20, 15, 30, 15, 5, 0, 0, 10},
		drawnOf: map[string][]string{
			dimReplicas: {"2"},
			dimRemote:   {"50"},
			dimReads:    {"default"},
			dimReuse:    {"yes"},
			dimPlans:    {"few"},
			dimRollback: {"0", "20"},
			dimLines:    {"1", "2"}}})
}

// drawPair has two machines crash at once, for good or for some time.
func drawPair(d *scenario.Drawing, _ *protocol.Steps) (s sim.Schedule) {
	r := d.Stream("pair")
	i, at := r.IntN(len(d.Nodes)), d.Until/8+upTo(r, d.Until*3/4)
	j := (i + 1 + r.IntN(len(d.Nodes)-1)) % len(d.Nodes)
	for _, n := range [2]int{i, j} {
		f := sim.Fault{Kind: sim.CrashNode, Kept: r.IntN(2) == 0, At: at + upTo(r, 2*sim.Microsecond), Node: d.Nodes[n]}
		if r.IntN(2) == 0 {
			f.For = upTo(r, 2*sim.Millisecond)
		}
		s = append(s, f)
	}
	return s
}

// homeLogs are of such devices and tables, on machines that log their transactions: what a CPU has locked a NIC unlocks
// when the machine has crashed and recovers, while other workers' CPUs lock.
func homeLogs(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "durable-home", protocol: p, load: loadMicro, nodes: 2, drawn: []int{2, 3},
		focus:  "machines that log transactions on tables that only their own node accesses, crash, and recover",
		faults: homeFaults, durable: true, keys: few, mix: micro.Mix{25, 5, 5, 25, 5, 5, 0, 0, 30},
		fixed: durableSettings("64KiB"),
		drawnOf: map[string][]string{
			dimWords:   {"no"},
			dimRemote:  {"0"},
			dimReads:   {"default"},
			dimPlans:   {"few"},
			"fallback": {"late", "soon"}}}) // of drtm
}

const (
	splitPPM     = 400_000
	longestSplit = 3 * sim.Microsecond
	// lostSplit is for recoveries, in which few records are unlocked.
	lostSplit = 30 * sim.Microsecond
)

// drawSplits has the NICs of all nodes split atomics, by so much at most.
func drawSplits(d *scenario.Drawing, most sim.Time) (s sim.Schedule) {
	for _, n := range d.Nodes {
		s = append(s, sim.Fault{Kind: sim.SplitAtomics, Node: n, PPM: splitPPM, By: upTo(d.Rand, most)})
	}
	return s
}
