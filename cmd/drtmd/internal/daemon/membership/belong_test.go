package membership

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// TestALostLeaseIsANewLife: the guard ends what is served before the node leaves, nobody is let in
// meanwhile, and the node takes its place over.
func TestALostLeaseIsANewLife(t *testing.T) {
	r := newRoom(t)
	member1 := false
	r.guard.lost = func(error) { _, member1 = r.m.Self() }
	r.begin()
	s := r.joins()
	r.serving()
	s.l.LeaseLost(member.ErrLeaseLost)
	r.tells("lost: membership lease has ended")
	if !member1 {
		t.Error("the node was no member any more when its guard was told")
	}
	r.tells("rest")
	again := r.joins()
	r.serving()
	<-s.left
	if list := r.events(status.Error); len(list) != 1 ||
		list[0] != "refuses to serve: membership lease has ended" {
		t.Errorf("events %q", list)
	}
	r.reg.mu.Lock()
	defer r.reg.mu.Unlock()
	if c := r.reg.asked[1]; c.Replaces != s.self.Incarnation || c.Node != int(s.self.Node) ||
		again.self.Incarnation <= s.self.Incarnation {
		t.Errorf("asked as %+v, is %v, was %v", c, again.self, s.self)
	}
}

// TestTheOwnClockEndsTheLease: the node is fenced once, and serves nothing, though the registry says
// nothing.
func TestTheOwnClockEndsTheLease(t *testing.T) {
	r := newRoom(t)
	r.begin()
	s := r.joins()
	r.serving()
	s.end()
	r.tells("fence: membership lease has ended: 3s, by this node's clock")
	if _, err := r.m.Serving(); !errors.Is(err, member.ErrLeaseLost) {
		t.Errorf("the node serves: %v", err)
	}
	s.l.LeaseLost(member.ErrLeaseLost)
	r.tells("lost: membership lease has ended")
}

// TestARoomMayAskForANewLife as one with a clock that is wrong. Asking several times is one new life.
func TestARoomMayAskForANewLife(t *testing.T) {
	r := newRoom(t)
	rested := make(chan struct{})
	r.guard.rest = func() { <-rested }
	r.begin()
	s := r.joins()
	r.serving()
	r.m.StartAnew(errors.New("the clock jumped"))
	r.tells("lost: the clock jumped")
	r.m.StartAnew(errors.New("the clock jumped again")) // while the first is carried out
	<-s.left
	r.tells("rest")
	if _, err := r.m.Serving(); !errors.Is(err, member.ErrLeaseLost) ||
		!strings.Contains(err.Error(), "the clock jumped") {
		t.Errorf("refuses with %v", err)
	}
	close(rested)
	r.joins()
	r.serving()
	select {
	case told := <-r.guard.told:
		t.Errorf("the second life is told %q", told)
	case <-time.After(10 * time.Millisecond):
	}
}

// TestLeavingEndsTheMembership, and nothing is joined after it.
func TestLeavingEndsTheMembership(t *testing.T) {
	r := newRoom(t)
	r.begin()
	s := r.joins()
	r.m.Leave()
	r.m.Leave()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	<-s.left
	if _, is := r.m.Self(); is || len(r.reg.joined) > 0 {
		t.Errorf("member %v, %d more lives", is, len(r.reg.joined))
	}
	select {
	case told := <-r.guard.told:
		t.Errorf("the guard is told %q of a node that leaves in order", told)
	default:
	}
}

