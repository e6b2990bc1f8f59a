package planes

import (
	"context"
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/status"
)

const (
	// servingTimeout is how long a run that has ended waits until the cluster serves again, and
	// brokenTimeout the same after one that has lost a member, could not be settled, or failed.
	servingTimeout = 30 * time.Second
	brokenTimeout  = 3 * time.Second
	// servingSaid is after which of it the caller is told.
	servingSaid = 2 * time.Second
)

// awaitServing waits until every member serves again after a run, so that whoever asked for it finds
// the cluster as it was. It ends early if nobody waits, this node stops, or another run begins.
func (p *Planes) awaitServing(ctx context.Context, r *run, whole bool, out *sender) {
	begin, said := time.Now(), false
	bound := servingTimeout
	if !whole {
		bound = brokenTimeout
	}
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	for time.Since(begin) < bound {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		reason, over := p.notServing(ctx, r)
		if over {
			return
		}
		if !said && time.Since(begin) > servingSaid {
			said = true
			out.info("waits until the cluster serves again: " + reason)
		}
	}
	reason, over := p.notServing(ctx, r)
	if !over {
		out.notify("warn", "the cluster does not serve again yet: "+reason)
	}
}

// notServing says which member does not serve yet after a run, and why; over: all do, or nobody will.
func (p *Planes) notServing(ctx context.Context, r *run) (reason string, over bool) {
	s, st := p.o.Members.Now()
	phase, why := p.o.Board.Phase()
	p.mu.Lock()
	over = p.draining || p.run != nil || s == nil
	behind := p.shards.Run == r.name || st.Shards.Run == r.name || p.version != st.Shards.Version
	p.mu.Unlock()
	switch {
	case over:
		return "", true
	case phase == status.Running: // somebody else's run has begun
		return "", !behind
	case phase != status.Ready:
		return fmt.Sprintf("this node is %s: %s", phase, why), false
	case behind:
		return "the tables are about to be loaded again", false
	}
	for _, n := range p.o.Members.Ask(ctx, p.o.Members.Others()) {
		if n.Phase != status.Ready && n.Phase != status.Running && n.Phase != status.Draining {
			return fmt.Sprintf("node %d (%s) is %s: %s", n.Member.Node, n.Member.Name, n.Phase, n.Reason),
				false
		}
	}
	return "", true
}
