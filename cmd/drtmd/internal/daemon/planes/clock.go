package planes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/node"
	"drtmd/verbs"
)

const (
	// clockSamples begin a clock.
	clockSamples = 32
	// clockEvery is between two refreshes. Each asks once, and again as long as the error is more
	// than it should be, up to clockAsks times: the best answer counts.
	clockEvery = 100 * time.Millisecond
	clockAsks  = 6
	// clockAnswer is how long is waited for an answer. The first samples of a clock may take clockPatience each: a
	// leader that is slow for once must not keep a plane from being built.
	clockAnswer   = time.Second
	clockPatience = 10 * time.Second
	// clockLate is how many times its bound the error must be until the node says so.
	clockLate = 4
	// calm is how long a clock must have been without fault until its next one is the first again.
	calm = time.Minute
)

// clocks are those of a node's planes, one at a time.
type clocks struct {
	p *Planes

	mu   sync.Mutex // guards what follows
	sync *clockSync // of the plane; nil: none
	// faults are how often the clock was wrong of late, fault when it was last.
	faults int
	fault  time.Duration
}

// clockSync is the clock of a plane: the machine's own, or one that follows the leader's, where
// that is on another machine.
type clockSync struct {
	bound  time.Duration
	leader string            // control address of who is followed
	clock  *node.SyncedClock // nil: the machine's own
	stop   context.CancelFunc
	ended  chan struct{}
}

// open gives the clock of the plane that a leader asks for, in place of the one before, and its error.
func (c *clocks) open(ctx context.Context, r *load.Request) (verbs.Clock, time.Duration, error) {
	c.stop()
	clock, bound, err := c.make(ctx, r)
	if wrap := c.p.o.WrapClock; err == nil && wrap != nil {
		clock = wrap(clock)
	}
	return clock, bound, err
}

// make gives the machine's own clock if the leader lives on it, else one that follows the leader's,
// which is asked over the control plane.
//
// Both are CLOCK_MONOTONIC: reading it is no system call, and no setting of the time moves it. It
// stands still while a host is suspended, and while a virtual machine is paused. CLOCK_BOOTTIME
// would count the former only, and costs a system call. Either way the clock then contradicts the
// leader's, and the node starts anew. A process that is merely stopped has a clock that goes on.
func (c *clocks) make(ctx context.Context, r *load.Request) (verbs.Clock, time.Duration, error) {
	if r.Machine == c.p.o.Machine {
		clock, bound, err := node.NewMachineClock(time.Duration(r.EpochNs))
		if err == nil {
			c.set(&clockSync{bound: bound})
		}
		return clock, bound, err
	}
	client, err := c.p.o.Members.Client(r.Leader)
	if err != nil {
		return nil, 0, err
	}
	var samples []node.ClockSample
	for range clockSamples {
		s, machine, err := c.ask(ctx, client, clockPatience)
		if err != nil {
			return nil, 0, fmt.Errorf("the leader's clock: %w", err)
		}
		if machine != r.Machine {
			return nil, 0, fmt.Errorf("the daemon at %s is not the leader of this plane", r.Leader)
		}
		samples = append(samples, s)
	}
	synced, err := node.NewSyncedClock(c.p.o.Clock, time.Duration(r.EpochNs), samples, clockEvery)
	if err != nil {
		return nil, 0, fmt.Errorf("the clock of the leader at %s: %w", r.Leader, err)
	}
	life, cancel := context.WithCancel(context.Background())
	s := &clockSync{bound: synced.Bound(), leader: r.Leader, clock: synced, stop: cancel,
		ended: make(chan struct{})}
	c.set(s)
	go c.keep(life, s, client)
	return synced, synced.Bound(), nil
}

func (c *clocks) set(s *clockSync) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sync = s
}

