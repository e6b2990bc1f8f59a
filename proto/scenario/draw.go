package scenario

import (
	"time"

	"drtmd/proto/protocol"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// mutationBeyondDelta lets the clocks err by more than the protocol was told. The check must find
// that: it shows that it sees what leases are for.
const mutationBeyondDelta = "beyond-delta"

// beyond is how far beyond DELTA: the clocks of two nodes are then a lease apart.
const beyond = 10

const drawnFaults = 6

// faultSet is what a scenario draws beside clocks that err, memory that stalls and workers that lose
// the processor.
type faultSet uint8

const (
	everyFault       faultSet = iota // but the loss of memory
	clockFaults                      // nothing at all, but clocks
	orderFaults                      // nothing
	stallFaults                      // nothing, and each access to memory may stall
	holdFaults                       // nothing, and workers lose the processor for long, half of them with locks held
	fullFaults                       // as holdFaults, and queue pairs that break
	breakFaults                      // queue pairs that break, links that go away
	lateFaults                       // queue pairs that break, requests that are late
	crashFaults                      // machines that crash and restart, queue pairs that break
	memberFaults                     // machines that crash for long, or stand still for long
	durableFaults                    // machines that crash and restart, some twice, two at a time; queue pairs that break
	chipFaults                       // links that go away, late messages, slow NICs, machines and workers that pause
	lateChipFaults                   // messages that are late by some microseconds, all the time
	deathFaults                      // machines that die, with their memory or without; queue pairs that break
	lossFaults                       // the same, and in each run two machines lose their memory
	pairFaults                       // the same, two machines at once
	stillFaults                      // the same, but machines stand still until they are removed
	cutFaults                        // links to backups that are cut around LOG
	commitFaults                     // a link that is cut around COMMIT, and the death of the machine behind it
	roundFaults                      // memory that stalls, and pauses between accesses
	relapseFaults                    // machines that crash, and crash again while they recover
	atomicFaults                     // atomics that the CPU comes in between
	homeFaults                       // the same, and machines that crash, and recover
	splitDeathFaults                 // the same, and machines that die, as in deathFaults
)

// drawnDelays are how often requests are late, by so much at most.
const (
	drawnDelays  = 24
	longestDelay = 300 * sim.Microsecond
)

// longestRestart is how long a machine stays away that crashed at a step.
const longestRestart = 300 * sim.Microsecond

// dies reports whether machines die.
func (x spec) dies() bool {
	return x.faults == deathFaults || x.faults == lossFaults || x.faults == stillFaults ||
		x.faults == commitFaults || x.faults == splitDeathFaults || x.faults == pairFaults
}

// steps are those that runs mark.
func (x spec) steps() *protocol.Steps {
	s := x.protocol.Simulation.Steps
	switch {
	case x.dies():
		s = s.WithDeaths()
	case x.replicated:
		s = s.WithBackups()
	case x.durable && x.deferred:
		s = s.WithChainLogs().WithBarrier()
	case x.deferred:
		s = s.WithChains().WithBarrier()
	case x.durable && (x.load == loadChained || x.load == loadTPCC):
		s = s.WithChainLogs()
	case x.durable:
		s = s.WithLogs()
	case x.load == loadChained || x.load == loadTPCC:
		s = s.WithChains()
	}
	return &s
}

// draw draws clocks that err, faults of every kind that leaves memory intact, and pauses at some
// marked steps.
func (x spec) draw(d *scenario.Drawing) sim.Schedule {
	if x.faults == clockFaults {
		return drawClocks(d)
	}
	s, steps := append(drawClocks(d), drawStalls(d)...), x.steps()
	preemptions, coarse := drawnPreemptions, 2
	switch x.faults {
	case lateChipFaults:
		s = append(s, drawSlowPaths(d)...)
	case chipFaults:
		s = append(append(s, drawChipFaults(d)...), drawOutages(d, steps.Held)...)
	case orderFaults:
		preemptions, coarse = 3*preemptions, 8
	case stallFaults:
		return append(append(drawClocks(d), drawLongStalls(d, steps)...),
			drawPreemptions(d, steps, preemptions, 8)...)
	case holdFaults:
		return append(s, drawHolds(d, steps)...)
	case fullFaults:
		return append(append(append(s, drawHolds(d, steps)...), drawBreaks(d, steps.All, drawnBreaks)...),
			drawAbsences(d, steps)...)
	case breakFaults:
		preemptions, coarse = 3*preemptions, 8
		s = append(append(s, drawBreaks(d, steps.All, 3*drawnBreaks)...), drawOutages(d, steps.Held)...)
	case lateFaults:
		s = append(append(s, drawBreaks(d, steps.All, 3*drawnBreaks)...), drawLate(d)...)
	case roundFaults:
		return append(drawClocks(d), drawRounds(d, steps)...)
	case relapseFaults:
		s = append(s, drawRelapses(d, steps)...)
	case atomicFaults:
		s = append(s, drawSplits(d, longestSplit)...)
	case homeFaults:
		s = append(append(s, drawSplits(d, longestSplit)...), drawRecoveries(d, steps)...)
	case cutFaults:
		s = append(s, drawCuts(d, steps)...)
	case commitFaults:
		s = append(s, drawCommits(d)...)
	case memberFaults:
		s = append(s, drawMembers(d)...)
	case deathFaults, lossFaults, pairFaults, stillFaults, splitDeathFaults:
		deaths := drawDeaths
		switch x.faults {
		case splitDeathFaults:
			s = append(s, drawSplits(d, lostSplit)...)
		case lossFaults:
			deaths = drawLostMemories
		case pairFaults:
			deaths = drawPair
		case stillFaults:
			deaths = drawStandStills
		}
		s = append(append(s, deaths(d, steps)...), drawBreaks(d, steps.All, drawnBreaks)...)
		if c := x.protocol.Chips; c != nil && c.Cores {
			s = append(s, drawNICPauses(d)...)
		}
		if x.protocol.ByRPC { // else few messages are datagrams
			s = append(s, drawLosses(d)...)
		}
	case durableFaults:
		s = append(append(s, drawRecoveries(d, steps)...), drawBreaks(d, steps.All, drawnBreaks)...)
	case crashFaults:
		s = append(append(s, drawCrashes(d, steps)...), drawBreaks(d, steps.All, drawnBreaks)...)
	default:
		s = append(append(s, drawFaults(d, steps.All)...), drawOutages(d, steps.Held)...)
	}
	return append(append(s, drawPauses(d, steps)...), drawPreemptions(d, steps, preemptions, coarse)...)
}

// drawStalls has memory stall all the time, in half of the runs: it pulls apart what is nearly always
// together, the lines of a READ, a CAS and the READ behind it.
func drawStalls(d *scenario.Drawing) (s sim.Schedule) {
	if d.Rand.IntN(2) == 0 {
		for _, n := range d.Nodes {
			s = append(s, sim.Fault{Kind: sim.StallMemory, Node: n, PPM: 1 + d.Rand.IntN(stallPPM),
				By: 1 + sim.Time(d.Rand.Int64N(int64(longestStall)))})
		}
	}
	return s
}

// drawLongStalls has memory stall for long and often, and workers whose transactions count on leases lose the
// processor for so long that another transaction comes and goes.
func drawLongStalls(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	for _, n := range d.Nodes {
		s = append(s, sim.Fault{Kind: sim.StallMemory, Node: n, PPM: 2 * stallPPM, By: longestStall})
	}
	for range drawnLongPauses {
		s = append(s, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep,
			Step: steps.Leased[0], Count: 1 + d.Rand.IntN(8*pauseCounts),
			For: 1 + sim.Time(d.Rand.Int64N(int64(5*longestStall)))})
	}
	return s
}

