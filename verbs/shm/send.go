//go:build linux && amd64

package shm

import (
	"unsafe"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// Values of WR.NumSGE in the ring of pending requests.
const (
	keptInline = 0xfe // the payload, SGE[0].Length bytes, stands in sendHalf.inline
	badSGEs    = 0xff // inline buffers that were bad at post
)

// PostSend runs the requests on the caller's CPU, in order; from the first one that has to wait
// they are kept, and go on in later calls of PostSend and Poll or by the device's ticker.
func (q *qp) PostSend(wrs []verbs.WR) (int, error) {
	if q.sendCQ.pending.Load() {
		q.postBehind(wrs)
	} else {
		q.post(wrs)
	}
	return len(wrs), nil
}

// postBehind is post where requests of the CQ's QPs are pending, which others look after too.
func (q *qp) postBehind(wrs []verbs.WR) {
	q.sendCQ.mu.Lock()
	defer q.sendCQ.mu.Unlock()
	q.post(wrs)
}

func (q *qp) post(wrs []verbs.WR) {
	s := &q.send
	if s.head == s.tail && q.state.Load() == stateRTS {
		for i := range wrs {
			wr := &wrs[i]
			out := q.exec(wr)
			if out != success {
				s.lane.leave() // from the end of postRest on the ticker may have the lane
				q.postRest(wrs[i:], out)
				return
			}
			if wr.Flags&verbs.FlagSignaled != 0 {
				q.succeed(wr)
			}
		}
		s.lane.leave()
		return
	}
	for i := range wrs {
		q.keep(&wrs[i])
	}
	if q.state.Load() != stateRTS {
		q.flushSends()
	}
}

// postRest deals with a first request that did not succeed at once, and those behind it.
func (q *qp) postRest(wrs []verbs.WR, out outcome) {
	over := !out.waits()
	if !over && q.startWait(out) {
		over, out = true, out.expired()
	}
	if over {
		q.finish(&wrs[0], out)
		wrs = wrs[1:]
	}
	for i := range wrs {
		q.keep(&wrs[i])
	}
	if over {
		q.flushSends()
	} else {
		q.sendCQ.wait(q)
	}
}

// keep copies a request into the ring, with its payload if that is inline.
func (q *qp) keep(wr *verbs.WR) {
	s := &q.send
	if s.ring == nil {
		s.ring = make([]verbs.WR, s.mask+1)
		s.inline = make([]byte, int(s.mask+1)*q.cfg.MaxInline)
	}
	invariant.Assert(s.tail-s.head <= s.mask, "a send queue never overruns")
	slot := s.tail & s.mask
	kept := &s.ring[slot]
	*kept = *wr
	s.tail++
	if wr.Flags&verbs.FlagInline == 0 {
		return
	}
	var c current
	total, ok := q.sources(wr, &c)
	if !ok {
		kept.NumSGE = badSGEs
		return
	}
	buf := s.inline[int(slot)*q.cfg.MaxInline:][:0:q.cfg.MaxInline]
	for i := range c.srcCount {
		buf = append(buf, unsafe.Slice((*byte)(c.src[i]), c.srcLen[i])...)
	}
	kept.NumSGE = keptInline
	kept.SGE[0] = verbs.SGE{Addr: uint64(slot), Length: uint32(total)}
}

// progress goes on with pending requests and reports whether any are left. Caller holds cq.mu.
func (q *qp) progress() bool {
	s := &q.send
	defer s.lane.leave()
	for s.head != s.tail {
		if q.state.Load() != stateRTS {
			q.flushSends()
			return false
		}
		wr := &s.ring[s.head&s.mask]
		out := q.exec(wr)
		if out.waits() {
			if !q.startWait(out) {
				return true
			}
			out = out.expired()
		}
		s.head++
		switch {
		case out != success:
			q.finish(wr, out)
		case wr.Flags&verbs.FlagSignaled != 0:
			q.succeed(wr)
		}
	}
	return false
}

// succeed completes a signaled request.
func (q *qp) succeed(wr *verbs.WR) {
	c := q.sendCQ
	e := c.next()
	e.token, e.status, e.length, e.source = wr.Token, uint64(q.qpn)<<32, 0, 0
	if c.channel != nil {
		c.announce(verbs.WCSuccess)
	}
}

// startWait sets the deadline of an operation that has to wait, or reports that it is over.
func (q *qp) startWait(out outcome) (over bool) {
	s := &q.send
	s.now.kept = true
	now := nanotime()
	until := &s.now.deadline
	limit := s.retryNs
	switch out {
	case waitRecv:
		until, limit = &s.now.rnrUntil, s.rnrNs
	case waitFetch:
		until, limit = &s.now.fetchUntil, max(limit, int64(fetchLimit))
	}
	if *until == 0 {
		*until = now + limit
	}
	return now >= *until
}

// finish completes a request that failed, which puts the QP into error.
func (q *qp) finish(wr *verbs.WR, out outcome) {
	q.send.now = current{}
	q.send.lane.giveBack()
	_ = q.ToError()
	q.sendCQ.pushFailed(wr.Token, q.qpn, out)
}

// flushSends completes what is pending on a QP in error.
func (q *qp) flushSends() {
	s := &q.send
	if q.state.Load() != stateErr {
		return
	}
	s.now = current{}
	s.lane.giveBack()
	for ; s.head != s.tail; s.head++ {
		q.sendCQ.push(s.ring[s.head&s.mask].Token, q.qpn, verbs.WCWRFlushErr)
	}
}

// sources finds the local buffers of a request that reads them.
func (q *qp) sources(wr *verbs.WR, c *current) (total uint64, ok bool) {
	c.srcCount = 0
	switch wr.NumSGE {
	case badSGEs:
		return 0, false
	case keptInline:
		c.src[0], c.srcLen[0] = nil, uint64(wr.SGE[0].Length)
		if c.srcLen[0] > 0 {
			c.src[0] = unsafe.Pointer(&q.send.inline[int(wr.SGE[0].Addr)*q.cfg.MaxInline])
			c.srcCount = 1
		}
		return c.srcLen[0], true
	}
	for i := range int(wr.NumSGE) {
		sge := &wr.SGE[i]
		n := uint64(sge.Length)
		if n == 0 {
			continue
		}
		p := q.localBytes(sge, n, wr.Flags&verbs.FlagInline != 0)
		if p == nil {
			return 0, false
		}
		c.src[c.srcCount], c.srcLen[c.srcCount] = p, n
		c.srcCount++
		total += n
	}
	return total, true
}

// localBytes finds the bytes of an SGE. Inline payload is the caller's memory, registered or not,
// and no key is looked at (IBV_SEND_INLINE).
func (q *qp) localBytes(sge *verbs.SGE, n uint64, inline bool) unsafe.Pointer {
	if inline {
		return *(*unsafe.Pointer)(unsafe.Pointer(&sge.Addr))
	}
	q.send.lane.enter()
	r, off := q.local(sge, n)
	if r == nil {
		return nil
	}
	return r.at(off)
}

// local finds the own MR of an SGE; nil if the SGE is not inside one of the QP's domain. Only a
// lane that has entered before may touch its memory.
func (q *qp) local(sge *verbs.SGE, n uint64) (*region, uint64) {
	if r := q.dev.mr(sge.LKey); r != nil && r.pd == q.pd {
		if off, ok := r.offset(sge.Addr, n); ok {
			return r, off
		}
	}
	return nil, 0
}