// keep asks for the leader's clock again and again. One that contradicts its samples takes the
// node out of service; one that is not well known makes leases longer, and is told of.
func (c *clocks) keep(ctx context.Context, s *clockSync, client *control.Client) {
	defer close(s.ended)
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	late := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		unanswered, wrong := c.refresh(ctx, s, client)
		if wrong != nil {
			c.failed(fmt.Errorf("%w of the leader at %s: %w", errClock, s.leader, wrong))
			return
		}
		if ctx.Err() != nil { // the plane is closed: the leader has not failed to answer
			return
		}
		switch now := s.clock.Error(); {
		case !late && now > clockLate*s.bound:
			late = true
			text := fmt.Sprintf("the clock may be wrong by %v, expected were %v: leases last longer "+
				"until it is known better", now, s.bound)
			if unanswered != nil {
				text += fmt.Sprintf("; the leader at %s does not answer: %v", s.leader, unanswered)
			}
			c.p.o.Board.Event(status.Warn, text)
		case late && now <= s.bound:
			late = false
			c.p.o.Board.Event(status.Info, fmt.Sprintf("the clock is known to %v again", now))
		}
	}
}

// errClock is why a node with an impossible clock takes itself out of service.
var errClock = errors.New("this node's clock contradicts that")

// refresh takes a fresh sample, or some. unanswered is why there was none; wrong is what is
// wrong with the clock.
func (c *clocks) refresh(ctx context.Context, s *clockSync, client *control.Client) (unanswered,
	wrong error) {
	for range clockAsks {
		sample, _, err := c.ask(ctx, client, clockAnswer)
		if err != nil || ctx.Err() != nil {
			return err, nil
		}
		if err := s.clock.Add(sample); err != nil {
			return nil, err
		}
		if s.clock.Error() <= s.bound {
			return nil, nil
		}
	}
	return nil, nil
}

// failed has the node start anew, as another incarnation. Its clock serves no lease any more
// since the sample was taken; fencing ends everything else that the plane does.
func (c *clocks) failed(cause error) {
	c.p.Fence(cause)
	now := c.p.o.Clock.Now()
	c.mu.Lock()
	if now-c.fault > calm {
		c.faults = 0
	}
	c.fault = now
	c.faults++
	c.mu.Unlock()
	c.p.o.Members.StartAnew(cause)
}

// pause is how long a node waits before it joins again: longer each time that its clock fails, since
// every member has to load its tables again, and a clock that is being set needs a while.
func (c *clocks) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults > 1 && c.p.o.Clock.Now()-c.fault < calm {
		return min(retryWait<<min(c.faults, 8), longestWait)
	}
	return 0
}

// rest waits for that, at most until ctx ends.
func (c *clocks) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(c.pause()):
	}
}

// ask asks another daemon for its clock, once, and waits for so long.
func (c *clocks) ask(ctx context.Context, client *control.Client, wait time.Duration) (node.ClockSample, string, error) {
	if before := c.p.o.BeforeAsk; before != nil {
		if err := before(); err != nil {
			return node.ClockSample{}, "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	s := node.ClockSample{Sent: c.p.o.Clock.Now()}
	now, machine, err := client.Time(ctx)
	s.Received, s.Remote = c.p.o.Clock.Now(), time.Duration(now)
	return s, machine, err
}

// stop ends what keeps the clock of the plane before.
func (c *clocks) stop() {
	c.mu.Lock()
	s := c.sync
	c.sync = nil
	c.mu.Unlock()
	if s != nil && s.clock != nil {
		s.stop()
		<-s.ended
	}
}

// describe is how well the plane's clock is known, and how long its leases last.
func (c *clocks) describe(i *load.Info, leader int) *status.Clock {
	c.mu.Lock()
	s := c.sync
	c.mu.Unlock()
	if s == nil {
		return nil
	}
	x := &status.Clock{Error: s.bound.Seconds(), Bound: s.bound.Seconds(),
		Lease: i.Lease.Seconds(), LeaseReadOnly: i.LeaseReadOnly.Seconds()}
	if s.clock == nil {
		return x
	}
	x.Follows, x.Error, x.Age = &leader, s.clock.Error().Seconds(), s.clock.Sampled().Seconds()
	x.Drift, x.DriftError = s.clock.Drift()
	return x
}