// drawnLongPauses are how many of drawLongStalls there are.
const drawnLongPauses = 100

// drawFaults draws what comes and goes, and queue pairs that break at marked steps.
func drawFaults(d *scenario.Drawing, steps []string) (s sim.Schedule) {
	faults := sim.RandomSchedule(d.Rand, sim.RandomOptions{Nodes: d.Nodes, Workers: d.Workers,
		Faults: d.Rand.IntN(drawnFaults + 1), Horizon: d.Until * 3 / 4, Span: d.Until / 3, // longer than retries
		Weights: []sim.Weight{
			{Kind: sim.CrashNode, Weight: 2}, {Kind: sim.BreakQPs, Weight: 2},
			{Kind: sim.CutLink, Weight: 2}, {Kind: sim.DelayRC, Weight: 4},
			{Kind: sim.PauseNode, Weight: 3}, {Kind: sim.PauseWorker, Weight: 3},
			{Kind: sim.SlowNIC, Weight: 2}, {Kind: sim.DropDatagrams, Weight: 2},
			{Kind: sim.DuplicateDatagrams, Weight: 2}, {Kind: sim.DelayDatagrams, Weight: 2},
			{Kind: sim.ReorderDatagrams, Weight: 2}, {Kind: sim.Partition, Weight: 1},
			{Kind: sim.FailAllocs, Weight: 1}, {Kind: sim.StallMemory, Weight: 4}}})
	for i := range faults {
		faults[i].Kept = faults[i].Kind == sim.CrashNode
	}
	return append(drawBreaks(d, steps, drawnBreaks), faults...)
}

