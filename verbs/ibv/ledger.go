//go:build cgo && linux

package ibv

import "drtmd/verbs"

// ledger keeps the scatter lists of the requests that may be outstanding on one work queue.
// Guarded like the queue itself, by the lock of the CQ that it reports to.
type ledger struct {
	slots  []entry
	mask   uint32
	posted uint32 // requests so far; wraps
	done   uint32 // those that are known to be done; kept for receives and for sends of RC; wraps
}

type entry struct {
	token  uint64
	pieces uint32
	access verbs.Access // what the pieces are used for
	mark   uint64       // of an atomic: what its buffer holds until the result comes; 0: no mark
	sge    [verbs.MaxSGE]verbs.SGE
}

// newLedger is for a queue on which the layer keeps at most depth requests outstanding.
func newLedger(depth int) ledger {
	n := 1
	for n < depth {
		n *= 2
	}
	return ledger{slots: make([]entry, n), mask: uint32(n - 1)}
}

// slot is for the next request; it is filled in before the post, since the request may complete
// before that has returned.
func (l *ledger) slot() *entry {
	e := &l.slots[l.posted&l.mask]
	l.posted++
	return e
}

// next is the request that completes next.
func (l *ledger) next() *entry { return &l.slots[l.done&l.mask] }

// upTo counts the requests that are not done, up to that of a token; 0 if there is none.
func (l *ledger) upTo(token uint64) int {
	for i := l.done; i != l.posted; i++ {
		if l.slots[i&l.mask].token == token {
			return int(i - l.done + 1)
		}
	}
	return 0
}

// find gives the request of a token, or nil. For the one failure that a queue pair has.
func (l *ledger) find(token uint64) *entry {
	for i := range l.slots {
		if l.slots[i].token == token {
			return &l.slots[i]
		}
	}
	return nil
}

// set notes what a request uses. On the path of every post, so it copies what there is, only.
func (e *entry) set(token uint64, sge []verbs.SGE, access verbs.Access) {
	e.token, e.pieces, e.access, e.mark = token, uint32(len(sge)), access, 0
	copy(e.sge[:], sge)
}

// unnote follows a post that took n fewer than were noted.
func (l *ledger) unnote(n int) { l.posted -= uint32(n) }
