package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto/member"
)

const (
	// learnTimeout is how long a step of a newer shard map than the node knows waits for the
	// registry to tell the node of it, and learnLook is how often it looks.
	learnTimeout = 5 * time.Second
	learnLook    = 10 * time.Millisecond
)

// enter decides whether a step may be carried out.
//
// No queue pair may be connected to a member that is not in the newest view: this node may have
// said already that it is fenced off from it. Open, connect and go are therefore refused if a
// primary of the plane is gone; cutOff closes a plane whose step was let in before it was.
func (d *Daemon) enter(ctx context.Context, v member.ShardVersion, r *load.Request) error {
	ending := r.Step == load.StepEnd || r.Step == load.StepFinish || r.Step == load.StepQuit
	s, err := d.member()
	if err != nil && !ending {
		return err
	}
	d.mu.Lock()
	now, shards := d.version, d.shards
	d.mu.Unlock()
	switch {
	case v < now:
		return fmt.Errorf("%w: step %s for shard map %d, the plane is of %d", member.ErrStale, r.Step, v,
			now)
	case r.Step == load.StepOpen:
		return d.enterNew(ctx, s, v, r)
	case v > now:
		return fmt.Errorf("%w: step %s for shard map %d, which was not opened here: the plane is of %d",
			member.ErrStale, r.Step, v, now)
	case r.Step == load.StepConnect || r.Step == load.StepGo:
		st := s.State()
		return allThere(&st, &shards)
	}
	return nil
}

// enterNew begins a plane of a newer version. The one before is closed first, so that partitions
// are those of the plane that has queue pairs.
func (d *Daemon) enterNew(ctx context.Context, s member.Session, v member.ShardVersion,
	r *load.Request) error {
	st, err := learn(ctx, s, v)
	if err != nil {
		return err
	}
	for _, n := range r.Members {
		if int(n) >= len(st.Shards.Primary) || !st.Shards.Primary[n].Same(s.Self()) {
			return fmt.Errorf("open: partition %d of shard map %d is not held by %v", n, v, s.Self())
		}
	}
	if err := allThere(st, &st.Shards); err != nil {
		return err
	}
	if i := d.part.Info(); i != nil && !i.Open { // its step under way must not be waited for
		cause := fmt.Errorf("%w: shard map %d is newer", member.ErrStale, v)
		if err := d.part.Fence(cause); err != nil {
			return err
		}
	}
	if err := d.part.Close(); err != nil {
		return fmt.Errorf("closing the plane before: %w", err)
	}
	d.mu.Lock()
	now := d.version
	if v > now {
		if !slices.EqualFunc(d.shards.Primary, st.Shards.Primary, member.Member.Same) {
			d.failed = "" // it was of other members
		}
		d.version, d.shards, d.degraded = v, st.Shards, nil
	}
	d.mu.Unlock()
	if v <= now {
		return fmt.Errorf("%w: open for shard map %d, the plane is of %d", member.ErrStale, v, now)
	}
	d.connecting(status.Loading) // loading may take long, and nothing is served meanwhile
	return nil
}

// learn waits until the node knows the shard map of a version, which has to be the newest.
func learn(ctx context.Context, s member.Session, v member.ShardVersion) (*member.State, error) {
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	for {
		switch st := s.State(); {
		case st.Shards.Version == v:
			return &st, nil
		case st.Shards.Version > v:
			return nil, fmt.Errorf("%w: open for shard map %d, the newest is %d", member.ErrStale, v,
				st.Shards.Version)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: shard map %d has not come to this node: %w",
				member.ErrUnreachable, v, context.Cause(ctx))
		case <-time.After(learnLook):
		}
	}
}

// allThere is nil if every primary is in the newest view.
func allThere(st *member.State, m *member.ShardMap) error {
	v := st.Newest()
	for i, p := range m.Primary {
		if !v.Has(p) {
			return fmt.Errorf("%w: %v, which holds partition %d of shard map %d, is not in epoch %d",
				member.ErrStale, p, i, m.Version, v.Epoch)
		}
	}
	return nil
}

// did notes what a step has changed.
func (d *Daemon) did(v member.ShardVersion, r *load.Request, err error) {
	d.mu.Lock()
	stale := v != d.version
	d.mu.Unlock()
	if stale {
		return // a newer plane is being opened
	}
	switch {
	case err != nil && (r.Step == load.StepOpen || r.Step == load.StepConnect || r.Step == load.StepGo):
		d.setPhase(status.Connecting, err.Error())
		level := status.Warn
		if errors.Is(err, context.Canceled) { // whoever asked for it has gone
			level = status.Info
		}
		text := fmt.Sprintf("%s: %v", r.Step, err)
		d.mu.Lock()
		if level == status.Warn && !errors.Is(err, member.ErrStale) {
			d.failed = err.Error()
		}
		due := d.undone.due(time.Now(), text)
		d.mu.Unlock()
		if due {
			d.event(level, text)
		}
	case err != nil:
	case r.Step == load.StepOpen:
		d.connecting(status.Loading)
	case r.Step == load.StepGo:
		if i := d.part.Info(); i != nil && i.Open && i.Fenced == nil {
			d.serve()
		}
	case r.Step == load.StepStart:
		d.setPhase(status.Running, "")
	case r.Step == load.StepFinish, r.Step == load.StepQuit:
		d.connecting(status.Reloading)
	}
}
