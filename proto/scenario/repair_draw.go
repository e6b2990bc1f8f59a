package scenario

import (
	"time"

	"drtmd/proto/rtx"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// drawRepairs draws faults of the clients and of their ways to the memory node.
func drawRepairs(d *scenario.Drawing, memories int, steps []string) (s sim.Schedule) {
	memory, clients := d.Nodes[0], d.Nodes[memories:len(d.Nodes)-1]
	if memories > 1 {
		memory = d.Nodes[d.Rand.IntN(memories)]
	}
	some := func() string { return clients[d.Rand.IntN(len(clients))] }
	at := func() sim.Time { return upTo(d.Rand, d.Until*3/4) }
	if d.Setting(dimClocks) == "far" {
		for _, n := range clients {
			shift := time.Duration(d.Rand.Int64N(int64(2*time.Second))) - time.Second
			if d.Rand.IntN(2) == 0 {
				shift /= 10_000 // some leases
			}
			s = append(s, sim.Fault{Kind: sim.StepClock, At: at(), Node: n, Shift: shift})
		}
	}
	step := func() (string, int) { return steps[d.Rand.IntN(len(steps))], 1 + d.Rand.IntN(40>>d.Rand.IntN(4)) }
	for range d.Rand.IntN(4) { // clients that die in the middle; some come back
		name, count := step()
		f := sim.Fault{Kind: sim.CrashNode, Step: name, Count: count, Kept: true}
		if d.Rand.IntN(4) > 0 {
			f.For = upTo(d.Rand, d.Until/4)
		}
		s = append(s, f)
	}
	for range d.Rand.IntN(8) { // clients that stop in the middle, and go on
		name, count := step()
		s = append(s, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep, Step: name, Count: count,
			For: upTo(d.Rand, 300*sim.Microsecond)})
	}
	if d.Rand.IntN(2) == 0 { // repairs and commits that meet: both pause where the other can go on
		for i := range 12 {
			from := rtx.StepsOfRepairs()
			if i%2 == 0 {
				from = rtx.StepsWithLocks()
			}
			s = append(s, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep, Step: from[d.Rand.IntN(len(from))],
				Count: 1 + d.Rand.IntN(40>>d.Rand.IntN(4)), For: upTo(d.Rand, 100*sim.Microsecond>>d.Rand.IntN(4))})
		}
	}
	for range d.Rand.IntN(4) {
		s = append(s, sim.Fault{Kind: sim.CrashNode, At: at(), Node: some(), Kept: true, For: upTo(d.Rand, d.Until/4)})
	}
	for range d.Rand.IntN(12) { // requests that fly
		s = append(s, sim.Fault{Kind: sim.DelayRC, At: at(), From: some(), To: memory, By: upTo(d.Rand, 300*sim.Microsecond),
			Times: 1 + d.Rand.IntN(4)})
	}
	for range d.Rand.IntN(2) {
		s = append(s, sim.Fault{Kind: sim.BreakQPs, At: at(), Node: some(), To: "*"},
			sim.Fault{Kind: sim.CutLink, At: at(), From: some(), To: memory, Both: true, For: upTo(d.Rand, d.Until/4)})
	}
	if d.Rand.IntN(2) == 0 { // lines of a READ are torn apart
		s = append(s, sim.Fault{Kind: sim.StallMemory, Node: memory, PPM: 1 + d.Rand.IntN(stallPPM),
			By: 1 + sim.Time(d.Rand.Int64N(int64(longestStall)))})
	}
	return s
}
