//go:build linux && amd64

package shm

import (
	"unsafe"

	"drtmd/verbs"
)

// piece is part of an MR that data goes to.
type piece struct {
	v      *view
	off, n uint64
}

// exec runs a request, or goes on with it; its progress stands in sendHalf.now until it ends.
func (q *qp) exec(wr *verbs.WR) outcome {
	var out outcome
	q.send.lane.op++
	switch wr.Op {
	case verbs.OpRead:
		out = q.execRead(wr)
	case verbs.OpCAS, verbs.OpFAA:
		out = q.execAtomic(wr)
	case verbs.OpWrite:
		out = q.execWrite(wr)
	case verbs.OpWriteImm:
		out = q.execWriteImm(wr)
	default: // OpSend, OpSendImm
		if q.cfg.Type == verbs.UD {
			out = q.execDatagram(wr)
		} else {
			out = q.execSend(wr)
		}
	}
	if q.send.lane.lent != nil {
		q.send.lane.giveBack()
	}
	if !out.waits() {
		c := &q.send.now
		c.done = 0
		if c.kept {
			*c = current{}
		}
	}
	return out
}

// ready checks that the peer's QP can be reached and is connected to this one.
func (q *qp) ready() outcome {
	if q.peer.dead.Load() {
		return retryExceeded(VendorDead)
	}
	if q.send.peerReady && q.send.lane.targetUp() {
		return success
	}
	e, s := q.target, &q.send
	w := e.word.Load()
	state := uint32(w & 0xff)
	if w>>8 != s.lane.wordQPN || state == stateErr || state == stateClosed {
		return retryExceeded(VendorGone)
	}
	if state != stateRTR && state != stateRTS {
		return waitPeer
	}
	if e.kind.Load() != uint32(verbs.RC) || e.peer.Load() != q.dev.self.Incarnation ||
		e.peerQPN.Load() != q.qpn {
		return retryExceeded(VendorGone)
	}
	slots := e.areaSlots.Load()
	if slots == 0 || slots&(slots-1) != 0 || slots > 2*maxDepth {
		return retryExceeded(VendorGone)
	}
	p, out := q.peer.area(e.areaSegment.Load(), e.areaOffset.Load(),
		uint64(slots)*uint64(unsafe.Sizeof(recvSlot{})))
	if out != success {
		return out
	}
	limits := e.limits.Load()
	s.area, s.areaMask = p, uint64(slots-1)
	s.access, s.pd = e.access.Load(), e.pd.Load()
	s.maxDest = limits & 0xff
	s.rnrNs = rnrTime(limits>>8&31) * int64(q.rts.RNRRetry)
	s.peerReady = true
	return success
}

// rnrTime is the specification's table of RNR timer codes, in nanoseconds.
func rnrTime(code uint32) int64 {
	hundredths := [32]int64{65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256,
		384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152}
	return hundredths[code&31] * 10_000
}

// remote finds the part of the peer's MR that a request names, and checks the right.
func (q *qp) remote(wr *verbs.WR, n uint64, need verbs.Access) (piece, outcome) {
	if !q.send.peerReady || q.peer.dead.Load() || !q.send.lane.targetUp() {
		if out := q.ready(); out != success {
			return piece{}, out
		}
	}
	if n == 0 {
		return piece{}, success // the specification checks no key of an empty access
	}
	if uint32(need)&^q.send.access != 0 {
		return piece{}, outcome(verbs.WCRemInvReqErr) // the peer's QP does not take such requests
	}
	v := &q.send.lane.remote[wr.RKey%remoteViews]
	if v.key != wr.RKey || v.r == nil || !v.r.live() {
		var out outcome
		if v, out = q.send.lane.remoteView(q.peer, wr.RKey); out != success {
			return piece{}, out
		}
	}
	r := v.r
	off, ok := r.offset(wr.RemoteAddr, n)
	if !ok || r.pd != q.send.pd || need&^r.access != 0 {
		return piece{}, outcome(verbs.WCRemAccessErr)
	}
	if q.send.inMiddle != nil {
		q.send.inMiddle()
	}
	return piece{v, off, n}, success
}