// TestWhoeverIsRefused gives up, waits, or takes another id.
func TestWhoeverIsRefused(t *testing.T) {
	t.Run("for ever", func(t *testing.T) {
		r := newRoom(t)
		r.reg.refusals = []error{member.ErrFull}
		r.begin()
		if err := <-r.ended; !errors.Is(err, member.ErrFull) {
			t.Errorf("%v", err)
		}
	})
	t.Run("by one with its old id", func(t *testing.T) {
		r := newRoom(t)
		if err := (identity{Cluster: "lab", Node: 5, Incarnation: 9}).write(r.m.stateDir); err != nil {
			t.Fatal(err)
		}
		r.reg.refusals = []error{member.ErrTaken}
		r.begin()
		r.joins()
		if a := r.reg.asked; a[0].Node != 5 || a[0].Replaces != 9 || a[1].Node != member.AnyNode {
			t.Errorf("asked for %+v", a)
		}
	})
	t.Run("by another build", func(t *testing.T) {
		t.Parallel() // it waits in real time
		r := newRoom(t)
		r.reg.refusals = []error{member.ErrBuild}
		r.begin()
		r.joins()
		if list := r.events(status.Warn); len(list) != 1 || !strings.Contains(list[0], "waits for up to 8s") {
			t.Errorf("events %q", list)
		}
	})
	t.Run("while the registry does not answer", func(t *testing.T) {
		t.Parallel() // it waits in real time
		r := newRoom(t)
		r.reg.refusals = []error{member.ErrUnreachable}
		r.begin()
		r.until("it says so", func() bool {
			return strings.HasPrefix(r.phase(), "joining: the membership registry")
		})
		r.joins()
	})
	t.Run("in a cluster that is another one", func(t *testing.T) {
		r := newRoom(t)
		if err := (identity{Cluster: "other", Node: 5, Incarnation: 9}).write(r.m.stateDir); err != nil {
			t.Fatal(err)
		}
		r.begin()
		r.joins()
		if a := r.reg.asked[0]; a.Node != member.AnyNode || a.Replaces != 0 {
			t.Errorf("asked for %+v", a)
		}
	})
}

