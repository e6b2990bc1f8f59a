package scenario

import (
	"math/rand/v2"

	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// Outages of links that come back: machines live on, and everything that they owe each other must be
// done in the end. Each run draws up to so many, in a random stream of their own.
const (
	drawnOutages = 3
	// mostRepeats is how often a link goes away again at most, soon after it came back.
	mostRepeats = 3
	// Queue pairs give up 655 us after the first loss (cluster.go): outages are shorter, about as long,
	// and longer.
	shortOutage = 100 * sim.Microsecond
	retries     = 700 * sim.Microsecond
	longOutage  = 2 * sim.Millisecond // it ends well before the managers' grace does
	// outageGap is the longest time that a link works between two outages: too short to have the
	// queue pairs of all workers, some of the time.
	outageGap = 150 * sim.Microsecond
)

// drawOutages draws cut links and interfaces that are down, of any length and any number. Half of them
// strike where locks are held.
func drawOutages(d *scenario.Drawing, held []string) (s sim.Schedule) {
	r := d.Stream("outages")
	for range r.IntN(drawnOutages + 1) {
		f := drawOutage(r, d.Nodes)
		if r.IntN(2) == 0 && len(held) > 0 {
			f.Step, f.Count = held[r.IntN(len(held))], 1+r.IntN(pauseCounts)
			if f.Kind == sim.DownInterface && r.IntN(2) == 0 {
				f.Node = "" // whoever takes the step
			}
			s = append(s, f)
			continue
		}
		f.At = upTo(r, d.Until*3/4)
		for range 1 + r.IntN(mostRepeats) {
			s = append(s, f)
			f.At += f.For + upTo(r, outageGap)
			f.For = drawLength(r)
			if f.At > d.Until {
				break
			}
		}
	}
	return s
}

// drawOutage draws what goes away: a path, all that lead to or from a node, or its interface.
func drawOutage(r *rand.Rand, nodes []string) sim.Fault {
	a := r.IntN(len(nodes))
	b := (a + 1 + r.IntN(max(len(nodes)-1, 1))) % len(nodes)
	f := sim.Fault{Kind: sim.DownInterface, Node: nodes[a], For: drawLength(r)}
	if r.IntN(2) == 0 {
		f = sim.Fault{Kind: sim.CutLink, From: nodes[a], To: nodes[b], Both: r.IntN(3) > 0, For: f.For}
		if r.IntN(3) == 0 {
			f.To = sim.AnyNode
		}
	}
	return f
}

// drawLength draws how long an outage lasts.
func drawLength(r *rand.Rand) sim.Time {
	return upTo(r, []sim.Time{shortOutage, retries, longOutage}[r.IntN(3)])
}

// upTo draws a time from 1 to a most.
func upTo(r *rand.Rand, most sim.Time) sim.Time { return 1 + sim.Time(r.Int64N(int64(most))) }