func (q *qp) execWrite(wr *verbs.WR) outcome {
	total, ok := q.sources(wr, &q.send.now)
	if !ok {
		return outcome(verbs.WCLocProtErr)
	}
	to, out := q.remote(wr, total, verbs.AccessRemoteWrite)
	if out != success || total == 0 {
		return out
	}
	if c := &q.send.now; total == 8 && to.off%8 == 0 && c.srcCount == 1 {
		return q.send.lane.storeWord(to.v, to.off, *(*uint64)(c.src[0])) // put, for a word
	}
	return q.put(to, 0)
}

// execWriteImm writes and then consumes a receive, for which it waits first.
func (q *qp) execWriteImm(wr *verbs.WR) outcome {
	total, ok := q.sources(wr, &q.send.now)
	if !ok {
		return outcome(verbs.WCLocProtErr)
	}
	to, out := q.remote(wr, total, verbs.AccessRemoteWrite)
	if out != success {
		return out
	}
	if !q.hasReceive() {
		return waitRecv
	}
	if total > 0 {
		if out = q.put(to, 0); out != success {
			return out
		}
	}
	q.deliver(wr, total, recvWriteImm)
	return success
}

// put copies the sources of the operation under way to a piece, line by line in ascending
// order, going on where it stopped. The first byte of the piece is byte first of the message.
func (q *qp) put(to piece, first uint64) outcome {
	c, l := &q.send.now, &q.send.lane
	end := first + to.n
	for c.done < end {
		at := to.off + c.done - first
		line, off := at/lineBytes, at%lineBytes
		n := min(lineBytes-off, end-c.done)
		image := &l.scratch
		if p := c.whole(c.done, n); p != nil {
			image = (*[lineBytes]byte)(p)
		} else {
			c.gather(l.scratch[off:off+n], c.done)
		}
		if out := l.store(to.v, line, off, n, image); out != success {
			return out
		}
		c.done += n
		c.deadline = 0
	}
	return success
}

// whole gives the source of a whole line if that is in one piece.
func (c *current) whole(at, n uint64) unsafe.Pointer {
	if n != lineBytes || raceEnabled {
		return nil
	}
	for i := range c.srcCount {
		if at < c.srcLen[i] {
			if c.srcLen[i]-at < n {
				return nil
			}
			return unsafe.Add(c.src[i], at)
		}
		at -= c.srcLen[i]
	}
	return nil
}

// gather copies bytes of the message from the sources.
func (c *current) gather(dst []byte, at uint64) {
	for i := 0; i < c.srcCount && len(dst) > 0; i++ {
		if at >= c.srcLen[i] {
			at -= c.srcLen[i]
			continue
		}
		n := copy(dst, unsafe.Slice((*byte)(unsafe.Add(c.src[i], at)), c.srcLen[i]-at))
		dst = dst[n:]
		at = 0
	}
}

// targets finds the local buffers that a READ or atomic writes.
func (q *qp) targets(wr *verbs.WR, to *[verbs.MaxSGE]piece) (count int, total uint64, ok bool) {
	q.send.lane.enter()
	for i := range int(wr.NumSGE) {
		sge := &wr.SGE[i]
		n := uint64(sge.Length)
		if n == 0 {
			continue
		}
		r, off := q.local(sge, n)
		if r == nil || r.access&verbs.AccessLocalWrite == 0 {
			return 0, 0, false
		}
		to[count] = piece{q.send.lane.view(r), off, n}
		count++
		total += n
	}
	return count, total, true
}

func (q *qp) execRead(wr *verbs.WR) outcome {
	if out, short := q.readShort(wr); short {
		return out
	}
	var to [verbs.MaxSGE]piece
	count, total, ok := q.targets(wr, &to)
	if !ok {
		return outcome(verbs.WCLocProtErr)
	}
	from, out := q.remote(wr, total, verbs.AccessRemoteRead)
	if out != success {
		return out
	}
	if q.send.maxDest == 0 {
		return outcome(verbs.WCRemInvReqErr)
	}
	return q.get(from, to[:count])
}

