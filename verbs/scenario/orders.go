package scenario

import (
	"context"
	"fmt"
	"slices"

	"drtmd/verbs/sim"
)

// OrdersOptions of Orders.
type OrdersOptions struct {
	Options
	// Crashes has each machine crash behind each arrival at it as well, in a run of its own.
	Crashes bool
	// Most bounds the runs; 0: all.
	Most int
	// Progress, if set, is called after each run with how many there were.
	Progress func(runs int)
}

// OrdersResult of Orders.
type OrdersResult struct {
	Orders   int  // runs that differ in the order of arrivals at some node
	Missed   int  // orders that were not found again, as what was to arrive was sent at another time
	Cut      int  // runs that were given up when it was plain that they repeat one
	Crashes  int  // runs with a crash
	Arrivals int  // of the longest order
	States   int  // that differ: what each node has received, in its order
	Whole    bool // there are no others
	Events   uint64
	Resumes  uint64
	Hash     uint64  // of the hashes of all runs
	Example  *Result // the first run
	Failure  *Result // the first run that failed; nil if none did
}

// NoOrderError is a scenario that cannot be run in all orders.
type NoOrderError struct{ Scenario string }

func (e *NoOrderError) Error() string {
	return fmt.Sprintf("scenario %s is too large for every order of its messages", e.Scenario)
}

// Orders runs a scenario in every order of its messages, but one order only of those that differ in nothing but
// arrivals that do not depend on each other: it reduces by source sets and sleep sets (Abdulla, Aronis, Jonsson,
// Sagonas: Optimal Dynamic Partial Order Reduction, POPL 2014). Two arrivals depend on each other if they are at the
// same node and not both READs, or if one begins a program and with the other a client is told an outcome. When ctx
// ends it, the error is its cause, and the result says how far it came.
func Orders(ctx context.Context, s *Scenario, o OrdersOptions) (OrdersResult, error) {
	if !s.Ordered {
		return OrdersResult{}, &NoOrderError{s.Name}
	}
	x := explorer{ctx: ctx, scenario: s, o: o}
	err := x.explore()
	x.result.States = x.states.n
	return x.result, err
}

// explorer is the state of Orders: a path of choices from the beginning, which it changes from its end.
type explorer struct {
	ctx      context.Context
	scenario *Scenario
	o        OrdersOptions
	path     []choice
	states   hashes // seen
	crashes  hashes // made
	short    bool   // some crash was not made, because of o.Most
	result   OrdersResult
}

// hashes is a set: a table of a power of two of slots, where 0 is an empty one, with linear probing.
type hashes struct {
	slots []uint64
	n     int
}

// add adds a hash, and reports whether it was not there.
func (s *hashes) add(x uint64) bool {
	if x == 0 {
		x = 1
	}
	if 4*s.n >= 3*len(s.slots) {
		old := s.slots
		s.slots, s.n = make([]uint64, max(64, 2*len(old))), 0
		for _, y := range old {
			if y != 0 {
				s.add(y)
			}
		}
	}
	last := uint64(len(s.slots) - 1)
	for i := x & last; ; i = (i + 1) & last {
		switch s.slots[i] {
		case x:
			return false
		case 0:
			s.slots[i] = x
			s.n++
			return true
		}
	}
}

// choice is a state of the path, and what is chosen there.
type choice struct {
	possible []sim.Channel
	sleep    []effect // that lead to nothing new from here
	done     []effect // chosen before
	todo     []sim.Channel
	chosen   sim.Channel
}

// effect is an arrival that was made from a state, with what it depends on.
type effect struct {
	sim.Channel
	told, reads bool
}

// dependent reports whether the order of two arrivals matters.
func (a effect) dependent(b effect) bool {
	return a.To == b.To && !(a.reads && b.reads) || a.From < 0 && b.told || b.From < 0 && a.told
}

// explore makes all runs.
func (x *explorer) explore() error {
	for first := true; first || x.turn(); first = false {
		if x.full() {
			return nil
		}
		missed := x.result.Missed
		r, err := x.run(&walker{x: x})
		if err != nil || x.result.Failure != nil {
			return err
		}
		if x.result.Example == nil {
			x.result.Example = r
		}
		events := newEvents(r.arrivals)
		x.look(events)
		switch {
		case r.cut && x.result.Missed > missed:
		case r.cut:
			x.result.Cut++
		default:
			x.result.Orders++
			x.result.Arrivals = max(x.result.Arrivals, len(events.all))
		}
		x.race(events)
		if !r.cut && x.o.Crashes {
			if err := x.crash(r, events); err != nil || x.result.Failure != nil {
				return err
			}
		}
	}
	x.result.Whole = x.result.Missed == 0 && !x.short
	return nil
}

