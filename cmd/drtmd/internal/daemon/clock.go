package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/node"
	"drtmd/verbs"
)

// machineName is equal for processes that share CLOCK_MONOTONIC: those of one boot of one machine,
// in one time namespace.
func machineName() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		host, _ := os.Hostname() // "" is never equal to a name with a boot
		return "unknown boot of " + host
	}
	space, _ := os.Readlink("/proc/self/ns/time") // kernels before 5.6 have one
	return strings.TrimSpace(string(boot)) + " " + space
}

const (
	// clockSamples begin a clock.
	clockSamples = 32
	// clockEvery is between two refreshes. Each asks once, and again as long as the error is more
	// than it should be, up to clockAsks times: the best answer counts.
	clockEvery = 100 * time.Millisecond
	clockAsks  = 6
	// clockLate is how many times its bound the error must be until the node says so.
	clockLate = 4
	// calm is how long a clock must have been without fault until its next one is the first again.
	calm = time.Minute
)

// clockSync is the clock of a plane: the machine's own, or one that follows the leader's, where
// that is on another machine.
type clockSync struct {
	bound  time.Duration
	leader string            // control address of who is followed
	clock  *node.SyncedClock // nil: the machine's own
	stop   context.CancelFunc
	ended  chan struct{}
}

// planeClock is the clock of the plane that a leader asks for: the machine's own if the leader
// lives on it, else one that follows the leader's, which is asked over the control plane.
//
// Both are CLOCK_MONOTONIC: reading it is no system call, and no setting of the time moves it. It
// stands still while a host is suspended, and while a virtual machine is paused. CLOCK_BOOTTIME
// would count the former only, and costs a system call. Either way the clock then contradicts the
// leader's, and the node starts anew. A process that is merely stopped has a clock that goes on.
func (d *Daemon) planeClock(r *load.Request) (verbs.Clock, time.Duration, error) {
	d.stopClock()
	if r.Machine == d.machine {
		c, bound, err := node.NewMachineClock(time.Duration(r.EpochNs))
		if err == nil {
			d.setClock(&clockSync{bound: bound})
		}
		return c, bound, err
	}
	c, err := d.client(r.Leader)
	if err != nil {
		return nil, 0, err
	}
	var samples []node.ClockSample
	for range clockSamples {
		s, machine, err := d.ask(c)
		if err != nil {
			return nil, 0, fmt.Errorf("the leader's clock: %w", err)
		}
		if machine != r.Machine {
			return nil, 0, fmt.Errorf("the daemon at %s is not the leader of this plane", r.Leader)
		}
		samples = append(samples, s)
	}
	synced, err := node.NewSyncedClock(d.clock, time.Duration(r.EpochNs), samples, clockEvery)
	if err != nil {
		return nil, 0, fmt.Errorf("the clock of the leader at %s: %w", r.Leader, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &clockSync{bound: synced.Bound(), leader: r.Leader, clock: synced, stop: cancel,
		ended: make(chan struct{})}
	d.setClock(s)
	go d.keepClock(ctx, s, c)
	return synced, synced.Bound(), nil
}

func (d *Daemon) setClock(s *clockSync) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sync = s
}

// keepClock asks for the leader's clock again and again. One that contradicts its samples takes the
// node out of service; one that is not well known makes leases longer, and is told of.
func (d *Daemon) keepClock(ctx context.Context, s *clockSync, c *control.Client) {
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
		unanswered, wrong := d.refreshClock(ctx, s, c)
		if wrong != nil {
			d.clockFailed(fmt.Errorf("%w of the leader at %s: %w", errClock, s.leader, wrong))
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
			d.event(status.Warn, text)
		case late && now <= s.bound:
			late = false
			d.event(status.Info, fmt.Sprintf("the clock is known to %v again", now))
		}
	}
}

// errClock is why a node with an impossible clock takes itself out of service.
var errClock = errors.New("this node's clock contradicts that")

// refreshClock takes a fresh sample, or some. unanswered is why there was none; wrong is what is
// wrong with the clock.
func (d *Daemon) refreshClock(ctx context.Context, s *clockSync, c *control.Client) (unanswered,
	wrong error) {
	for range clockAsks {
		sample, _, err := d.ask(c)
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

// clockFailed has the node start anew, as another incarnation. Its clock serves no lease any more
// since the sample was taken; fencing ends everything else that the plane does.
func (d *Daemon) clockFailed(cause error) {
	d.fence(cause)
	now := d.clock.Now()
	d.mu.Lock()
	if now-d.clockFault > calm {
		d.clockFaults = 0
	}
	d.clockFault = now
	d.clockFaults++
	d.mu.Unlock()
	select {
	case d.anew <- cause:
	default: // it is told already
	}
}

// settle waits before a node joins again whose clock has failed: longer each time, since every
// member has to load its tables again, and a clock that is being set needs a while.
func (d *Daemon) settle(ctx context.Context) {
	d.mu.Lock()
	wait := time.Duration(0)
	if d.clockFaults > 1 && d.clock.Now()-d.clockFault < calm {
		wait = min(retryWait<<min(d.clockFaults, 8), longestWait)
	}
	d.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-d.drain:
	case <-time.After(wait):
	}
}

// askTime asks another daemon for its clock, once.
func (d *Daemon) askTime(c *control.Client) (node.ClockSample, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s := node.ClockSample{Sent: d.clock.Now()}
	now, machine, err := c.Time(ctx)
	s.Received, s.Remote = d.clock.Now(), time.Duration(now)
	return s, machine, err
}

// stopClock ends what keeps the clock of the plane before.
func (d *Daemon) stopClock() {
	d.mu.Lock()
	s := d.sync
	d.sync = nil
	d.mu.Unlock()
	if s != nil && s.clock != nil {
		s.stop()
		<-s.ended
	}
}

// describeClock is how well the plane's clock is known, and how long its leases last.
func (d *Daemon) describeClock(i *load.Info) *status.Clock {
	d.mu.Lock()
	s := d.sync
	leader := d.shards.Leader
	d.mu.Unlock()
	if s == nil {
		return nil
	}
	c := &status.Clock{Error: s.bound.Seconds(), Bound: s.bound.Seconds(),
		Lease: i.Lease.Seconds(), LeaseReadOnly: i.LeaseReadOnly.Seconds()}
	if s.clock == nil {
		return c
	}
	n := int(leader.Node)
	c.Follows, c.Error, c.Age = &n, s.clock.Error().Seconds(), s.clock.Sampled().Seconds()
	c.Drift, c.DriftError = s.clock.Drift()
	return c
}