// readShort is execRead of a part of one line into private memory in one piece. Nothing of it is carried. short is false
// if it is another READ.
func (q *qp) readShort(wr *verbs.WR) (out outcome, short bool) {
	sge, l := &wr.SGE[0], &q.send.lane
	n := uint64(sge.Length)
	if wr.NumSGE != 1 || n == 0 || wr.RemoteAddr%lineBytes+n > lineBytes {
		return 0, false
	}
	l.enter()
	r, to := q.local(sge, n)
	if r == nil || !r.private || r.access&verbs.AccessLocalWrite == 0 {
		return 0, false
	}
	from, out := q.remote(wr, n, verbs.AccessRemoteRead)
	if out != success {
		return out, true
	}
	line, off := from.off/lineBytes, from.off%lineBytes
	switch {
	case q.send.maxDest == 0:
		return outcome(verbs.WCRemInvReqErr), true
	case off+n > lineBytes: // the peer's MR does not begin a line, as it says
		return outcome(verbs.WCRemAccessErr), true
	}
	if out = l.read(from.v, line, &l.scratch); out != success {
		return out, true
	}
	switch {
	case !l.fit(from.v.r):
		return l.unfit(from.v.r), true
	case !r.live(): // else it is as fit
		return outcome(verbs.WCLocProtErr), true
	}
	copy(unsafe.Slice((*byte)(r.at(to)), n), l.scratch[off:off+n])
	return success, true
}

// get copies a piece of the peer's MR to local ones. Each of its lines is read at one moment; if
// that line has to be stored in parts and a part must wait, the rest is carried.
func (q *qp) get(from piece, to []piece) outcome {
	c, l := &q.send.now, &q.send.lane
	for c.done < from.n {
		if c.carry == 0 {
			at := from.off + c.done
			line, off := at/lineBytes, at%lineBytes
			if out := l.read(from.v, line, &l.scratch); out != success {
				return out
			}
			if !l.fit(from.v.r) {
				return l.unfit(from.v.r)
			}
			c.carryAt, c.carry = off, min(lineBytes-off, from.n-c.done)
		}
		for c.carry > 0 {
			n, out := q.scatter(to, c.done, l.scratch[c.carryAt:c.carryAt+c.carry])
			if out != success {
				return out
			}
			c.done, c.carryAt, c.carry = c.done+n, c.carryAt+n, c.carry-n
		}
		c.deadline = 0
	}
	return success
}

// scatter stores the first of b's bytes to where byte number at of the message belongs, as many
// as fit into one line, and says how many these were.
func (q *qp) scatter(to []piece, at uint64, b []byte) (uint64, outcome) {
	l := &q.send.lane
	for i := range to {
		p := &to[i]
		if at >= p.n {
			at -= p.n
			continue
		}
		line, off := (p.off+at)/lineBytes, (p.off+at)%lineBytes
		n := min(lineBytes-off, p.n-at, uint64(len(b)))
		image := &l.scratch
		if n != lineBytes && &b[0] != &image[off] { // else it stands in its place already
			image = &l.shifted
			copy(image[off:off+n], b)
		}
		return n, ofOwn(l.store(p.v, line, off, n, image))
	}
	return 0, outcome(verbs.WCLocLenErr) // cannot be: the pieces have the message's length
}

// ofOwn is the outcome of a store to an own MR: that is what is gone.
func ofOwn(out outcome) outcome {
	if out == outcome(verbs.WCRemAccessErr) {
		return outcome(verbs.WCLocProtErr)
	}
	return out
}

// execAtomic changes the word, then places the old value.
func (q *qp) execAtomic(wr *verbs.WR) outcome {
	c, l := &q.send.now, &q.send.lane
	l.enter()
	r, off := q.local(&wr.SGE[0], 8) // the layer has seen to one SGE of 8 bytes
	if r == nil || r.access&verbs.AccessLocalWrite == 0 {
		return outcome(verbs.WCLocProtErr)
	}
	if c.done == 0 {
		at, out := q.remote(wr, 8, verbs.AccessRemoteAtomic)
		if out != success {
			return out
		}
		if q.send.maxDest == 0 || at.off%8 != 0 {
			return outcome(verbs.WCRemInvReqErr)
		}
		if c.old, out = l.atomic(at.v, at.off, wr); out != success {
			return out
		}
		c.done = 1
	}
	v := &l.local[0]
	if v.r == r {
		v.op = l.op
	} else {
		v = l.view(r)
	}
	if off%8 == 0 {
		return ofOwn(l.storeWord(v, off, c.old))
	}
	to := [1]piece{{v, off, 8}}
	old := (*[8]byte)(unsafe.Pointer(&c.old))
	for c.done < 9 {
		n, out := q.scatter(to[:], c.done-1, old[c.done-1:])
		if out != success {
			return out
		}
		c.done += n
	}
	return success
}
