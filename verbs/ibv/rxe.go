//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"drtmd/verbs"
)

// This file makes up for what Soft-RoCE does differently (see docs/RXE.md). None of it runs on
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
	// drops counts the queue pairs that went: what was found of their numbers is void then.
	drops atomic.Uint64

	mu      sync.RWMutex
	regions map[uint32]region // guarded by mu: registered memory by lkey
	qps     map[uint32]*qp    // guarded by mu: open queue pairs by number
}

type region struct {
	pd     *pd
	addr   uint64
	bytes  []byte
	access verbs.Access
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
	s.drops.Add(1)
}

// finder keeps the queue pair that was found last: most CQs have one. Guarded by the CQ's lock.
type finder struct {
	last  *qp
	drops uint64 // of softRoCE when it was found
}

// find gives the open queue pair of a number, or nil.
func (f *finder) find(s *softRoCE, qpn uint32) *qp {
	drops := s.drops.Load()
	if f.last != nil && f.last.qpn == qpn && f.drops == drops {
		return f.last
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	f.last, f.drops = s.qps[qpn], drops
	return f.last
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
	_, ok := s.piece(p, g, access)
	return ok
}

// piece is the memory of a piece that the requests of a domain may use so. Caller holds mu.
func (s *softRoCE) piece(p *pd, g verbs.SGE, access verbs.Access) ([]byte, bool) {
	r, ok := s.regions[g.LKey]
	size, length := uint64(len(r.bytes)), uint64(g.Length)
	if !ok || r.pd != p || r.access&access != access || g.Addr < r.addr || length > size ||
		g.Addr-r.addr > size-length {
		return nil, false
	}
	at := g.Addr - r.addr
	return r.bytes[at : at+length], true
}

// poll is Poll with what the driver got wrong put right.
func (q *cq) poll(wcs []verbs.WC) (int, error) {
	n := q.takeLate(wcs)
	var err error
	if n < len(wcs) {
		var got int
		got, err = q.take(wcs[n:])
		n += got
	}
	return q.correct(wcs, n), err
}

// takeLate moves completions that are late to wcs.
func (q *cq) takeLate(wcs []verbs.WC) int {
	n := copy(wcs, q.late)
	q.late = slices.Delete(q.late, 0, n)
	return n
}

// correct goes through the n completions that were polled into wcs and says how many they are then:
// it counts receives, finds what rxe's LOC_QP_OP_ERR stands for, and adds the failure of atomics whose
// result is missing (see missing). What has no room in wcs then comes late, and here once more. Caller
// holds the lock of the CQ, which guards only the ledgers of queues that report here.
func (q *cq) correct(wcs []verbs.WC, n int) int {
	for i := 0; i < n; i++ {
		wc := &wcs[i]
		p := q.seen.find(q.rxe, wc.QPN)
		if p == nil {
			continue // closed in the meantime; the layer drops its completions
		}
		if p.recvCQ == q {
			if e := p.received.next(); e.token == wc.ID {
				p.received.done++
				if wc.Status == verbs.WCLocQPOpErr {
					wc.Status = q.rxe.blame(p, e, verbs.WCLocLenErr)
				}
				continue
			}
		}
		if p.sendCQ != q {
			continue
		}
		if wc.Status == verbs.WCLocQPOpErr {
			other := verbs.WCLocQPOpErr
			if p.cfg.Type == verbs.RC {
				other = verbs.WCRetryExcErr // no route: the interface is down
			}
			wc.Status = q.rxe.blame(p, p.sent.find(wc.ID), other)
		}
		if p.cfg.Type != verbs.RC {
			continue
		}
		switch e := p.missing(wc); {
		case e != nil && e.token == wc.ID:
			wc.Status = verbs.WCRetryExcErr
		case e != nil: // it was not signaled, and is the first that fails
			failed := verbs.WC{ID: e.token, Status: verbs.WCRetryExcErr, QPN: wc.QPN}
			wc.Status = verbs.WCWRFlushErr
			if n == len(wcs) {
				q.late = slices.Insert(q.late, 0, wcs[n-1])
			} else {
				n++
			}
			copy(wcs[i+1:n], wcs[i:])
			wcs[i] = failed
			i++
		case p.lost && wc.Status == verbs.WCSuccess:
			wc.Status = verbs.WCWRFlushErr
		}
	}
	return n
}

// missing takes a completion of a send queue, and gives the first atomic that it says is done and
// whose result has not come: the mark that noteSends has left is there still. rxe completes one so
// whose answer was lost together with that to a WRITE before it. The WRITE is sent again, and its
// second answer acknowledges all that was executed since, the atomic too, without its result. Nobody
// can tell then what the atomic has found, so that it has failed, and the queue pair with it.
func (q *qp) missing(wc *verbs.WC) (first *entry) {
	for range q.sent.upTo(wc.ID) {
		e := q.sent.next()
		q.sent.done++
		succeeded := e.token != wc.ID || wc.Status == verbs.WCSuccess
		if e.mark != 0 && succeeded && !q.lost && q.dev.rxe.marked(q.pd, e) {
			first, q.lost = e, true
		}
	}
	return first
}

// mark puts a word into the buffer of an atomic that it will hardly find, and gives it; 0 if the
// buffer is not the domain's to write.
func (s *softRoCE) mark(p *pd, g verbs.SGE) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, ok := s.piece(p, g, verbs.AccessLocalWrite)
	if !ok || len(b) != 8 {
		return 0
	}
	mark := rand.Uint64() | 1
	binary.NativeEndian.PutUint64(b, mark)
	return mark
}

// marked reports whether the mark is in the buffer of an atomic.
func (s *softRoCE) marked(p *pd, e *entry) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	b, ok := s.piece(p, e.sge[0], verbs.AccessLocalWrite)
	return ok && binary.NativeEndian.Uint64(b) == e.mark
}

// blame is LOC_PROT_ERR if a piece of the request is not what a region allows, else the other
// status.
func (s *softRoCE) blame(q *qp, e *entry, other verbs.WCStatus) verbs.WCStatus {
	if e == nil {
		return other
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, g := range e.sge[:e.pieces] {
		if !s.covers(q.pd, g, e.access) {
			return verbs.WCLocProtErr
		}
	}
	return other
}

// noteSends is called before a post.
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
		e := q.sent.slot()
		e.set(wr.Token, sge, access)
		if wr.Op.IsAtomic() {
			e.mark = q.dev.rxe.mark(q.pd, sge[0])
		}
	}
}

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
