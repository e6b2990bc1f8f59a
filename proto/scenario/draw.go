package scenario

import (
	"slices"
	"time"

	"drtmd/htm"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// mutationBeyondDelta lets the clocks err by more than the protocol was told. The check must find
// that: it shows that it sees what leases are for.
const mutationBeyondDelta = "beyond-delta"

// beyond is how far beyond DELTA: the clocks of two nodes are then a lease apart.
const beyond = 10

const drawnFaults = 6

// drawing draws clocks that err, faults of every kind that leaves memory intact, and pauses at some
// of the given steps.
func drawing(pauses []string) func(*scenario.Drawing) sim.Schedule {
	return func(d *scenario.Drawing) sim.Schedule { return draw(d, pauses) }
}

func draw(d *scenario.Drawing, pauses []string) sim.Schedule {
	s := drawClocks(d)
	faults := sim.RandomSchedule(d.Rand, sim.RandomOptions{Nodes: d.Nodes, Workers: d.Workers,
		Faults: d.Rand.IntN(drawnFaults + 1), Horizon: d.Until * 3 / 4, Span: d.Until / 3, // longer than retries
		Weights: []sim.Weight{
			{Kind: sim.CrashNode, Weight: 2}, {Kind: sim.BreakQPs, Weight: 2},
			{Kind: sim.CutLink, Weight: 2}, {Kind: sim.DelayRC, Weight: 4},
			{Kind: sim.PauseNode, Weight: 3}, {Kind: sim.PauseWorker, Weight: 3},
			{Kind: sim.SlowNIC, Weight: 2}, {Kind: sim.DropDatagrams, Weight: 2},
			{Kind: sim.DuplicateDatagrams, Weight: 2}, {Kind: sim.DelayDatagrams, Weight: 2},
			{Kind: sim.ReorderDatagrams, Weight: 2}, {Kind: sim.Partition, Weight: 1},
			{Kind: sim.FailAllocs, Weight: 1}}})
	for i := range faults {
		faults[i].Kept = faults[i].Kind == sim.CrashNode
	}
	for range drawnBreaks {
		s = append(s, sim.Fault{Kind: sim.BreakQPs, To: "*",
			Step: pauses[d.Rand.IntN(len(pauses))], Count: 1 + d.Rand.IntN(pauseCounts)})
	}
	return append(append(s, faults...), drawPauses(d, pauses)...)
}

// drawPauses has workers lose the processor at marked steps, for some leases' time: hardware would
// abort the region, emulation does not (design decision 6). Half of them are where a lease was
// taken, or confirmed too early, and the writes have not happened.
func drawPauses(d *scenario.Drawing, steps []string) (s sim.Schedule) {
	var critical []string
	for _, c := range criticalSteps {
		if slices.Contains(steps, c) {
			critical = append(critical, c)
		}
	}
	for i := range drawnPauses {
		from := steps
		if i%2 == 0 && len(critical) > 0 {
			from = critical
		}
		s = append(s, sim.Fault{Kind: sim.PauseWorker, Step: from[d.Rand.IntN(len(from))],
			Count: 1 + d.Rand.IntN(pauseCounts),
			For:   sim.Of(lease/2 + time.Duration(d.Rand.Int64N(int64(3*lease))))})
	}
	return s
}

var criticalSteps = []string{"drtm: confirmed before XEND", "drtm: before XBEGIN",
	htm.StepListed, htm.StepLocked}

const (
	drawnPauses = 24
	drawnBreaks = 2 // of the queue pairs of whoever takes a step
	// pauseCounts is how often a step is taken in a run, the rarer ones.
	pauseCounts = 250
)

// drawClocks gives each clock a step and a drift whose sum stays within DELTA until well after the
// run: the error of one node, so that two may be twice that apart. Whatever is left out of them,
// the rest stays within too: a schedule can be shrunk.
func drawClocks(d *scenario.Drawing) sim.Schedule {
	set := readSettings(d.Setting)
	bound := int64(set.clockError)
	if d.Mutation == mutationBeyondDelta {
		bound *= beyond
	}
	seconds := float64(3*span) / float64(sim.Second) // also of what is late
	var s sim.Schedule
	ahead := d.Rand.IntN(2) == 0
	for _, n := range d.Nodes {
		step := d.Rand.Int64N(bound + 1)
		if set.edge {
			// Neighbours are as far apart as they can be.
			step = bound
		}
		drift := int64(float64(bound-step) / seconds)
		drift = min(drift, sim.MaxClockDrift)
		back := d.Rand.IntN(2) == 0
		if set.edge {
			back, ahead = !ahead, !ahead
		}
		if back {
			step, drift = -step, -drift
		}
		s = append(s, sim.Fault{Kind: sim.StepClock, Node: n, Shift: time.Duration(step)})
		if drift != 0 {
			s = append(s, sim.Fault{Kind: sim.DriftClock, Node: n, Drift: drift})
		}
	}
	return s
}