// drawBreaks draws queue pairs that break at marked steps.
func drawBreaks(d *scenario.Drawing, steps []string, count int) (s sim.Schedule) {
	for range count {
		s = append(s, sim.Fault{Kind: sim.BreakQPs, To: "*",
			Step: steps[d.Rand.IntN(len(steps))], Count: 1 + d.Rand.IntN(pauseCounts)})
	}
	return s
}

// drawLosses has datagrams get lost, come twice and come out of order in half of the runs.
func drawLosses(d *scenario.Drawing) (s sim.Schedule) {
	r := d.Stream("losses")
	if r.IntN(2) == 0 {
		return nil
	}
	for _, kind := range []sim.FaultKind{sim.DropDatagrams, sim.DuplicateDatagrams, sim.ReorderDatagrams} {
		f := sim.Fault{Kind: kind, From: sim.AnyNode, To: sim.AnyNode, PPM: 1 + r.IntN(lossPPM), For: d.Until}
		if kind != sim.DropDatagrams {
			f.By = upTo(r, latestDatagram)
		}
		s = append(s, f)
	}
	return s
}

// Of datagrams that are lost, or come otherwise than they were sent.
const (
	lossPPM        = 60_000
	latestDatagram = 30 * sim.Microsecond
)

// drawLate has requests come late.
func drawLate(d *scenario.Drawing) (s sim.Schedule) {
	for range drawnDelays {
		i := d.Rand.IntN(len(d.Nodes))
		s = append(s, sim.Fault{Kind: sim.DelayRC, At: upTo(d.Rand, d.Until), From: d.Nodes[i],
			To: d.Nodes[(i+1)%len(d.Nodes)], By: upTo(d.Rand, longestDelay),
			Times: 1 + d.Rand.IntN(4)})
	}
	return s
}

// drawCrashes has machines crash at marked steps and restart, one or two in a run: what they had
// locked stays so, and the others get less and less to do. Half of the crashes are in the middle of a
// commit, and half come soon.
func drawCrashes(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	for range 1 + d.Rand.IntN(2) {
		from, most := steps.All, pauseCounts
		if d.Rand.IntN(2) == 0 && len(steps.Inner) > 0 {
			from = steps.Inner
		}
		if d.Rand.IntN(2) == 0 {
			most = 10
		}
		s = append(s, sim.Fault{Kind: sim.CrashNode, Kept: true, Step: from[d.Rand.IntN(len(from))],
			Count: 1 + d.Rand.IntN(most), For: upTo(d.Rand, longestRestart)})
	}
	return s
}

