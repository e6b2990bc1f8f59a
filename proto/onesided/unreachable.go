package onesided

import (
	"errors"

	"drtmd/proto"
	"drtmd/verbs"
	"drtmd/verbs/ring"
	"drtmd/verbs/rpc"
)

// Unreachable is the abort of an operation on a record's machine that failed: it does not answer.
// What ends a fiber's waits, and what is no failure of a verb or a call, stays what it is.
func (t *Tx) Unreachable(r *Record, err error) error { return t.UnreachableAt(r.Node, err) }

// UnreachableAt is Unreachable of a machine.
func (t *Tx) UnreachableAt(n proto.NodeID, err error) error {
	if stop := t.F.Err(); stop != nil {
		return stop
	}
	if !lost(err) {
		return err
	}
	return t.base.unreachableAt(n, err)
}

// unreachableAt is the abort with a cause. A queue pair that is broken fails with one and the same
// error, so that the abort is made once.
func (b *Base) unreachableAt(node proto.NodeID, cause error) error {
	if a := b.gone[node]; a != nil && a.Cause == cause {
		return a
	}
	a := &proto.Abort{Reason: proto.ReasonUnreachable, Cause: cause}
	b.gone[node] = a
	return a
}

// lost reports whether an error says that a peer cannot be reached, or does not serve yet.
func lost(err error) bool {
	if _, ok := err.(*verbs.Error); ok {
		return true
	}
	var we *verbs.Error
	if errors.As(err, &we) {
		return true
	}
	for _, gone := range [...]error{rpc.ErrPeerGone, rpc.ErrPeerReset, rpc.ErrUnanswered, rpc.ErrClosed,
		rpc.ErrBroken, rpc.ErrRefused, rpc.ErrEpoch, rpc.ErrNoHandler, ring.ErrDown, ring.ErrEpoch, ring.ErrClosed} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}
