//go:build linux && amd64

package shm

import (
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// recvHalf is the receive queue. posted and taken count receives since the QP was made.
type recvHalf struct {
	lane   lane
	ring   []verbs.RecvWR // the own truth; what stands in the area is for senders
	mask   uint32
	posted uint64
	taken  uint64 // completed or flushed
	block  block
	slots  []recvSlot // RC: the area
	dgrams datagramRing
	grh    [verbs.GRHBytes]byte // of the datagram being received
}

// init takes the receive area. Caller holds device.mu.
func (h *recvHalf) init(q *qp) error {
	n := uint32(1)
	for n < uint32(q.cfg.RecvDepth) {
		n *= 2
	}
	h.mask = n - 1
	h.ring = make([]verbs.RecvWR, n)
	h.grh = newGRH(q.dev.gid)
	h.lane = lane{dev: q.dev, state: &q.state, good: 1<<stateRTR | 1<<stateRTS,
		unfenced: remoteFences()}
	size := uint64(n) * uint64(unsafe.Sizeof(recvSlot{}))
	if q.cfg.Type == verbs.UD {
		h.mask = min(2*n, maxRingSlots) - 1
		size = ringBytes(uint64(h.mask + 1))
	}
	var err error
	h.block, err = q.dev.arenas.takeLocked(q.dev, size)
	return err
}

// open lays the area out, once the QPN is known.
func (h *recvHalf) open(q *qp) {
	if q.cfg.Type == verbs.UD {
		h.dgrams.open(h.block.p, h.mask, q.qpn)
		return
	}
	h.slots = unsafe.Slice((*recvSlot)(h.block.p), h.mask+1)
	q.entry.posted.Store(0)
}

// quiet tells when nobody writes to the area any more after the QP was closed: an RC QP's peer
// has closed its own or died, no datagram is being written by a live sender.
func (h *recvHalf) quiet(q *qp) func() bool {
	if q.cfg.Type == verbs.UD {
		return func() bool { return h.dgrams.idle(q) }
	}
	p, target, qpn := q.peer, q.target, q.send.lane.wordQPN
	return func() bool {
		if p == nil || p.dead.Load() || p.dev.isClosed() {
			return true
		}
		w := target.word.Load()
		return w>>8 != qpn || uint32(w&0xff) == stateClosed
	}
}

func (d *device) isClosed() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}

// PostRecv shows the buffers to the sender (RC) or lets one more datagram come (UD).
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	h := &q.recv
	for i := range wrs {
		wr := &wrs[i]
		h.ring[h.posted&uint64(len(h.ring)-1)] = *wr
		if h.slots != nil {
			q.show(&h.slots[h.posted&uint64(h.mask)], wr)
		}
		h.posted++
	}
	if q.state.Load() == stateErr {
		q.recvCQ.mu.Lock()
		q.flushReceives()
		q.recvCQ.mu.Unlock()
		return len(wrs), nil
	}
	if h.slots != nil {
		lineword.StoreRelease(word64(&q.entry.posted), h.posted)
	} else {
		q.publishLimit()
	}
	return len(wrs), nil
}

// show writes a posted receive for the sender to read.
func (q *qp) show(s *recvSlot, wr *verbs.RecvWR) {
	bytes, count := uint64(0), uint32(0)
	for i := range wr.NumSGE {
		sge := &wr.SGE[i]
		if sge.Length == 0 {
			continue
		}
		r, _ := q.local(sge, uint64(sge.Length))
		if r == nil || r.access&verbs.AccessLocalWrite == 0 {
			bytes = badBuffer
			break
		}
		put64(&s.sge[count].addr, sge.Addr)
		put32(&s.sge[count].length, sge.Length)
		put32(&s.sge[count].key, sge.LKey)
		count++
		bytes = min(bytes+uint64(sge.Length), badBuffer-1)
	}
	put32(&s.bytes, uint32(bytes))
	put32(&s.count, count)
}

// receive completes the oldest receive if its message is there.
func (q *qp) receive(wc *verbs.WC) bool {
	if q.recv.slots == nil {
		return q.receiveDatagram(wc)
	}
	h := &q.recv
	if h.taken == h.posted {
		return false
	}
	s := &h.slots[h.taken&uint64(h.mask)]
	done := s.done.Load()
	if done>>8 != doneWord(q.qpn, h.taken)>>8 {
		return false
	}
	wr := &h.ring[h.taken&uint64(h.mask)]
	result := s.result.Load()
	h.taken++
	*wc = verbs.WC{ID: wr.Token, QPN: q.qpn, ByteLen: uint32(result)}
	switch uint8(done) {
	case recvSend:
	case recvSendImm:
		wc.Flags, wc.Imm = verbs.WCWithImm, uint32(result>>32)
	case recvWriteImm:
		wc.Op = verbs.WCOpcode(verbs.OpRecvWriteImm)
		wc.Flags, wc.Imm = verbs.WCWithImm, uint32(result>>32)
	case recvTooLong:
		q.receiveFailed(wc, verbs.WCLocLenErr)
	default:
		q.receiveFailed(wc, verbs.WCLocProtErr)
	}
	if uint8(done) <= recvSendImm && uint64(wc.ByteLen) > bufferBytes(wr) {
		q.receiveFailed(wc, verbs.WCLocLenErr) // a sender that lies
	}
	return true
}

func bufferBytes(wr *verbs.RecvWR) (n uint64) {
	for i := range min(wr.NumSGE, verbs.MaxSGE) {
		n += uint64(wr.SGE[i].Length)
	}
	return n
}

