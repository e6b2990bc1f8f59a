package placement

import (
	"fmt"

	"drtmd/proto"
)

// Map says where the replicas of each shard are, for one epoch.
type Map struct {
	Epoch  uint64
	Shards []Shard // by id
}

// Shard is where one shard's replicas are.
type Shard struct {
	Primary proto.NodeID
	Backups []proto.NodeID
}

// Initial is the map that a cluster of some nodes begins with: shard s has its replicas on the nodes s,
// s+1, and so on, modulo the number of nodes, and the first is its primary. There are from 1 to nodes
// replicas.
func Initial(nodes, replicas int) *Map {
	m := &Map{Shards: make([]Shard, nodes)}
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
	return proto.Location{Shard: s, Primary: x.Primary, Backups: x.Backups, Epoch: m.Epoch}
}

// Holds reports whether a node has a replica of a shard.
func (m *Map) Holds(n proto.NodeID, s proto.ShardID) bool {
	x := &m.Shards[s]
	if x.Primary == n {
		return true
	}
	for _, b := range x.Backups {
		if b == n {
			return true
		}
	}
	return false
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
		text += fmt.Sprintf(" %d on %d%v", s, m.Shards[s].Primary, m.Shards[s].Backups)
	}
	return text
}
