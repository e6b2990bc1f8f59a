package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/pace"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

const (
	// joinTimeout is how long a node tries to join for the first time.
	joinTimeout = 2 * time.Minute
	// leaseLook is how often the own lease is looked at.
	leaseLook = 50 * time.Millisecond
	// retryWait is between two attempts at what failed.
	retryWait = 500 * time.Millisecond
	// longestWarning is between two warnings that nobody answers.
	longestWarning = 30 * time.Second
)

// Belong keeps the node a member, in one incarnation after the other, until Leave is called or ctx ends.
// An error is why it cannot be one.
func (m *Membership) Belong(ctx context.Context) error {
	id, err := readIdentity(m.dir())
	if err != nil {
		return err
	}
	if id.copied() {
		m.o.Board.Event(status.Warn, fmt.Sprintf("the state folder %s is a copy of another node's: "+
			"joins as a new node", m.dir()))
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-m.left:
			stop()
		case <-ctx.Done():
		}
	}()
	first := time.Now()
	joined := false
	var r refusal
	warn := pace.Pace{Least: retryWait, Most: longestWarning}
	for {
		lost, s, err := m.join(&id)
		if !byMembers(err) {
			r.forget()
		}
		switch {
		case err == nil:
			joined = true
			warn.Reset()
			if !m.stay(ctx, s, lost) {
				return nil
			}
			m.guard.Rest(ctx)
			continue
		case errors.Is(err, member.ErrUnreachable) && (joined || time.Since(first) < joinTimeout):
			phase := status.Joining
			if joined {
				phase = status.Refusing
			}
			m.o.Board.Set(phase, err.Error())
			if warn.Due(time.Now()) {
				m.o.Log.Warn("not a member", zap.Error(err), zap.Duration("next_warning_in", warn.Every()))
			}
		case byMembers(err) && m.refused(&r, err, joined):
		default:
			return fmt.Errorf("joining the cluster: %w%s", err, whatToDo(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryWait):
		}
	}
}

func (m *Membership) dir() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stateDir
}

// join makes the node a member. lost is told that its lease has ended.
func (m *Membership) join(id *identity) (lost <-chan error, s member.Session, err error) {
	m.mu.Lock()
	registry, stateDir, control := m.registry, m.stateDir, m.control
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), m.Lease())
	cluster, err := registry.ClusterID(ctx)
	cancel()
	if err != nil {
		return nil, nil, err
	}
	if id.Cluster != "" && cluster != id.Cluster {
		m.o.Log.Warn("another cluster than in its former life", zap.String("was", id.Cluster),
			zap.String("is", cluster))
		*id = identity{Node: member.AnyNode}
	}
	asked := &m.o.Config.Node
	want := id.Node
	if asked.ID >= 0 {
		want = asked.ID
	}
	c := member.Candidate{Node: want, Name: asked.Hostname(), Control: control, Build: m.o.Build,
		Replaces: id.Incarnation}
	l := &listener{m: m, lost: make(chan error, 1)}
	s, err = registry.Join(c, l)
	if errors.Is(err, member.ErrTaken) && asked.ID < 0 {
		c.Node = member.AnyNode // somebody else got the old one
		s, err = registry.Join(c, l)
	}
	if err != nil {
		return nil, nil, err
	}
	st := s.State()
	*id = identity{Cluster: st.Cluster, Node: int(s.Self().Node), Incarnation: s.Self().Incarnation}
	if err := id.write(stateDir); err != nil {
		m.o.Log.Error("the node's identity was not stored: it will not take its place over after a "+
			"restart", zap.Error(err))
	}
	return l.lost, s, nil
}

// stay is a member until the lease is lost, and then reports true, or until ctx ends.
func (m *Membership) stay(ctx context.Context, s member.Session, lost <-chan error) bool {
	m.guard.Joining()
	select {
	case <-m.anew: // was asked of the former life
	default:
	}
	m.mu.Lock()
	m.session = s
	m.mu.Unlock()
	m.serving.Store(&s)
	m.o.Board.Connecting(status.Loading, "")
	m.o.Board.Event(status.Info, fmt.Sprintf("joined as %v", s.Self()))
	m.hear(s.State)
	again := true
	select {
	case cause := <-lost:
		m.lose(cause)
	case cause := <-m.anew:
		m.lose(cause)
	case <-ctx.Done():
		again = false
	}
	m.serving.Store(nil)
	m.mu.Lock()
	m.session = nil
	m.mu.Unlock()
	if err := s.Leave(); err != nil && !again {
		m.o.Log.Warn("the cluster was not told that this node leaves: its lease has to end", zap.Error(err))
	}
	return again
}

// lose ends a life: the lease has ended, or the node must start anew.
func (m *Membership) lose(cause error) {
	m.o.Board.Set(status.Refusing, cause.Error())
	m.o.Board.Event(status.Error, "refuses to serve: "+cause.Error())
	m.guard.Lost(cause)
}

// WatchLease notices by the own clock that the lease has ended: after the process was stopped, or
// while etcd's client waits for an answer. It returns when ctx ends.
func (m *Membership) WatchLease(ctx context.Context) {
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	var told member.Session
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.mu.Lock()
		s := m.session
		m.mu.Unlock()
		if s == nil || s == told {
			continue
		}
		if _, held := s.Lease(); !held {
			told = s
			m.guard.Fence(fmt.Errorf("%w: %v, by this node's clock", member.ErrLeaseLost, m.Lease()))
		}
	}
}

// listener is told by the registry; its calls do not block.
type listener struct {
	m    *Membership
	lost chan error
}

func (l *listener) Changed(s member.State) { l.m.hear(func() member.State { return s }) }

func (l *listener) LeaseLost(cause error) { l.lost <- cause }
