package planes

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

// TestWhoRefusesARun: without a lease, while it drains, and while another one is under way.
func TestWhoRefusesARun(t *testing.T) {
	for _, c := range []struct {
		name  string
		set   func(r *room)
		want  error // nil: of no kind
		words string
	}{
		{"no lease", func(r *room) { r.c.held = false }, member.ErrLeaseLost, ""},
		{"drains", func(r *room) { r.p.Drain() }, nil, "this node drains: ask another one"},
		{"leads another", func(r *room) {
			if _, _, err := r.p.beginRun(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, control.ErrBusy, "led by this node"},
		{"another leads one", func(r *room) {
			r.c.state.Shards.Run, r.c.state.Shards.Leader = "a", lives(2)[0]
		}, control.ErrBusy, "a, led by node 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t)
			c.set(r)
			err := r.p.Run(t.Context(), &pb.RunRequest{PlanJson: "{}"}, nil)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v, want %v with %q", err, c.want, c.words)
			}
			r.did()
		})
	}
}

// TestARunThatFailsGivesThePlaneBack: the one that serves is built again, also if the registry has not
// told this node yet that the run has written its map.
func TestARunThatFailsGivesThePlaneBack(t *testing.T) {
	r := newRoom(t)
	_, run, err := r.p.beginRun(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	run.wrote = 4
	r.p.endRun(run)
	r.p.endRun(run) // does nothing
	r.react(nil)
	r.did(`write shard map 4 in the name of node 0, run ""`, "build on 3 nodes")
	// One that has written nothing leaves the plane as it is.
	if _, run, err = r.p.beginRun(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.p.endRun(run)
	r.react()
	r.did()
}

// TestDrainingEndsTheRunThatThisNodeLeads, and waits for its report.
func TestDrainingEndsTheRunThatThisNodeLeads(t *testing.T) {
	r := newRoom(t)
	ctx, run, err := r.p.beginRun(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-ctx.Done()
		r.p.endRun(run)
	}()
	r.p.Drain()
	if err := r.p.EndRuns(t.Context()); err != nil {
		t.Error(err)
	}
	if cause := context.Cause(ctx); cause == nil || !strings.Contains(cause.Error(), "drains") {
		t.Errorf("the run ends because of %v", cause)
	}
}

// TestARunIsOverWhenTheClusterServesAgain, or nobody will.
func TestARunIsOverWhenTheClusterServesAgain(t *testing.T) {
	ready := func(r *room) { r.board.Serve(nil, 3, 3) }
	for _, c := range []struct {
		name string
		set  func(r *room)
		over bool
		says string
	}{
		{"all serve", ready, true, ""},
		{"this node does not", func(r *room) { r.board.Connecting(status.Loading, "") }, false,
			"this node is connecting: "},
		{"another does not", func(r *room) {
			ready(r)
			r.c.others[2] = status.Connecting
		}, false, "node 2 (n2) is connecting: as the test says"},
		{"another one drains", func(r *room) {
			ready(r)
			r.c.others[2] = status.Draining
		}, true, ""},
		{"the plane is still the run's", func(r *room) {
			ready(r)
			r.p.shards.Run = "a"
		}, false, "the tables are about to be loaded again"},
		{"the plane is behind", func(r *room) {
			ready(r)
			r.c.state.Shards.Version++
		}, false, "the tables are about to be loaded again"},
		{"another run has begun", func(r *room) { r.board.Set(status.Running, "") }, true, ""},
		{"this node drains", func(r *room) { r.p.Drain() }, true, ""},
		{"this node is no member", func(r *room) { r.c.leave() }, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRoom(t)
			c.set(r)
			reason, over := r.p.notServing(t.Context(), &run{name: "a"})
			if over != c.over || !strings.HasPrefix(reason, c.says) || c.says == "" && reason != "" {
				t.Errorf("over %v, %q; want %v, %q", over, reason, c.over, c.says)
			}
		})
	}
}

// TestPeersOfARunAreGoneWithTheirMembership, and nobody waits for them after it.
func TestPeersOfARunAreGoneWithTheirMembership(t *testing.T) {
	r := newRoom(t)
	list, stop := r.p.peersOf(r.c.state.Shards, nil)
	if len(list) != 3 || len(r.c.watched) != 3 {
		t.Fatalf("%d peers, %d are watched", len(list), len(r.c.watched))
	}
	for f, m := range r.c.watched {
		if m.Same(lives(1)[0]) {
			(*f)()
		}
	}
	for i, x := range list {
		select {
		case <-x.Gone():
			if i != 1 {
				t.Errorf("%s is gone", x.Name())
			}
		default:
			if i == 1 {
				t.Errorf("%s is not gone", x.Name())
			}
		}
	}
	stop()
	if len(r.c.watched) > 0 {
		t.Errorf("%d are still watched", len(r.c.watched))
	}
}

// TestTheLeaderIsItsOwnPeer: its steps go no way over the network, and a refusal in words is none of a
// peer that may be gone.
func TestTheLeaderIsItsOwnPeer(t *testing.T) {
	r := newRoom(t)
	list, stop := r.p.peersOf(r.c.state.Shards, nil)
	defer stop()
	if _, err := list[0].Do(t.Context(), &load.Request{Step: load.StepLook}); err != nil {
		t.Fatal(err)
	}
	r.did("do look")
	r.part.wrong["look"] = errors.New("a step of its own mind")
	var refused *load.Refusal
	if _, err := list[0].Do(t.Context(), &load.Request{Step: load.StepLook}); !errors.As(err, &refused) {
		t.Errorf("%v is no refusal", err)
	}
	r.part.wrong["look"] = member.ErrLeaseLost
	if _, err := list[0].Do(t.Context(), &load.Request{Step: load.StepLook}); errors.As(err, &refused) {
		t.Errorf("%v is a refusal, of a member that may be gone", err)
	}
}

// steps is a daemon that carries out every step.
type steps struct{ control.Backend }

func (steps) Check(control.Caller) error { return nil }
func (steps) Do(context.Context, member.ShardVersion, []byte) ([]byte, error) {
	return []byte("{}"), nil
}

// silent has the second member of the room be at an address where nobody listens, and gives it.
func silent(t *testing.T, r *room) (address string, q load.Peer) {
	t.Helper()
	dir, err := os.MkdirTemp("", "dt") // short: names of sockets are
	if err != nil {
		t.Fatal(err)
	}
	address = "unix:" + filepath.Join(dir, "s")
	c, err := control.Dial(address, control.DialOptions{Caller: func() control.Caller {
		return control.Caller{}
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.c.clients = map[string]*control.Client{address: c}
	r.c.state.Shards.Primary[1].Control = address
	list, stop := r.p.peersOf(r.c.state.Shards, nil)
	t.Cleanup(func() {
		stop()
		if err := errors.Join(c.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return address, list[1]
}

// TestAMemberThatListensAgainIsAskedAgain: its process was started anew after the last attempt to
// connect, and a client does not try again at once.
func TestAMemberThatListensAgainIsAskedAgain(t *testing.T) {
	address, q := silent(t, newRoom(t))
	done := make(chan error, 1)
	go func() {
		_, err := q.Do(t.Context(), &load.Request{Step: load.StepLook})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("gave up at once: %v", err)
	case <-time.After(4 * leaseLook):
	}
	l, err := control.Listen(address, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	s := control.NewServer(control.Options{Backend: steps{}, Log: zap.NewNop(),
		Limits: control.Limits{MaxConnections: 4, MaxMessage: 1 << 20, RatePerPeer: 1000}})
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	if err := <-done; err != nil {
		t.Errorf("the member listens: %v", err)
	}
	s.Stop(t.Context())
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestAMemberThatIsGoneIsNotAskedAgain: one attempt is made, and its error is the answer.
func TestAMemberThatIsGoneIsNotAskedAgain(t *testing.T) {
	r := newRoom(t)
	address, q := silent(t, r)
	for f, m := range r.c.watched {
		if m.Control == address {
			(*f)()
		}
	}
	if _, err := q.Do(t.Context(), &load.Request{Step: load.StepLook}); !control.NobodyListens(err) {
		t.Errorf("%v", err)
	}
}
