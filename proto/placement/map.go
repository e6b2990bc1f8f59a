package placement

import (
	"fmt"
	"slices"

	"drtmd/proto"
)

// Map says where the replicas of each shard are, for one epoch.
type Map struct {
	Epoch    uint64
	Replicas int     // that each shard is to have
	Shards   []Shard // by id
	// Out are the nodes that hold nothing because they are dead, in order.
	Out []proto.NodeID
}

// Shard is where one shard's replicas are.
type Shard struct {
	Primary proto.NodeID // proto.NoNode: the shard is lost
	// Backups get every update. Those of one epoch stay in their order.
	Backups []proto.NodeID
	// Filling are those of Backups that are not complete yet.
	Filling []proto.NodeID
}

// Lost reports whether no complete replica is left.
func (s *Shard) Lost() bool { return s.Primary == proto.NoNode }

// Holds reports whether the node has a replica, complete or not.
func (s *Shard) Holds(n proto.NodeID) bool {
	return !s.Lost() && (s.Primary == n || slices.Contains(s.Backups, n))
}

// Complete reports whether the node has a complete replica.
func (s *Shard) Complete(n proto.NodeID) bool {
	return s.Holds(n) && !slices.Contains(s.Filling, n)
}

// Initial is the map that a cluster of some nodes begins with: shard s has its replicas on the nodes s,
// s+1, and so on, modulo the number of nodes, and the first is its primary. There are from 1 to nodes
// replicas.
func Initial(nodes, replicas int) *Map {
	m := &Map{Replicas: replicas, Shards: make([]Shard, nodes)}
	for s := range m.Shards {
		m.Shards[s].Primary = proto.NodeID(s)
		for i := 1; i < replicas; i++ {
			m.Shards[s].Backups = append(m.Shards[s].Backups, proto.NodeID((s+i)%nodes))
		}
	}
	return m
}

// At is where a shard's records live.
func (m *Map) At(s proto.ShardID) proto.Location {
	x := &m.Shards[s]
	return proto.Location{Shard: s, Primary: x.Primary, Replicas: &proto.Replicas{Backups: x.Backups, Epoch: m.Epoch}}
}

// Nodes is how many nodes the cluster has, dead ones included.
func (m *Map) Nodes() int { return len(m.Shards) }

// Holds reports whether a node has a replica of a shard, complete or not.
func (m *Map) Holds(n proto.NodeID, s proto.ShardID) bool { return m.Shards[s].Holds(n) }

// Lives reports whether the node holds replicas, or may be given some.
func (m *Map) Lives(n proto.NodeID) bool {
	return int(n) < m.Nodes() && !slices.Contains(m.Out, n)
}

// Lost are the shards that have no complete replica.
func (m *Map) Lost() (lost []proto.ShardID) {
	for s := range m.Shards {
		if m.Shards[s].Lost() {
			lost = append(lost, proto.ShardID(s))
		}
	}
	return lost
}

// Held are the shards of which a node has a replica, in the order of their ids.
func (m *Map) Held(n proto.NodeID) (held []proto.ShardID) {
	for s := range m.Shards {
		if m.Holds(n, proto.ShardID(s)) {
			held = append(held, proto.ShardID(s))
		}
	}
	return held
}

func (m *Map) String() string {
	text := fmt.Sprintf("epoch %d:", m.Epoch)
	for s := range m.Shards {
		x := &m.Shards[s]
		if x.Lost() {
			text += fmt.Sprintf(" %d lost", s)
			continue
		}
		text += fmt.Sprintf(" %d on %d%v", s, x.Primary, x.Backups)
		if len(x.Filling) > 0 {
			text += fmt.Sprintf(" filling %v", x.Filling)
		}
	}
	return text
}

// Clone shares nothing with m.
func (m *Map) Clone() *Map {
	c := *m
	c.Out = slices.Clone(m.Out)
	c.Shards = slices.Clone(m.Shards)
	for s := range c.Shards {
		c.Shards[s].Backups = slices.Clone(c.Shards[s].Backups)
		c.Shards[s].Filling = slices.Clone(c.Shards[s].Filling)
	}
	return &c
}

// Equal reports whether two maps say the same.
func (m *Map) Equal(o *Map) bool {
	return m.Epoch == o.Epoch && m.Replicas == o.Replicas && slices.Equal(m.Out, o.Out) &&
		slices.EqualFunc(m.Shards, o.Shards, func(a, b Shard) bool {
			return a.Primary == b.Primary && slices.Equal(a.Backups, b.Backups) &&
				slices.Equal(a.Filling, b.Filling)
		})
}
