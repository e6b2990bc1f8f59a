package membership

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	pb "drtmd/cmd/drtmd/internal/control/controlpb"
	"drtmd/cmd/drtmd/internal/daemon/board"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
	"drtmd/verbs"
)

// Guard is told what membership means for what this node serves.
type Guard interface {
	// Joining comes before each life: nothing of the one before is of use any more.
	Joining()
	// Changed comes after each change of the state. It does not block.
	Changed()
	// Fence takes what the node serves out of service at once.
	Fence(cause error)
	// Lost ends what the node leads, and fences it: its life as this member is over.
	Lost(cause error)
	// Rest waits until the node may join again, at most until ctx ends.
	Rest(ctx context.Context)
}

// Registry is where the node becomes a member: etcdmember.Registry.
type Registry interface {
	member.Registry
	ClusterID(ctx context.Context) (string, error)
	Close() error
}

// Options of New.
type Options struct {
	Log      *zap.Logger
	Config   *config.Config
	Board    *board.Board
	Security *control.Security // nil without TLS
	Clock    verbs.Clock       // of leases
	Build    string
	// EtcdCommand is a command line that calls etcdmember.RunChild: the embedded etcd is a process of its
	// own. Empty: it runs in this process.
	EtcdCommand []string
}

// Membership is a node's. The zero value is of no use: see New.
type Membership struct {
	o        Options
	guard    Guard         // set by Guard, before Open
	contacts contacts      // has a lock of its own
	anew     chan error    // the node has to join again, for this cause; holds one
	givenUp  chan struct{} // closed by GiveUp
	giveUp   sync.Once     // closes givenUp
	left     chan struct{} // closed by Leave
	leave    sync.Once     // closes left

	mu       sync.Mutex // guards what follows
	control  string     // address of the node's control plane
	stateDir string
	lease    time.Duration // the configuration's, or the cluster's that it joins
	registry Registry
	etcdURLs []string
	etcd     embeddedEtcd // nil: this node embeds none
	slowDisk string       // in words, of the embedded etcd; "" while it is fast
	session  member.Session
	state    member.State
	watched  []*watch

	// serving is the session, nil without one. Transactions read it without a lock.
	serving atomic.Pointer[member.Session]
}

// watch is somebody who wants to know when a member is gone.
type watch struct {
	m member.Member
	f func()
}

// New makes the membership of a node that has not joined.
func New(o Options) *Membership {
	m := &Membership{o: o, lease: o.Config.Cluster.Lease, anew: make(chan error, 1),
		givenUp: make(chan struct{}), left: make(chan struct{})}
	m.contacts.dial = func(address string) (*control.Client, error) {
		return control.Dial(address, control.DialOptions{Security: o.Security, Caller: m.Caller,
			Advice: "start that node again"})
	}
	return m
}

// Guard says whom to tell, before Open.
func (m *Membership) Guard(g Guard) { m.guard = g }

// SetPlace notes where the node keeps what lasts, and the address of its control plane.
func (m *Membership) SetPlace(stateDir, control string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stateDir, m.control = stateDir, control
}

// Lease is how long the node stays a member unheard of.
func (m *Membership) Lease() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease
}

// GiveUp ends Open early: the node is to stop.
func (m *Membership) GiveUp() { m.giveUp.Do(func() { close(m.givenUp) }) }

// Leave has the node leave the cluster: Belong returns.
func (m *Membership) Leave() { m.leave.Do(func() { close(m.left) }) }

// StartAnew has the node join again, as another incarnation. The caller has fenced what it serves.
func (m *Membership) StartAnew(cause error) {
	select {
	case m.anew <- cause:
	default: // it is told already
	}
}

// State is of the registry, as the node has last heard of it.
func (m *Membership) State() member.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Clone()
}

// Now is the session, nil while the node is no member, and the state.
func (m *Membership) Now() (member.Session, member.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session, m.state.Clone()
}

// Self is the member that the node is; false: it is none.
func (m *Membership) Self() (member.Member, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return member.Member{}, false
	}
	return m.session.Self(), true
}

// Serving is the session of a node that may serve, or why it may not.
func (m *Membership) Serving() (member.Session, error) {
	p := m.serving.Load()
	if p == nil {
		_, reason := m.o.Board.Phase()
		return nil, fmt.Errorf("%w: this node is no member now (%s)", member.ErrLeaseLost, reason)
	}
	s := *p
	if _, held := s.Lease(); !held {
		return nil, fmt.Errorf("%w: this node refuses until it has joined again", member.ErrLeaseLost)
	}
	return s, nil
}

