package planes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// TestWhoBuilds: the member with the lowest id, whoever was handed a plane, and whoever used one up.
func TestWhoBuilds(t *testing.T) {
	build := func(n string) []string {
		return []string{`write shard map 4 in the name of node 0, run ""`, "build on " + n + " nodes"}
	}
	for _, c := range []struct {
		name string
		set  func(r *room)
		want []string
	}{
		{"nobody: the plane serves", func(*room) {}, nil},
		{"the leader: a member has gone", func(r *room) {
			r.c.state.Active = member.View{Epoch: 5, Members: lives(0, 2)}
		}, build("2")},
		{"not another one", func(r *room) {
			r.c.self = lives(1)[0]
			r.c.state.Active = member.View{Epoch: 5, Members: lives(0, 1)}
		}, nil},
		{"the leader: its plane is used up", func(r *room) { r.p.rebuild = true }, build("3")},
		{"not of another's plane that is used up", func(r *room) {
			r.c.self = lives(2)[0]
			r.p.rebuild = true
		}, nil},
		{"not during a run", func(r *room) {
			r.c.state.Shards.Run, r.c.state.Shards.Leader = "a", lives(2)[0]
			r.c.state.Active = member.View{Epoch: 5, Members: lives(0, 2)}
		}, nil},
		{"the leader: that of the run has gone", func(r *room) {
			r.c.state.Shards.Run, r.c.state.Shards.Leader = "a", lives(2)[0]
			r.c.state.Active = member.View{Epoch: 5, Members: lives(0, 1)}
		}, build("2")},
		{"who was handed a map: it is built as it is", func(r *room) { r.p.claimed = 2 },
			[]string{"build on 3 nodes"}},
		{"not while it drains", func(r *room) {
			r.p.rebuild = true
			r.p.Drain()
		}, nil},
		{"not while it leads a run", func(r *room) {
			r.p.rebuild = true
			if _, _, err := r.p.beginRun(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t)
			c.set(r)
			if len(c.want) > 0 {
				r.react(nil)
			} else {
				r.react()
			}
			r.did(c.want...)
		})
	}
}

// TestWhoUsedUpAPlaneHandsTheNextOneOver to the leader, who may reach more members: it only writes the
// map.
func TestWhoUsedUpAPlaneHandsTheNextOneOver(t *testing.T) {
	r := newRoom(t)
	r.c.self = lives(2)[0]
	r.c.state.Shards.Run, r.c.state.Shards.Leader, r.p.rebuild = "a", lives(2)[0], true
	r.react()
	r.did(`write shard map 4 in the name of node 0, run ""`)
	r.react()
	r.did()
}

// TestAPlaneThatIsNotBuiltIsTriedAgain, and status says what was in the way meanwhile.
func TestAPlaneThatIsNotBuiltIsTriedAgain(t *testing.T) {
	t.Parallel() // it waits in real time
	r := newRoom(t)
	r.p.rebuild = true
	r.react(errors.New("node 1 is silent"))
	if p, reason := r.board.Phase(); p != status.Connecting || reason != "node 1 is silent" {
		t.Errorf("%s: %s", p, reason)
	}
	if list := r.events(status.Warn); len(list) != 1 ||
		list[0] != "the data plane was not built: node 1 is silent" {
		t.Errorf("events %q", list)
	}
	r.take()
	r.react(nil)
	r.did(`write shard map 5 in the name of node 0, run ""`, "build on 3 nodes")
	r.react()
	r.did()
}

// TestReplicasWaitForTheirNodes: nothing is built before there are as many nodes as copies.
func TestReplicasWaitForTheirNodes(t *testing.T) {
	t.Parallel() // it waits in real time
	r := newRoom(t)
	r.p.rebuild, r.p.o.Config.Data.Replicas = true, 4
	r.react()
	r.did()
	want := "data.replicas is 4, and the cluster has 3 nodes: start more, the tables are loaded then"
	if p, reason := r.board.Phase(); p != status.Connecting || reason != want {
		t.Errorf("%s: %s", p, reason)
	}
}

// TestThePauseEndsWhenMembersComeOrGo, or the node drains: it is no reason to wait any more.
func TestThePauseEndsWhenMembersComeOrGo(t *testing.T) {
	for name, end := range map[string]func(r *room){
		"a view is pending": func(r *room) {
			r.c.change(func(st *member.State) { st.Pending = &member.View{Epoch: 5, Members: lives(0, 2)} })
		},
		"the node drains": func(r *room) { r.p.Drain() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				r.p.pause(t.Context(), time.Hour, 4)
			}()
			end(r)
			select {
			case <-ended:
			case <-time.After(patience):
				t.Error("it waits on")
			}
		})
	}
}

