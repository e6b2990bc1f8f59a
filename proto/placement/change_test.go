package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"drtmd/proto"
)

// TestAShardGoesOnAtABackup: a story with numbers.
func TestAShardGoesOnAtABackup(t *testing.T) {
	first := Initial(4, 2)
	m, c, err := first.Without(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	// Shard 1 was on 1 and 2, shard 0 on 0 and 1.
	if !slices.Equal(c.Promoted, []Replica{{1, 2}}) || len(c.Lost)+len(c.Short) > 0 ||
		!slices.Equal(c.Fill, []Replica{{0, 2}, {1, 3}}) {
		t.Errorf("change %+v", c)
	}
	// Shard 1 is being filled on node 3: it cannot go on there.
	m, c, err = m.Without(3, 2)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Lost, []proto.ShardID{1}) || !slices.Equal(m.Lost(), c.Lost) {
		t.Errorf("change %+v, lost %v", c, m.Lost())
	}
	m, c, err = m.With(4, 1)
	if err != nil || len(c.Fill) > 0 {
		t.Errorf("node 1 is back, and every shard that is not lost has two replicas: %+v, %v", c, err)
	}
	if _, _, err := m.With(5, 1); err == nil {
		t.Error("node 1 is back twice")
	}
	if _, _, err := m.Without(4, 1); err == nil {
		t.Error("epoch 4 follows epoch 4")
	}
	if _, err := m.WithBackup(3, 2); err == nil {
		t.Error("a dead node is complete")
	}
}

// TestChangesKeepWhatMustHold over random sequences of deaths, returns and fillings.
func TestChangesKeepWhatMustHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 8).Draw(t, "nodes")
		m := Initial(nodes, rapid.IntRange(1, nodes).Draw(t, "replicas"))
		check(t, m)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			old, before := m, m.Clone()
			var next *Map
			var c Change
			var err error
			epoch := m.Epoch + uint64(rapid.IntRange(1, 2).Draw(t, "epochs"))
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				dead := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) proto.NodeID {
					return proto.NodeID(rapid.IntRange(0, nodes-1).Draw(t, "node"))
				}), 0, 3).Draw(t, "dead")
				if next, c, err = m.Without(epoch, dead...); err != nil {
					t.Fatal(err)
				}
				again, _, _ := before.Without(epoch, dead...)
				if !again.Equal(next) {
					t.Fatalf("two nodes get %+v and %+v", next, again)
				}
				checkDeaths(t, m, next, &c, dead)
			case 1:
				if len(m.Out) == 0 {
					continue
				}
				n := rapid.SampledFrom(m.Out).Draw(t, "back")
				if next, c, err = m.With(epoch, n); err != nil {
					t.Fatal(err)
				}
				checkKept(t, m, next)
			case 2:
				var filling []Replica
				for s := range m.Shards {
					for _, n := range m.Shards[s].Filling {
						filling = append(filling, Replica{proto.ShardID(s), n})
					}
				}
				if len(filling) == 0 {
					continue
				}
				f := rapid.SampledFrom(filling).Draw(t, "filled")
				if next, err = m.WithBackup(f.Shard, f.Node); err != nil {
					t.Fatal(err)
				}
				if !next.Shards[f.Shard].Complete(f.Node) || !slices.Equal(
					next.Shards[f.Shard].Backups, m.Shards[f.Shard].Backups) {
					t.Fatalf("%+v is complete: %+v to %+v", f, m, next)
				}
				checkKept(t, m, next)
			}
			if !old.Equal(before) {
				t.Fatalf("the map itself was changed: %+v to %+v", before, old)
			}
			m = next
			check(t, m)
			checkFills(t, m, &c)
		}
	})
}

// check: the replicas of a shard are distinct and alive, and never more than asked for; fewer only if
// there is no node for another.
func check(t *rapid.T, m *Map) {
	alive := m.Nodes() - len(m.Out)
	for s := range m.Shards {
		x := &m.Shards[s]
		if x.Lost() {
			if len(x.Backups)+len(x.Filling) > 0 {
				t.Fatalf("shard %d is lost and has backups: %+v", s, x)
			}
			continue
		}
		all := append([]proto.NodeID{x.Primary}, x.Backups...)
		if len(all) != min(m.Replicas, alive) {
			t.Fatalf("shard %d has %d replicas, not %d: %+v", s, len(all), min(m.Replicas, alive), x)
		}
		for _, n := range all {
			if !m.Lives(n) {
				t.Fatalf("shard %d is on node %d, which is dead", s, n)
			}
		}
		slices.Sort(all)
		if len(slices.Compact(all)) != 1+len(x.Backups) {
			t.Fatalf("shard %d has two replicas on one node: %+v", s, x)
		}
		for _, n := range x.Filling {
			if !slices.Contains(x.Backups, n) {
				t.Fatalf("shard %d fills node %d, which is no backup", s, n)
			}
		}
	}
}

