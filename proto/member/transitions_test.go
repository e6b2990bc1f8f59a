package member

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"drtmd/proto"
	"drtmd/proto/placement"
)

// TestTransitionsKeepWhatMustHold over random sequences of them: epochs and incarnations only grow,
// no life comes back, and a view becomes active only when every member of it is fenced off from
// those that it has lost.
func TestTransitionsKeepWhatMustHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		lives := map[Incarnation]bool{} // ever given out
		dead := map[Incarnation]bool{}
		fenced := map[Epoch]map[Incarnation]bool{}
		pick := func(v View) (Member, bool) {
			if len(v.Members) == 0 {
				return Member{}, false
			}
			return v.Members[rapid.IntRange(0, len(v.Members)-1).Draw(t, "member")], true
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			old := s.Clone()
			next, err := s.Clone(), error(nil)
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0:
				c := Candidate{Node: rapid.IntRange(AnyNode, 3).Draw(t, "node"), Build: "b"}
				if m, ok := pick(s.Newest()); ok && rapid.Bool().Draw(t, "replaces") {
					c.Node, c.Replaces = int(m.Node), m.Incarnation
				}
				var m Member
				if next, m, err = s.Join(c); err == nil {
					if lives[m.Incarnation] {
						t.Fatalf("incarnation %d is given out twice", m.Incarnation)
					}
					lives[m.Incarnation] = true
					dead[c.Replaces] = c.Replaces != 0
				}
			case 1:
				if m, ok := pick(s.Newest()); ok {
					if next, err = s.Remove(m); err == nil {
						dead[m.Incarnation] = true
					}
				}
			case 2:
				if m, ok := pick(s.Newest()); ok {
					e := s.Newest().Epoch + Epoch(rapid.IntRange(-1, 1).Draw(t, "epoch"))
					if next, err = s.Fence(m, e); err == nil {
						if fenced[e] == nil {
							fenced[e] = map[Incarnation]bool{}
						}
						fenced[e][m.Incarnation] = true
					}
				}
			case 3:
				v := ShardVersion(rapid.IntRange(0, 3).Draw(t, "version"))
				m := ShardMap{Version: v, Primary: s.Active.Members}
				if n := len(m.Primary); n > 0 && rapid.Bool().Draw(t, "replicated") {
					m.Placement = placement.Initial(n, rapid.IntRange(1, n).Draw(t, "replicas"))
				}
				next, err = s.Assign(m)
			case 5:
				if m, ok := pick(s.Active); ok {
					next, err = s.Return(m)
				}
			case 6:
				if m, ok := pick(s.Active); ok {
					next, err = s.Fill(m, proto.ShardID(rapid.IntRange(0, 3).Draw(t, "shard")))
				}
			case 4:
				if m, ok := pick(s.Active); ok {
					_, err = s.Remove(m)
					if in := s.Newest(); in.Has(m) != (err == nil) {
						t.Fatalf("remove of %v: %v", m, err)
					}
					err = errors.New("not taken over")
				}
			}
			if err != nil {
				continue
			}
			check(t, &old, &next, dead, fenced)
			s = next
		}
	})
}

func check(t *rapid.T, old, s *State, dead map[Incarnation]bool,
	fenced map[Epoch]map[Incarnation]bool) {
	if s.Newest().Epoch < old.Newest().Epoch || s.Active.Epoch < old.Active.Epoch ||
		s.Shards.Version < old.Shards.Version || s.Last < old.Last {
		t.Fatalf("something went back: %+v to %+v", old, s)
	}
	v := s.Newest()
	for i, m := range v.Members {
		if dead[m.Incarnation] {
			t.Fatalf("%v is back from the dead", m)
		}
		if i > 0 && v.Members[i-1].Node >= m.Node {
			t.Fatalf("members out of order, or a node twice: %v", v.Members)
		}
	}
	if p := s.Shards.Placement; p != nil {
		checkPlacement(t, s)
	}
	if s.Active.Epoch == old.Active.Epoch {
		return
	}
	for _, m := range old.Active.Members {
		if s.Active.Has(m) {
			continue
		}
		for _, x := range s.Active.Members {
			if !fenced[s.Active.Epoch][x.Incarnation] {
				t.Fatalf("epoch %d is active without %v, and %v is not fenced", s.Active.Epoch, m, x)
			}
		}
		return
	}
}

// checkPlacement: it is of the active view, and nobody holds a replica who is not in that.
func checkPlacement(t *rapid.T, s *State) {
	p := s.Shards.Placement
	if p.Epoch != uint64(s.Active.Epoch) {
		t.Fatalf("epoch %d has the placement of %d", s.Active.Epoch, p.Epoch)
	}
	for i, m := range s.Shards.Primary {
		if n := proto.NodeID(i); !s.Active.Has(m) && p.Lives(n) {
			t.Fatalf("%v is gone and node %d of the placement: %v", m, n, p)
		}
	}
}

func TestJoinOfAFullClusterIsRefused(t *testing.T) {
	var s State
	for range MaxNodes {
		next, _, err := s.Join(Candidate{Node: AnyNode})
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	if _, _, err := s.Join(Candidate{Node: AnyNode}); !errors.Is(err, ErrFull) {
		t.Errorf("member %d: %v", MaxNodes+1, err)
	}
}
