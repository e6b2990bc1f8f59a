package board

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

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

// cluster stands for membership.
type cluster struct {
	mu     sync.Mutex // guards what follows
	self   member.Member
	state  member.State
	phases map[member.Incarnation]status.Phase
	asked  int
}

func (c *cluster) State() member.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Clone()
}

func (c *cluster) Self() (member.Member, bool) { return c.self, true }

func (c *cluster) Others() (list []member.Member) {
	for _, m := range c.State().Active.Members {
		if !m.Same(c.self) {
			list = append(list, m)
		}
	}
	return list
}

func (c *cluster) Ask(_ context.Context, list []member.Member) (nodes []status.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	for _, m := range list {
		nodes = append(nodes, status.Node{Member: m, Phase: c.phases[m.Incarnation], Reason: "why",
			Host: "host " + m.Name})
	}
	return nodes
}

func (c *cluster) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// describer is a room that says one thing.
type describer func(n *status.Node)

func (f describer) Describe(_ context.Context, n *status.Node) { f(n) }

// newReport is of node 0 (a), beside b and c.
func newReport() (*Report, *cluster) {
	m := []member.Member{{Node: 0, Incarnation: 1, Name: "a"}, {Node: 1, Incarnation: 2, Name: "b"},
		{Node: 2, Incarnation: 3, Name: "c"}}
	c := &cluster{self: m[0], state: member.State{Active: member.View{Epoch: 3, Members: m}},
		phases: map[member.Incarnation]status.Phase{2: status.Ready, 3: status.Ready}}
	return NewReport(c, describer(func(n *status.Node) { n.Member, n.Phase = m[0], status.Ready }),
		describer(func(n *status.Node) { n.Degraded = append(n.Degraded, "first") }),
		describer(func(n *status.Node) { n.Degraded = append(n.Degraded, "second") })), c
}

// TestAReportAsksTheRoomsInTheirOrder, and nobody else of this node alone.
func TestAReportAsksTheRoomsInTheirOrder(t *testing.T) {
	r, c := newReport()
	st := r.Status(t.Context(), true)
	if len(st.Nodes) != 1 || st.From != 0 || strings.Join(st.Nodes[0].Degraded, ", ") != "first, second" {
		t.Errorf("%+v", st.Nodes)
	}
	if c.asked > 0 {
		t.Error("others were asked")
	}
	st = r.Status(t.Context(), false)
	if len(st.Nodes) != 3 || st.Nodes[1].Host != "host b" || st.Nodes[2].Member.Node != 2 {
		t.Errorf("%+v", st.Nodes)
	}
}

// TestOthersAreNotAskedByEveryone: what they said counts for a while, unless one is not ready yet, or
// is another life.
func TestOthersAreNotAskedByEveryone(t *testing.T) {
	r, c := newReport()
	r.Status(t.Context(), false)
	r.mu.Lock()
	r.at = r.at.Add(time.Hour) // the test may take long
	r.mu.Unlock()
	r.Status(t.Context(), false)
	if c.asked != 1 {
		t.Errorf("asked %d times", c.asked)
	}
	c.set(func() {
		c.state.Active.Members[1].Incarnation = 4
		c.phases[4] = status.Connecting
	})
	for want := 2; want < 5; want++ {
		r.Status(t.Context(), false)
		if c.asked != want {
			t.Errorf("asked %d times, want %d", c.asked, want)
		}
	}
}

// TestAMemberThatIsGoneIsShownAsWhatItWas, without what it had.
func TestAMemberThatIsGoneIsShownAsWhatItWas(t *testing.T) {
	r, c := newReport()
	r.Status(t.Context(), false)
	c.set(func() { c.state.Active.Members = c.state.Active.Members[:2] })
	st := r.Status(t.Context(), false)
	if len(st.Nodes) != 3 || st.Nodes[2].Phase != status.Gone || st.Nodes[2].Host != "host c" ||
		st.Nodes[2].Reason != "its membership has ended" {
		t.Errorf("%+v", st.Nodes)
	}
	r.mu.Lock()
	n := r.nodes[2]
	n.at = n.at.Add(-keptGone - time.Hour)
	r.nodes[2] = n
	r.mu.Unlock()
	if st := r.Status(t.Context(), false); len(st.Nodes) != 2 {
		t.Errorf("%d nodes are shown long after it", len(st.Nodes))
	}
}

// TestReportsAreMadeForManyAtATime: for the race detector.
func TestReportsAreMadeForManyAtATime(t *testing.T) {
	r, c := newReport()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 100 {
				r.Status(context.Background(), false)
			}
		})
	}
	wg.Go(func() {
		for i := range 100 {
			c.set(func() {
				m := c.state.Clone().Active.Members
				m[1].Incarnation = member.Incarnation(10 + i)
				c.state.Active.Members = m
			})
		}
	})
	wg.Wait()
}