// made is how many runs were made.
func (x *explorer) made() int {
	return x.result.Orders + x.result.Cut + x.result.Missed + x.result.Crashes
}

// full reports whether as many runs were made as may be.
func (x *explorer) full() bool {
	return x.o.Most > 0 && x.made() >= x.o.Most
}

// run makes one run.
func (x *explorer) run(d director) (*Result, error) {
	r, err := runAs(x.ctx, x.scenario, x.o.Options, d)
	if err != nil {
		return nil, err
	}
	x.result.Events += r.Stats.Events
	x.result.Resumes += r.Resumes
	x.result.Hash = foldHash(x.result.Hash, r.Hash)
	if r.Failure != nil {
		x.result.Failure = r
	}
	if x.o.Progress != nil {
		x.o.Progress(x.made() + 1)
	}
	return r, nil
}

// turn changes the last choice of the path that has another way to go, and reports whether there is one.
func (x *explorer) turn() bool {
	for len(x.path) > 0 {
		c := &x.path[len(x.path)-1]
		for _, next := range c.todo {
			if !contains(c.sleep, next) && !contains(c.done, next) {
				c.chosen = next
				return true
			}
		}
		x.path = x.path[:len(x.path)-1]
	}
	return false
}

func contains(list []effect, c sim.Channel) bool {
	return slices.ContainsFunc(list, func(e effect) bool { return e.Channel == c })
}

// walker follows the path of an explorer, and goes on from its end.
type walker struct {
	x     *explorer
	step  int
	since sim.Time // of waiting for an arrival; 0: not waiting
}

// walkerPatience is longer than the timers of protocols that send something.
const walkerPatience = 500 * sim.Microsecond

func (w *walker) next(e *Env, possible []sim.Arrival) (Turn, bool) {
	x := w.x
	if w.step == len(x.path) {
		c := choice{}
		for i := range possible {
			c.possible = append(c.possible, possible[i].Channel)
		}
		if w.step > 0 {
			before, last := &x.path[w.step-1], e.ordering.arrivals[w.step-1]
			now := last.effect()
			for _, s := range slices.Concat(before.sleep, before.done) {
				if !s.dependent(now) {
					c.sleep = append(c.sleep, s)
				}
			}
		}
		at := slices.IndexFunc(c.possible, func(p sim.Channel) bool { return !contains(c.sleep, p) })
		if at < 0 { // what a timer sends may still come before all of these
			if w.waits(e) {
				return Turn{Waits: 1}, true
			}
			e.cut = true
			return Turn{}, false
		}
		w.since = 0
		c.chosen = c.possible[at]
		c.todo = append(c.todo, c.chosen)
		x.path = append(x.path, c)
	}
	at := slices.IndexFunc(possible, func(p sim.Arrival) bool { return p.Channel == x.path[w.step].chosen })
	if at < 0 {
		return w.wait(e)
	}
	w.step++
	w.since = 0
	return Turn{Arrival: at}, true
}

// wait lets time pass until a timer of the sender has sent what is to arrive.
func (w *walker) wait(e *Env) (Turn, bool) {
	if w.waits(e) {
		return Turn{Waits: 1}, true
	}
	c := &w.x.path[w.step]
	c.done = append(c.done, effect{Channel: c.chosen}) // it is not tried again
	w.x.result.Missed++
	e.cut = true
	return Turn{}, false
}

// waits reports whether to wait for a timer any longer.
func (w *walker) waits(e *Env) bool {
	now := e.World.Now()
	if w.since == 0 {
		w.since = now
	}
	return now < w.since+walkerPatience
}

// race looks for arrivals that could have come in the other order, and has the path try that.
func (x *explorer) race(e *events) {
	for i := range e.all {
		a := &e.all[i]
		if c := &x.path[i]; !contains(c.done, a.Channel) {
			c.done = append(c.done, a.effect())
		}
	}
	for j := range e.all {
		for i := range j {
			if !e.races(i, j) {
				continue
			}
			c := &x.path[i]
			first := e.firstOf(i, j)
			if !slices.ContainsFunc(first, func(f sim.Channel) bool {
				return slices.Contains(c.todo, f) || contains(c.sleep, f)
			}) {
				c.todo = append(c.todo, first[0])
			}
		}
	}
}
