package planes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// TestQueuePairsGoBeforeTheEpochIsAcknowledged: others act without a removed member once all say that
// they are fenced off from it.
func TestQueuePairsGoBeforeTheEpochIsAcknowledged(t *testing.T) {
	r := newRoom(t)
	r.c.state.Pending = &member.View{Epoch: 5, Members: lives(0, 2)}
	r.react()
	r.did("disconnect 1", "acknowledge epoch 5")
	r.react() // until it is active
	r.did("disconnect 1")
	want := "node 1 (n1, incarnation 2) was removed from the cluster in epoch 5"
	if list := r.events(status.Info); len(list) != 1 || list[0] != want {
		t.Errorf("events %q, want one: %q", list, want)
	}
}

// TestAnEpochIsNotAcknowledgedWhileQueuePairsStand that could still reach whoever was removed.
func TestAnEpochIsNotAcknowledgedWhileQueuePairsStand(t *testing.T) {
	r := newRoom(t)
	r.c.state.Pending = &member.View{Epoch: 5, Members: lives(0, 2)}
	r.part.wrong["disconnect"] = errors.New("the device hangs")
	r.react()
	r.did("disconnect 1")
	r.part.wrong["disconnect"] = nil
	r.react()
	r.did("disconnect 1", "acknowledge epoch 5")
}

// TestAPlaneThatIsBeingConnectedIsClosedForAPendingView: a step under way could connect a removed member.
func TestAPlaneThatIsBeingConnectedIsClosedForAPendingView(t *testing.T) {
	r := newRoom(t)
	r.part.info = &load.Info{}
	r.c.state.Pending = &member.View{Epoch: 5, Members: lives(0, 2)}
	r.react()
	r.did("fence", "close", "acknowledge epoch 5")
}

// TestWhoIsRemovedAcknowledgesNothing: its own lease, or the registry, ends what it serves.
func TestWhoIsRemovedAcknowledgesNothing(t *testing.T) {
	r := newRoom(t)
	r.c.state.Pending = &member.View{Epoch: 5, Members: lives(1, 2)}
	r.react()
	r.did()
}

// TestWhoIsNoMemberDoesNothing whatever the state says.
func TestWhoIsNoMemberDoesNothing(t *testing.T) {
	r := newRoom(t)
	r.p.Joining()
	r.c.leave()
	r.react()
	r.did()
}

// TestALossWithinARunDegradesThePlane until tables are loaded anew, and is said once.
func TestALossWithinARunDegradesThePlane(t *testing.T) {
	r := newRoom(t)
	r.part.info = &load.Info{Open: true, Running: true}
	r.c.state.Pending = &member.View{Epoch: 5, Members: lives(0, 2)}
	r.react()
	r.react()
	var n status.Node
	r.p.Describe(t.Context(), &n)
	if list := r.events(status.Warn); len(list) != 1 || len(n.Degraded) != 1 || list[0] != n.Degraded[0] ||
		!strings.HasPrefix(list[0], "partition of node 1 (n1, incarnation 2) is gone; ") {
		t.Errorf("events %q, degraded %q", list, n.Degraded)
	}
	r.c.change(func(st *member.State) {
		st.Active, st.Pending = *st.Pending, nil
		st.Shards = member.ShardMap{Version: 4, Primary: lives(0, 2), Leader: lives(0)[0]}
	})
	if _, err := r.p.Do(t.Context(), 4, []byte(`{"step":"open"}`)); err != nil {
		t.Fatal(err)
	}
	var after status.Node
	r.p.Describe(t.Context(), &after)
	if len(after.Degraded) > 0 {
		t.Errorf("a new plane is degraded: %q", after.Degraded)
	}
}

// TestClientsEndWithTheLeaderOfTheirRun once, and those of a leader that is there go on.
func TestClientsEndWithTheLeaderOfTheirRun(t *testing.T) {
	r := newRoom(t)
	r.p.shards.Run, r.p.shards.Leader = "a", lives(2)[0]
	r.c.state.Shards = r.p.shards
	r.part.info = &load.Info{Open: true, Running: true}
	r.react()
	r.did()
	r.c.state.Active = member.View{Epoch: 5, Members: lives(1)}
	for range 2 {
		r.react()
	}
	r.did("fence")
	if list := r.events(status.Warn); len(list) != 1 || !strings.Contains(list[0], "which led run a, is gone") {
		t.Errorf("events %q", list)
	}
}

// TestALostLeaseEndsTheRunAndFences everything that the node serves.
func TestALostLeaseEndsTheRunAndFences(t *testing.T) {
	r := newRoom(t)
	ctx, _, err := r.p.beginRun(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.p.Lost(member.ErrLeaseLost)
	r.did("fence")
	if cause := context.Cause(ctx); !errors.Is(cause, member.ErrLeaseLost) {
		t.Errorf("the run ends because of %v", cause)
	}
}

// TestRoomIsAskedFromManyGoroutines at the same time, while views come and go: for the race detector.
func TestRoomIsAskedFromManyGoroutines(t *testing.T) {
	r := newRoom(t)
	close(r.built)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { r.p.Steward(ctx) })
	const rounds = 200
	for range 3 {
		wg.Go(func() {
			for range rounds {
				var n status.Node
				r.p.Describe(ctx, &n)
				_ = r.p.Alive()
				if _, run, err := r.p.beginRun(ctx); err == nil {
					r.p.endRun(run)
				}
				_, _ = r.p.Stop(ctx) // nobody leads a run
			}
		})
	}
	wg.Go(func() {
		defer cancel()
		for i := range rounds {
			r.c.change(func(st *member.State) {
				next := member.View{Epoch: st.Active.Epoch + 1, Members: lives(0, 1, 2)[:2+i%2]}
				if st.Pending == nil {
					st.Pending, st.Fenced = &next, nil
				} else {
					st.Active, st.Pending = *st.Pending, nil
				}
			})
			r.p.Changed()
			v := r.c.State().Shards.Version
			_, _ = r.p.Do(ctx, v, fmt.Appendf(nil, `{"step":%q}`, load.StepOpen)) // it may be stale
			_, _ = r.p.Do(ctx, v, fmt.Appendf(nil, `{"step":%q}`, load.StepGo))
		}
	})
	wg.Wait()
	r.p.Wait()
}