// TestWhoWaitsForAMemberIsToldWhenItIsGone: at once if it is already, and not after stop.
func TestWhoWaitsForAMemberIsToldWhenItIsGone(t *testing.T) {
	r := newRoom(t)
	b, c := member.Member{Node: 1, Incarnation: 7}, member.Member{Node: 2, Incarnation: 8}
	r.reg.others = []member.Member{b, c}
	r.begin()
	s := r.joins()
	r.serving()
	r.until("its state is heard", func() bool { return len(r.m.Others()) == 2 })
	var told []string // by the goroutine that changes the state: this one
	r.m.OnGone(b, func() { told = append(told, "b") })
	stop := r.m.OnGone(b, func() { told = append(told, "b, stopped") })
	r.m.OnGone(c, func() { told = append(told, "c") })
	r.m.OnGone(member.Member{Node: 1, Incarnation: 6}, func() { told = append(told, "a former life") })
	stop()
	s.change(func(st *member.State) {
		st.Pending = &member.View{Epoch: 9, Members: []member.Member{s.self, c}}
	})
	s.change(func(st *member.State) { st.Active, st.Pending = *st.Pending, nil })
	if want := []string{"a former life", "b"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
	if others := r.m.Others(); len(others) != 1 || !others[0].Same(c) {
		t.Errorf("others %v", others)
	}
}

// TestTheAcknowledgedStateIsKnownAtOnce, and the guard looks at it.
func TestTheAcknowledgedStateIsKnownAtOnce(t *testing.T) {
	r := newRoom(t)
	r.reg.others = []member.Member{{Node: 1, Incarnation: 7}}
	r.begin()
	s := r.joins()
	r.serving()
	s.change(func(st *member.State) {
		st.Pending = &member.View{Epoch: 9, Members: []member.Member{s.self}}
	})
	for len(r.guard.changed) > 0 {
		<-r.guard.changed
	}
	session, _ := r.m.Now()
	if err := r.m.Fenced(session, 9); err != nil {
		t.Fatal(err)
	}
	if st := r.m.State(); st.Active.Epoch != 9 || st.Pending != nil {
		t.Errorf("state %+v", st)
	}
	select {
	case <-r.guard.changed:
	case <-time.After(patience):
		t.Error("the guard was not told")
	}
	if err := r.m.Fenced(session, 9); !errors.Is(err, member.ErrStale) {
		t.Errorf("a second time: %v", err)
	}
}

// TestWhoIsLetIn: no former member, none of another cluster, and nobody who joins on another transport.
func TestWhoIsLetIn(t *testing.T) {
	r := newRoom(t)
	if _, err := r.m.Admit(t.Context(), &pb.AdmitRequest{}); !errors.Is(err, member.ErrUnreachable) {
		t.Errorf("a node that is no member admits: %v", err)
	}
	stranger := control.Caller{IsMember: true, Cluster: "other"}
	if err := r.m.Check(stranger); err != nil {
		t.Errorf("a node that is no member knows better: %v", err)
	}
	r.begin()
	s := r.joins()
	r.serving()
	s.change(func(st *member.State) { st.Active.Epoch = 9 })
	own := r.m.Caller()
	if !own.IsMember || !own.Self.Same(s.self) || own.Epoch != 9 || own.Build != "test" {
		t.Errorf("calls as %+v", own)
	}
	former := own
	former.Self.Incarnation, former.Epoch = 77, 8
	for name, c := range map[string]struct {
		caller  control.Caller
		refused bool
	}{"itself": {own, false}, "no member": {control.Caller{}, false}, "of another cluster": {stranger, true},
		"removed": {former, true}} {
		if err := r.m.Check(c.caller); errors.Is(err, member.ErrNotMember) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := r.m.Admit(t.Context(), &pb.AdmitRequest{Transport: "x"}); err == nil {
		t.Error("another transport is admitted")
	}
	a, err := r.m.Admit(t.Context(), &pb.AdmitRequest{Transport: r.m.o.Config.Transport.Provider})
	if err != nil || !strings.HasSuffix(a.Cluster, "/lab") || a.LeaseS != 3 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestANodeSaysWhoItIs, also before it is a member: as in its former life.
func TestANodeSaysWhoItIs(t *testing.T) {
	r := newRoom(t)
	if err := (identity{Cluster: "lab", Node: 5, Incarnation: 9}).write(r.m.stateDir); err != nil {
		t.Fatal(err)
	}
	var n status.Node
	r.m.Describe(t.Context(), &n)
	if n.Member.Node != 5 || n.Member.Incarnation != 9 || n.LeaseLeft != 0 || n.Lease != 3 ||
		n.Member.Control != "here:1" || r.m.Name() != "n" {
		t.Errorf("%+v", n.Member)
	}
	r.begin()
	s := r.joins()
	r.serving()
	r.m.Describe(t.Context(), &n)
	if !n.Member.Same(s.self) || n.LeaseLeft <= 0 || r.m.Name() != s.self.String() {
		t.Errorf("%+v, lease left %v", n.Member, n.LeaseLeft)
	}
}

// TestMembershipIsAskedByManyAtATime, while lives and states change: for the race detector.
func TestMembershipIsAskedByManyAtATime(t *testing.T) {
	r := newRoom(t)
	go func() {
		for range r.guard.told { // nobody waits for it
		}
	}()
	defer close(r.guard.told)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.ended <- r.m.Belong(ctx) })
	wg.Go(func() { r.m.WatchLease(ctx) })
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				var n status.Node
				r.m.Describe(ctx, &n)
				_, _ = r.m.Serving() // it may be between two lives
				_ = r.m.Check(r.m.Caller())
				r.m.OnGone(member.Member{Node: 1, Incarnation: 7}, func() {})()
				_, _ = r.m.Now()
			}
		})
	}
	for life := range 20 {
		s := <-r.reg.joined
		for e := range 20 {
			s.change(func(st *member.State) {
				st.Active.Epoch = member.Epoch(100*life + e)
				st.Active.Members = append(st.Clone().Active.Members[:1], member.Member{Node: 1,
					Incarnation: member.Incarnation(7 + e%2)})
			})
		}
		s.end()
		s.l.LeaseLost(member.ErrLeaseLost)
	}
	cancel()
	wg.Wait()
}
