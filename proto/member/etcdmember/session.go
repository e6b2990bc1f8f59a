package etcdmember

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"drtmd/proto"
	"drtmd/proto/member"
)

// session implements member.Session.
type session struct {
	r     *Registry
	self  member.Member
	lease clientv3.LeaseID
	// cluster is member.State.Cluster when it joined. An etcd that has lost its data numbers lives
	// anew: self could be somebody else's there.
	cluster string
	ctx     context.Context // ends with the session
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu    sync.Mutex // guards what follows
	wake  *sync.Cond // of the listener's goroutine
	state member.State
	until time.Duration
	lost  error // why the lease has ended; nil while it is held
	left  bool
	news  bool // the listener has not seen state yet

	// ends is until, while the lease is neither lost nor left; then 0. Transactions read it without a lock.
	ends atomic.Int64
}

// Join implements member.Registry. It takes at most a few leases. The session's Leave has to be
// called, also when the lease is lost, but not from one of l's calls, which it waits for.
func (r *Registry) Join(c member.Candidate, l member.Listener) (member.Session, error) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{r: r, ctx: ctx, cancel: cancel}
	s.wake = sync.NewCond(&s.mu)
	if err := s.join(c); err != nil {
		cancel()
		return nil, err
	}
	s.wg.Add(3)
	go s.keepAlive()
	go s.watch()
	go s.tell(l)
	return s, nil
}

func (s *session) join(c member.Candidate) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.r.joinTimeout())
	defer cancel()
	sent := s.r.cfg.Clock.Now()
	granted, err := s.r.client.Grant(ctx, int64(s.r.cfg.Lease/time.Second))
	if err != nil {
		return s.r.unreachable(err)
	}
	s.lease = granted.ID
	s.holdUntil(sent + s.r.cfg.Lease)
	var former *member.Member
	s.state, err = s.r.change(ctx, func(old *stored) (member.State, error) {
		// If everybody has died, there is nobody else to see it.
		living, err := s.r.withoutExpired(old)
		if err != nil {
			return living, err
		}
		next, m, err := living.Join(c)
		s.self, former = m, nil
		if f, ok := living.Newest().Find(m.Node); ok {
			former = &f
		}
		return next, err
	}, func() []clientv3.Op {
		ops := []clientv3.Op{clientv3.OpPut(s.r.aliveKey(s.self), s.self.Control,
			clientv3.WithLease(s.lease))}
		if former != nil {
			ops = append(ops, clientv3.OpDelete(s.r.aliveKey(*former)))
		}
		return ops
	})
	if err != nil {
		// The change may have been made although its answer did not come: a time of its own for
		// this. The lease ends by itself as well.
		ctx, cancel := context.WithTimeout(s.ctx, s.r.callTimeout())
		defer cancel()
		_, _ = s.r.client.Revoke(ctx, s.lease)
		return err
	}
	s.cluster, s.news = s.state.Cluster, true
	return nil
}

func (s *session) Self() member.Member { return s.self }

func (s *session) State() member.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Clone()
}

func (s *session) Lease() (until time.Duration, held bool) {
	if until = time.Duration(s.ends.Load()); until != 0 {
		return until, s.r.cfg.Clock.Now() < until
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until, false
}

// holdUntil takes a later end of the lease. Locked.
func (s *session) holdUntil(t time.Duration) {
	if s.until = t; s.lost == nil && !s.left {
		s.ends.Store(int64(t))
	}
}

// held is nil, or says that the membership is over.
func (s *session) held() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.lost != nil:
		return s.lost
	case s.left:
		return member.ErrNotMember
	}
	return nil
}

// change changes the state as this member.
func (s *session) change(f transition, more func() []clientv3.Op) error {
	if err := s.held(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.r.changeTimeout())
	defer cancel()
	next, err := s.r.change(ctx, func(old *stored) (member.State, error) {
		if !old.state.Newest().Has(s.self) || old.state.Cluster != s.cluster {
			return old.state, fmt.Errorf("%w: %v", member.ErrNotMember, s.self)
		}
		return f(old)
	}, more)
	if err == nil {
		s.learn(next)
	}
	return err
}

