package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	pb "drtmd/cmd/drtmd/internal/control/controlpb"
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

// stops reports whether this node has been told to stop.
func (d *Daemon) stops() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.draining
}

// awaitServing waits until every member serves again after a run, so that whoever asked for it finds
// the cluster as it was. It ends early if nobody waits, this node stops, or another run begins.
func (d *Daemon) awaitServing(ctx context.Context, r *run, whole bool, out *sender) {
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
		reason, over := d.notServing(ctx, r)
		if over {
			return
		}
		if !said && time.Since(begin) > servingSaid {
			said = true
			notify(out, "info", "waits until the cluster serves again: "+reason)
		}
	}
	reason, over := d.notServing(ctx, r)
	if !over {
		notify(out, "warn", "the cluster does not serve again yet: "+reason)
	}
}

func notify(out *sender, level, text string) {
	out.tell(&pb.RunEvent{Event: &pb.RunEvent_Notice{Notice: &pb.Notice{Level: level, Text: text}}})
}

// notServing says which member does not serve yet after a run, and why; over: all do, or nobody will.
func (d *Daemon) notServing(ctx context.Context, r *run) (reason string, over bool) {
	d.mu.Lock()
	phase, why := d.phase, d.reason
	over = d.draining || d.run != nil || d.session == nil
	behind := d.shards.Run == r.name || d.state.Shards.Run == r.name || d.version != d.state.Shards.Version
	d.mu.Unlock()
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
	others := d.others()
	answers := make([]status.Node, len(others))
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i, m := range others {
		wg.Go(func() { answers[i] = d.askOne(ctx, m) })
	}
	wg.Wait()
	for _, n := range answers {
		if n.Phase != status.Ready && n.Phase != status.Running && n.Phase != status.Draining {
			return fmt.Sprintf("node %d (%s) is %s: %s", n.Member.Node, n.Member.Name, n.Phase, n.Reason),
				false
		}
	}
	return "", true
}
