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
// unusual choices early on. It proves nothing: Whole stays false. The orders depend on o.Seed alone. Half of the runs
// choose among what can arrive by chance. In the others each channel has a priority, and the order changes it a few
// times (Burckhardt and others: A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, ASPLOS 2010).
func Wander(ctx context.Context, s *Scenario, o OrdersOptions) (OrdersResult, error) {
	if !s.Ordered {
		return OrdersResult{}, &NoOrderError{s.Name}
	}
	x := explorer{ctx: ctx, scenario: s, o: o}
	for i := range max(o.Most, 1) {
		w := &wanderer{rand: sim.Stream(o.Seed, uint64(i)), prioritized: i%4 >= 2}
		w.plan(x.result.Arrivals, o.Crashes && i%2 == 1, s.CrashFor == 0)
		r, err := x.run(w)
		x.result.States = len(x.states)
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
	x.result.States = len(x.states)
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
	left        int      // arrivals of the order behind the crash
	wait        sim.Time // behind the crash, before anything arrives: others may have noticed by then
	until       sim.Time // the end of that; 0: it has not begun
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

// longestWait is longer than leases of members in small worlds.
const longestWait = 1500 * sim.Microsecond

// plan draws when the run crashes and changes priorities. longest is how many arrivals a run has had. It waits behind a
// crash only if the machine stays down: the programs of its next life are not of the order.
func (w *wanderer) plan(longest int, crashes, waits bool) {
	if longest == 0 {
		return
	}
	for range changedPriorities {
		w.changes = append(w.changes, w.rand.IntN(longest))
	}
	if crashes {
		w.crashAt, w.left = 1+w.rand.IntN(longest), w.rand.IntN(longest)
		if waits && w.rand.IntN(2) == 0 {
			w.wait = sim.Time(w.rand.Int64N(int64(longestWait)))
		}
	}
}

func (w *wanderer) next(e *Env, possible []sim.Arrival) (Turn, bool) {
	arrived := len(e.ordering.arrivals)
	switch {
	case w.crashed && w.waits(e):
		return Turn{Waits: 1}, true
	case w.crashed && w.left == 0:
		return Turn{}, false
	case w.crashed:
		w.left--
	case w.crashAt > 0 && arrived == w.crashAt:
		w.crashed = true
		return w.crash(e, e.ordering.arrivals[arrived-1].To), true
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

// waits reports whether nothing arrives yet, behind the crash.
func (w *wanderer) waits(e *Env) bool {
	if w.until == 0 {
		w.until = e.World.Now() + w.wait
	}
	return e.World.Now() < w.until && e.World.Pending() > 0
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
