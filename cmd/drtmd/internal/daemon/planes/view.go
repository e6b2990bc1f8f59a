package planes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/proto"
	"drtmd/proto/member"
	"drtmd/proto/placement"
)

// A plane whose records have replicas outlives its members. On a pending view each node pauses its part
// before it acknowledges the view; when the view is active, the part adopts the placement of the shard map,
// recovers in the background, and fills the replicas that the node has to fill.

const (
	// changeTimeout is for how long the steward waits for a step of a change; then it looks again.
	changeTimeout = time.Second
	// stuckPause is after how long a node gives up that cannot pause: it joins again.
	stuckPause = 15 * time.Second
	// inheritTries are how often a new leader asks the others whether they hold their parts, retryWait apart.
	inheritTries = 10
)

// told is what the steward has told of the plane's recovery.
type told struct {
	epoch   uint64 // whose placement is in use
	running bool
	failed  bool
}

// goesOn reports whether the part that the node holds is of the newest shard map, and outlives members.
func (p *Planes) goesOn(st *member.State) bool {
	version, _ := p.holds()
	if st.Shards.Placement == nil || version != st.Shards.Version {
		return false
	}
	i := p.part.Info()
	return i != nil && i.Open && i.Recovers && i.Fenced == nil
}

// pausePart pauses the part without the nodes that are gone, and reports whether it is paused.
func (p *Planes) pausePart(ctx context.Context, st *member.State, gone []proto.NodeID) bool {
	now := p.o.Clock.Now()
	if p.pausing == 0 {
		p.pausing = now
	}
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	p.views.Lock()
	err := p.part.Pause(ctx, gone...)
	p.views.Unlock()
	switch {
	case err == nil:
		p.pausing = 0
		return true
	case now-p.pausing > stuckPause:
		p.pausing = 0
		cause := fmt.Errorf("the plane could not be paused for epoch %d within %v: %w", st.Pending.Epoch,
			stuckPause, err)
		p.Fence(cause)
		p.o.Members.StartAnew(cause)
	case ctx.Err() == nil:
		p.o.Log.Error("the plane is not paused", zap.Error(err))
	}
	return false
}

// adopt has the part use the placement of the active view, unless another view is pending: the node may
// have said already that it is paused for that.
func (p *Planes) adopt(ctx context.Context) error {
	p.views.Lock()
	defer p.views.Unlock()
	st := p.o.Members.State()
	if st.Pending != nil || !p.goesOn(&st) {
		return nil
	}
	return p.part.Adopt(ctx, st.Shards.Placement)
}

// follow takes the part to the active view, and reports whether something of it is left to do.
func (p *Planes) follow(ctx context.Context, s member.Session, st *member.State) (busy bool) {
	if !p.goesOn(st) {
		p.noteRecovery(nil)
		return false
	}
	soon, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	if err := p.adopt(soon); err != nil {
		p.o.Log.Warn("the placement is not in use yet", zap.Uint64("epoch", st.Shards.Placement.Epoch),
			zap.Error(err))
		return true
	}
	late, cancelLate := context.WithTimeout(ctx, askTimeout)
	defer cancelLate()
	r, err := p.part.Recovery(late)
	if err != nil || r == nil {
		return true
	}
	p.noteRecovery(r)
	p.tellRecovery(r, st)
	if r.Running || r.Err != nil || r.Epoch != st.Shards.Placement.Epoch {
		return r.Err == nil
	}
	return p.fill(ctx, s, st)
}

// noteRecovery notes how far the part is, for the status.
func (p *Planes) noteRecovery(r *load.Recovery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recovery = r
}

// tellRecovery tells of the beginning and the end of a recovery.
func (p *Planes) tellRecovery(r *load.Recovery, st *member.State) {
	t := &p.told
	first := t.epoch == 0 || t.epoch > r.Epoch
	if r.Epoch != t.epoch && !first {
		t.running = true
		p.tellLost(r.Map)
	}
	t.epoch = r.Epoch
	switch {
	case r.Err != nil && !t.failed:
		p.o.Board.Event(status.Error, fmt.Sprintf("recovery in epoch %d has failed: %v", r.Epoch, r.Err))
	case t.running && !r.Running && r.Err == nil && len(st.Shards.Placement.Out) > 0:
		p.o.Board.Event(status.Info, fmt.Sprintf("epoch %d: recovered within %v; transactions of nodes that are "+
			"gone: %d committed here, %d aborted", r.Epoch, r.Took.Round(100*time.Microsecond), r.Committed,
			r.Aborted))
	}
	t.running, t.failed = r.Running, r.Err != nil
}

