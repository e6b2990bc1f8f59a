package placement_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"drtmd/proto"
	"drtmd/proto/placement"
)

// TestAnInitialMapSpreadsReplicas: every shard has that many replicas on different nodes, the primary
// is the node of its number, and every node holds as many shards as a shard has replicas.
func TestAnInitialMapSpreadsReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 12).Draw(t, "nodes")
		replicas := rapid.IntRange(1, nodes).Draw(t, "replicas")
		m := placement.Initial(nodes, replicas)
		for s := range proto.ShardID(nodes) {
			l := m.At(s)
			on := append([]proto.NodeID{l.Primary}, l.Backups()...)
			slices.Sort(on)
			if l.Shard != s || l.Primary != proto.NodeID(s) || len(on) != replicas ||
				len(slices.Compact(on)) != replicas || int(on[len(on)-1]) >= nodes {
				t.Fatalf("shard %d: %+v", s, l)
			}
		}
		for n := range proto.NodeID(nodes) {
			held := m.Held(n)
			if len(held) != replicas || !slices.Contains(held, proto.ShardID(n)) {
				t.Fatalf("node %d holds %d", n, held)
			}
		}
	})
}

// parity has the keys at the node of their last bit, but the keys from 100 on, which are nowhere.
type parity struct{}

func (parity) Locate(_ proto.TableID, k proto.Key) proto.Location {
	if k >= 100 {
		return proto.Location{Primary: 7}
	}
	return proto.Location{Primary: proto.NodeID(k % 2)}
}

// on is where a shard of an epoch is.
func on(epoch uint64, s proto.ShardID, primary proto.NodeID, backups ...proto.NodeID) proto.Location {
	return proto.Location{Shard: s, Primary: primary, Replicas: &proto.Replicas{Backups: backups, Epoch: epoch}}
}

func TestAPlacedAsksTheMapForTheReplicas(t *testing.T) {
	specs := []proto.TableSpec{{ID: 1}, {ID: 2, Everywhere: true}}
	p := placement.Place(parity{}, specs, 1, placement.Initial(3, 2))
	check := func(t1 proto.TableID, k proto.Key, want proto.Location) {
		t.Helper()
		got := p.Locate(t1, k)
		if got.Shard != want.Shard || got.Primary != want.Primary || got.Epoch() != want.Epoch() ||
			!slices.Equal(got.Backups(), want.Backups()) {
			t.Errorf("table %d, key %d: %+v, want %+v", t1, k, got, want)
		}
	}
	check(1, 4, on(0, 0, 0, 1))
	check(1, 5, on(0, 1, 1, 2))
	check(2, 4, on(0, 1, 1))
	m := placement.Initial(3, 2)
	m.Epoch, m.Shards[0] = 8, placement.Shard{Primary: 1}
	p.Use(m)
	check(1, 4, on(8, 0, 1))
	if _, err := proto.Home(p, 1, 100, 3); err == nil {
		t.Error("a home outside the cluster is taken")
	}
	if n := testing.AllocsPerRun(100, func() { p.Locate(1, 5) }); n != 0 {
		t.Errorf("%v allocations for each Locate", n)
	}
}
