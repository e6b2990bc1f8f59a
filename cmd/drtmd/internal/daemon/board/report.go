package board

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
)

const (
	// cacheTime is how long what another node said counts.
	cacheTime = 900 * time.Millisecond
	// keptGone is how long a former member is shown.
	keptGone = 10 * time.Minute
)

// Members is what a Report asks of membership.
type Members interface {
	// State is of the registry, as this node knows it. The caller owns it.
	State() member.State
	// Self is the member that this node is; false: it is none.
	Self() (member.Member, bool)
	// Others are the members of the newest view without this one; none if it is no member.
	Others() []member.Member
	// Ask asks members how they are, all at once; phase gone: it does not answer.
	Ask(ctx context.Context, list []member.Member) []status.Node
}

// Describer is a room that says its part of how this node is.
type Describer interface {
	Describe(ctx context.Context, n *status.Node)
}

// Report makes documents of what all rooms of this node say, and the other members of themselves.
type Report struct {
	members Members
	rooms   []Describer // asked in this order

	mu    sync.Mutex // guards what follows; held while the others are asked
	at    time.Time  // when they were
	nodes map[proto.NodeID]seenNode
}

// seenNode is what a node has last said.
type seenNode struct {
	status.Node
	at time.Time
}

// NewReport of the rooms of a node.
func NewReport(m Members, rooms ...Describer) *Report {
	return &Report{members: m, rooms: rooms, nodes: map[proto.NodeID]seenNode{}}
}

// Status is how this node is (self), or the cluster.
func (r *Report) Status(ctx context.Context, self bool) *status.Cluster {
	c := &status.Cluster{Schema: status.Schema, Date: time.Now().UTC()}
	var own status.Node
	for _, x := range r.rooms {
		x.Describe(ctx, &own)
	}
	c.From = own.Member.Node
	c.State = r.members.State()
	c.Nodes = []status.Node{own}
	if !self {
		c.Nodes = append(c.Nodes, r.others(ctx)...)
		slices.SortFunc(c.Nodes, func(a, b status.Node) int {
			return int(a.Member.Node) - int(b.Member.Node)
		})
	}
	linksToGone(c)
	c.Problem = problemOf(c)
	return c
}

// linksToGone marks links to nodes that do not answer: what is posted there is not yet known to fail.
func linksToGone(c *status.Cluster) {
	gone := map[proto.NodeID]bool{}
	for i := range c.Nodes {
		gone[c.Nodes[i].Member.Node] = c.Nodes[i].Phase == status.Gone
	}
	for i := range c.Nodes {
		links := slices.Clone(c.Nodes[i].Links) // they may be those of a cache
		for j := range links {
			if gone[links[j].Peer] {
				links[j].State = "gone"
			}
		}
		c.Nodes[i].Links = links
	}
}

// problemOf is the most pressing thing that is wrong; "" is nothing. The loss of a member is, until
// the others serve again without it.
func problemOf(c *status.Cluster) string {
	members, again := c.State.Newest(), serves(c)
	for _, n := range c.Nodes {
		gone := n.Phase == status.Gone && (members.Has(n.Member) || !again)
		if n.Phase == status.Refusing || gone {
			return fmt.Sprintf("node %d (%s) is %s: %s", n.Member.Node, n.Member.Name, n.Phase, n.Reason)
		}
	}
	if c.State.Pending != nil {
		return fmt.Sprintf("epoch %d is pending until every member is fenced off",
			c.State.Pending.Epoch)
	}
	for _, n := range c.Nodes {
		if n.Phase == status.Connecting && n.Wait == "" {
			return fmt.Sprintf("node %d (%s) is connecting: %s", n.Member.Node, n.Member.Name, n.Reason)
		}
		if n.Phase != status.Gone && len(n.Degraded) > 0 {
			return n.Degraded[0]
		}
	}
	return ""
}

// serves reports whether the data plane is of members only, and whole: all of them are ready or
// running, none is about to go, and nothing is left of those that went.
func serves(c *status.Cluster) bool {
	st := &c.State
	lost := slices.ContainsFunc(st.Shards.Primary, func(m member.Member) bool {
		return !st.Active.Has(m)
	})
	degraded := slices.ContainsFunc(c.Nodes, func(n status.Node) bool {
		return n.Phase != status.Gone && len(n.Degraded) > 0
	})
	return st.Pending == nil && !lost && !degraded && c.Unready() == nil
}

// others asks the other nodes, all at once, and shows those that lately were members.
func (r *Report) others(ctx context.Context) []status.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	others := r.members.Others()
	news := slices.ContainsFunc(others, func(m member.Member) bool {
		n, ok := r.nodes[m.Node]
		return !ok || !n.Member.Same(m)
	})
	for _, n := range r.nodes { // who becomes ready is asked until it is
		news = news || n.Phase != status.Ready && n.Phase != status.Gone
	}
	if news || time.Since(r.at) >= cacheTime {
		r.askLocked(ctx, others)
		r.at = time.Now()
	}
	for id, n := range r.nodes { // members no more
		if n.Phase != status.Gone && !slices.ContainsFunc(others, n.Member.Same) {
			n.Node = n.Departed("its membership has ended")
			r.nodes[id] = n
		}
	}
	self, member := r.members.Self()
	var list []status.Node
	for id, n := range r.nodes {
		if member && self.Node == id || time.Since(n.at) > keptGone {
			delete(r.nodes, id)
			continue
		}
		list = append(list, n.Node)
	}
	return list
}

func (r *Report) askLocked(ctx context.Context, others []member.Member) {
	for _, n := range r.members.Ask(ctx, others) {
		at := time.Now()
		if old, ok := r.nodes[n.Member.Node]; ok && n.Phase == status.Gone {
			m, reason := n.Member, n.Reason
			n = old.Departed(reason)
			n.Member = m
		}
		r.nodes[n.Member.Node] = seenNode{n, at}
	}
}