func (s *session) Fenced(e member.Epoch) error {
	return s.change(func(old *stored) (member.State, error) { return old.state.Fence(s.self, e) }, nil)
}

func (s *session) SetShards(m member.ShardMap) error {
	return s.change(func(old *stored) (member.State, error) { return old.state.Assign(m) }, nil)
}

func (s *session) Return() error {
	return s.change(func(old *stored) (member.State, error) { return old.state.Return(s.self) }, nil)
}

func (s *session) Filled(shard proto.ShardID) error {
	return s.change(func(old *stored) (member.State, error) { return old.state.Fill(s.self, shard) }, nil)
}

func (s *session) Remove(m member.Member) error {
	return s.change(func(old *stored) (member.State, error) { return old.state.Remove(m) },
		func() []clientv3.Op { return []clientv3.Op{clientv3.OpDelete(s.r.aliveKey(m))} })
}

func (s *session) Leave() error {
	s.mu.Lock()
	first, lost := !s.left, s.lost
	s.left = true // what the watch says from here on is no loss
	s.ends.Store(0)
	s.wake.Broadcast()
	s.mu.Unlock()
	var err error
	if first && lost == nil {
		ctx, cancel := context.WithTimeout(context.Background(), s.r.cfg.Lease)
		_, err = s.r.change(ctx, func(old *stored) (member.State, error) {
			return old.state.Remove(s.self)
		}, func() []clientv3.Op { return []clientv3.Op{clientv3.OpDelete(s.r.aliveKey(s.self))} })
		_, _ = s.r.client.Revoke(ctx, s.lease) // it ends by itself as well
		cancel()
	}
	s.cancel()
	s.wg.Wait()
	if errors.Is(err, member.ErrNotMember) {
		return nil
	}
	return err
}

// learn takes a state over, if it is newer than what is known.
func (s *session) learn(next member.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !newer(&next, &s.state) || s.lost != nil || s.left {
		return
	}
	s.state, s.news = next, true
	if !next.Newest().Has(s.self) {
		s.lose(fmt.Errorf("%w: removed from the cluster in epoch %d", member.ErrLeaseLost,
			next.Newest().Epoch))
	}
	s.wake.Broadcast()
}

// newer compares states by what only grows.
func newer(a, b *member.State) bool {
	x, y := a.Newest().Epoch, b.Newest().Epoch
	switch {
	case x != y:
		return x > y
	case a.Active.Epoch != b.Active.Epoch:
		return a.Active.Epoch > b.Active.Epoch
	case a.Shards.Version != b.Shards.Version:
		return a.Shards.Version > b.Shards.Version
	}
	if x, y := filling(a), filling(b); x != y {
		return x < y
	}
	return len(a.Fenced) > len(b.Fenced)
}

// filling is how many replicas are not complete: that only falls while the view is the same.
func filling(s *member.State) (n int) {
	if p := s.Shards.Placement; p != nil {
		for i := range p.Shards {
			n += len(p.Shards[i].Filling)
		}
	}
	return n
}

// lose ends the membership for a reason. Locked.
func (s *session) lose(why error) {
	if s.lost == nil && !s.left {
		s.lost = why
		s.ends.Store(0)
		s.wake.Broadcast()
		s.cancel()
	}
}

