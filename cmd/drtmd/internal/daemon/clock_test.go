package daemon

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/verbs"
)

// faultyClock is a clock of another machine, with faults.
type faultyClock struct {
	verbs.Clock
	ahead atomic.Int64 // ns
	ppm   int64
}

func (c *faultyClock) Now() time.Duration {
	now := c.Clock.Now()
	return now + now*time.Duration(c.ppm)/1_000_000 + time.Duration(c.ahead.Load())
}

// jump moves the clock; back is what a pause does to it.
func (c *faultyClock) jump(d time.Duration) { c.ahead.Add(int64(d)) }

// apart makes a cluster of nodes that take each other for machines of their own: each has its
// clock, and a name for it. options, if not nil, is called for each of them.
func apart(t *testing.T, nodes int, options func(o *testOptions)) (*world, []*faultyClock) {
	t.Helper()
	w := newWorld(t, 0)
	var clocks []*faultyClock
	for i := range nodes {
		c := &faultyClock{Clock: verbs.NewMonotonicClock(), ppm: int64(40 * i)}
		c.ahead.Store(int64(i) * int64(time.Hour))
		clocks = append(clocks, c)
		n := w.add()
		n.options = func(o *Options) {
			o.test.clock, o.test.machine = c, fmt.Sprintf("machine %d", i)
			if options != nil {
				options(&o.test)
			}
		}
		n.start()
	}
	w.settled(w.nodes...)
	return w, clocks
}

// hasEvent looks for an event of a node.
func (n *testNode) hasEvent(l status.Level, words ...string) bool {
	s := n.self()
	if s == nil {
		return false
	}
	for _, e := range s.Events {
		all := e.Level == l
		for _, w := range words {
			all = all && strings.Contains(e.Text, w)
		}
		if all {
			return true
		}
	}
	return false
}

// TestMachinesWithClocksOfTheirOwnServe DrTM, on a network that is fast: leases are as long as the
// clocks' error asks for, whatever is said of their length, and too short ones are refused with
// what would do.
func TestMachinesWithClocksOfTheirOwnServe(t *testing.T) {
	t.Parallel()
	w, _ := apart(t, 2, nil)
	bound := w.nodes[1].self().Clock.Bound
	for i, n := range w.nodes {
		c := n.self().Clock
		switch {
		case c == nil || c.Error <= 0 || c.Bound <= 0:
			t.Fatalf("node %d: clock %+v", i, c)
		case i == 0 && c.Follows != nil || i > 0 && (c.Follows == nil || *c.Follows != 0):
			t.Errorf("node %d follows %v", i, c.Follows)
		case c.Lease < 0.0004 || c.LeaseReadOnly < 0.001:
			t.Errorf("node %d has leases of %v s and %v s", i, c.Lease, c.LeaseReadOnly)
		}
		if c.Lease <= 3*bound {
			t.Errorf("node %d has leases of %v s, a clock's bound is %v s", i, c.Lease, bound)
		}
	}
	w.until("the drift is measured", func() bool {
		c := w.nodes[1].self().Clock
		return c != nil && c.DriftError > 0 && c.Age > 0 && c.Age < 60
	}, func() any { return w.nodes[1].self().Clock })
	for _, lease := range []option.Settings{nil, {"lease": "50ms"}} {
		p := bench(300 * time.Millisecond)
		p.Settings["distributed"], p.ProtocolOptions = "0.5", lease
		o := w.nodes[1].mustRun(p)
		if o.result.Sum.Outcomes(proto.Committed) == 0 {
			t.Errorf("lease %v: nothing committed, %d lease waits", lease, o.result.Sum.Engine.LeaseWaits)
		}
		w.settled(w.nodes...)
	}
	p := bench(300 * time.Millisecond)
	p.ProtocolOptions = option.Settings{"lease": "2us"}
	o := w.nodes[0].run(t.Context(), p, nil)
	if o.err != nil || o.done == nil || !strings.Contains(o.done.Error, "must last longer than ") ||
		!strings.Contains(o.done.Error, "without this option") {
		t.Errorf("a lease of 2 µs: %v, %+v", o.err, o.done)
	}
	w.settled(w.nodes...)
}

