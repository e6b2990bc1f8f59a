package drtm

import (
	"errors"
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/verbs/fiber"
)

// Publishing and subscribing (§4.2). The last piece of a publisher is deferred: it waits at the barrier of the machine
// (protocol.Barrier), and commits there together with those of all publishers of the epoch. Subscribers of the epoch end
// before, and those of the next one begin behind.
//
// It differs from the paper in this:
//
//   - There, a publisher is answered before its results are published, and a subscriber applies what others have left
//     behind. Here the publisher's fiber waits, and runs the piece itself: it has the log and the entry of the history.
//     So a publisher takes place at the barrier, and a crash before that leaves a chain that recovery finishes.
//   - There, a worker that has copied its results goes on in the new epoch while others are still in the old one. A
//     publisher of the new epoch could then change a record before one of the old epoch does, and be published behind
//     it. Here no publisher begins between the end of an epoch and its publication.
//
// The barrier is one machine's. So publishers and subscribers access its records only, or their transaction is refused.

// ErrElsewhere is wrapped by the error of a publisher or subscriber that accesses a record of another machine.
var ErrElsewhere = errors.New("publishers and subscribers access records of their own node only")

// barrierEpochs bounds how many epochs a transaction waits for the barrier before the attempt counts as aborted.
const barrierEpochs = 8

// Pauses between two looks at the barrier, doubling from one to the other.
const (
	barrierPauseFirst = 2 * time.Microsecond
	barrierPauseMost  = 64 * time.Microsecond
)

// admit has a publisher or subscriber enter the barrier.
func (e *Engine) admit(f *fiber.Fiber, p protocol.Part) (protocol.Part, error) {
	if p == protocol.Subscribing && e.lacks(SubscriberUnaware) {
		return 0, nil
	}
	f.Step("drtm: at barrier")
	pause := barrierPauseFirst
	for deadline := f.Now() + barrierEpochs*e.cfg.PublishEvery; !e.cfg.Barrier.Enter(p); {
		if err := e.pauseAtBarrier(f, &pause, deadline); err != nil {
			return 0, err
		}
	}
	return p, nil
}

func (e *Engine) pauseAtBarrier(f *fiber.Fiber, pause *time.Duration, deadline time.Duration) error {
	if f.Now() > deadline {
		return proto.Aborting(proto.ReasonConflict)
	}
	was := *pause
	*pause = min(2*was, barrierPauseMost)
	return f.Sleep(was)
}

// subscribe is admit for an attempt of a whole transaction.
func (e *Engine) subscribe(f *fiber.Fiber, d *proto.Decl) (protocol.Part, error) {
	if !e.cfg.Chopped || d.AtBarrier != proto.Subscribes {
		return 0, nil
	}
	return e.admit(f, protocol.Subscribing)
}

// meet does what a piece has to do at the barrier before it begins.
func (t *tx) meet(f *fiber.Fiber, d *proto.Decl) (err error) {
	c := &t.chain
	switch {
	case d.AtBarrier == 0 || c.Resumed: // nobody subscribes yet
	case d.AtBarrier == proto.Subscribes:
		if t.part == 0 {
			t.part, err = t.e.admit(f, protocol.Subscribing)
		}
	case !c.Last():
		if t.part == 0 {
			t.part, err = t.e.admit(f, protocol.Publishing)
		}
	default:
		invariant.Assert(c.Binding && t.part != 0, "a publisher has nothing to show before its deferred piece")
		return t.awaitBarrier(f)
	}
	return err
}

// awaitBarrier waits until the deferred piece may run.
func (t *tx) awaitBarrier(f *fiber.Fiber) error {
	e, b := t.e, t.e.cfg.Barrier
	if e.lacks(NoBarrier) {
		return nil
	}
	if t.part == protocol.Publishing {
		b.Defer()
		t.part = protocol.Pending
	}
	pause := barrierPauseFirst
	for deadline := f.Now() + barrierEpochs*e.cfg.PublishEvery; !b.Due(f.Now(), e.cfg.PublishEvery, e.flaw()); {
		if err := e.pauseAtBarrier(f, &pause, deadline); err != nil {
			return err
		}
	}
	f.Step("drtm: before publishing")
	return nil
}

// flaw is the deliberate bug of the barrier.
func (e *Engine) flaw() protocol.BarrierFlaw {
	switch {
	case e.lacks(BarrierIgnoresPublishers):
		return protocol.IgnorePublishers
	case e.lacks(BarrierIgnoresSubscribers):
		return protocol.IgnoreSubscribers
	}
	return 0
}

// leaveBarrier ends what the transaction does there.
func (t *tx) leaveBarrier() {
	if t.part != 0 {
		t.e.cfg.Barrier.Leave(t.part)
		t.part = 0
	}
}

// athome refuses a publisher or subscriber that accesses records of another machine.
func (t *tx) athome(d *proto.Decl) error {
	if d.AtBarrier == 0 || !t.e.cfg.Chopped {
		return nil
	}
	for i := range t.Records {
		if r := &t.Records[i]; r.Node != t.e.Env.Node {
			return fmt.Errorf("%w: node %d, table %q, key %d, of node %d", ErrElsewhere, t.e.Env.Node,
				t.e.Env.Specs[r.Table-1].Name, r.Key, r.Node)
		}
	}
	return nil
}
