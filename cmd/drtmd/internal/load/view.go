package load

import (
	"context"
	"errors"
	"slices"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/placement"
)

// A part whose records have replicas goes on when members go: Pause, then Adopt of the placement without
// them, and in the background recovery, and Fill of what is to be filled here. Whoever knows of the members
// calls these, one at a time; they may be called at any time.

// wholeLook is the pause between two looks whether all replicas are there.
const wholeLook = 5 * time.Millisecond

// Recovery is how far a part is with changes of the members.
type Recovery struct {
	Epoch     uint64         // of the placement in use
	Map       *placement.Map // nil: none was adopted
	Running   bool           // promoted replicas are made ready, transactions of the dead decided
	Undecided int            // transactions of the dead
	// Committed and Aborted are what workers here have decided of them so far, Filled the records that were
	// copied here.
	Committed, Aborted, Filled uint64
	// Took is how long the last change was, from the pause until nothing of the dead was left.
	Took     time.Duration
	FillTook time.Duration // the longest filling of a replica here
	Err      error         // of a recovery that failed: it is not tried again
}

// Pause disconnects members that are gone, and returns when nothing is under way in the part (nil), or when
// ctx ends; it may be called again then. A part that is not in service is paused.
func (p *Part) Pause(ctx context.Context, gone ...proto.NodeID) error {
	s, release := p.inUse()
	defer release()
	if s == nil {
		return nil
	}
	for _, n := range gone { // before a change under way is waited for, which may wait for them
		if err := s.cluster.Disconnect(n); err != nil {
			return err
		}
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.halted {
		return nil
	}
	return s.change(ctx, func() *node.Tasks { return s.cluster.Pause(gone...) })
}

// Adopt has the part use a placement, unless it uses one of a later epoch. Of the same epoch it learns which
// replicas are complete.
func (p *Part) Adopt(ctx context.Context, next *placement.Map) error {
	s, release := p.inUse()
	defer release()
	if s == nil {
		return nil
	}
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.halted {
		return nil
	}
	if s.adopted < next.Epoch {
		if err := s.change(ctx, func() *node.Tasks { return s.cluster.Adopt(next) }); err != nil {
			return err
		}
		s.adopted = next.Epoch
	}
	s.cluster.Replaced(next)
	return nil
}

// change carries out one step of a change. One that has not ended with its ctx is waited for first. With
// changes locked.
func (s *local) change(ctx context.Context, begin func() *node.Tasks) error {
	wait := func(t *node.Tasks) error {
		s.changing = t
		err := t.Wait(ctx)
		if ctx.Err() == nil {
			s.changing = nil
		}
		return err
	}
	if s.changing != nil {
		if err := wait(s.changing); err != nil {
			return err
		}
	}
	return wait(begin())
}

// Fill fills a replica here from the shard's primary. An error may be no more than that the members change.
func (p *Part) Fill(ctx context.Context, n proto.NodeID, shard proto.ShardID) error {
	s, release := p.inUse()
	if s == nil {
		release()
		return errors.New("the part is not in service")
	}
	s.changes.Lock()
	if s.halted {
		s.changes.Unlock()
		release()
		return errHalted
	}
	t, began := s.cluster.Fill(n, shard), time.Now()
	s.changes.Unlock()
	release() // a part that is closed ends its tasks
	err := t.Wait(ctx)
	if err == nil {
		s.changes.Lock()
		s.fillTook = max(s.fillTook, time.Since(began))
		s.changes.Unlock()
	}
	return err
}

var errHalted = errors.New("the part is being closed")

// haltTimeout bounds the end of recoveries and fillings.
const haltTimeout = 2 * time.Second

// halt ends recoveries and fillings, so that the part can be closed. Clients have ended, or are about to.
func (s *local) halt() {
	s.changes.Lock()
	defer s.changes.Unlock()
	if s.halted || s.adopted == 0 {
		return
	}
	s.halted = true
	ctx, cancel := context.WithTimeout(context.Background(), haltTimeout)
	defer cancel()
	_ = s.change(ctx, func() *node.Tasks { return s.cluster.Pause() }) // closing says what has not ended
}

// Recovery looks at every worker. nil: the part is not in service, or its records have no replicas.
func (p *Part) Recovery(ctx context.Context) (*Recovery, error) {
	s, release := p.inUse()
	defer release()
	if s == nil || !s.cluster.Recovers() {
		return nil, nil
	}
	return s.recovery(ctx)
}

func (s *local) recovery(ctx context.Context) (*Recovery, error) {
	r := &Recovery{Map: s.cluster.Members[0].Map()}
	r.Epoch = r.Map.Epoch
	s.changes.Lock()
	r.FillTook = s.fillTook
	s.changes.Unlock()
	err := s.cluster.Inspect(ctx, func(w *node.Worker) {
		running, err := w.Recovering()
		r.Running = r.Running || running || w.Adopted() < r.Epoch
		r.Err = errors.Join(r.Err, err)
		r.Took = max(r.Took, w.Took())
		if e, ok := w.Engine.(proto.Recoverer); ok {
			x := e.Recovery()
			r.Undecided += x.Undecided
			r.Committed += x.Committed
			r.Aborted += x.Aborted
			r.Filled += x.Filled
		}
	})
	return r, err
}

// pending reports whether something of some nodes that are gone is left to recover.
func (r *Recovery) pending(gone []proto.NodeID) bool {
	return r.Running || slices.ContainsFunc(gone, r.Map.Lives)
}

// filling reports whether replicas are not complete.
func (r *Recovery) filling() bool {
	return slices.ContainsFunc(r.Map.Shards, func(x placement.Shard) bool { return len(x.Filling) > 0 })
}

// awaitWhole waits until nothing is left to recover, and all replicas are complete again, without some nodes; at most
// until ctx ends. It reports whether something is left to recover: a replica that is not complete is not judged.
func (s *local) awaitWhole(ctx context.Context, gone []proto.NodeID) (pending bool, err error) {
	for {
		r, err := s.recovery(context.WithoutCancel(ctx))
		if err != nil {
			return false, err
		}
		if pending := r.pending(gone); r.Err != nil || ctx.Err() != nil || !pending && !r.filling() {
			return pending, r.Err
		}
		if err := s.cluster.Sleep(ctx, wholeLook); err != nil && ctx.Err() == nil {
			return false, err
		}
	}
}
