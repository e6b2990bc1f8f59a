package planes

import (
	"errors"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
	"drtmd/proto/placement"
)

// replicatedRoom is newRoom with two replicas of each record.
func replicatedRoom(t *testing.T) *room {
	r := newRoom(t)
	m := placement.Initial(3, 2)
	m.Epoch = 4
	r.c.state.Shards.Placement = m
	r.part.info = &load.Info{Open: true, Recovers: true, Members: []proto.NodeID{0}}
	r.p.built = 3
	r.react()
	r.did("adopt epoch 4")
	return r
}

// lose has a node be gone from the pending view on, which goes active.
func (r *room) lose(node int) {
	r.t.Helper()
	next := member.View{Epoch: r.c.State().Active.Epoch + 1}
	for _, m := range r.c.State().Active.Members {
		if m.Node != proto.NodeID(node) {
			next.Members = append(next.Members, m)
		}
	}
	r.c.change(func(st *member.State) { st.Pending = &next })
	r.react()
	r.c.change(func(st *member.State) {
		m, _, err := st.Shards.Placement.Without(uint64(next.Epoch), proto.NodeID(node))
		if err != nil {
			r.t.Fatal(err)
		}
		st.Active, st.Pending, st.Fenced, st.Shards.Placement = next, nil, nil, m
	})
}

// TestAPlaneWithReplicasOutlivesAMember: it is paused before the view is acknowledged, adopts the placement
// without the member, fills what is to be filled here, and is not built again.
func TestAPlaneWithReplicasOutlivesAMember(t *testing.T) {
	r := replicatedRoom(t)
	r.lose(1)
	r.did("disconnect 1", "pause without [1]", "acknowledge epoch 5")
	r.part.recovery.Running = true
	r.react() // not before it is recovered
	r.did("adopt epoch 5")
	r.part.recovery.Running = false
	r.react()
	r.did("fill shard 1 on 0", "filled 1") // which was on 1 and 2
	r.react()
	r.did() // nothing to fill: the state does not say so yet
	if list := r.events(status.Warn); len(list) > 0 {
		t.Errorf("warnings %q", list)
	}
}

// TestAViewIsNotAcknowledgedBeforeThePartIsPaused: phases of the old placement could still end.
func TestAViewIsNotAcknowledgedBeforeThePartIsPaused(t *testing.T) {
	r := replicatedRoom(t)
	r.part.wrong["pause"] = errors.New("not yet")
	r.lose(2)
	r.did("disconnect 2", "pause without [2]")
}

// TestAPlacementIsNotAdoptedWhileAViewIsPending: the node may have said that it is paused for it.
func TestAPlacementIsNotAdoptedWhileAViewIsPending(t *testing.T) {
	r := replicatedRoom(t)
	r.c.change(func(st *member.State) {
		st.Pending = &member.View{Epoch: 6, Members: lives(0, 2)}
		st.Shards.Placement.Epoch = 5
	})
	if err := r.p.adopt(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.did()
}

// TestAReplicaThatIsNotFilledIsTriedAgain.
func TestAReplicaThatIsNotFilledIsTriedAgain(t *testing.T) {
	r := replicatedRoom(t)
	r.part.wrong["fill"] = errors.New("another view has come")
	r.lose(1)
	r.take()
	r.react()
	r.did("adopt epoch 5", "fill shard 1 on 0")
	r.part.wrong["fill"] = nil
	r.react()
	r.did("fill shard 1 on 0", "filled 1")
}

// TestALostShardIsNamed, and the tables are loaded again.
func TestALostShardIsNamed(t *testing.T) {
	r := replicatedRoom(t)
	close(r.built)
	r.lose(1)
	r.react()
	r.take()
	r.lose(2) // shard 1 was on 1 and 2
	r.react()
	got := strings.Join(r.take(), "; ")
	if !strings.Contains(got, "build on 1 nodes") {
		t.Errorf("asked for %q", got)
	}
	if list := r.events(status.Error); len(list) != 1 || !strings.HasPrefix(list[0], "shard 1 is lost: ") {
		t.Errorf("errors %q", list)
	}
}

// TestANewLeaderGoesOnWithThePlane of the leader that is gone, if the others hold their parts.
func TestANewLeaderGoesOnWithThePlane(t *testing.T) {
	for _, c := range []struct {
		name  string
		phase status.Phase
		want  string
	}{
		{"others are ready", status.Ready, ""},
		{"another has no part", status.Connecting, "write shard map 4 in the name of node 0, run \"\"; build on 2 nodes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := replicatedRoom(t)
			close(r.built)
			r.p.built, r.c.state.Shards.Leader = 0, lives(1)[0]
			r.c.others[2] = c.phase
			r.part.wrong["fill"] = errors.New("later")
			r.lose(1)
			r.take()
			r.react()
			var rest []string
			for _, x := range r.take() {
				if !strings.HasPrefix(x, "adopt") && !strings.HasPrefix(x, "fill") {
					rest = append(rest, x)
				}
			}
			if got := strings.Join(rest, "; "); got != c.want {
				t.Errorf("asked for %q, want %q", got, c.want)
			}
		})
	}
}

// TestTheStatusSaysWhatANodeHasOfTheReplicas.
func TestTheStatusSaysWhatANodeHasOfTheReplicas(t *testing.T) {
	r := replicatedRoom(t)
	r.part.wrong["fill"] = errors.New("later")
	r.lose(1)
	r.react()
	var n status.Node
	r.p.Describe(t.Context(), &n)
	x := n.Recovery
	if x == nil || x.Epoch != 5 || len(x.Serves) != 1 || len(x.Backs) != 1 || x.Serves[0] != 0 || len(x.Fills) != 1 || x.Fills[0] != 1 {
		t.Fatalf("recovery %+v", x)
	}
	c := status.Cluster{State: r.c.State()}
	if got, want := c.Replicas(), "2 of each record, epoch 5: shard 0 on 0+2 (filling), 1 on 2+0 (filling), "+
		"2 on 2+0; 2 missing"; got != want {
		t.Errorf("replicas %q", got)
	}
}
