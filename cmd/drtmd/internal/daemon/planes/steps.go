package planes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

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

// Do implements control.Backend: a step of the plane of a version. Older ones than the node knows
// are refused, and a newer one begins with open.
func (p *Planes) Do(ctx context.Context, v member.ShardVersion, request []byte) ([]byte, error) {
	r := &load.Request{}
	if err := json.Unmarshal(request, r); err != nil {
		return nil, fmt.Errorf("the step cannot be read: %w", err)
	}
	if err := p.enter(ctx, v, r); err != nil {
		return nil, err
	}
	if r.Step == load.StepFinish {
		r.History = p.spill()
	}
	begin := p.o.Clock.Now()
	a, err := p.part.Do(ctx, r)
	p.o.Log.Debug("carried out a step", zap.String("step", string(r.Step)), zap.Uint64("shard_map",
		uint64(v)), zap.Duration("took", p.o.Clock.Now()-begin), zap.Error(err))
	if err == nil && r.Step == load.StepGo {
		err = p.adopt(ctx)
	}
	if err == nil {
		err = p.useData(r.Step)
	}
	p.did(v, r, err)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

// History implements control.Backend.
func (p *Planes) History(_ context.Context, v member.ShardVersion, w io.Writer) error {
	if now, _ := p.holds(); v != now {
		return fmt.Errorf("%w: the history of shard map %d, the plane is of %d", member.ErrStale, v, now)
	}
	return copyFile(w, p.spill())
}

// copyFile writes a file's bytes.
func copyFile(w io.Writer, name string) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(w, f)
	return err
}

// holds is the shard map of the plane that the node holds, or is opening. Its primaries are not changed.
func (p *Planes) holds() (member.ShardVersion, member.ShardMap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, p.shards
}

// enter decides whether a step may be carried out.
//
// No queue pair may be connected to a member that is not in the newest view: this node may have
// said already that it is fenced off from it. Open, connect and go are therefore refused if a
// primary of the plane is gone; cutOff closes a plane whose step was let in before it was.
func (p *Planes) enter(ctx context.Context, v member.ShardVersion, r *load.Request) error {
	ending := r.Step == load.StepEnd || r.Step == load.StepFinish || r.Step == load.StepQuit
	s, err := p.o.Members.Serving()
	if err != nil && !ending {
		return err
	}
	now, shards := p.holds()
	switch {
	case v < now:
		return fmt.Errorf("%w: step %s for shard map %d, the plane is of %d", member.ErrStale, r.Step, v,
			now)
	case r.Step == load.StepOpen:
		return p.enterNew(ctx, s, v, r)
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
func (p *Planes) enterNew(ctx context.Context, s member.Session, v member.ShardVersion,
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
	if i := p.part.Info(); i != nil && !i.Open { // its step under way must not be waited for
		cause := fmt.Errorf("%w: shard map %d is newer", member.ErrStale, v)
		if err := p.part.Fence(cause); err != nil {
			return err
		}
	}
	if err := p.part.Close(); err != nil {
		return fmt.Errorf("closing the plane before: %w", err)
	}
	now, others := p.take(v, &st.Shards, r.Data)
	if v <= now {
		return fmt.Errorf("%w: open for shard map %d, the plane is of %d", member.ErrStale, v, now)
	}
	if others {
		p.o.Board.ForgetFailure() // it was of other members
	}
	p.o.Members.Plane(append(slices.Clone(st.Shards.Primary), st.Shards.Leader))
	p.connecting(status.Loading) // loading may take long, and nothing is served meanwhile
	return nil
}

// take makes a version the plane's unless the plane is as new. It gives the version before, and whether
// that had other members.
func (p *Planes) take(v member.ShardVersion, m *member.ShardMap, d *load.Data) (now member.ShardVersion,
	others bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now = p.version; v <= now {
		return now, false
	}
	others = !slices.EqualFunc(p.shards.Primary, m.Primary, member.Member.Same)
	p.version, p.shards, p.data, p.degraded = v, *m, d, nil
	clear(p.filled)
	return now, others
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
			return nil, fmt.Errorf("%w: this node has not received shard map %d: %w",
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
func (p *Planes) did(v member.ShardVersion, r *load.Request, err error) {
	now, shards := p.holds()
	if v != now {
		return // a newer plane is being opened
	}
	switch {
	case err != nil && (r.Step == load.StepOpen || r.Step == load.StepConnect || r.Step == load.StepGo):
		p.o.Board.StepFailed(r.Step, err)
	case err != nil:
	case r.Step == load.StepOpen:
		p.connecting(status.Loading)
	case r.Step == load.StepGo:
		if i := p.part.Info(); i != nil && i.Open && i.Fenced == nil {
			p.serve(v, &shards)
		}
	case r.Step == load.StepStart:
		p.o.Board.Set(status.Running, "")
	case r.Step == load.StepFinish, r.Step == load.StepQuit:
		p.connecting(status.Reloading)
	}
}

// serve says that the node serves its part.
func (p *Planes) serve(v member.ShardVersion, m *member.ShardMap) {
	var self *member.Member
	if s, _ := p.o.Members.Now(); s != nil {
		x := s.Self()
		self = &x
	}
	p.o.Board.Serve(self, v, len(m.Primary))
}
