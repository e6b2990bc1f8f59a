package placement

import (
	"sync/atomic"

	"drtmd/proto"
)

// Placed is a workload's Placement on the replicas of a Map, as one node asks for it.
type Placed struct {
	home       proto.Placement
	everywhere []bool // by table, from 1
	self       proto.NodeID
	current    atomic.Pointer[Map]
}

// Place puts a workload's placement on the replicas of a map, for a node: it finds the tables that are
// everywhere in its own shard.
func Place(home proto.Placement, specs []proto.TableSpec, self proto.NodeID, m *Map) *Placed {
	p := &Placed{home: home, self: self}
	for i := range specs {
		if specs[i].Everywhere {
			p.everywhere = make([]bool, len(specs)+1)
		}
	}
	for i := range specs {
		if specs[i].Everywhere {
			p.everywhere[i+1] = true
		}
	}
	p.current.Store(m)
	return p
}

// Locate implements proto.Placement. A home that is no shard is given back as the primary, for
// proto.Home to refuse.
func (p *Placed) Locate(t proto.TableID, k proto.Key) proto.Location {
	m := p.current.Load()
	if int(t) < len(p.everywhere) && p.everywhere[t] {
		return proto.Location{Shard: proto.ShardID(p.self), Primary: p.self, Epoch: m.Epoch}
	}
	home := p.home.Locate(t, k).Primary
	if int(home) >= len(m.Shards) {
		return proto.Location{Shard: proto.ShardID(home), Primary: home, Epoch: m.Epoch}
	}
	return m.At(proto.ShardID(home))
}

// Map is the one in use.
func (p *Placed) Map() *Map { return p.current.Load() }

// Use takes another map, of the same shards, into use.
func (p *Placed) Use(m *Map) { p.current.Store(m) }