// keepAlive renews the lease each quarter of it, and gives it up when it has ended.
func (s *session) keepAlive() {
	defer s.wg.Done()
	every := s.r.callTimeout()
	var last error
	left := func() time.Duration {
		until, _ := s.Lease()
		return max(until-s.r.cfg.Clock.Now(), 0)
	}
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(min(every, left())):
		}
		sent := s.r.cfg.Clock.Now()
		ctx, cancel := context.WithTimeout(s.ctx, min(s.r.callTimeout(), left()))
		a, err := s.r.client.KeepAliveOnce(ctx, s.lease)
		cancel()
		every = s.r.callTimeout()
		s.mu.Lock()
		switch {
		case s.r.cfg.Clock.Now() >= s.until:
			// An answer that comes late, to a process that was stopped, revives nothing: Lease has
			// said that it is over.
			last = err
		case err == nil && a.TTL > 0:
			s.holdUntil(sent + time.Duration(a.TTL)*time.Second)
			last = nil
		case errors.Is(err, rpctypes.ErrLeaseNotFound):
			s.lose(fmt.Errorf("%w: etcd has given it up", member.ErrLeaseLost))
		default:
			last = err
			every = s.r.cfg.Lease / 12 // soon again: the lease may be saved
			s.r.cfg.Log.Warn("membership lease was not renewed", zap.Error(err),
				zap.Duration("left", s.until-s.r.cfg.Clock.Now()))
		}
		if now := s.r.cfg.Clock.Now(); now >= s.until {
			why := fmt.Errorf("%w: not renewed within %v", member.ErrLeaseLost, s.r.cfg.Lease)
			if last != nil {
				why = fmt.Errorf("%w: %w", why, s.r.unreachable(last))
			}
			s.lose(why)
		}
		s.mu.Unlock()
	}
}

// watch follows the state, and removes members whose lease has ended.
func (s *session) watch() {
	defer s.wg.Done()
	for s.ctx.Err() == nil {
		if err := s.follow(); err != nil && s.ctx.Err() == nil {
			s.r.cfg.Log.Debug("watching the cluster's state again", zap.Error(err))
			select {
			case <-s.ctx.Done():
			case <-time.After(s.r.cfg.Lease / 12):
			}
		}
	}
}

// follow reads the state and follows its changes until the watch ends.
func (s *session) follow() error {
	ctx, cancel := context.WithTimeout(s.ctx, s.r.callTimeout())
	now, err := s.r.load(ctx)
	cancel()
	if err != nil {
		return err
	}
	if now.revision == 0 {
		return fmt.Errorf("etcd holds no state of cluster %s any more", s.r.cfg.Cluster)
	}
	s.see(now)
	ctx, cancel = context.WithCancel(s.ctx)
	defer cancel()
	changes := s.r.client.Watch(clientv3.WithRequireLeader(ctx), s.r.prefix(),
		clientv3.WithPrefix(), clientv3.WithRev(now.at+1))
	for c := range changes {
		if err := c.Err(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.r.callTimeout())
		now, err := s.r.load(ctx) // a few keys: simpler than to piece them together
		cancel()
		if err != nil {
			return err
		}
		if now.revision != 0 {
			s.see(now)
		}
	}
	return errors.New("the watch has ended")
}

// see takes over what was read, and removes the members whose lease has ended. Others do it as well:
// the first one succeeds.
func (s *session) see(now *stored) {
	s.learn(now.state)
	dead := 0
	for _, m := range now.state.Newest().Members {
		if !now.alive[s.r.aliveKey(m)] {
			dead++
		}
	}
	if dead == 0 || !now.alive[s.r.aliveKey(s.self)] {
		return
	}
	err := s.change(s.r.withoutExpired, nil)
	if err != nil && !errors.Is(err, member.ErrNotMember) && s.ctx.Err() == nil {
		s.r.cfg.Log.Warn("members whose lease has ended were not removed", zap.Int("members", dead),
			zap.Error(err))
	}
}

// tell makes the listener's calls.
func (s *session) tell(l member.Listener) {
	defer s.wg.Done()
	for {
		s.mu.Lock()
		for !s.news && s.lost == nil && !s.left {
			s.wake.Wait()
		}
		lost, left, now := s.lost, s.left, s.state.Clone()
		s.news = false
		s.mu.Unlock()
		switch {
		case left:
			return
		case lost != nil:
			l.LeaseLost(lost)
			return
		}
		l.Changed(now)
	}
}
