package scenario

import (
	"context"
	"testing"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/placement"
	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// TestTwoMachinesLoseTheirMemory in one run, of ordered tables with three replicas, and no shard is lost.
func TestTwoMachinesLoseTheirMemory(t *testing.T) {
	const seed = 1
	r, err := scenario.Run(context.Background(), find(t, lossesOfScans+"-xenic"), scenario.Options{Seed: seed, Random: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failure != nil {
		t.Fatalf("%v\n%s", r.Failure, replay(r))
	}
	lost := map[string]bool{}
	for _, o := range r.Outcomes {
		if o.Fault.Kind == sim.CrashNode && !o.Fault.Kept && o.Hits > 0 {
			lost[o.Fault.Node] = true
		}
	}
	counts := map[string]uint64{}
	for _, c := range r.Counts {
		counts[c.Name] = c.Value
	}
	if len(lost) != 2 || counts["lost shards"] != 0 || counts["records filled"] == 0 {
		t.Errorf("%v lost their memory: %v", lost, counts)
	}
}

// TestMachinesThatStandStillLoseNoShard: with too few replicas most of what they committed may be lost, and is not judged.
func TestMachinesThatStandStillLoseNoShard(t *testing.T) {
	for _, name := range []string{"stills-farm", "stills-fasst", "stills-drtmr-verbs", "stills-xenic"} {
		epochs := uint64(0)
		for seed := uint64(1); seed <= 8; seed++ {
			r, err := scenario.Run(context.Background(), find(t, name), scenario.Options{Seed: seed, Random: true})
			if err != nil {
				t.Fatal(err)
			}
			if r.Failure != nil {
				t.Fatalf("%v\n%s", r.Failure, replay(r))
			}
			for _, c := range r.Counts {
				switch c.Name {
				case "lost shards":
					if c.Value > 0 {
						t.Errorf("seed %d of %s: %d lost shards", seed, name, c.Value)
					}
				case "epochs":
					epochs += c.Value
				}
			}
		}
		if epochs < 16 {
			t.Errorf("%s: %d epochs: nobody was removed", name, epochs)
		}
	}
}

// TestOnlyWhatDiedWithManyMayBeLost: of what a coordinator has told, that which no replica was left with when it died
// with as many as there are replicas.
func TestOnlyWhatDiedWithManyMayBeLost(t *testing.T) {
	const table, key = 1, 7
	old, own := history.NewVersion(1, 4), history.NewVersion(1, 5)
	die := func(n history.NodeID, atNs int64, left history.Version) *death {
		return &death{node: n, atNs: atNs, left: map[place]leftover{{table, key}: {version: left}}}
	}
	// Placements of an epoch: those who are dead, and whether each shard has all its replicas.
	initial := placement.Initial(4, 2)
	at := func(epoch uint64, filled bool, dead ...proto.NodeID) *placement.Map {
		m, _, err := initial.Without(initial.Epoch+epoch, dead...)
		if err != nil {
			t.Fatal(err)
		}
		for s := range m.Shards {
			if filled {
				m.Shards[s].Filling = nil
			}
		}
		return m
	}
	together := []any{die(1, 100, old), die(2, 100, old), at(1, false, 1, 2)}
	// The first machine is removed at 100 ns, and crashes when others have its replicas.
	removed := func(left history.Version) []any {
		return []any{left, die(2, 60, old), at(1, false, 1, 2), at(1, true, 1, 2), die(1, 400, own)}
	}
	for _, c := range []struct {
		name  string
		node  history.NodeID
		endNs int64
		kind  history.OpKind
		steps []any // deaths, placements that a machine gets, and what is left when one is removed that has not crashed
		want  bool
	}{
		{"told before it died with another", 1, 90, history.OpWrite, together, true},
		{"an addition", 1, 90, history.OpAdd, together, true},
		{"a deletion", 1, 90, history.OpDelete, together, true},
		{"a read of what is lost", 1, 90, history.OpRead, together, true},
		{"a read of what a replica was left with", 1, 20, history.OpRead,
			[]any{die(1, 100, own), die(2, 100, own), at(1, false, 1, 2)}, false},
		{"a read, told by a node that lives", 3, 90, history.OpRead, together, false},
		{"told by a node that lives", 3, 90, history.OpWrite, together, false},
		{"a replica was left with it", 1, 20, history.OpWrite,
			[]any{die(1, 100, own), die(2, 100, own), at(1, false, 1, 2)}, false},
		{"the other died before", 1, 90, history.OpWrite,
			[]any{die(2, 60, old), at(1, false, 2), die(1, 100, old), at(2, false, 1, 2)}, true},
		{"the other died behind", 1, 90, history.OpWrite,
			[]any{die(1, 100, old), at(1, false, 1), die(2, 140, old), at(2, false, 1, 2)}, true},
		{"it died alone", 1, 90, history.OpWrite, []any{die(1, 100, old), at(1, false, 1)}, false},
		{"replicas of the other were filled before", 1, 90, history.OpWrite,
			[]any{die(2, 60, old), at(1, false, 2), at(1, true, 2), die(1, 100, old), at(2, false, 1, 2)}, false},
		{"a machine hears late of the placement before", 1, 90, history.OpWrite,
			[]any{die(1, 100, old), at(1, false, 1), initial, die(2, 140, old), at(2, false, 1, 2)}, true},
		{"it stays away, and the other dies when replicas were filled", 2, 50, history.OpWrite,
			[]any{die(2, 60, old), at(1, false, 2), at(1, true, 2), die(1, 100, old), at(2, false, 1, 2)}, true},
		{"it was removed with another, and crashed later", 1, 90, history.OpWrite, removed(old), true},
		{"a replica was left with it when it was removed", 1, 90, history.OpWrite, removed(own), false},
		{"told when it was removed", 1, 150, history.OpWrite, removed(old), false},
		{"it was removed alone, and crashed later", 1, 90, history.OpWrite,
			[]any{old, at(1, false, 1), at(1, true, 1), die(1, 400, old)}, false},
		{"it was removed alone, and another died when replicas were filled", 1, 90, history.OpWrite,
			[]any{old, at(1, false, 1), at(1, true, 1), die(2, 300, old), die(1, 400, old), at(2, false, 1, 2)}, true},
		{"told in a later life", 1, 300, history.OpWrite, together, false},
		{"told in a later life that ended alone", 1, 300, history.OpWrite,
			append(together[:len(together):len(together)], at(2, true), die(1, 400, old), at(3, false, 1)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLosses(2)
			left := history.Version(0)
			remove := func(n proto.NodeID) *death { return die(history.NodeID(n), 100, left) }
			for _, x := range append([]any{initial}, c.steps...) {
				switch x := x.(type) {
				case *death:
					copied := *x
					l.add(&copied)
				case *placement.Map:
					l.note(x, remove)
				case history.Version:
					left = x
				}
			}
			told := &history.Record{Node: c.node, EndNs: c.endNs,
				Ops: []history.Op{{Kind: c.kind, Table: table, Key: key, Version: own}}}
			if got := l.allow(told); got != c.want {
				t.Errorf("it may be lost: %t, want %t", got, c.want)
			}
		})
	}
}

// TestWhatIsLostWithTheNextDeath: what only the second machine had is lost with it; what a machine has that lives is not, nor
// what was deleted since; and a shard that all have lost excuses nothing.
func TestWhatIsLostWithTheNextDeath(t *testing.T) {
	key := place{1, 7}
	own := history.Op{Kind: history.OpWrite, Table: key.t, Key: key.k, Version: 5}
	for _, c := range []struct {
		name string
		left map[place]leftover // by the second death
		held nodeSet
		lost bool // the shard is
		want bool
	}{
		{"an older replica is left", map[place]leftover{key: {version: 4}}, 1, false, true},
		{"one that has it is left", map[place]leftover{key: {version: 6}}, 1, false, false},
		{"it was deleted since", nil, 1, false, false},
		{"no replica is left", nil, 0, false, true},
		{"the shard is lost", nil, 0, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLosses(2)
			l.shardOf = func(place) proto.ShardID { return 0 }
			l.note(placement.Initial(4, 2), nil)
			l.add(&death{node: 1, atNs: 100, left: map[place]leftover{key: {version: 5}}, held: 1})
			l.add(&death{node: 2, atNs: 110, left: c.left, held: c.held})
			dead, after := []proto.NodeID{1, 2}, placement.Initial(4, 2)
			if c.lost {
				dead = []proto.NodeID{0, 1}
			}
			after, _, err := after.Without(after.Epoch+1, dead...)
			if err != nil {
				t.Fatal(err)
			}
			l.note(after, func(n proto.NodeID) *death { return &death{node: history.NodeID(n), atNs: 120} })
			told := &history.Record{Node: 1, EndNs: 90, Ops: []history.Op{own}}
			if got := l.allow(told); got != c.want {
				t.Errorf("it may be lost: %t, want %t", got, c.want)
			}
		})
	}
}