// TestNothingIsSaidOfAPlaneThatNobodyWaitsFor: whoever drains has said why there is none.
func TestNothingIsSaidOfAPlaneThatNobodyWaitsFor(t *testing.T) {
	r := newRoom(t)
	r.p.rebuild = true
	r.p.react(t.Context())
	r.p.Drain()
	r.board.Drain()
	r.built <- errors.New("node 1 is silent")
	r.p.Wait()
	if p, reason := r.board.Phase(); p != status.Draining || reason != "told to stop" {
		t.Errorf("%s: %s", p, reason)
	}
	if list := r.events(status.Warn); len(list) > 0 {
		t.Errorf("events %q", list)
	}
}

// While a plane is tried again, status keeps saying what was in the way; what ends by itself, such as
// the tables that a run has used up, is said instead when it begins.
func TestWhatIsInTheWayIsSaidWhileAPlaneIsTriedAgain(t *testing.T) {
	r := newRoom(t)
	says := func() (n status.Node) {
		r.board.Describe(t.Context(), &n)
		return n
	}
	r.p.did(3, &load.Request{Step: load.StepGo}, errors.New("node 1 is silent"))
	r.p.connecting(status.Loading)
	if n := says(); n.Reason != "node 1 is silent" || n.Wait != "" {
		t.Errorf("tried again: reason %q, wait %q", n.Reason, n.Wait)
	}
	r.p.connecting(status.Reloading)
	r.p.connecting(status.Loading)
	if n := says(); n.Reason == "node 1 is silent" || n.Wait != status.Reloading {
		t.Errorf("after a run: reason %q, wait %q", n.Reason, n.Wait)
	}
	r.p.did(3, &load.Request{Step: load.StepGo}, member.ErrStale)
	r.p.connecting(status.Loading)
	if n := says(); n.Wait != status.Loading {
		t.Errorf("after a stale step: reason %q, wait %q", n.Reason, n.Wait)
	}
}

// TestANodeWithoutAPartSaysWhatItWaitsFor: the end of a run.
func TestANodeWithoutAPartSaysWhatItWaitsFor(t *testing.T) {
	r := newRoom(t)
	r.board.Connecting(status.Loading, "")
	r.c.state.Shards = member.ShardMap{Version: 4, Primary: lives(1, 2), Leader: lives(1)[0], Run: "a"}
	r.react()
	var n status.Node
	r.board.Describe(t.Context(), &n)
	if n.Wait != status.OtherRun || !strings.HasSuffix(n.Reason, "of run a") {
		t.Errorf("%s (%s): %s", n.Phase, n.Wait, n.Reason)
	}
}

// TestANodeBesideKeptTablesSaysSo: that it has no part in them, and what to do.
func TestANodeBesideKeptTablesSaysSo(t *testing.T) {
	for _, c := range []struct {
		name    string
		primary []member.Member
		kept    bool
		want    status.Wait
	}{
		{"all nodes that keep them are there", lives(1, 2), true, status.OtherTables},
		{"one is away: the plane is about to be built anew", lives(1, 3), true, status.Loading},
		{"nothing is kept", lives(1, 2), false, status.Loading},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t)
			keepers(t, r, nil)
			if !c.kept {
				r.p.o.Data = nil
			}
			r.board.Connecting(status.Loading, "")
			r.c.state.Shards = member.ShardMap{Version: 4, Primary: c.primary, Leader: lives(1)[0]}
			r.p.waiting(&r.c.state, false)
			var n status.Node
			r.board.Describe(t.Context(), &n)
			if n.Wait != c.want || (n.Wait == status.OtherTables) != strings.Contains(n.Reason, "drtmd up --forget") {
				t.Errorf("%s (%s): %s", n.Phase, n.Wait, n.Reason)
			}
		})
	}
}

// A plane is tried again within seconds of the network's return, however often that failed before: an
// attempt that a silent peer ends after 2 s and its pause take at most 4.
func TestPlanesAreTriedAgainWithinSeconds(t *testing.T) {
	for failures := range 100 {
		for _, c := range []struct{ took, most time.Duration }{
			{0, 2 * time.Second}, {2 * time.Second, 2 * time.Second}, {8 * time.Second, 4 * time.Second},
			{time.Hour, 10 * time.Second},
		} {
			w := buildWait(failures, c.took)
			if w > c.most || w < min(c.most, retryWait) {
				t.Errorf("%v after %d failures of %v each, want at most %v", w, failures, c.took, c.most)
			}
		}
	}
	if a, b := buildWait(0, 0), buildWait(1, 0); a >= b {
		t.Errorf("waits of %v, then %v: do not grow", a, b)
	}
}
