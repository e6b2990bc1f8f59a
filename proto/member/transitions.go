package member

import (
	"cmp"
	"fmt"
	"slices"

	"drtmd/internal/invariant"
	"drtmd/proto"
)

// MaxNodes is how many node ids a cluster has: as many as a lock can name.
const MaxNodes = 256

// The transitions: what a registry does to its State. None changes s; each gives the next state, or
// an error that leaves the state as it is.

// Join makes a candidate a member of the newest view, and tells which one. The first member's view
// is active at once: there is nobody to be fenced off. Members of another build refuse it, but not
// the life that it replaces: a node may come back upgraded if it is the only one.
func (s *State) Join(c Candidate) (State, Member, error) {
	n := s.Clone()
	v := n.next()
	id, err := pick(&v, c)
	if err != nil {
		return n, Member{}, err
	}
	v.Members = slices.DeleteFunc(v.Members, func(m Member) bool { return m.Node == id })
	for _, m := range v.Members {
		if m.Build != c.Build {
			return n, Member{}, fmt.Errorf("%w: %v has %q, not %q", ErrBuild, m, m.Build, c.Build)
		}
	}
	n.Last++
	m := Member{Node: id, Incarnation: n.Last, Name: c.Name, Control: c.Control, Build: c.Build}
	v.Members = append(v.Members, m)
	slices.SortFunc(v.Members, func(a, b Member) int { return cmp.Compare(a.Node, b.Node) })
	n.propose(v)
	return n, m, nil
}

// pick finds the node id of a candidate in the view that it is to join.
func pick(v *View, c Candidate) (proto.NodeID, error) {
	if c.Node == AnyNode {
		for id := range proto.NodeID(MaxNodes) {
			if m, ok := v.Find(id); !ok || c.Replaces != 0 && m.Incarnation == c.Replaces {
				return id, nil
			}
		}
		return 0, fmt.Errorf("%w: %d of them", ErrFull, MaxNodes)
	}
	if c.Node < 0 || c.Node >= MaxNodes {
		return 0, fmt.Errorf("node id %d is not in 0..%d", c.Node, MaxNodes-1)
	}
	id := proto.NodeID(c.Node)
	if m, ok := v.Find(id); ok && m.Incarnation != c.Replaces {
		return 0, fmt.Errorf("%w: %v, control address %s", ErrTaken, m, m.Control)
	}
	return id, nil
}

// Remove takes a life out of the newest view. One that is not in it is ErrNotMember.
func (s *State) Remove(m Member) (State, error) {
	n := s.Clone()
	v := n.next()
	if !v.Has(m) {
		return n, fmt.Errorf("%w: %v", ErrNotMember, m)
	}
	v.Members = slices.DeleteFunc(v.Members, m.Same)
	n.propose(v)
	return n, nil
}

// Fence notes that a member of the pending view of epoch e is fenced off from everybody who is not
// in it. Saying it twice changes nothing.
func (s *State) Fence(m Member, e Epoch) (State, error) {
	n := s.Clone()
	switch {
	case n.Pending == nil && n.Active.Epoch == e && n.Active.Has(m):
		return n, nil // the others were faster
	case n.Pending == nil:
		return n, fmt.Errorf("%w: no epoch is pending, %d is active", ErrStale, n.Active.Epoch)
	case n.Pending.Epoch != e:
		return n, fmt.Errorf("%w: epoch %d is pending, not %d", ErrStale, n.Pending.Epoch, e)
	case !n.Pending.Has(m):
		return n, fmt.Errorf("%w: %v", ErrNotMember, m)
	}
	if !slices.Contains(n.Fenced, m.Node) {
		n.Fenced = append(n.Fenced, m.Node)
		slices.Sort(n.Fenced)
	}
	n.activate()
	return n, nil
}

