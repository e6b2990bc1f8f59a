package scenario

import (
	"drtmd/proto/node"
	"drtmd/proto/protocol"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// cuts are of backups that apply updates before these are decided, while nothing reaches one of them: some have an
// update that another one lacks, or do not hear for long how a transaction ended. No member is removed meanwhile. Many
// transactions read one record, which takes no validation at a backup with some protocols (Dandelion's GetOne).
func cuts(p node.Protocol) *scenario.Scenario {
	s := of(spec{name: "cuts", protocol: p, load: loadMicro, nodes: 3, drawn: []int{1, 2},
		focus:  "backups that apply updates at once, and links to one of them that are cut around LOG",
		faults: cutFaults, keys: few, mix: micro.Mix{50, 0, 0, 0, 0, 50, 0, 0, 0}, singles: true, replicated: true,
		drawnOf: map[string][]string{
			dimLines:    {"1"},
			dimRemote:   {"50"},
			dimReads:    {"default"},
			dimReuse:    {"no"},
			dimPlans:    {"few"},
			dimRollback: {"0"},
			dimReplicas: {"3"}}})
	s.EventLimit = eventLimit / 10 // as gaps
	return s
}

// Cuts of links to one node: so many of each kind in a run, and how long they last. The long ones last until calls
// fail, 600 us after the last sign of life (cluster.go).
const (
	drawnShortCuts = 12
	drawnLongCuts  = 3
	longestCut     = 150 * sim.Microsecond
	callsFail      = 600 * sim.Microsecond
)

// drawCuts has nothing reach a node: for a moment before records of updates are sent, and for long when all others may
// have answered.
func drawCuts(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	r := d.Stream("cuts")
	cut := func(step string, length sim.Time) {
		s = append(s, sim.Fault{Kind: sim.CutLink, From: sim.AnyNode, To: d.Nodes[r.IntN(len(d.Nodes))],
			Step: step, Count: 1 + r.IntN(pauseCounts), For: length})
	}
	for range drawnShortCuts {
		cut(steps.Logged[0], upTo(r, longestCut))
	}
	for range drawnLongCuts {
		cut(steps.Logged[1], callsFail+upTo(r, callsFail))
	}
	return s
}
