package scenario

import (
	"drtmd/proto/node"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// commits are of machines that die while one of the primaries that they write to does not hear from them: it has not
// got COMMIT, and the backups may have been told meanwhile what is decided.
func commits(p node.Protocol) *scenario.Scenario {
	return of(spec{name: "commits", protocol: p, load: loadMicro, nodes: 4, drawn: []int{1, 2},
		focus:  "a link that is cut until backups have been told what is decided, and the death of the machine behind it",
		faults: commitFaults, membership: true, replicated: true, grace: 30 * sim.Millisecond, fibers: 6,
		mix: micro.Mix{10, 0, 0, 0, 0, 80, 0, 0, 10},
		drawnOf: map[string][]string{dimLines: {"1"}, dimRemote: {"50"}, dimReads: {"default"}, dimReuse: {"no"},
			dimPlans: {"few"}, dimRollback: {"0"}, dimReplicas: {"2"}}})
}

// Cuts of the link from a machine to one that it writes to: as long as it takes until a host is told what is decided
// in its log (package occ: flushAfter), and some more.
const (
	leastCommitCut = 260 * sim.Microsecond
	mostCommitCut  = 500 * sim.Microsecond
)

// drawCommits cuts a link, and has the machine that it leads from die before the link is back.
func drawCommits(d *scenario.Drawing) (s sim.Schedule) {
	r := d.Stream("commits")
	from := r.IntN(len(d.Nodes))
	to := (from + 1 + r.IntN(len(d.Nodes)-1)) % len(d.Nodes)
	at, length := upTo(r, d.Until/2), leastCommitCut+upTo(r, mostCommitCut-leastCommitCut)
	return sim.Schedule{
		{Kind: sim.CutLink, From: d.Nodes[from], To: d.Nodes[to], At: at, For: length},
		{Kind: sim.CrashNode, Node: d.Nodes[from], At: at + length - upTo(r, 20*sim.Microsecond), Kept: r.IntN(2) == 0}}
}