// Assign replaces the shard map of the version before m.Version. Every primary has to be in the
// active view and in the pending one, if there is one.
func (s *State) Assign(m ShardMap) (State, error) {
	n := s.Clone()
	if m.Version != n.Shards.Version+1 {
		return n, fmt.Errorf("%w: shard map %d does not follow %d", ErrStale, m.Version,
			n.Shards.Version)
	}
	if len(m.Primary) == 0 {
		return n, fmt.Errorf("shard map %d has no partition", m.Version)
	}
	for i, p := range m.Primary {
		if !n.Active.Has(p) || !n.Newest().Has(p) {
			return n, fmt.Errorf("%w: partition %d of shard map %d is held by %v, who is not in epoch %d",
				ErrStale, i, m.Version, p, n.Newest().Epoch)
		}
	}
	if p := m.Placement; p != nil {
		if p.Nodes() != len(m.Primary) || len(p.Out) > 0 {
			return n, fmt.Errorf("shard map %d has %d partitions, and its placement %d nodes of which %v are gone",
				m.Version, len(m.Primary), p.Nodes(), p.Out)
		}
		m.Placement = p.Clone()
		m.Placement.Epoch = uint64(n.Active.Epoch)
	}
	n.Shards = m
	n.Shards.Primary = slices.Clone(m.Primary)
	return n, nil
}

// Return makes a member the node of the placement that its former life was.
func (s *State) Return(m Member) (State, error) {
	n := s.Clone()
	i := slices.IndexFunc(n.Shards.Primary, func(p Member) bool { return p.Node == m.Node })
	switch p := n.Shards.Placement; {
	case n.Pending != nil:
		return n, fmt.Errorf("%w: epoch %d is pending", ErrStale, n.Pending.Epoch)
	case !n.Active.Has(m):
		return n, fmt.Errorf("%w: %v", ErrNotMember, m)
	case p == nil || i < 0 || p.Lives(proto.NodeID(i)):
		return n, fmt.Errorf("%w: %v is not one whose replicas were lost", ErrStale, m)
	}
	next, _, err := n.Shards.Placement.With(uint64(n.Active.Epoch)+1, proto.NodeID(i))
	if err != nil {
		return n, err
	}
	n.Active.Epoch++
	n.Shards.Placement, n.Shards.Primary[i] = next, m
	return n, nil
}

// Fill notes that a member's replica of a shard is complete.
func (s *State) Fill(m Member, shard proto.ShardID) (State, error) {
	n := s.Clone()
	i := slices.IndexFunc(n.Shards.Primary, m.Same)
	if i < 0 || n.Shards.Placement == nil {
		return n, fmt.Errorf("%w: %v is no node of the placement", ErrStale, m)
	}
	next, err := n.Shards.Placement.WithBackup(shard, proto.NodeID(i))
	if err != nil {
		return n, fmt.Errorf("%w: %w", ErrStale, err)
	}
	n.Shards.Placement = next
	return n, nil
}

// next is a copy of the newest view with an epoch of its own.
func (s *State) next() View {
	v := s.Newest()
	return View{Epoch: v.Epoch + 1, Members: slices.Clone(v.Members)}
}

// propose makes v pending. Whoever was fenced for the view before it has to be again: more members
// may be gone.
func (s *State) propose(v View) {
	s.Pending, s.Fenced = &v, nil
	s.activate()
}

// activate makes the pending view active if there is nobody left to wait for: every member is
// fenced, or nobody of the active view is gone.
func (s *State) activate() {
	if len(s.Removed()) > 0 {
		for _, m := range s.Pending.Members {
			if !slices.Contains(s.Fenced, m.Node) {
				return
			}
		}
	}
	s.Active, s.Pending, s.Fenced = *s.Pending, nil, nil
	s.replace()
}

// replace has the placement follow the active view.
func (s *State) replace() {
	p := s.Shards.Placement
	if p == nil {
		return
	}
	var dead []proto.NodeID
	for i, m := range s.Shards.Primary {
		if !s.Active.Has(m) {
			dead = append(dead, proto.NodeID(i))
		}
	}
	next, _, err := p.Without(uint64(s.Active.Epoch), dead...)
	invariant.Assert(err == nil, "an epoch that does not follow the placement's")
	s.Shards.Placement = next
}
