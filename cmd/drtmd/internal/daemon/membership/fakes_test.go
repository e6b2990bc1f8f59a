package membership

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/daemon/board"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
	"drtmd/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the wait for what has to happen; the machine may be slow.
const patience = time.Minute

// fakeRegistry lets in whoever comes, unless it is told to refuse.
type fakeRegistry struct {
	cluster string

	mu       sync.Mutex // guards what follows
	refusals []error    // of the next attempts
	asked    []member.Candidate
	last     member.Incarnation
	others   []member.Member
	joined   chan *fakeSession // gets each session
}

func (r *fakeRegistry) ClusterID(context.Context) (string, error) { return r.cluster, nil }
func (r *fakeRegistry) Close() error                              { return nil }

func (r *fakeRegistry) Join(c member.Candidate, l member.Listener) (member.Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, c)
	if len(r.refusals) > 0 {
		err := r.refusals[0]
		r.refusals = r.refusals[1:]
		return nil, err
	}
	r.last++
	self := member.Member{Node: proto.NodeID(max(c.Node, 0)), Incarnation: r.last, Name: c.Name}
	s := &fakeSession{l: l, self: self, held: true, left: make(chan struct{}),
		state: member.State{Cluster: r.cluster, Active: member.View{Epoch: member.Epoch(r.last),
			Members: append([]member.Member{self}, r.others...)}}}
	r.joined <- s
	return s, nil
}

// fakeSession is a membership that the test ends.
type fakeSession struct {
	l    member.Listener
	self member.Member
	left chan struct{} // closed by Leave

	mu    sync.Mutex // guards what follows
	state member.State
	held  bool
	gone  bool
}

func (s *fakeSession) Self() member.Member { return s.self }

func (s *fakeSession) State() member.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Clone()
}

func (s *fakeSession) Lease() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Hour, s.held
}

func (s *fakeSession) Fenced(e member.Epoch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Pending == nil || s.state.Pending.Epoch != e {
		return member.ErrStale
	}
	s.state.Active, s.state.Pending = *s.state.Pending, nil
	return nil
}

func (s *fakeSession) Return() error                   { return errors.New("not by membership") }
func (s *fakeSession) Filled(proto.ShardID) error      { return errors.New("not by membership") }
func (s *fakeSession) SetShards(member.ShardMap) error { return errors.New("not by membership") }
func (s *fakeSession) Remove(member.Member) error      { return errors.New("not by membership") }

func (s *fakeSession) Leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.gone = true
		close(s.left)
	}
	return nil
}

// change changes the state, and tells of it.
func (s *fakeSession) change(f func(*member.State)) {
	s.mu.Lock()
	f(&s.state)
	st := s.state.Clone()
	s.mu.Unlock()
	s.l.Changed(st)
}

// end ends the lease, by the own clock alone.
func (s *fakeSession) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
}

// fakeGuard takes down what it is told.
type fakeGuard struct {
	told    chan string
	changed chan struct{} // holds one
	lost    func(cause error)
	rest    func()
}

func (g *fakeGuard) Joining()          { g.told <- "joining" }
func (g *fakeGuard) Fence(cause error) { g.told <- "fence: " + cause.Error() }
func (g *fakeGuard) Lost(cause error) {
	if g.lost != nil {
		g.lost(cause)
	}
	g.told <- "lost: " + cause.Error()
}
func (g *fakeGuard) Rest(context.Context) {
	g.told <- "rest"
	if g.rest != nil {
		g.rest()
	}
}
func (g *fakeGuard) Changed() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// room is membership alone: the registry and the guard are fakes.
type room struct {
	t     *testing.T
	m     *Membership
	reg   *fakeRegistry
	guard *fakeGuard
	board *board.Board
	ended chan error // gets what Belong returns
}

func newRoom(t *testing.T) *room {
	t.Helper()
	cfg := config.Default(composition.BuiltIn())
	cfg.Node.Name, cfg.Cluster.Lease = "n", 3*time.Second
	r := &room{t: t, reg: &fakeRegistry{cluster: "lab", joined: make(chan *fakeSession, 16)},
		guard: &fakeGuard{told: make(chan string, 64), changed: make(chan struct{}, 1)},
		ended: make(chan error, 1)}
	r.board = board.New(board.Options{Log: zap.NewNop(), Notifier: &service.Notifier{}})
	r.m = New(Options{Log: zap.NewNop(), Config: &cfg, Board: r.board,
		Clock: verbs.NewMonotonicClock(), Build: "test"})
	r.m.Guard(r.guard)
	r.m.SetPlace(t.TempDir(), "here:1")
	r.m.registry = r.reg
	return r
}

// begin has the node belong to the cluster, until the end of the test.
func (r *room) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.ended <- r.m.Belong(ctx) })
	wg.Go(func() { r.m.WatchLease(ctx) })
	r.t.Cleanup(func() { cancel(); wg.Wait() })
}

// joins waits for the next life.
func (r *room) joins() *fakeSession {
	r.t.Helper()
	select {
	case s := <-r.reg.joined:
		r.tells("joining")
		return s
	case err := <-r.ended:
		r.t.Fatalf("ended with %v", err)
	case <-time.After(patience):
		r.t.Fatal("it does not join")
	}
	return nil
}

// tells waits until the guard is told something next.
func (r *room) tells(want string) {
	r.t.Helper()
	select {
	case got := <-r.guard.told:
		if got != want {
			r.t.Errorf("the guard is told %q, want %q", got, want)
		}
	case <-time.After(patience):
		r.t.Fatalf("the guard is not told %q", want)
	}
}

// until polls for a condition.
func (r *room) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// serving waits until the node may serve.
func (r *room) serving() {
	r.t.Helper()
	r.until("the node serves", func() bool {
		_, err := r.m.Serving()
		return err == nil
	})
}

// phase is what the board says.
func (r *room) phase() string {
	p, reason := r.board.Phase()
	return fmt.Sprintf("%s: %s", p, reason)
}

// events are those of a level.
func (r *room) events(l status.Level) (list []string) {
	for _, e := range r.board.Events() {
		if e.Level == l {
			list = append(list, e.Text)
		}
	}
	return list
}
