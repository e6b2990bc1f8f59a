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
	current    atomic.Pointer[located]
}

// located is a map with what Locate says of each shard.
type located struct {
	*Map
	at []proto.Location // by shard
	// unplaced is all that is to be said of a record that is in no shard of the map, or in every one.
	unplaced proto.Replicas
}

func locate(m *Map) *located {
	l := &located{Map: m, at: make([]proto.Location, len(m.Shards)), unplaced: proto.Replicas{Epoch: m.Epoch}}
	for s := range l.at {
		l.at[s] = m.At(proto.ShardID(s))
	}
	return l
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
	p.current.Store(locate(m))
	return p
}

// Locate implements proto.Placement. A home that is no shard is given back as the primary, for
// proto.Home to refuse.
func (p *Placed) Locate(t proto.TableID, k proto.Key) proto.Location {
	m := p.current.Load()
	if int(t) < len(p.everywhere) && p.everywhere[t] {
		return proto.Location{Shard: proto.ShardID(p.self), Primary: p.self, Replicas: &m.unplaced}
	}
	home := p.home.Locate(t, k).Primary
	if int(home) >= len(m.at) {
		return proto.Location{Shard: proto.ShardID(home), Primary: home, Replicas: &m.unplaced}
	}
	return m.at[home]
}

// Map is the one in use.
func (p *Placed) Map() *Map { return p.current.Load().Map }

// Use takes another map, of the same shards, into use.
func (p *Placed) Use(m *Map) { p.current.Store(locate(m)) }
