package planes

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// step has the room carry out a step.
func (r *room) step(v member.ShardVersion, s load.Step, members ...int) error {
	list := "[]"
	if len(members) > 0 {
		list = strings.ReplaceAll(fmt.Sprint(members), " ", ",")
	}
	_, err := r.p.Do(r.t.Context(), v, fmt.Appendf(nil, `{"step":%q,"members":%s}`, s, list))
	return err
}

// next writes shard map 4, of some nodes.
func (r *room) next(nodes ...int) {
	r.c.change(func(st *member.State) {
		st.Shards = member.ShardMap{Version: 4, Primary: lives(nodes...), Leader: lives(nodes...)[0]}
	})
}

// TestANewPlaneTakesThePlaceOfTheOneBefore, which is closed first, and then serves.
func TestANewPlaneTakesThePlaceOfTheOneBefore(t *testing.T) {
	r := newRoom(t)
	r.next(0, 2)
	for _, s := range []load.Step{load.StepOpen, load.StepConnect} {
		if err := r.step(4, s, 0); err != nil {
			t.Fatal(err)
		}
		if p, _ := r.board.Phase(); p != status.Connecting {
			t.Errorf("%s after %s", p, s)
		}
	}
	if err := r.step(4, load.StepGo); err != nil {
		t.Fatal(err)
	}
	r.did("close", "plane of 2 members", "do open", "do connect", "do go")
	if err := r.board.Ready(); err != nil {
		t.Error(err)
	}
}

// TestAStepUnderWayIsEndedByANewerPlane: it would hold up the close.
func TestAStepUnderWayIsEndedByANewerPlane(t *testing.T) {
	r := newRoom(t)
	r.part.info = &load.Info{}
	r.next(0, 2)
	if err := r.step(4, load.StepOpen, 0); err != nil {
		t.Fatal(err)
	}
	r.did("fence", "close", "plane of 2 members", "do open")
}

// TestStepsThatAreRefused reach no part.
func TestStepsThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     func(r *room)
		version member.ShardVersion
		step    load.Step
		members []int
		want    error  // nil: of no kind
		words   string // of it
	}{
		{"of an older plane", func(*room) {}, 2, load.StepLook, nil, member.ErrStale, "the plane is of 3"},
		{"of a plane that was not opened", func(*room) {}, 4, load.StepGo, nil, member.ErrStale,
			"which was not opened here"},
		{"open for an older map than the registry's", func(r *room) {
			r.next(0, 1, 2)
			r.c.state.Shards.Version = 5
		}, 4, load.StepOpen, nil, member.ErrStale, "the newest is 5"},
		{"open with a partition of another", func(r *room) { r.next(0, 1, 2) }, 4, load.StepOpen, []int{1},
			nil, "partition 1 of shard map 4 is not held by node 0"},
		{"open with a member that has gone", func(r *room) {
			r.next(0, 1, 2)
			r.c.state.Pending = &member.View{Epoch: 5, Members: lives(0, 2)}
		}, 4, load.StepOpen, []int{0}, member.ErrStale, "is not in epoch 5"},
		{"connect with a member that has gone", func(r *room) {
			r.c.state.Pending = &member.View{Epoch: 5, Members: lives(0, 2)}
		}, 3, load.StepConnect, nil, member.ErrStale, "is not in epoch 5"},
		{"without a lease", func(r *room) { r.c.held = false }, 3, load.StepLook, nil, member.ErrLeaseLost,
			""},
		{"that cannot be read", func(*room) {}, 3, "\x01", nil, nil, "the step cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t)
			c.set(r)
			err := r.step(c.version, c.step, c.members...)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v, want %v with %q", err, c.want, c.words)
			}
			r.did()
		})
	}
}

// TestARunEndsWithoutALease: its clients have to, and its part has to be closed.
func TestARunEndsWithoutALease(t *testing.T) {
	r := newRoom(t)
	r.c.held = false
	for _, s := range []load.Step{load.StepEnd, load.StepFinish, load.StepQuit} {
		if err := r.step(3, s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	r.did("do end", "do finish", "do quit")
}

// TestPhasesFollowTheSteps of a plane.
func TestPhasesFollowTheSteps(t *testing.T) {
	r := newRoom(t)
	r.next(0, 1, 2)
	r.part.wrong["look"] = errors.New("of no phase")
	for _, c := range []struct {
		step load.Step
		want status.Phase
		wait status.Wait
	}{{load.StepOpen, status.Connecting, status.Loading}, {load.StepGo, status.Ready, ""},
		{load.StepStart, status.Running, ""}, {load.StepLook, status.Running, ""},
		{load.StepFinish, status.Connecting, status.Reloading},
		{load.StepQuit, status.Connecting, status.Reloading}} {
		_ = r.step(4, c.step, 0) // the phase is looked at
		var n status.Node
		r.board.Describe(t.Context(), &n)
		if n.Phase != c.want || n.Wait != c.wait {
			t.Errorf("after %s: %s (%s), want %s (%s)", c.step, n.Phase, n.Wait, c.want, c.wait)
		}
	}
}

// TestAPlaneThatWasFencedMeanwhileDoesNotServe.
func TestAPlaneThatWasFencedMeanwhileDoesNotServe(t *testing.T) {
	r := newRoom(t)
	r.next(0, 1, 2)
	if err := r.step(4, load.StepOpen, 0); err != nil {
		t.Fatal(err)
	}
	r.part.wrong["go"] = errors.New("taken out of service")
	if err := r.step(4, load.StepGo); err == nil {
		t.Error("go did not fail")
	}
	if p, reason := r.board.Phase(); p != status.Connecting || reason != "taken out of service" {
		t.Errorf("%s: %s", p, reason)
	}
}

func TestAPlaneIsOnlyOfMembersOfTheNewestView(t *testing.T) {
	a, b := member.Member{Node: 0, Incarnation: 1}, member.Member{Node: 1, Incarnation: 2}
	again := member.Member{Node: 1, Incarnation: 3}
	m := member.ShardMap{Version: 5, Primary: []member.Member{a, b}}
	both := member.View{Epoch: 2, Members: []member.Member{a, b}}
	alone := member.View{Epoch: 3, Members: []member.Member{a}}
	other := member.View{Epoch: 4, Members: []member.Member{a, again}}
	for name, c := range map[string]struct {
		state member.State
		stale bool
	}{
		"all there":              {member.State{Active: both}, false},
		"one goes":               {member.State{Active: both, Pending: &alone}, true},
		"one is in another life": {member.State{Active: other}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := allThere(&c.state, &m); errors.Is(err, member.ErrStale) != c.stale {
				t.Errorf("%v", err)
			}
		})
	}
}