// tellLost names the shards without a replica.
func (p *Planes) tellLost(m *placement.Map) {
	for _, shard := range m.Lost() {
		p.lack(status.Error, fmt.Sprintf("shard %d is lost: all its replicas are gone; transactions that need it "+
			"are refused until the tables are loaded again", shard))
	}
}

// fill begins to fill a replica of this node that is not complete, one at a time, and reports whether there
// is one.
func (p *Planes) fill(ctx context.Context, s member.Session, st *member.State) bool {
	self := slices.IndexFunc(st.Shards.Primary, s.Self().Same)
	if self < 0 {
		return false
	}
	n := proto.NodeID(self)
	m := st.Shards.Placement
	p.mu.Lock()
	at := -1
	for shard := range m.Shards {
		// The state may not say yet what was filled.
		if slices.Contains(m.Shards[shard].Filling, n) && p.filled[proto.ShardID(shard)] != m.Epoch {
			at = shard
			break
		}
	}
	busy := p.filling
	p.filling = p.filling || at >= 0
	p.mu.Unlock()
	if at < 0 {
		return busy
	}
	if busy {
		return true
	}
	p.calls.Go(func() {
		p.fillOne(ctx, s, n, proto.ShardID(at), m.Epoch)
		p.mu.Lock()
		p.filling = false
		p.mu.Unlock()
		p.Changed()
	})
	return true
}

func (p *Planes) fillOne(ctx context.Context, s member.Session, n proto.NodeID, shard proto.ShardID,
	epoch uint64) {
	begin := p.o.Clock.Now()
	err := p.part.Fill(ctx, n, shard)
	if err == nil {
		err = s.Filled(shard)
	}
	if err != nil { // most likely the view has changed; the steward tries again
		p.o.Log.Info("a replica is not filled yet", zap.Uint16("shard", uint16(shard)), zap.Error(err))
		select {
		case <-ctx.Done():
		case <-time.After(retryWait / 5):
		}
		return
	}
	p.mu.Lock()
	p.filled[shard] = epoch
	p.mu.Unlock()
	p.o.Board.Event(status.Info, fmt.Sprintf("has a complete replica of shard %d, filled within %v", shard,
		(p.o.Clock.Now()-begin).Round(time.Millisecond)))
}

// outlives reports whether the plane that serves goes on with the active members: nobody of them is without
// a part, and no shard is lost. It may be that other members do not hold their parts: see inherit.
func (p *Planes) outlives(st *member.State) bool {
	m := st.Shards.Placement
	if st.Shards.Run != "" || !p.goesOn(st) || len(m.Lost()) > 0 {
		return false
	}
	return !slices.ContainsFunc(st.Active.Members, func(x member.Member) bool {
		i := slices.IndexFunc(st.Shards.Primary, x.Same)
		return i < 0 || !m.Lives(proto.NodeID(i))
	})
}

// inherit asks the others whether they hold their parts of a plane that another leader, who is gone, has
// built.
func (p *Planes) inherit(ctx context.Context, st *member.State) bool {
	for range inheritTries {
		silent := false
		for _, n := range p.o.Members.Ask(ctx, p.o.Members.Others()) {
			switch {
			case n.Phase == status.Gone:
				silent = true
			case n.Phase != status.Ready || n.Plane == nil || n.Plane.Version != st.Shards.Version:
				return false
			}
		}
		if !silent {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retryWait):
		}
		if now := p.o.Members.State(); now.Newest().Epoch != st.Active.Epoch {
			return true // another view, and another look
		}
	}
	return false
}

// takeOver goes on with a plane that another leader has built, or builds one.
func (p *Planes) takeOver(ctx context.Context, s member.Session, st *member.State) {
	if !p.inherit(ctx, st) {
		p.tryBuild(ctx, s, st)
		return
	}
	p.mu.Lock()
	p.built, p.building = st.Shards.Version, false
	p.mu.Unlock()
	p.o.Board.Event(status.Info, fmt.Sprintf("leads now; the plane of shard map %d goes on", st.Shards.Version))
}

// leased reports whether this node may serve.
func (p *Planes) leased() bool {
	_, err := p.o.Members.Serving()
	return !errors.Is(err, member.ErrLeaseLost)
}