// drawRecoveries has machines crash up to six times, most of them in the middle of a commit or where a log is
// written. Some crash again while they recover, and several are down at the same time.
func drawRecoveries(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	for range 1 + d.Rand.IntN(6) {
		from, most := steps.All, pauseCounts
		switch d.Rand.IntN(4) {
		case 0:
			from, most = steps.Inner, 60
		case 1:
			from, most = steps.Durable, 60
		case 2:
			from, most = steps.NoLineWords, 60
		}
		s = append(s, sim.Fault{Kind: sim.CrashNode, Kept: true, Step: from[d.Rand.IntN(len(from))],
			Count: 1 + d.Rand.IntN(most), For: upTo(d.Rand, longestRestart)})
	}
	if d.Rand.IntN(2) == 0 {
		s = append(s, sim.Fault{Kind: sim.CrashNode, Kept: true, Step: steps.Paying, Count: 1 + d.Rand.IntN(8),
			For: upTo(d.Rand, longestRestart)})
	}
	return s
}

// drawPauses has workers lose the processor at marked steps, for some leases' time: hardware would
// abort the region, emulation does not (design decision 6). Half of them are where a lease was
// taken, or confirmed too early, and the writes have not happened.
func drawPauses(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	for i := range drawnPauses {
		from := steps.All
		if i%2 == 0 && len(steps.Critical) > 0 {
			from = steps.Critical
		}
		s = append(s, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep,
			Step:  from[d.Rand.IntN(len(from))],
			Count: 1 + d.Rand.IntN(pauseCounts),
			For:   sim.Of(lease/2 + time.Duration(d.Rand.Int64N(int64(3*lease))))})
	}
	return s
}

// drawPreemptions has workers lose the processor for a moment: one in so many times at any step,
// else between two accesses or two lines of one, or where something is about to take effect.
func drawPreemptions(d *scenario.Drawing, steps *protocol.Steps, count, coarse int) (s sim.Schedule) {
	for i := range count {
		from := steps.Fine
		if i%coarse == 0 || len(from) == 0 {
			from = steps.All
		}
		// Rare steps have to be struck, frequent ones also late in the run; and most that can happen
		// meanwhile happens soon.
		most := pauseCounts << d.Rand.IntN(5)
		long := longestPreemption >> d.Rand.IntN(9)
		s = append(s, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep,
			Step: from[d.Rand.IntN(len(from))], Count: 1 + d.Rand.IntN(most),
			For: 1 + sim.Time(d.Rand.Int64N(int64(long)))})
	}
	return s
}

// drawHolds has workers lose the processor for some leases' time, half of them where locks are held and
// half between two accesses: what one of them has seen is changed by another that keeps its locks.
func drawHolds(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	for i := range drawnHolds {
		from := steps.Fine
		if i%2 == 0 || len(from) == 0 {
			from = steps.Held
		}
		long := longestPreemption >> d.Rand.IntN(3)
		s = append(s, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep,
			Step: from[d.Rand.IntN(len(from))], Count: 1 + d.Rand.IntN(4*pauseCounts),
			For: 1 + sim.Time(d.Rand.Int64N(int64(long)))})
	}
	return s
}

// drawAbsences has workers lose the processor for so long that the others fill the logs that these host.
func drawAbsences(d *scenario.Drawing, steps *protocol.Steps) (s sim.Schedule) {
	for range drawnAbsences {
		s = append(s, sim.Fault{Kind: sim.PauseWorker, Worker: sim.WorkerAtStep,
			Step: steps.All[d.Rand.IntN(len(steps.All))], Count: 1 + d.Rand.IntN(4*pauseCounts),
			For: longestAbsence/2 + upTo(d.Rand, longestAbsence/2)})
	}
	return s
}

const (
	drawnAbsences  = 6
	longestAbsence = 400 * sim.Microsecond
	drawnHolds     = 200
	drawnPauses    = 24
	// drawnPreemptions are short ones at steps of all kinds: what happens between two accesses, or
	// two lines of one, takes some hundred nanoseconds otherwise.
	drawnPreemptions  = 240
	longestPreemption = 50 * sim.Microsecond
	stallPPM          = 200_000
	longestStall      = 8 * sim.Microsecond
	drawnBreaks       = 6 // of the queue pairs of whoever takes a step
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
