package planes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/composition"
	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/daemon/board"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
	"drtmd/proto/placement"
	"drtmd/verbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the wait for what has to happen; the machine may be slow.
const patience = time.Minute

// trace is what a room has asked its neighbours for, in order.
type trace struct {
	mu   sync.Mutex // guards what follows
	list []string
}

func (x *trace) add(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.list = append(x.list, fmt.Sprintf(format, args...))
}

func (x *trace) take() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := x.list
	x.list = nil
	return list
}

// cluster is the registry, and what stands for membership: every session sees its state at once.
type cluster struct {
	*trace
	session *session
	mu      sync.Mutex // guards what follows
	state   member.State
	self    member.Member
	member  bool
	held    bool // the lease
	watched map[*func()]member.Member
	others  map[proto.NodeID]status.Phase // what they answer; absent: ready
	silent  int                           // that many members do not answer when they are asked next
	clients map[string]*control.Client    // by address
	kept    map[proto.NodeID]*status.Data // what they keep
}

func (c *cluster) Self() member.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.self
}

func (c *cluster) State() member.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Clone()
}

func (c *cluster) Now() (member.Session, member.State) {
	st := c.State()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.member {
		return nil, st
	}
	return c.session, st
}

func (c *cluster) Serving() (member.Session, error) {
	s, _ := c.Now()
	if s == nil {
		return nil, member.ErrLeaseLost
	}
	if _, held := s.Lease(); !held {
		return nil, member.ErrLeaseLost
	}
	return s, nil
}

func (c *cluster) Fenced(_ member.Session, e member.Epoch) error {
	c.add("acknowledge epoch %d", e)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Fenced = append(c.state.Fenced, c.self.Node)
	return nil
}

func (c *cluster) Others() (list []member.Member) {
	self := c.Self()
	for _, m := range c.State().Active.Members {
		if !m.Same(self) {
			list = append(list, m)
		}
	}
	return list
}

func (c *cluster) Ask(_ context.Context, list []member.Member) (nodes []status.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range list {
		n := status.Node{Member: m, Phase: status.Ready, Reason: "as the test says", Data: c.kept[m.Node],
			Plane: &status.Plane{Version: c.state.Shards.Version}}
		if p, ok := c.others[m.Node]; ok {
			n.Phase = p
		}
		if c.silent > 0 {
			c.silent--
			n.Phase = status.Gone
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func (c *cluster) OnGone(m member.Member, f func()) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched[&f] = m
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watched, &f)
	}
}

func (c *cluster) Client(address string) (*control.Client, error) {
	if x := c.clients[address]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("no client of %s in this test", address)
}

func (c *cluster) Plane(list []member.Member) { c.add("plane of %d members", len(list)-1) }
func (c *cluster) StartAnew(cause error)      { c.add("start anew: %v", cause) }
func (c *cluster) Lease() time.Duration       { return 2 * time.Second }

// change changes the state.
func (c *cluster) change(f func(*member.State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
}

// leave has the node be no member any more.
func (c *cluster) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member = false
}

// session is this node's.
type session struct{ c *cluster }

func (s *session) Self() member.Member { return s.c.Self() }
func (s *session) State() member.State { return s.c.State() }
func (s *session) Lease() (time.Duration, bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return time.Hour, s.c.held
}
func (s *session) Fenced(member.Epoch) error  { return errors.New("not by the planes") }
func (s *session) Remove(member.Member) error { return errors.New("not by the planes") }
func (s *session) Leave() error               { return errors.New("not by the planes") }
func (s *session) Return() error              { return errors.New("not by the planes") }
func (s *session) Filled(shard proto.ShardID) error {
	s.c.add("filled %d", shard)
	return nil
}

func (s *session) SetShards(m member.ShardMap) error {
	s.c.add("write shard map %d in the name of node %d, run %q", m.Version, m.Leader.Node, m.Run)
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if m.Version != s.c.state.Shards.Version+1 {
		return member.ErrStale
	}
	s.c.state.Shards = m
	return nil
}

// fakePart does nothing, and says so.
type fakePart struct {
	*trace
	mu    sync.Mutex // guards what follows
	info  *load.Info
	wrong map[string]error // what fails, by the first word of the trace

	adopted  *placement.Map        // the steward's own
	recovery load.Recovery         // what it is told
	troubles []string              // what its engines say of peers
	busy     func(context.Context) // called while its workers do not say what they have counted; nil: they do
}

func (p *fakePart) err(what string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrong[what]
}

func (p *fakePart) set(i *load.Info) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.info = i
}

func (p *fakePart) Do(_ context.Context, r *load.Request) (*load.Answer, error) {
	p.add("do %s", r.Step)
	if err := p.err(string(r.Step)); err != nil {
		return nil, err
	}
	switch r.Step {
	case load.StepOpen:
		p.set(&load.Info{})
	case load.StepGo:
		p.set(&load.Info{Open: true})
	}
	return &load.Answer{}, nil
}

func (p *fakePart) Disconnect(n proto.NodeID, _ error) error {
	p.add("disconnect %d", n)
	return p.err("disconnect")
}

