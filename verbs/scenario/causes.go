package scenario

import (
	"slices"

	"drtmd/verbs/sim"
)

// events are the arrivals of a run, and which of them happen before which.
type events struct {
	all    []arrival
	before []bits // of each: those it depends on, and those that these depend on
	cause  []int  // of each: the last arrival at its sender before it left; -1: none
}

// bits is a set of arrivals, by number.
type bits []uint64

func (b bits) has(i int) bool { return b[i/64]>>(i%64)&1 == 1 }
func (b bits) add(i int)      { b[i/64] |= 1 << (i % 64) }
func (b bits) join(c bits) {
	for i := range c {
		b[i] |= c[i]
	}
}

// newEvents finds out what happens before what.
func newEvents(all []arrival) *events {
	e := &events{all: all, before: make([]bits, len(all)), cause: make([]int, len(all))}
	for j := range all {
		e.before[j] = make(bits, (len(all)+63)/64)
		after := func(i int) {
			e.before[j].add(i)
			e.before[j].join(e.before[i])
		}
		e.cause[j] = -1
		for i := all[j].Sent - 1; i >= 0 && all[j].From >= 0; i-- {
			if all[i].To == all[j].From {
				e.cause[j] = i
				after(i)
				break
			}
		}
		for i := range j {
			if e.depend(i, j) && !e.before[j].has(i) {
				after(i)
			}
		}
	}
	return e
}

func (e *events) depend(i, j int) bool {
	a, b := &e.all[i], &e.all[j]
	return a.effect().dependent(b.effect())
}

// causes reports whether arrival j could not be without arrival i.
func (e *events) causes(i, j int) bool {
	c := e.cause[j]
	return e.all[i].Channel == e.all[j].Channel || c >= 0 && (c == i || e.before[c].has(i))
}

// races reports whether arrivals i and j, which is later, come in some other order if nothing between them does.
func (e *events) races(i, j int) bool {
	if !e.depend(i, j) || e.causes(i, j) {
		return false
	}
	for k := i + 1; k < j; k++ {
		if e.before[k].has(i) && e.before[j].has(k) {
			return false
		}
	}
	return true
}

// firstOf lists what can arrive instead of i so that j comes before i: the first of those between them that do not
// depend on i, or j itself.
func (e *events) firstOf(i, j int) (first []sim.Channel) {
	var apart []int
	for k := i + 1; k <= j; k++ {
		if k != j && e.before[k].has(i) {
			continue
		}
		if !slices.ContainsFunc(apart, func(l int) bool { return e.before[k].has(l) }) {
			first = append(first, e.all[k].Channel)
		}
		apart = append(apart, k)
	}
	return first
}

// histories gives, behind each arrival, a hash of what each node has received, in its order: equal hashes are equal
// states of a cluster whose nodes know of each other by messages alone.
func (e *events) histories(nodes int) [][]uint64 {
	now := make([]uint64, nodes)
	all := make([][]uint64, len(e.all))
	for j := range e.all {
		a := &e.all[j]
		h := now[a.To]
		for _, v := range []uint64{uint64(a.From + 1), uint64(a.FromQP), uint64(a.ToQP), btoi(a.Answers)} {
			h = foldHash(h, v+1)
		}
		if c := e.cause[j]; c >= 0 {
			h = foldHash(h, all[c][a.From])
		}
		now[a.To] = h
		all[j] = slices.Clone(now)
	}
	return all
}

func btoi(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// look counts the states of a run.
func (x *explorer) look(e *events) {
	for _, h := range e.histories(x.nodes()) {
		x.states.add(hashOf(h))
	}
}

// nodes of the scenario.
func (x *explorer) nodes() int {
	if x.o.Nodes > 0 {
		return x.o.Nodes
	}
	return x.scenario.Nodes
}

func hashOf(all []uint64) (h uint64) {
	for _, v := range all {
		h = foldHash(h, v) ^ h>>29
	}
	return h
}

// crash repeats a run with a crash of a machine behind each arrival at it, with and without its messages in flight.
// What others are to receive arrives in the order of the run as far as it can.
func (x *explorer) crash(r *Result, e *events) error {
	histories := e.histories(x.nodes())
	for k := range e.all {
		node := e.all[k].To
		rest := make([]uint64, x.nodes())
		for _, a := range e.all[k+1:] {
			if a.To != node {
				rest[a.To] = foldHash(rest[a.To], uint64(a.From+1)<<32|uint64(a.ToQP))
			}
		}
		base := hashOf(append(append([]uint64{uint64(node)}, histories[k]...), rest...))
		for loss := range x.nodes() + 1 {
			t := Turn{Crash: true, Node: node}
			switch {
			case loss == node:
				t.Lost = LoseAll
			case loss < x.nodes():
				t.Lost, t.LostTo = LoseOne, loss
			}
			key := foldHash(base, uint64(loss))
			if x.full() {
				x.short = true
				continue
			}
			if !x.crashes.add(key) {
				continue
			}
			d := &survivor{follower: follower{turns: append(slices.Clone(r.Options.Order[:e.all[k].turns]), t)}}
			for _, a := range e.all[k+1:] {
				d.rest = append(d.rest, a.Channel)
			}
			if _, err := x.run(d); err != nil {
				return err
			}
			x.result.Crashes++
			if x.result.Failure != nil {
				return nil
			}
		}
	}
	return nil
}

// survivor follows a run to a crash, and the order of its channels from then on.
type survivor struct {
	follower
	rest []sim.Channel
}

func (s *survivor) next(e *Env, possible []sim.Arrival) (Turn, bool) {
	if len(s.turns) > 0 {
		return s.follower.next(e, possible)
	}
	for len(s.rest) > 0 {
		c := s.rest[0]
		s.rest = s.rest[1:]
		at := slices.IndexFunc(possible, func(p sim.Arrival) bool { return p.Channel == c })
		if at >= 0 {
			return Turn{Arrival: at}, true
		}
	}
	return Turn{}, false
}
