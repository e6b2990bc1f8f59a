package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"drtmd/verbs/sim"
)

// This file runs a scenario in an order of arrivals that somebody chooses; orders.go chooses all.

// Turn is one choice of an order: what arrives next, or a crash.
type Turn struct {
	Arrival int // its place among those that are possible, from 0, if Crash is false
	Crash   bool
	Node    int // that crashes
	// Lost says which of its messages in flight do not arrive: none, all, or those to node LostTo.
	Lost   Loss
	LostTo int
	Waits  int // nothing arrives: time passes until so many events have happened, for what a timer sends
}

// Loss is which messages in flight of a machine that crashes do not arrive.
type Loss uint8

// Losses.
const (
	LoseNone Loss = iota
	LoseAll
	LoseOne // those to one node
)

// String is a turn as ParseOrder reads it: 2 is the third of the possible arrivals; x1 is a crash of node 1, x1- one
// that loses all of its messages in flight, and x1-2 those to node 2; w9 waits for 9 events.
func (t Turn) String() string {
	switch {
	case t.Waits > 0:
		return fmt.Sprintf("w%d", t.Waits)
	case !t.Crash:
		return strconv.Itoa(t.Arrival)
	}
	switch t.Lost {
	case LoseAll:
		return fmt.Sprintf("x%d-", t.Node)
	case LoseOne:
		return fmt.Sprintf("x%d-%d", t.Node, t.LostTo)
	}
	return fmt.Sprintf("x%d", t.Node)
}

// FormatOrder writes an order in one word, without the zeros at its end. Behind a crash zeros count: the end of the
// turns ends the order there.
func FormatOrder(turns []Turn) string {
	n := len(turns)
	crashes := slices.ContainsFunc(turns, func(t Turn) bool { return t.Crash })
	for n > 1 && !crashes && turns[n-1] == (Turn{}) {
		n--
	}
	var words []string
	for _, t := range turns[:n] {
		words = append(words, t.String())
	}
	return strings.Join(words, ",")
}

// ParseOrder reads what FormatOrder writes.
func ParseOrder(text string) ([]Turn, error) {
	turns := []Turn{}
	for word := range strings.SplitSeq(text, ",") {
		var t Turn
		var err error
		number := func(s string) (n int) {
			if err == nil {
				var u uint64
				u, err = strconv.ParseUint(s, 10, 16)
				n = int(u)
			}
			return n
		}
		if rest, wait := strings.CutPrefix(word, "w"); wait {
			if t.Waits = number(rest); err == nil && t.Waits == 0 {
				err = errors.New("no event")
			}
		} else if rest, crash := strings.CutPrefix(word, "x"); crash {
			node, to, lost := strings.Cut(rest, "-")
			t.Crash, t.Node = true, number(node)
			switch {
			case lost && to == "":
				t.Lost = LoseAll
			case lost:
				t.Lost, t.LostTo = LoseOne, number(to)
			}
		} else {
			t.Arrival = number(word)
		}
		if err != nil {
			return nil, fmt.Errorf("%q is no turn: write the number of an arrival; x and that of a node that crashes, "+
				"with - if it loses its messages in flight, or - and the node to which; or w and how many events to wait "+
				"for: such as 0,2,w9,x1-2", word)
		}
		turns = append(turns, t)
	}
	return turns, nil
}

// director chooses the turns of a run.
type director interface {
	// next is the next turn. With false the order ends, and times count again.
	next(e *Env, possible []sim.Arrival) (Turn, bool)
}

// ordering is the order of one run.
type ordering struct {
	director
	turns    []Turn
	arrivals []arrival
}

// arrival is what has arrived, in its order.
type arrival struct {
	sim.Arrival
	told  bool // a client was told the outcome of a transaction because of it
	turns int  // of the order up to it
}

// effect is what an arrival depends on.
func (a *arrival) effect() effect { return effect{a.Channel, a.told, a.Reads} }

// Timing of orders. What CPUs do between two arrivals takes less than orderQuiet, short waits for what has arrived
// included; one that goes on looking for something to arrive is cut short.
const (
	orderQuiet   = 12 * sim.Microsecond
	orderLongest = 60 * sim.Microsecond
)

// Begin has a program of a machine begin: at once, or when the order has it begin. The first call begins the order.
// number tells the programs of the machine apart, from 1.
func (e *Env) Begin(m *Machine, number uint32, begin func()) {
	if e.ordering != nil && e.ordering.turns == nil {
		e.ordering.turns = []Turn{}
		e.World.SetOrder(&sim.Order{Pick: e.pick, Quiet: orderQuiet, Longest: orderLongest})
	}
	e.World.Begin(m.Node, number, begin)
}

// Told notes that a client of the machine was told the outcome of a transaction: a program that has begun before is
// concurrent to it, one that begins later is not.
func (e *Env) Told(m *Machine) {
	if e.ordering == nil {
		return
	}
	all := e.ordering.arrivals
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].To == m.Index() {
			all[i].told = true
			return
		}
	}
}

// EndOrder ends the order of arrivals, when the programs have come to their end.
func (e *Env) EndOrder() { e.World.SetOrder(nil) }

// pick carries out the next turn.
func (e *Env) pick(possible []sim.Arrival) int {
	o := e.ordering
	t, ok := o.next(e, possible)
	if !ok {
		return sim.PickEnd
	}
	if last := len(o.turns) - 1; t.Waits > 0 && last >= 0 && o.turns[last].Waits > 0 {
		o.turns[last].Waits++
		return sim.PickLater
	}
	o.turns = append(o.turns, t)
	if t.Waits > 0 {
		return sim.PickLater
	}
	if t.Crash {
		e.crash(t)
		return sim.PickAgain
	}
	o.arrivals = append(o.arrivals, arrival{Arrival: possible[t.Arrival], turns: len(o.turns)})
	return t.Arrival
}

// crash has a machine crash between two arrivals.
func (e *Env) crash(t Turn) {
	n := e.machines[t.Node].Node
	for i, other := range e.machines {
		if t.Lost == LoseAll || t.Lost == LoseOne && i == t.LostTo {
			e.World.Lose(n, other.Node)
		}
	}
	n.Crash(e.crashKept)
	if e.crashFor > 0 {
		e.World.After(e.crashFor, n.Restart)
	}
}

// list is turns that are taken one by one, a wait of several events as so many.
type list []Turn

func (l *list) take() Turn {
	t := (*l)[0]
	if t.Waits > 1 {
		*l = append(list{{Waits: t.Waits - 1}}, (*l)[1:]...)
		return Turn{Waits: 1}
	}
	*l = (*l)[1:]
	return t
}

// follower takes turns from a list, then the first arrival that is possible; after a crash the list ends the order.
type follower struct {
	turns   list
	crashed bool
}

func (f *follower) next(e *Env, possible []sim.Arrival) (Turn, bool) {
	if len(f.turns) == 0 {
		return Turn{}, !f.crashed
	}
	t := f.turns.take()
	f.crashed = f.crashed || t.Crash
	nowhere := t.Lost == LoseOne && (t.LostTo >= len(e.machines) || t.LostTo == t.Node)
	if t.Crash && (t.Node >= len(e.machines) || nowhere) || !t.Crash && t.Arrival >= len(possible) {
		e.Fail(CheckOrder, "turn %q is not possible: there are %d arrivals and %d nodes", t, len(possible),
			len(e.machines))
		return t, false
	}
	return t, true
}
