package scenario

import (
	"context"
	"math/rand/v2"

	"drtmd/verbs/sim"
)

// changedPriorities are how often a run of Wander changes which channel comes last.
const changedPriorities = 3

// Wander runs a scenario in orders of its messages that are drawn: o.Most of them, one at least, and every second one with
// a crash if o.Crashes. Orders begins with orders that differ in their last arrivals; Wander finds sooner what takes
// unusual choices early on, and what takes time: in three of four runs nothing arrives for a while, up to three times or
// before each arrival, while timers run. It proves nothing: Whole stays false. The orders depend on o.Seed alone. Half of
// the runs choose among what can arrive by chance. In the others each channel has a priority, and the order changes it a
// few times (Burckhardt and others: A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010).
func Wander(ctx context.Context, s *Scenario, o OrdersOptions) (OrdersResult, error) {
	if !s.Ordered {
		return OrdersResult{}, &NoOrderError{s.Name}
	}
	x := explorer{ctx: ctx, scenario: s, o: o}
	for i := range max(o.Most, 1) {
		w := &wanderer{rand: sim.Stream(o.Seed, uint64(i)), prioritized: i%4 >= 2}
		w.plan(x.result.Arrivals, o.Crashes && i%2 == 1, s.Pause)
		r, err := x.run(w)
		x.result.States = x.states.n
		if err != nil || x.result.Failure != nil {
			return x.result, err
		}
		if x.result.Example == nil {
			x.result.Example = r
		}
		x.result.Arrivals = max(x.result.Arrivals, len(r.arrivals))
		if w.crashed {
			x.result.Crashes++
			continue
		}
		x.result.Orders++
		x.look(newEvents(r.arrivals))
	}
	x.result.States = x.states.n
	return x.result, nil
}

// wanderer draws what arrives next.
type wanderer struct {
	rand *rand.Rand
	// prioritized: the channel with the highest priority arrives, of those met so far. Else it is drawn.
	prioritized bool
	priorities  []priority
	changes     []int // numbers of arrivals before which the channel that would be next becomes the last one
	crashAt     int   // behind so many arrivals; 0: none
	crashed     bool
	left        int // arrivals of the order behind the crash
	pauses      []pause
}

// pause is when nothing arrives for some time, while timers run: leases end, what was held back is sent, and others
// notice that a machine is down.
type pause struct {
	arrived int      // behind so many arrivals
	length  sim.Time // 0: it is over
	until   sim.Time // its end; 0: it has not begun
}

// priority of a channel.
type priority struct {
	channel sim.Channel
	value   float64
}

// of gives the priority of a channel; one that is new draws it.
func (w *wanderer) of(c sim.Channel) *priority {
	for i := range w.priorities {
		if w.priorities[i].channel == c {
			return &w.priorities[i]
		}
	}
	w.priorities = append(w.priorities, priority{c, w.rand.Float64()})
	return &w.priorities[len(w.priorities)-1]
}

// longestPauses are longer than leases on records and some round trips, than what is told later when nothing else is
// sent, than leases of members, and than a request waits for its answer until it is sent again.
var longestPauses = [...]sim.Time{60 * sim.Microsecond, 300 * sim.Microsecond, 1500 * sim.Microsecond,
	3000 * sim.Microsecond}

const (
	mostPauses   = 3
	lengthOfDead = 2 // the index of the pauses in which a machine that is down is noticed
)

// plan draws when the run crashes, pauses for so long at most, and changes priorities. longest is how many arrivals a run
// has had.
func (w *wanderer) plan(longest int, crashes bool, most sim.Time) {
	if longest == 0 {
		return
	}
	for range changedPriorities {
		w.changes = append(w.changes, w.rand.IntN(longest))
	}
	last := longest
	if crashes {
		w.crashAt, w.left = 1+w.rand.IntN(longest), w.rand.IntN(longest)
		if last = w.crashAt + w.left; most > 0 && w.rand.IntN(2) == 0 {
			most -= w.pause(w.crashAt+w.rand.IntN(1+w.left/2), min(most, longestPauses[lengthOfDead]))
		}
	}
	switch w.rand.IntN(4) {
	case 0:
		for at := range last { // the same leases end at another arrival in each run
			if longest := min(longestPauses[0], most/sim.Time(last)); longest > 0 {
				w.pause(at, longest)
			}
		}
	case 1, 2:
		for range 1 + w.rand.IntN(mostPauses) {
			if longest := min(most, longestPauses[w.rand.IntN(len(longestPauses))]); longest > 0 {
				most -= w.pause(w.rand.IntN(1+last), longest)
			}
		}
	}
}

// pause draws for how long nothing arrives behind so many arrivals.
func (w *wanderer) pause(arrived int, longest sim.Time) sim.Time {
	length := sim.Time(1 + w.rand.Int64N(int64(longest)))
	w.pauses = append(w.pauses, pause{arrived: arrived, length: length})
	return length
}

func (w *wanderer) next(e *Env, possible []sim.Arrival) (Turn, bool) {
	arrived := len(e.ordering.arrivals)
	switch {
	case w.crashAt > 0 && arrived >= w.crashAt && !w.crashed:
		w.crashed = true
		node := e.ordering.arrivals[arrived-1].To
		if w.rand.IntN(4) == 0 {
			node = w.rand.IntN(e.Nodes) // in the middle of its messages
		}
		return w.crash(e, node), true
	case w.waits(e, arrived):
		return Turn{Waits: 1}, true
	case w.crashed && w.left == 0:
		return Turn{}, false
	case w.crashed:
		w.left--
	}
	if !w.prioritized {
		return Turn{Arrival: w.rand.IntN(len(possible))}, true
	}
	at := w.highest(possible)
	for _, c := range w.changes {
		if c == arrived {
			w.of(possible[at].Channel).value = -float64(arrived + 1)
			at = w.highest(possible)
		}
	}
	return Turn{Arrival: at}, true
}

// waits reports whether nothing arrives yet.
func (w *wanderer) waits(e *Env, arrived int) bool {
	now := e.World.Now()
	for i := range w.pauses {
		p := &w.pauses[i]
		if p.length == 0 || p.arrived != arrived {
			continue
		}
		if p.until == 0 {
			p.until = now + p.length
		}
		if now < p.until && e.World.Pending() > 0 {
			return true
		}
		p.length = 0
	}
	return false
}

// highest is the place of the arrival whose channel has the highest priority.
func (w *wanderer) highest(possible []sim.Arrival) (at int) {
	most := w.of(possible[0].Channel).value
	for i := range possible {
		if v := w.of(possible[i].Channel).value; v > most {
			at, most = i, v
		}
	}
	return at
}

// crash is a crash of a machine, with or without its messages in flight.
func (w *wanderer) crash(e *Env, node int) Turn {
	t := Turn{Crash: true, Node: node}
	switch loss := w.rand.IntN(e.Nodes + 1); {
	case loss == node:
		t.Lost = LoseAll
	case loss < e.Nodes:
		t.Lost, t.LostTo = LoseOne, loss
	}
	return t
}