// receiveFailed makes an error completion of wc and puts the QP into error.
func (q *qp) receiveFailed(wc *verbs.WC, status verbs.WCStatus) {
	*wc = verbs.WC{ID: wc.ID, QPN: q.qpn, Status: status}
	_ = q.ToError()
}

// flushReceives completes what came before the QP failed, then flushes the rest.
func (q *qp) flushReceives() {
	if q.state.Load() != stateErr {
		return
	}
	h, c := &q.recv, q.recvCQ
	var wc verbs.WC
	for q.receive(&wc) {
		c.pushReceive(&wc)
	}
	q.endHalfMessage()
	for ; h.taken != h.posted; h.taken++ {
		c.push(h.ring[h.taken&uint64(len(h.ring)-1)].Token, q.qpn, verbs.WCWRFlushErr)
	}
}

// endHalfMessage unlocks the line in the oldest receive's buffer at which a sender died that was in the middle of its
// message. The owner of the memory gets the buffer back, and looks at no lock itself if the memory is private. Caller
// has the receive half to itself: it polls, posts receives, or closes the QP.
func (q *qp) endHalfMessage() {
	h := &q.recv
	if h.slots == nil || h.taken == h.posted || q.peer == nil || !q.peer.dead.Load() {
		return
	}
	h.lane.enter()
	defer h.lane.leave()
	wr := &h.ring[h.taken&uint64(h.mask)]
	for i := range wr.NumSGE {
		sge := &wr.SGE[i]
		n := uint64(sge.Length)
		r, off := q.local(sge, n)
		if r == nil || n == 0 {
			continue
		}
		for line := off / lineBytes; line <= (off+n-1)/lineBytes; line++ {
			q.unlockDead(r, line)
		}
	}
}

// unlockDead recovers a line that the peer has locked, whose process is dead.
func (q *qp) unlockDead(r *region, line uint64) {
	w := lineword.Load(r.word(line))
	if slot := w.Owner(); w.Locked() && slot != 0 && int(slot) <= r.count &&
		r.owner(slot).incarnation.Load() == q.peer.id.Incarnation {
		q.dev.recoverLine(r, line, w, q.peer.id.Incarnation)
	}
}

// doneWord is what recvSlot.done holds once message number n is there, without its kind.
func doneWord(qpn uint32, n uint64) uint64 {
	return uint64(qpn)<<40 | uint64(uint32(n)+1)<<8
}

// hasReceive reports whether the peer has posted a receive for the next message.
func (q *qp) hasReceive() bool {
	n := q.target.posted.Load() - q.send.messages
	return n-1 < q.send.areaMask+1
}

// execSend copies a message into the buffer that the peer posted for it.
func (q *qp) execSend(wr *verbs.WR) outcome {
	s := &q.send
	total, ok := q.sources(wr, &s.now)
	if !ok {
		return outcome(verbs.WCLocProtErr)
	}
	if out := q.ready(); out != success {
		return out
	}
	if !q.hasReceive() {
		return waitRecv
	}
	slot := q.slot(s.messages)
	switch bytes := slot.bytes.Load(); {
	case bytes == badBuffer:
		q.deliver(wr, 0, recvBad)
		return outcome(verbs.WCRemOpErr)
	case total > uint64(bytes):
		q.deliver(wr, total, recvTooLong)
		return outcome(verbs.WCRemInvReqErr)
	}
	first := uint64(0)
	for i := 0; i < int(slot.count.Load()) && i < len(slot.sge) && first < total; i++ {
		sge := &slot.sge[i]
		n := min(uint64(sge.length.Load()), total-first)
		if first+n <= s.now.done {
			first += n
			continue
		}
		to, out := q.buffer(sge, n)
		if out == success {
			out = q.put(to, first)
		}
		switch {
		case out.waits():
			return out
		case out == outcome(verbs.WCRemAccessErr): // the buffer's MR is gone
			q.deliver(wr, 0, recvBad)
			return outcome(verbs.WCRemOpErr)
		case out != success:
			return out
		}
		first += n
	}
	if s.now.done < total {
		return outcome(verbs.WCRemOpErr) // the peer scribbled over its own buffers
	}
	kind := recvSend
	if wr.Op == verbs.OpSendImm {
		kind = recvSendImm
	}
	q.deliver(wr, total, kind)
	return success
}

func (q *qp) slot(n uint64) *recvSlot {
	return (*recvSlot)(unsafe.Add(q.send.area, (n&q.send.areaMask)*128))
}

// buffer finds a piece of the peer's receive buffer.
func (q *qp) buffer(sge *slotSGE, n uint64) (piece, outcome) {
	v, out := q.send.lane.remoteView(q.peer, sge.key.Load())
	if out != success {
		return piece{}, out
	}
	r := v.r
	off, ok := r.offset(sge.addr.Load(), n)
	if !ok || r.pd != q.send.pd || r.access&verbs.AccessLocalWrite == 0 {
		return piece{}, outcome(verbs.WCRemAccessErr)
	}
	return piece{v, off, n}, success
}

// deliver completes the peer's next receive. The swap is a full fence: see peer.notify.
func (q *qp) deliver(wr *verbs.WR, length uint64, kind uint8) {
	s := &q.send
	slot := q.slot(s.messages)
	result := length
	if kind == recvSendImm || kind == recvWriteImm {
		result |= uint64(wr.Imm) << 32
	}
	put64(&slot.result, result)
	slot.done.Swap(doneWord(uint32(s.lane.wordQPN), s.messages) | uint64(kind))
	s.messages++
	q.peer.notify(q.target.cq.Load(), q.target.group.Load(),
		wr.Flags&verbs.FlagSolicited != 0 || kind >= recvTooLong)
}
