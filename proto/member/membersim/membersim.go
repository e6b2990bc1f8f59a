// Package membersim keeps membership in virtual time: it implements proto/member for simulated
// clusters, with messages that take time, nodes that are cut off from the registry, and a registry
// that stops and comes back. The same world gives the same run.
//
// Everything is called from the world's event loop; nothing here is safe for concurrent use.
package membersim

import (
	"fmt"
	"time"

	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/member"
)

// World is virtual time.
type World interface {
	Now() time.Duration
	// After has f called when so much time has passed, of two at one time the one asked for first.
	After(d time.Duration, f func())
}

// Mutation is a deliberate bug, for tests that show that the suite finds it.
type Mutation uint8

// Mutations.
const (
	None Mutation = iota
	NoFencing
	NoExpiry
	LateUntil
	KeepLost
	StaleShards
)

var mutations = mutation.Table[Mutation]{
	None:        {Name: "none", Doc: "the correct registry"},
	NoFencing:   {Name: "no-fencing", Doc: "views become active without waiting for anybody"},
	NoExpiry:    {Name: "no-expiry", Doc: "leases that have ended are not noticed"},
	LateUntil:   {Name: "late-until", Doc: "a lease counts from the answer of its renewal, not from its question"},
	KeepLost:    {Name: "keep-lost", Doc: "a member does not notice that its own lease has ended"},
	StaleShards: {Name: "stale-shards", Doc: "shard maps follow any version"},
}

func (m Mutation) String() string { return mutations.Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations }

// Config of New.
type Config struct {
	Cluster  string
	Lease    time.Duration
	Delay    time.Duration // of a message to the registry, and of news from it
	Answer   time.Duration // of the answer to a renewal; 0 = Delay
	Mutation Mutation
}

// Registry is what the nodes of a simulated cluster share.
type Registry struct {
	world   World
	cfg     Config
	state   member.State
	leases  map[member.Incarnation]time.Duration // when they end
	nodes   []*Node                              // in the order in which they were made
	stopped bool
	closed  bool
}

// Close ends everything: no renewal is sent, no lease ends, and nobody is told of anything from then on.
func (r *Registry) Close() { r.stopped, r.closed = true, true }

// New makes a registry without members.
func New(w World, cfg Config) *Registry {
	if cfg.Answer == 0 {
		cfg.Answer = cfg.Delay
	}
	return &Registry{world: w, cfg: cfg, state: member.State{Cluster: cfg.Cluster},
		leases: map[member.Incarnation]time.Duration{}}
}

// Node is the registry as one node reaches it.
type Node struct {
	// Asleep, if set, reports whether the node's CPU does not run: it renews no lease then.
	Asleep func() bool

	r        *Registry
	cut      bool
	sessions []*session
}

// Die ends the sessions that the node has: its program is gone, and tells nobody. Leases end when their
// time is over.
func (n *Node) Die() {
	for _, s := range n.sessions {
		s.left = true
	}
	n.sessions = nil
}

// Node makes another one.
func (r *Registry) Node() *Node {
	n := &Node{r: r}
	r.nodes = append(r.nodes, n)
	return n
}

// Cut cuts the node off; Mend lets it back.
func (n *Node) Cut() { n.cut = true }

// Mend lets the node back: it hears of the newest state.
func (n *Node) Mend() {
	n.cut = false
	n.r.notify(n)
}

// Stop stops the registry; Restart lets it go on with what it had stored. Leases get their whole
// time again, as etcd's do.
func (r *Registry) Stop() { r.stopped = true }

// Restart ends Stop.
func (r *Registry) Restart() {
	r.stopped = false
	for i := range r.leases {
		r.renew(i)
	}
	for _, n := range r.nodes {
		r.notify(n)
	}
}

func (n *Node) reachable() error {
	if n.cut || n.r.stopped {
		return fmt.Errorf("%w: in the simulator", member.ErrUnreachable)
	}
	return nil
}

// set takes a state over, and tells every node of it.
func (r *Registry) set(s member.State) {
	if r.cfg.Mutation == NoFencing && s.Pending != nil {
		s.Active, s.Pending, s.Fenced = *s.Pending, nil, nil
	}
	r.state = s
	for _, n := range r.nodes {
		r.notify(n)
	}
}

// notify sends a node the state that is the newest when the message arrives.
func (r *Registry) notify(n *Node) {
	r.world.After(r.cfg.Delay, func() {
		if n.cut || r.stopped {
			return
		}
		for _, s := range n.sessions {
			s.learn(r.state.Clone())
		}
	})
}

// renew has the lease of a life end a lease from now.
func (r *Registry) renew(i member.Incarnation) {
	end := r.world.Now() + r.cfg.Lease
	r.leases[i] = end
	r.world.After(r.cfg.Lease, func() {
		if now, ok := r.leases[i]; ok && now == end && !r.stopped {
			r.expire(i)
		}
	})
}

// expire removes a life whose lease has ended.
func (r *Registry) expire(i member.Incarnation) {
	if r.cfg.Mutation == NoExpiry {
		return
	}
	delete(r.leases, i)
	v := r.state.Newest()
	for _, m := range v.Members {
		if m.Incarnation == i {
			if s, err := r.state.Remove(m); err == nil {
				r.set(s)
			}
		}
	}
}

