package drtm

import (
	"time"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// Transactions in pieces (§4). Each piece is a transaction of transaction.go with its own locks, leases and region;
// all of them are one transaction object, one outcome and one entry of the history. The first piece that changes
// something binds: the others are run until they commit.
//
// Searches of indexes that do not change (§4.3) need no piece of their own: locate makes those of every piece outside
// of its region, which only checks what was found.
//
// Who reads only, in rounds or with leases, takes what it has read for a state without half a chain if there is a
// moment, after it has read and before it looks again, at which no chain is under way in its groups (§4.4). The paper
// waits for all pieces of conflicting transactions too, and does not say how they are seen: the workers of a machine
// count chains (protocol.Chains).

// chain is the part of a transaction object that is about a chain.
type chain struct {
	proto.Link
	open    bool
	slot    int      // of the logs: see chainlog.go; noSlot: none
	entered []uint32 // groups
}

// Pauses of a reader that waits for chains, and of a chain that waits for such a reader. Both are bounded.
const (
	chainPause = 2 * time.Microsecond
	chainWaits = 64
)

// OpenChain implements proto.Chainer.
func (e *Engine) OpenChain(_ *fiber.Fiber, kind uint8, pieces int) proto.ChainTx {
	if !e.cfg.Chopped {
		return nil
	}
	return e.openChain(kind, pieces)
}

func (e *Engine) openChain(kind uint8, pieces int) *tx {
	e.Counters.Begun++
	t := e.take(nil, 0)
	t.chain.Link = proto.Link{Kind: kind, Pieces: pieces, Rest: t.chain.Rest[:0]}
	t.chain.open, t.chain.slot = true, noSlot
	return t
}

// Link implements proto.ChainTx.
func (t *tx) Link() *proto.Link { return &t.chain.Link }

// BeginPiece implements proto.ChainTx.
func (t *tx) BeginPiece(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	e := t.e
	if e.spare.any() {
		e.spare.sweep(f, false)
	}
	f.Step("drtm: before piece")
	if err := t.meet(f, d); err != nil {
		return nil, err
	}
	if err := t.enter(f, d); err != nil {
		return nil, err
	}
	if err := t.logRest(f, d.Changes()); err != nil {
		return nil, err
	}
	t.open(d, attempt)
	t.OpenPiece(f, d, &t.chain.Link)
	return t.begin(d)
}

// enter enters the groups of a chain before its first piece that changes something, behind readers that wait for
// chains.
func (t *tx) enter(f *fiber.Fiber, d *proto.Decl) error {
	late := t.e.lacks(ChainUnseen) && t.chain.Piece == 0
	if len(t.chain.entered) > 0 || len(d.Groups) == 0 || !d.Changes() || late {
		return nil
	}
	chains := t.e.Env.Chains
	for i := 0; i < chainWaits && chains.Held(d.Groups); i++ {
		if err := f.Sleep(chainPause); err != nil {
			return err
		}
	}
	chains.Enter(d.Groups)
	t.chain.entered = append(t.chain.entered, d.Groups...)
	return nil
}

// leaveGroups counts the chain as done.
func (t *tx) leaveGroups() {
	t.e.Env.Chains.Leave(t.chain.entered)
	t.chain.entered = t.chain.entered[:0]
}

// pieceDone reports whether a piece has committed that is not the last one of its transaction.
func (t *tx) pieceDone() bool {
	l := &t.chain.Link
	if !t.chain.open {
		return false
	}
	for i := range t.Records {
		l.Binding = l.Binding || t.Records[i].Changes() && !t.e.lacks(ChainNotBinding)
	}
	t.logPiece()
	if l.Piece == l.Pieces-2 && t.e.lacks(LeaveBeforeLast) {
		t.leaveGroups()
	}
	return !l.Last()
}

// CloseChain implements proto.ChainTx.
func (t *tx) CloseChain(o proto.Outcome) {
	t.leaveGroups()
	t.leaveBarrier()
	t.leaveChain(o)
	t.EndChain(o)
	t.chain.open = false
	t.e.free = append(t.e.free, t)
}

// atRest is an abort unless there was a moment, between the reads of a read-only transaction and now, at which no
// chain was under way in its groups. It waits a little, unless the transaction has a region.
func (t *tx) atRest() error {
	groups := t.decl.Groups
	if !t.looks() || t.e.lacks(RestBeforeReads) {
		return nil
	}
	t.F.Step("drtm: chain at rest")
	return t.waitForChains(groups)
}

// restEarly is the mutation RestBeforeReads: the order that the paper prints.
func (t *tx) restEarly() error {
	if !t.e.lacks(RestBeforeReads) || !t.looks() {
		return nil
	}
	return t.waitForChains(t.decl.Groups)
}

// looks reports whether the transaction has to look for chains.
func (t *tx) looks() bool {
	return t.e.cfg.Chopped && len(t.decl.Groups) > 0 && t.decl.ReadOnly && !t.e.lacks(ReadersDoNotWait)
}

// waitForChains waits a little for such a moment.
func (t *tx) waitForChains(groups []uint32) error {
	chains := t.e.Env.Chains
	if chains.AtRest(groups) {
		return nil
	}
	if t.inRegion {
		return proto.Aborting(proto.ReasonConflict)
	}
	chains.Hold(groups)
	defer chains.Release(groups)
	for range chainWaits {
		if err := t.F.Sleep(chainPause); err != nil {
			return err
		}
		if chains.AtRest(groups) {
			return nil
		}
	}
	return proto.Aborting(proto.ReasonConflict)
}