// TestClockThatStoodStillStartsItsNodeAnew: as another incarnation, which says why, and the cluster
// serves again.
func TestClockThatStoodStillStartsItsNodeAnew(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		name string
		jump time.Duration
	}{{"stood still", -50 * time.Millisecond}, {"jumped", time.Second}} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			w, clocks := apart(t, 2, nil)
			was := w.nodes[1].self().Member
			clocks[1].jump(x.jump)
			w.until("the node says what is wrong", func() bool {
				// A clock that goes back within an exchange with the leader has been read before and after.
				contradicts := []string{"this node's clock contradicts that", "of the leader at"}
				return w.nodes[1].hasEvent(status.Error, append(contradicts, "stood still or jumped")...) ||
					w.nodes[1].hasEvent(status.Error, append(contradicts, "the own clock went back by")...)
			}, func() any { return w.nodes[1].self() })
			w.until("the node is a member again", func() bool {
				s := w.nodes[1].self()
				return s != nil && s.Phase == status.Ready && s.Member.Incarnation > was.Incarnation &&
					s.Member.Node == was.Node
			}, func() any { return w.nodes[1].self() })
			w.settled(w.nodes...)
			w.nodes[0].mustRun(bench(200 * time.Millisecond))
		})
	}
}

// TestALeaderThatAnswersLateKeepsNoPlaneFromBeingBuilt: a busy machine takes more than a second now and then.
func TestALeaderThatAnswersLateKeepsNoPlaneFromBeingBuilt(t *testing.T) {
	t.Parallel()
	// A plane begins its clock with 32 questions, the last before it is there. Every 16th answer is late until then, so that
	// one of the plane's is at least, however many the clock of the plane before has asked for.
	const every, late = 16, 1500 * time.Millisecond
	var slow atomic.Bool
	var asked, waited, began atomic.Int64 // waited: late answers that were given; began: those before the plane was there
	w, _ := apart(t, 2, func(o *testOptions) {
		o.beforeAnswer = func() {
			if slow.Load() && asked.Add(1)%every == 0 {
				time.Sleep(late)
				waited.Add(1)
			}
		}
		if o.machine == "machine 1" { // the other leads, and asks nobody
			o.wrapClock = func(c verbs.Clock) verbs.Clock {
				if slow.Swap(false) {
					began.Store(waited.Load())
				}
				return c
			}
		}
	})
	slow.Store(true)
	w.nodes[0].mustRun(bench(100 * time.Millisecond))
	if began.Load() == 0 {
		t.Errorf("no answer was late, of %d", asked.Load())
	}
}

// TestClockThatIsNotAnsweredIsToldOf while leases last longer, and is known again when answers
// come: the plane stays the same.
func TestClockThatIsNotAnsweredIsToldOf(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	w, _ := apart(t, 2, func(o *testOptions) {
		o.beforeAsk = func() error {
			if silent.Load() {
				return errors.New("cut off by the test")
			}
			return nil
		}
	})
	n := w.nodes[1]
	was := n.self()
	silent.Store(true)
	w.until("the node tells of it", func() bool {
		return n.hasEvent(status.Warn, "the clock may be wrong by", "cut off by the test")
	}, func() any { return n.self() })
	if now := n.self(); now.Clock.Error <= was.Clock.Bound || now.Phase != status.Ready {
		t.Errorf("phase %s, clock %+v", now.Phase, now.Clock)
	}
	silent.Store(false)
	w.until("the clock is known again", func() bool {
		return n.hasEvent(status.Info, "the clock is known to")
	}, func() any { return n.self() })
	now := n.self()
	if now.Member.Incarnation != was.Member.Incarnation || now.Plane.Version != was.Plane.Version {
		t.Errorf("was %+v, is %+v", was.Member, now.Member)
	}
}