func (p *fakePart) Fence(cause error) error {
	p.add("fence")
	p.mu.Lock()
	if p.info != nil {
		i := *p.info
		i.Fenced = cause
		p.info = &i
	}
	p.mu.Unlock()
	return p.err("fence")
}

func (p *fakePart) Close() error {
	p.add("close")
	p.set(nil)
	return p.err("close")
}

func (p *fakePart) Info() *load.Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info
}

func (p *fakePart) Pause(_ context.Context, gone ...proto.NodeID) error {
	p.add("pause without %v", gone)
	return p.err("pause")
}

func (p *fakePart) Adopt(_ context.Context, next *placement.Map) error {
	if p.adopted == nil || p.adopted.Epoch < next.Epoch {
		p.add("adopt epoch %d", next.Epoch)
	}
	if err := p.err("adopt"); err != nil {
		return err
	}
	p.adopted = next
	return nil
}

func (p *fakePart) Fill(_ context.Context, n proto.NodeID, shard proto.ShardID) error {
	p.add("fill shard %d on %d", shard, n)
	return p.err("fill")
}

func (p *fakePart) Recovery(context.Context) (*load.Recovery, error) {
	if p.adopted == nil {
		return nil, nil
	}
	r := p.recovery
	r.Epoch, r.Map = p.adopted.Epoch, p.adopted
	return &r, nil
}

func (p *fakePart) Alive(context.Context) error                    { return p.err("alive") }
func (p *fakePart) Metrics(context.Context) (*load.Metrics, error) { return nil, nil }
func (p *fakePart) Orphans(context.Context) (load.Orphans, error)  { return load.Orphans{}, nil }
func (p *fakePart) Troubles(context.Context) ([]string, error)     { return p.troubles, nil }

// Counters is of workers that do not answer in time, if busy is there.
func (p *fakePart) Counters(ctx context.Context) (*load.Metrics, error) {
	if p.busy != nil {
		p.busy(ctx)
		return nil, context.DeadlineExceeded
	}
	return nil, nil
}

// room is planes alone: their neighbours are fakes that note in one trace what they are asked.
type room struct {
	*trace
	t     *testing.T
	p     *Planes
	c     *cluster
	part  *fakePart
	board *board.Board
	built chan error // gives each attempt to build its result; closed: nil
}

// lives are members of the tests' clusters.
func lives(nodes ...int) (list []member.Member) {
	for _, n := range nodes {
		list = append(list, member.Member{Node: proto.NodeID(n), Incarnation: member.Incarnation(n + 1),
			Name: fmt.Sprintf("n%d", n)})
	}
	return list
}

// newRoom is of node 0 in a cluster of nodes 0 to 2, in epoch 4, which holds the plane of shard map 3.
func newRoom(t *testing.T) *room {
	t.Helper()
	x := &trace{}
	m := lives(0, 1, 2)
	r := &room{trace: x, t: t, built: make(chan error), part: &fakePart{trace: x,
		wrong: map[string]error{}}, c: &cluster{trace: x, self: m[0], member: true, held: true,
		watched: map[*func()]member.Member{}, others: map[proto.NodeID]status.Phase{},
		state: member.State{Active: member.View{Epoch: 4, Members: m},
			Shards: member.ShardMap{Version: 3, Primary: m, Leader: m[0]}}}}
	r.c.session = &session{r.c}
	r.part.info = &load.Info{Open: true}
	r.board = board.New(board.Options{Log: zap.NewNop(), Notifier: &service.Notifier{},
		Stdout: &discard{}})
	cfg := config.Default(composition.BuiltIn())
	r.p = New(Options{Log: zap.NewNop(), Config: &cfg, Board: r.board, Members: r.c,
		Clock: verbs.NewMonotonicClock(), Machine: "here", Part: r.part,
		Threads: func(int, int) int { return 1 },
		Build: func(_ context.Context, o load.PeerOptions) error {
			x.add("build on %d nodes", o.Nodes)
			return <-r.built
		}})
	r.p.version, r.p.shards, r.p.claimed, r.p.rebuild = 3, r.c.state.Shards, 3, false
	r.p.SetPlace("here:1", t.TempDir())
	return r
}

type discard struct{}

func (*discard) Write(b []byte) (int, error) { return len(b), nil }

// react has the steward look once, and waits for the plane that it may have begun to build.
func (r *room) react(results ...error) {
	r.t.Helper()
	r.p.react(r.t.Context())
	for _, err := range results {
		select {
		case r.built <- err:
		case <-time.After(patience):
			r.t.Fatalf("no plane is built; asked for so far: %q", r.take())
		}
	}
	r.p.Wait()
}

// did compares what the neighbours were asked for since the last time.
func (r *room) did(want ...string) {
	r.t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		r.t.Errorf("asked for\n%q, want\n%q", got, want)
	}
}

// events are the texts of a level.
func (r *room) events(l status.Level) (list []string) {
	for _, e := range r.board.Events() {
		if e.Level == l {
			list = append(list, e.Text)
		}
	}
	return list
}
