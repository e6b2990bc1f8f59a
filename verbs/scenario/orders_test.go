package scenario

import (
	"errors"
	"strings"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// adders is a small world: clients add one to a word of node 0, each by a READ and a WRITE, or by one FAA. seen counts
// what the word was in the end, by run.
func adders(clients int, atomic bool, seen map[uint64]int) *Scenario {
	return &Scenario{Name: "adders", Nodes: clients + 1, MinNodes: 2, MaxNodes: 8, Ordered: true,
		Until: 1e9, EventLimit: 1e6, Build: func(e *Env) error { return buildAdders(e, atomic, seen, 0) }}
}

// buildAdders is Scenario.Build. Node 1 sleeps before it adds.
func buildAdders(e *Env, atomic bool, seen map[uint64]int, sleep time.Duration) error {
	all, counter, err := addCounter(e)
	if err != nil {
		return err
	}
	for _, m := range all[1:] {
		buf, err := m.Memory(verbs.LineBytes)
		if err != nil {
			return err
		}
		e.Begin(m, 1, func() {
			m.Go(0, "adder", func(f *fiber.Fiber) error {
				defer e.Told(m)
				if m == all[1] && sleep > 0 {
					if err := f.Sleep(sleep); err != nil {
						return err
					}
				}
				return add(f, m.NewLink(0, all[0]), buf, *counter, atomic)
			})
		})
	}
	e.AtEnd(func() {
		n := word(*counter, 0)
		if seen[n]++; n != uint64(len(all)-1) {
			e.Fail("sum", "%d of %d additions are there", n, len(all)-1)
		}
	})
	return nil
}

// addCounter adds all machines of a run. Node 0 has the word that is added to; it is there when the machines have booted.
func addCounter(e *Env) (all []*Machine, counter **verbs.MR, err error) {
	counter = new(*verbs.MR)
	for i := range e.Nodes {
		m, err := e.AddMachine(MachineConfig{Conns: 1, Boot: func(m *Machine) (err error) {
			if i == 0 {
				*counter, err = m.Kept("counter", verbs.LineBytes)
			}
			return err
		}})
		if err != nil {
			return nil, nil, err
		}
		all = append(all, m)
	}
	return all, counter, nil
}

func add(f *fiber.Fiber, l *Link, buf, counter *verbs.MR, atomic bool) error {
	c, err := l.Conn(f)
	if err != nil {
		return err
	}
	at := counter.Remote()
	if atomic {
		_, err := c.FAA(f, at.Addr, at.RKey, 1)
		return err
	}
	if err := c.Read(f, buf.SGE(0, 8), at.Addr, at.RKey); err != nil {
		return err
	}
	setWord(buf, 0, word(buf, 0)+1)
	return c.Write(f, buf.SGE(0, 8), at.Addr, at.RKey)
}

// The messages of n clients reach node 0 in every order that each client's own allows, and each order is run once:
// what only other nodes receive, the answers, multiplies nothing but by when a client is told.
func TestOrdersMakesEachOrderOnce(t *testing.T) {
	// Of two clients either is first at node 0, and the other begins before that one is told or behind it. Of three
	// there are 6 orders at node 0; with begins and ends there are 42.
	for clients, orders := range map[int]int{2: 4, 3: 42} {
		seen := map[uint64]int{}
		x, err := Orders(t.Context(), adders(clients, true, seen), OrdersOptions{})
		must(t, err)
		held(t, x.Failure)
		if !x.Whole || x.Missed > 0 || x.Cut > 0 || x.Orders != orders || seen[uint64(clients)] != orders {
			t.Errorf("%d clients: %d orders of %d, %d missed, %d cut, whole: %t; %v", clients, x.Orders, orders, x.Missed,
				x.Cut, x.Whole, seen)
		}
	}
}

// A timer fires in an order: what it sends arrives before or behind what others have sent, and an addition that is lost
// meanwhile is found. The order that is printed waits for a timer that fires late (w). What such a timer sends
// cannot be put before what arrived while it ran: that order is missed, and the orders are not said to be whole.
func TestOrdersWaitForTimers(t *testing.T) {
	for _, c := range []struct {
		sleep          time.Duration
		orders, missed int
		late           bool
	}{{5 * time.Microsecond, 4, 0, false}, {30 * time.Microsecond, 3, 1, true}, {100 * time.Microsecond, 3, 1, true}} {
		sleepers := func(atomic bool) *Scenario {
			seen := map[uint64]int{}
			s := adders(2, atomic, seen)
			s.Build = func(e *Env) error { return buildAdders(e, atomic, seen, c.sleep) }
			return s
		}
		x, err := Orders(t.Context(), sleepers(true), OrdersOptions{})
		must(t, err)
		held(t, x.Failure)
		if x.Orders != c.orders || x.Missed != c.missed || x.Whole != (c.missed == 0) {
			t.Errorf("a client sleeps %v: %d orders, %d missed, whole: %t", c.sleep, x.Orders, x.Missed, x.Whole)
		}
		s := sleepers(false)
		x, err = Orders(t.Context(), s, OrdersOptions{})
		must(t, err)
		if x.Failure == nil || x.Failure.Failure.Check != "sum" {
			t.Fatalf("a client sleeps %v: %d orders find nothing: %+v", c.sleep, x.Orders, x.Failure)
		}
		turns := x.Failure.Options.Order
		if text := FormatOrder(turns); strings.Contains(text, "w") != c.late {
			t.Errorf("a client sleeps %v: order %s", c.sleep, text)
		}
		again := run(t, s, Options{Order: turns})
		if again.Failure == nil || again.Failure.Text != x.Failure.Failure.Text || again.Hash != x.Failure.Hash {
			t.Errorf("order %s: %v, not %v", FormatOrder(turns), again.Failure, x.Failure.Failure)
		}
	}
}

// An addition that another one overwrites is found in some order, and the order that is printed shows it again.
func TestOrdersFindsALostAddition(t *testing.T) {
	s := adders(2, false, map[uint64]int{})
	x, err := Orders(t.Context(), s, OrdersOptions{})
	must(t, err)
	if x.Failure == nil || x.Failure.Failure.Check != "sum" {
		t.Fatalf("%d orders find nothing: %+v", x.Orders, x.Failure)
	}
	turns, err := ParseOrder(FormatOrder(x.Failure.Options.Order))
	must(t, err)
	again := run(t, s, Options{Order: turns})
	if again.Failure == nil || again.Failure.Text != x.Failure.Failure.Text || again.Hash != x.Failure.Hash {
		t.Errorf("order %s: %v, not %v", FormatOrder(turns), again.Failure, x.Failure.Failure)
	}
}

// What a node asks of its own NIC waits for its turn, too: an addition of another node comes between its READ and its WRITE.
func TestOrdersHaveWhatANodeAsksOfItsOwnNIC(t *testing.T) {
	s := adders(2, true, map[uint64]int{})
	s.Build = func(e *Env) error {
		all, counter, err := addCounter(e)
		if err != nil {
			return err
		}
		for i, m := range all {
			buf, err := m.Memory(verbs.LineBytes)
			if err != nil {
				return err
			}
			e.Begin(m, 1, func() {
				m.Go(0, "adder", func(f *fiber.Fiber) error {
					return add(f, m.NewLink(0, all[0]), buf, *counter, i == 1)
				})
			})
		}
		e.AtEnd(func() {
			if n := word(*counter, 0); n != 2 {
				e.Fail("sum", "%d of 2 additions are there", n)
			}
		})
		return nil
	}
	x, err := Orders(t.Context(), s, OrdersOptions{Options: Options{Nodes: 2}})
	must(t, err)
	if x.Failure == nil || x.Failure.Failure.Check != "sum" {
		t.Fatalf("%d orders: %+v", x.Orders, x.Failure)
	}
}

// With a crash behind each arrival and each loss of messages, a lost client loses at most its own addition.
func TestOrdersCrashesAtEveryPoint(t *testing.T) {
	seen := map[uint64]int{}
	s := adders(2, true, seen)
	build := s.Build
	s.Build = func(e *Env) error {
		err := build(e)
		e.atEnd = nil // a client that has died has not added, or has
		return err
	}
	x, err := Orders(t.Context(), s, OrdersOptions{Crashes: true})
	must(t, err)
	if x.Failure != nil && x.Failure.Failure.Check != CheckProgram { // a client of a counter that is gone
		t.Fatal(x.Failure.Failure)
	}
	if x.Crashes == 0 {
		t.Errorf("%d orders, no crash", x.Orders)
	}
	drawn, err := Wander(t.Context(), s, OrdersOptions{Crashes: true, Most: 8})
	must(t, err)
	if drawn.Failure == nil && drawn.Crashes == 0 || drawn.Failure != nil && drawn.Failure.Failure.Check != CheckProgram {
		t.Errorf("%d orders that were drawn, no crash; %v", drawn.Orders, drawn.Failure)
	}
}

func TestOrdersAreWrittenAsTheyAreRead(t *testing.T) {
	for _, text := range []string{"0", "0,2,1", "3,x1,2", "x0-", "1,x2-1", "0,w12,1"} {
		turns, err := ParseOrder(text)
		must(t, err)
		if got := FormatOrder(turns); got != text {
			t.Errorf("%q is written %q", text, got)
		}
	}
	for _, text := range []string{"", "-1", "x", "1,,2", "y3", "99999999"} {
		if turns, err := ParseOrder(text); err == nil {
			t.Errorf("%q is read as %v", text, turns)
		}
	}
	if got := FormatOrder([]Turn{{Arrival: 2}, {}, {}}); got != "2" {
		t.Errorf("zeros at the end are written: %q", got)
	}
}

// An order that a run cannot follow is a failure of its own, and a scenario that is too large is refused.
func TestOrdersThatCannotBeAreRefused(t *testing.T) {
	s := adders(2, true, map[uint64]int{})
	for _, turns := range [][]Turn{{{Arrival: 9}}, {{Crash: true, Node: 7}}} {
		if r := run(t, s, Options{Order: turns}); r.Failure == nil || r.Failure.Check != CheckOrder {
			t.Errorf("%v: %v", turns, r.Failure)
		}
	}
	_, err := Orders(t.Context(), named(t, "storm"), OrdersOptions{})
	var large *NoOrderError
	if !errors.As(err, &large) {
		t.Errorf("every order of storm: %v", err)
	}
}

// Orders that are drawn depend on the seed alone, find what is wrong, and the order that is printed shows it again. What
// is right stays so.
func TestWanderFindsALostAddition(t *testing.T) {
	o := OrdersOptions{Options: Options{Seed: 3}, Most: 40}
	x, err := Wander(t.Context(), adders(3, true, map[uint64]int{}), OrdersOptions{Most: 20})
	must(t, err)
	held(t, x.Failure)
	if x.Orders != 20 || x.Whole || x.States == 0 || x.Arrivals == 0 {
		t.Errorf("%+v", x)
	}
	var first *Result
	for range 2 {
		x, err := Wander(t.Context(), adders(2, false, map[uint64]int{}), o)
		must(t, err)
		switch {
		case x.Failure == nil:
			t.Fatalf("%d orders find nothing", x.Orders)
		case first == nil:
			first = x.Failure
		case x.Failure.Hash != first.Hash:
			t.Error("the same seed has drawn other orders")
		}
	}
	turns, err := ParseOrder(FormatOrder(first.Options.Order))
	must(t, err)
	again := run(t, adders(2, false, map[uint64]int{}), Options{Order: turns, Seed: 3})
	if again.Failure == nil || again.Failure.Text != first.Failure.Text {
		t.Errorf("order %s: %v, not %v", FormatOrder(turns), again.Failure, first.Failure)
	}
}