// Join implements member.Registry.
func (n *Node) Join(c member.Candidate, l member.Listener) (member.Session, error) {
	if err := n.reachable(); err != nil {
		return nil, err
	}
	r := n.r
	next, m, err := r.state.Join(c)
	if err != nil {
		return nil, err
	}
	s := &session{n: n, self: m, listener: l, state: next.Clone(), until: r.world.Now() + r.cfg.Lease}
	n.sessions = append(n.sessions, s)
	r.renew(m.Incarnation)
	r.set(next)
	s.keepAlive()
	s.watch()
	return s, nil
}

// session implements member.Session.
type session struct {
	n        *Node
	self     member.Member
	listener member.Listener
	state    member.State
	until    time.Duration
	lost     error
	left     bool
}

func (s *session) over() bool { return s.lost != nil || s.left }

// keepAlive sends a renewal each third of the lease; a node that sleeps then, soon after it has woken.
func (s *session) keepAlive() { s.renewAfter(s.n.r.cfg.Lease / 3) }

func (s *session) renewAfter(d time.Duration) {
	r := s.n.r
	r.world.After(d, func() {
		if s.over() || r.closed {
			return
		}
		if s.n.Asleep != nil && s.n.Asleep() {
			s.renewAfter(r.cfg.Lease / 24)
			return
		}
		sent := r.world.Now()
		if s.n.reachable() == nil {
			r.world.After(r.cfg.Delay, func() { s.arrive(sent) })
		}
		s.keepAlive()
	})
}

// arrive is a renewal at the registry.
func (s *session) arrive(sent time.Duration) {
	r := s.n.r
	if s.n.reachable() != nil {
		return
	}
	if _, ok := r.leases[s.self.Incarnation]; !ok {
		r.world.After(r.cfg.Delay, func() { s.lose("the registry has given it up") })
		return
	}
	r.renew(s.self.Incarnation)
	r.world.After(r.cfg.Answer, func() {
		if s.n.reachable() != nil || s.over() {
			return
		}
		if r.cfg.Mutation == LateUntil {
			sent = r.world.Now()
		}
		s.until = max(s.until, sent+r.cfg.Lease)
		s.watch()
	})
}

// watch notices the end of the lease by the node's own clock.
func (s *session) watch() {
	r := s.n.r
	until := s.until
	r.world.After(max(until-r.world.Now(), 0), func() {
		if s.until == until && r.cfg.Mutation != KeepLost && !r.closed {
			s.lose("not renewed in time")
		}
	})
}

func (s *session) lose(why string) {
	if s.over() {
		return
	}
	s.lost = fmt.Errorf("%w: %s", member.ErrLeaseLost, why)
	s.listener.LeaseLost(s.lost)
}

// learn takes a state over, if it is another one.
func (s *session) learn(next member.State) {
	if s.over() {
		return
	}
	s.state = next
	if v := next.Newest(); !v.Has(s.self) {
		s.lose(fmt.Sprintf("removed from the cluster in epoch %d", v.Epoch))
		return
	}
	s.listener.Changed(next.Clone())
}

func (s *session) Self() member.Member { return s.self }
func (s *session) State() member.State { return s.state.Clone() }
func (s *session) Lease() (time.Duration, bool) {
	return s.until, !s.over() && (s.n.r.world.Now() < s.until || s.n.r.cfg.Mutation == KeepLost)
}

// change applies a transition for this member.
func (s *session) change(f func(*member.State) (member.State, error)) error {
	switch {
	case s.lost != nil:
		return s.lost
	case s.left:
		return member.ErrNotMember
	}
	if err := s.n.reachable(); err != nil {
		return err
	}
	r := s.n.r
	if v := r.state.Newest(); !v.Has(s.self) {
		return fmt.Errorf("%w: %v", member.ErrNotMember, s.self)
	}
	next, err := f(&r.state)
	if err != nil {
		return err
	}
	s.state = next.Clone()
	r.set(next)
	return nil
}

func (s *session) Fenced(e member.Epoch) error {
	return s.change(func(old *member.State) (member.State, error) { return old.Fence(s.self, e) })
}

func (s *session) SetShards(m member.ShardMap) error {
	return s.change(func(old *member.State) (member.State, error) {
		if s.n.r.cfg.Mutation == StaleShards {
			m.Version = old.Shards.Version + 1
		}
		return old.Assign(m)
	})
}

func (s *session) Return() error {
	return s.change(func(old *member.State) (member.State, error) { return old.Return(s.self) })
}

func (s *session) Filled(shard proto.ShardID) error {
	return s.change(func(old *member.State) (member.State, error) { return old.Fill(s.self, shard) })
}

func (s *session) Remove(m member.Member) error {
	return s.change(func(old *member.State) (member.State, error) {
		next, err := old.Remove(m)
		if err == nil {
			delete(s.n.r.leases, m.Incarnation)
		}
		return next, err
	})
}

func (s *session) Leave() error {
	err := s.change(func(old *member.State) (member.State, error) { return old.Remove(s.self) })
	if err == nil {
		delete(s.n.r.leases, s.self.Incarnation)
	}
	if s.lost != nil {
		err = nil
	}
	s.left = true
	return err
}
