package placement

import (
	"fmt"
	"slices"

	"drtmd/proto"
)

// Replica names one replica of a shard.
type Replica struct {
	Shard proto.ShardID
	Node  proto.NodeID
}

// Change is what a new map has that the one before did not have.
type Change struct {
	Promoted []Replica       // that were backups and are primaries now
	Lost     []proto.ShardID // that had a complete replica, and have none
	Fill     []Replica       // backups that are to be filled from now on
	Short    []proto.ShardID // with fewer replicas than they should have: no node is free for one
}

// Without is the map of a later epoch in which more nodes are dead. Their death may be known already.
func (m *Map) Without(epoch uint64, dead ...proto.NodeID) (*Map, Change, error) {
	var c Change
	next, err := m.later(epoch)
	if err != nil {
		return nil, c, err
	}
	for _, n := range dead {
		if int(n) >= m.Nodes() {
			return nil, c, fmt.Errorf("node %d is not one of %d", n, m.Nodes())
		}
		if next.Lives(n) {
			next.Out = append(next.Out, n)
		}
	}
	slices.Sort(next.Out)
	gone := func(n proto.NodeID) bool { return !next.Lives(n) }
	for s := range next.Shards {
		x, id := &next.Shards[s], proto.ShardID(s)
		if x.Lost() {
			continue
		}
		x.Backups = slices.DeleteFunc(x.Backups, gone)
		x.Filling = slices.DeleteFunc(x.Filling, gone)
		if !gone(x.Primary) {
			continue
		}
		if x.promote(next); x.Lost() {
			c.Lost = append(c.Lost, id)
			continue
		}
		c.Promoted = append(c.Promoted, Replica{id, x.Primary})
	}
	next.fill(&c)
	return next, c, nil
}

// promote makes a complete backup the primary: the one that is primary of the fewest shards, of several
// the first. Without one the shard is lost, with what was filled of it.
func (s *Shard) promote(m *Map) {
	best := proto.NoNode
	for _, n := range s.Backups {
		if !slices.Contains(s.Filling, n) && (best == proto.NoNode || m.primaries(n) < m.primaries(best)) {
			best = n
		}
	}
	s.Primary = best
	if best == proto.NoNode {
		s.Backups, s.Filling = nil, nil
		return
	}
	s.Backups = slices.DeleteFunc(s.Backups, func(n proto.NodeID) bool { return n == best })
}

// With is the map of a later epoch in which a node that was dead is back, without anything.
func (m *Map) With(epoch uint64, n proto.NodeID) (*Map, Change, error) {
	var c Change
	next, err := m.later(epoch)
	if err != nil {
		return nil, c, err
	}
	if int(n) >= m.Nodes() || m.Lives(n) {
		return nil, c, fmt.Errorf("node %d is not one that is gone", n)
	}
	next.Out = slices.DeleteFunc(next.Out, func(o proto.NodeID) bool { return o == n })
	next.fill(&c)
	return next, c, nil
}

// WithBackup is the map of the same epoch in which a backup is complete. Where records are does not
// change by that: the backup may be promoted from now on.
func (m *Map) WithBackup(s proto.ShardID, n proto.NodeID) (*Map, error) {
	if int(s) >= len(m.Shards) || !slices.Contains(m.Shards[s].Filling, n) {
		return nil, fmt.Errorf("node %d is not being filled with shard %d", n, s)
	}
	next := m.Clone()
	x := &next.Shards[s]
	x.Filling = slices.DeleteFunc(x.Filling, func(o proto.NodeID) bool { return o == n })
	return next, nil
}

// later is a copy for an epoch after m's.
func (m *Map) later(epoch uint64) (*Map, error) {
	if epoch <= m.Epoch {
		return nil, fmt.Errorf("epoch %d does not follow %d", epoch, m.Epoch)
	}
	next := m.Clone()
	next.Epoch = epoch
	return next, nil
}

// fill names a new backup for each that is missing.
func (m *Map) fill(c *Change) {
	for s := range m.Shards {
		x, id := &m.Shards[s], proto.ShardID(s)
		for !x.Lost() && 1+len(x.Backups) < m.Replicas {
			n := m.fewest(x)
			if n == proto.NoNode {
				c.Short = append(c.Short, id)
				break
			}
			x.Backups = append(x.Backups, n)
			x.Filling = append(x.Filling, n)
			c.Fill = append(c.Fill, Replica{id, n})
		}
	}
}

// fewest is the node with the fewest replicas of those that live and have none of the shard; of several
// the first behind the primary.
func (m *Map) fewest(s *Shard) proto.NodeID {
	best, count := proto.NoNode, 0
	for i := range m.Nodes() {
		n := proto.NodeID((int(s.Primary) + i) % m.Nodes())
		if !m.Lives(n) || s.Holds(n) {
			continue
		}
		if held := len(m.Held(n)); best == proto.NoNode || held < count {
			best, count = n, held
		}
	}
	return best
}

// primaries is how many shards a node is the primary of.
func (m *Map) primaries(n proto.NodeID) (count int) {
	for s := range m.Shards {
		if m.Shards[s].Primary == n {
			count++
		}
	}
	return count
}