// Others are the members of the newest view without this one; none if it is no member.
func (m *Membership) Others() (list []member.Member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return nil
	}
	v := m.state.Newest()
	for _, x := range v.Members {
		if !x.Same(m.session.Self()) {
			list = append(list, x)
		}
	}
	return list
}

// Fenced acknowledges the pending view of an epoch: the node is fenced off from everybody who is not in
// it.
func (m *Membership) Fenced(s member.Session, e member.Epoch) error {
	err := s.Fenced(e)
	m.hear(s.State)
	return err
}

// hear takes a newer state, and tells of it.
func (m *Membership) hear(newer func() member.State) {
	m.mu.Lock()
	m.state = newer()
	gone := m.goneLocked()
	m.mu.Unlock()
	for _, w := range gone {
		w.f()
	}
	m.guard.Changed()
}

// goneLocked takes out who waits for members that are in no view any more.
func (m *Membership) goneLocked() (gone []*watch) {
	v := m.state.Newest()
	m.watched = slices.DeleteFunc(m.watched, func(w *watch) bool {
		if v.Has(w.m) {
			return false
		}
		gone = append(gone, w)
		return true
	})
	return gone
}

// OnGone has f called once when the member is in no view any more; stop ends that. f must not block.
func (m *Membership) OnGone(x member.Member, f func()) (stop func()) {
	w := &watch{m: x, f: f}
	m.mu.Lock()
	here := m.state.Newest()
	in := here.Has(x)
	if in {
		m.watched = append(m.watched, w)
	}
	m.mu.Unlock()
	if !in {
		f()
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watched = slices.DeleteFunc(m.watched, func(x *watch) bool { return x == w })
	}
}

// Caller is who this node is in its calls.
func (m *Membership) Caller() control.Caller {
	c := control.Caller{Build: m.o.Build}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session != nil {
		c.IsMember, c.Cluster, c.Epoch, c.Self = true, m.state.Cluster, m.state.Active.Epoch,
			m.session.Self()
	}
	return c
}

// Check implements control.Backend: a member of another cluster, or one that was removed, may do
// nothing here. One whose view is behind is not refused for that: what it asks for has a version.
func (m *Membership) Check(c control.Caller) error {
	if !c.IsMember {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return nil // it knows no newer epoch
	}
	v := m.state.Newest()
	switch {
	case c.Cluster != m.state.Cluster:
		return fmt.Errorf("%w: %v is of cluster %s, this node of %s", member.ErrNotMember, c.Self,
			c.Cluster, m.state.Cluster)
	case !v.Has(c.Self) && c.Epoch < v.Epoch:
		return fmt.Errorf("%w: %v calls from epoch %d, it is %d without it", member.ErrNotMember, c.Self,
			c.Epoch, v.Epoch)
	}
	return nil
}

// Admit implements control.Backend.
func (m *Membership) Admit(_ context.Context, r *pb.AdmitRequest) (*pb.AdmitReply, error) {
	m.mu.Lock()
	cluster, ok, urls, lease := m.state.Cluster, m.session != nil, m.etcdURLs, m.lease
	m.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%w: this node is not a member yet", member.ErrUnreachable)
	}
	c := m.o.Config
	if r.Transport != c.Transport.Provider {
		return nil, fmt.Errorf("the cluster's transport is %s, not %s: give it the same "+
			"--transport", c.Transport.Provider, r.Transport)
	}
	return &pb.AdmitReply{Cluster: c.Cluster.Name + "/" + cluster, Etcd: urls,
		Transport: c.Transport.Provider, LeaseS: lease.Seconds()}, nil
}

// Name is the member that this node is, or its name if it is none.
func (m *Membership) Name() string {
	if self, ok := m.Self(); ok {
		return self.String()
	}
	return m.o.Config.Node.Hostname()
}

// EmbedsEtcd reports whether the registry goes with this node.
func (m *Membership) EmbedsEtcd() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.etcd != nil
}

// Describe implements board.Describer.
func (m *Membership) Describe(_ context.Context, n *status.Node) {
	m.mu.Lock()
	s, stateDir := m.session, m.stateDir
	n.Epoch, n.HoldsEtcd, n.SlowDisk = m.state.Active.Epoch, m.etcd != nil, m.slowDisk
	n.Lease = m.lease.Seconds()
	n.Member = member.Member{Name: m.o.Config.Node.Hostname(), Control: m.control, Build: m.o.Build}
	m.mu.Unlock()
	if s != nil {
		n.Member = s.Self()
		if until, held := s.Lease(); held {
			n.LeaseLeft = (until - m.o.Clock.Now()).Seconds()
		}
	} else if id, err := readIdentity(stateDir); err == nil && id.Node >= 0 {
		n.Member.Node, n.Member.Incarnation = proto.NodeID(id.Node), id.Incarnation
	}
}
