package daemon

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

func TestALossIsAProblemUntilTheOthersServeWithoutIt(t *testing.T) {
	a := member.Member{Node: 0, Incarnation: 1, Name: "a"}
	b := member.Member{Node: 1, Incarnation: 2, Name: "b"}
	c := member.Member{Node: 2, Incarnation: 3, Name: "c"}
	is := func(m member.Member, p status.Phase, degraded ...string) status.Node {
		return status.Node{Member: m, Phase: p, Reason: "why", Degraded: degraded}
	}
	three, two := []member.Member{a, b, c}, []member.Member{a, b}
	view := func(e member.Epoch, m []member.Member) member.View { return member.View{Epoch: e, Members: m} }
	pending := view(4, two)
	for name, x := range map[string]struct {
		active  []member.Member
		pending *member.View
		primary []member.Member
		nodes   []status.Node
		want    string // "": nothing is wrong
	}{
		"all is well": {three, nil, three, []status.Node{is(a, status.Ready), is(b, status.Ready),
			is(c, status.Running)}, ""},
		"a member does not answer": {three, nil, three, []status.Node{is(a, status.Ready),
			is(b, status.Ready), is(c, status.Gone)}, "node 2 (c) is gone: why"},
		"a member refuses": {three, nil, three, []status.Node{is(a, status.Ready),
			is(b, status.Refusing), is(c, status.Ready)}, "node 1 (b) is refusing: why"},
		"lost, the view is pending": {three, &pending, three, []status.Node{is(a, status.Ready),
			is(b, status.Ready), is(c, status.Gone)}, "node 2 (c) is gone: why"},
		"lost, its run is under way": {two, nil, three, []status.Node{is(a, status.Running),
			is(b, status.Running), is(c, status.Gone)}, "node 2 (c) is gone: why"},
		"lost, records are locked": {two, nil, two, []status.Node{is(a, status.Running, "locked"),
			is(b, status.Running), is(c, status.Gone)}, "node 2 (c) is gone: why"},
		"lost, the tables are loaded": {two, nil, two, []status.Node{is(a, status.Ready),
			is(b, status.Connecting), is(c, status.Gone)}, "node 2 (c) is gone: why"},
		"lost, served without it": {two, nil, two, []status.Node{is(a, status.Ready),
			is(b, status.Ready), is(c, status.Gone, "what it had said")}, ""},
		"lost, a run without it": {two, nil, two, []status.Node{is(a, status.Running),
			is(b, status.Running), is(c, status.Gone)}, ""},
		"back as another life": {three, nil, three, []status.Node{is(a, status.Ready),
			is(b, status.Ready), is(c, status.Ready)}, ""},
		"a view is pending": {three, &pending, three, []status.Node{is(a, status.Ready),
			is(b, status.Ready), is(c, status.Ready)}, "epoch 4 is pending"},
		"a member cannot connect": {two, nil, two, []status.Node{is(a, status.Ready),
			is(b, status.Connecting)}, "node 1 (b) is connecting: why"},
		"records are locked": {two, nil, two, []status.Node{is(a, status.Ready),
			is(b, status.Ready, "locked")}, "locked"},
		"a member drains": {two, nil, two, []status.Node{is(a, status.Ready),
			is(b, status.Draining)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			st := &status.Cluster{Nodes: x.nodes, State: member.State{Active: view(3, x.active),
				Pending: x.pending, Shards: member.ShardMap{Primary: x.primary}}}
			got := problemOf(st)
			if x.want == "" && got != "" || !strings.HasPrefix(got, x.want) {
				t.Errorf("problem %q, want %q", got, x.want)
			}
		})
	}
}

func TestAFormerMemberIsNotShownAsServing(t *testing.T) {
	w := newWorld(t, 2)
	w.settled(w.nodes...)
	asked := w.nodes[0].client
	if _, err := asked.Status(t.Context(), false); err != nil { // it remembers the other one for a while
		t.Fatal(err)
	}
	gone := w.nodes[1].remove(w.nodes[0])
	w.until("it is no member", func() bool {
		st, err := asked.Status(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		view := st.State.Newest()
		if view.Has(gone) {
			return false
		}
		for _, n := range st.Nodes {
			if n.Member.Same(gone) && n.Phase != status.Gone {
				t.Errorf("%v is no member of epoch %d, and shown as %s", gone, view.Epoch, n.Phase)
			}
		}
		return true
	}, func() any { return gone })
}

// TestLinkToANodeThatIsGoneIsNotUp although no queue pair knows it yet.
func TestLinkToANodeThatIsGoneIsNotUp(t *testing.T) {
	cached := []status.Link{{Peer: 1, State: "up"}, {Peer: 2, State: "up"}, {Peer: 3, State: "error"}}
	c := &status.Cluster{Nodes: []status.Node{{Links: cached},
		{Member: member.Member{Node: 1}, Phase: status.Gone},
		{Member: member.Member{Node: 2}, Phase: status.Ready}}}
	linksToGone(c)
	for i, want := range []string{"gone", "up", "error"} {
		if got := c.Nodes[0].Links[i].State; got != want {
			t.Errorf("link to node %d is %q, want %q", i+1, got, want)
		}
	}
	if cached[0].State != "up" {
		t.Error("the links of a cached answer were changed")
	}
}

// While a plane is tried again, status keeps saying what was in the way; what ends by itself, such as
// the tables that a run has used up, is said instead when it begins.
func TestWhatIsInTheWayIsSaidWhileAPlaneIsTriedAgain(t *testing.T) {
	d := &Daemon{log: zap.NewNop(), events: newEvents(), o: Options{Notifier: &service.Notifier{}},
		version: 3}
	d.did(3, &load.Request{Step: load.StepGo}, errors.New("node 1 is silent"))
	d.connecting(status.Loading)
	if d.reason != "node 1 is silent" || d.wait != "" {
		t.Errorf("tried again: reason %q, wait %q", d.reason, d.wait)
	}
	d.connecting(status.Reloading)
	d.connecting(status.Loading)
	if d.reason == "node 1 is silent" || d.wait != status.Reloading {
		t.Errorf("after a run: reason %q, wait %q", d.reason, d.wait)
	}
	d.did(3, &load.Request{Step: load.StepGo}, member.ErrStale)
	d.connecting(status.Loading)
	if d.wait != status.Loading {
		t.Errorf("after a stale step: reason %q, wait %q", d.reason, d.wait)
	}
}
