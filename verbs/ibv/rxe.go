//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"sync"

	"drtmd/verbs"
)

// This file makes up for what Soft-RoCE does differently (see Deviations). None of it runs on
// other drivers.

// driverRXE is the name of Soft-RoCE's driver.
const driverRXE = "rxe"

// Quirks says what the driver reports in place of what the contract asks for. On rxe a receive
// buffer that is too small and one with a bad lkey are the same negative acknowledgement, so the
// sender is told the more likely one, with the driver's status in WC.Raw. The receiver can tell
// them apart: see correct.
func (d *device) Quirks() verbs.Quirks {
	if d.rxe == nil {
		return verbs.Quirks{}
	}
	return verbs.Quirks{RecvTooSmallRemote: verbs.WCRemOpErr}
}

// softRoCE is what is remembered of an rxe device beyond what its driver tells.
type softRoCE struct {
	mu      sync.RWMutex
	regions map[uint32]region // guarded by mu: registered memory by lkey
	qps     map[uint32]*qp    // guarded by mu: open queue pairs by number
}

type region struct {
	pd         *pd
	addr, size uint64
	access     verbs.Access
}

func newSoftRoCE() *softRoCE {
	return &softRoCE{regions: map[uint32]region{}, qps: map[uint32]*qp{}}
}

func (s *softRoCE) addQP(q *qp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.qps[q.qpn] = q
}

// dropQP is called before the number can be given out again.
func (s *softRoCE) dropQP(q *qp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.qps, q.qpn)
}

func (s *softRoCE) addRegion(lkey uint32, r region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.regions[lkey] = r
}

func (s *softRoCE) dropRegion(lkey uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.regions, lkey)
}

// covers reports whether the requests of a domain may use the piece so. Caller holds mu.
func (s *softRoCE) covers(p *pd, g verbs.SGE, access verbs.Access) bool {
	if g.Length == 0 {
		return true
	}
	r, ok := s.regions[g.LKey]
	return ok && r.pd == p && r.access&access == access && g.Addr >= r.addr &&
		uint64(g.Length) <= r.size && g.Addr-r.addr <= r.size-uint64(g.Length)
}

// ledger keeps the scatter lists of the requests that may be outstanding on one work queue.
// Guarded like the queue itself, by the lock of the CQ that it reports to.
type ledger struct {
	slots  []entry
	mask   uint32
	posted uint32 // requests so far; wraps
	done   uint32 // completions so far, kept for receives, which complete in order; wraps
}

type entry struct {
	token  uint64
	pieces uint32
	access verbs.Access // what the pieces are used for
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

// next is the request that completes next, of a queue that completes in order.
func (l *ledger) next() *entry { return &l.slots[l.done&l.mask] }

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
	e.token, e.pieces, e.access = token, uint32(len(sge)), access
	for i := range sge {
		e.sge[i] = sge[i]
	}
}

// correct goes through what was polled: it counts receives, and finds what rxe's LOC_QP_OP_ERR
// stands for. Caller holds the lock of the CQ.
func (s *softRoCE) correct(wcs []verbs.WC) {
	for i := range wcs {
		if wcs[i].Op != 0 || wcs[i].Status != verbs.WCSuccess {
			s.correctRest(wcs[i:])
			return
		}
	}
}

// correctRest begins with a completion that is not of a successful send.
func (s *softRoCE) correctRest(wcs []verbs.WC) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := range wcs {
		wc := &wcs[i]
		if wc.Status == verbs.WCSuccess && wc.Op == 0 {
			continue
		}
		q := s.qps[wc.QPN]
		if q == nil {
			continue // closed in the meantime; the layer drops its completions
		}
		if e := q.received.next(); e.token == wc.ID {
			q.received.done++
			if wc.Status == verbs.WCLocQPOpErr {
				wc.Status = s.blame(q, e, verbs.WCLocLenErr)
			}
		} else if wc.Status == verbs.WCLocQPOpErr {
			other := verbs.WCLocQPOpErr
			if q.cfg.Type == verbs.RC {
				other = verbs.WCRetryExcErr // no route: the interface is down
			}
			wc.Status = s.blame(q, q.sent.find(wc.ID), other)
		}
	}
}

// blame is LOC_PROT_ERR if a piece of the request is not what a region allows, else the other
// status. Caller holds mu.
func (s *softRoCE) blame(q *qp, e *entry, other verbs.WCStatus) verbs.WCStatus {
	if e == nil {
		return other
	}
	for _, g := range e.sge[:e.pieces] {
		if !s.covers(q.pd, g, e.access) {
			return verbs.WCLocProtErr
		}
	}
	return other
}

// noteSends is called before a post; unnote after one that took fewer.
func (q *qp) noteSends(wrs []verbs.WR) {
	for i := range wrs {
		wr := &wrs[i]
		sge, access := wr.SGE[:wr.NumSGE], verbs.Access(0)
		switch {
		case wr.Flags&verbs.FlagInline != 0:
			sge = nil
		case wr.Op == verbs.OpRead || wr.Op.IsAtomic():
			access = verbs.AccessLocalWrite
		}
		q.sent.slot().set(wr.Token, sge, access)
	}
}

func (l *ledger) unnote(n int) { l.posted -= uint32(n) }

// postRecvRXE posts, and sees to receives that rxe would keep for ever. They go into memory
// shared with the kernel, which looks there only when something arrives, and in the error state
// nothing does: so it is told of the state again, and flushes. A queue pair that failed as a
// target says so to nobody but the receives that it had; a post to an empty queue therefore asks.
func (q *qp) postRecvRXE(wrs []verbs.RecvWR) (int, error) {
	wasEmpty := q.received.posted == q.received.done
	for i := range wrs {
		q.received.slot().set(wrs[i].Token, wrs[i].SGE[:wrs[i].NumSGE], verbs.AccessLocalWrite)
	}
	n, err := q.postRecv(wrs)
	q.received.unnote(len(wrs) - n)
	if n == 0 {
		return 0, err
	}
	failing := q.failing.Load()
	if wasEmpty && !failing && q.cfg.Type == verbs.RC {
		state, stateErr := q.queryState()
		if err == nil {
			err = stateErr
		}
		failing = state == C.IBV_QPS_ERR
	}
	if failing {
		if flushErr := q.ToError(); err == nil {
			err = flushErr
		}
	}
	return n, err
}
