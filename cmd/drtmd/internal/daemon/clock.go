package daemon

import (
	"context"
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
	// clockSamples begin a clock, and clockEvery is between two more of them.
	clockSamples = 32
	clockEvery   = 200 * time.Millisecond
	// clockSlack is how much the error may grow beyond that of the first samples.
	clockSlack = time.Millisecond
)

// clockSync keeps the clock of a plane at the leader's, on another machine.
type clockSync struct {
	clock *node.SyncedClock
	stop  context.CancelFunc
	ended chan struct{}
}

// planeClock is the clock of the plane that a leader asks for: the machine's own if the leader
// lives on it, else one that follows the leader's, which is asked over the control plane.
func (d *Daemon) planeClock(r *load.Request) (verbs.Clock, time.Duration, error) {
	d.stopClock()
	if r.Machine == d.machine {
		return node.NewMachineClock(time.Duration(r.EpochNs))
	}
	c, err := d.client(r.Leader)
	if err != nil {
		return nil, 0, err
	}
	var samples []node.ClockSample
	for range clockSamples {
		s, machine, err := d.askTime(c)
		if err != nil {
			return nil, 0, fmt.Errorf("the leader's clock: %w", err)
		}
		if machine != r.Machine {
			return nil, 0, fmt.Errorf("the daemon at %s is not the leader of this plane", r.Leader)
		}
		samples = append(samples, s)
	}
	epoch := time.Duration(r.EpochNs)
	synced, err := node.NewSyncedClock(d.clock, epoch, samples, clockSlack)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &clockSync{clock: synced, stop: cancel, ended: make(chan struct{})}
	d.mu.Lock()
	d.sync = s
	d.mu.Unlock()
	go d.keepClock(ctx, s, c, epoch)
	return synced, synced.Bound(), nil
}

// keepClock asks for the leader's clock again and again, and fences the plane if its error becomes
// more than its leases count with.
func (d *Daemon) keepClock(ctx context.Context, s *clockSync, c *control.Client,
	epoch time.Duration) {
	defer close(s.ended)
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sample, _, err := d.askTime(c)
		if err == nil {
			s.clock.AddSince(epoch, sample)
		}
		if now, bound := s.clock.Error(), s.clock.Bound(); now > bound {
			cause := fmt.Errorf("the clock may be wrong by %v, and leases count with %v", now, bound)
			if err != nil {
				cause = fmt.Errorf("%w; the leader does not answer: %w", cause, err)
			}
			d.event(status.Error, cause.Error())
			d.fence(cause)
			return
		}
	}
}

func (d *Daemon) askTime(c *control.Client) (node.ClockSample, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clockEvery*5)
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
	if s != nil {
		s.stop()
		<-s.ended
	}
}