// checkDeaths: only a complete backup is promoted, and only after its primary's death; a shard is lost
// exactly if no complete replica lives, and is named.
func checkDeaths(t *rapid.T, old, next *Map, c *Change, dead []proto.NodeID) {
	for s := range old.Shards {
		a, b, id := &old.Shards[s], &next.Shards[s], proto.ShardID(s)
		survives := false
		for n := range old.Nodes() {
			survives = survives || a.Complete(proto.NodeID(n)) && !slices.Contains(dead, proto.NodeID(n))
		}
		if survives == b.Lost() {
			t.Fatalf("shard %d: complete replica lives: %t, %+v", s, survives, b)
		}
		if slices.Contains(c.Lost, id) != (b.Lost() && !a.Lost()) {
			t.Fatalf("shard %d, lost %t: the change says %v", s, b.Lost(), c.Lost)
		}
		if b.Lost() {
			continue
		}
		promoted := slices.Contains(c.Promoted, Replica{id, b.Primary})
		if promoted != (a.Primary != b.Primary) || promoted && (!a.Complete(b.Primary) ||
			!slices.Contains(dead, a.Primary)) {
			t.Fatalf("shard %d: %+v to %+v, promoted %v", s, a, b, c.Promoted)
		}
		if slices.Contains(b.Filling, b.Primary) {
			t.Fatalf("shard %d is served by a replica that is not complete: %+v", s, b)
		}
		for _, n := range b.Backups { // what was not complete is not so by a death
			if b.Complete(n) && !a.Complete(n) {
				t.Fatalf("shard %d: node %d is complete without having been filled", s, n)
			}
		}
	}
}

// checkKept: whoever had a replica has it still, in the same place.
func checkKept(t *rapid.T, old, next *Map) {
	for s := range old.Shards {
		a, b := &old.Shards[s], &next.Shards[s]
		if a.Primary != b.Primary || len(a.Backups) > len(b.Backups) ||
			!slices.Equal(a.Backups, b.Backups[:len(a.Backups)]) {
			t.Fatalf("shard %d: %+v to %+v", s, a, b)
		}
	}
}

// checkFills: the new backups are what the change says, and on nodes that had room: none of those left
// out has two replicas fewer than one that was chosen.
func checkFills(t *rapid.T, m *Map, c *Change) {
	for _, f := range c.Fill {
		x := &m.Shards[f.Shard]
		if !slices.Contains(x.Filling, f.Node) {
			t.Fatalf("%+v is to be filled and is not in %+v", f, x)
		}
		for n := range proto.NodeID(m.Nodes()) {
			if m.Lives(n) && !x.Holds(n) && len(m.Held(n))+1 < len(m.Held(f.Node))-fillsAfter(c, f) {
				t.Fatalf("shard %d is filled on node %d with %d replicas; node %d has %d", f.Shard, f.Node,
					len(m.Held(f.Node)), n, len(m.Held(n)))
			}
		}
	}
	for s := range m.Shards {
		short := !m.Shards[s].Lost() && 1+len(m.Shards[s].Backups) < m.Replicas
		if short != slices.Contains(c.Short, proto.ShardID(s)) && len(c.Fill)+len(c.Short) > 0 {
			t.Fatalf("shard %d is short: %t; the change says %v", s, short, c.Short)
		}
	}
}

// fillsAfter is how many replicas a node was given after one of them.
func fillsAfter(c *Change, f Replica) (n int) {
	after := false
	for _, g := range c.Fill {
		if after && g.Node == f.Node {
			n++
		}
		after = after || g == f
	}
	return n
}

// TestANodeThatIsBackIsFilled with the shards that lack a replica.
func TestANodeThatIsBackIsFilled(t *testing.T) {
	m := Initial(3, 3)
	m, c, err := m.Without(2, 1)
	if err != nil || len(c.Fill) > 0 || !slices.Equal(c.Short, []proto.ShardID{0, 1, 2}) {
		t.Errorf("three replicas on two nodes: %+v, %v", c, err)
	}
	m, c, err = m.With(3, 1)
	if err != nil || !slices.Equal(c.Fill, []Replica{{0, 1}, {1, 1}, {2, 1}}) || len(c.Short) > 0 {
		t.Errorf("node 1 is back: %+v, %v", c, err)
	}
	if m.Shards[1].Primary != 2 || m.Shards[1].Complete(1) {
		t.Errorf("shard 1 has returned by itself: %+v", m.Shards[1])
	}
}

// TestPrimariesAreSharedAfterADeath: the shards of two dead nodes do not both go to the same survivor if
// another one could take one.
func TestPrimariesAreSharedAfterADeath(t *testing.T) {
	m := Initial(6, 3)
	_, c, err := m.Without(2, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Promoted, []Replica{{0, 2}, {1, 3}}) {
		t.Errorf("promoted %v", c.Promoted)
	}
}
