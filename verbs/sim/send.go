package sim

import (
	"drtmd/verbs"
)

// This file is the requester's side of a QP.

// PostSend implements verbs.DriverQP. A single request travels to the NIC with its doorbell; the
// requests of a list are fetched by the NIC.
func (q *qp) PostSend(wrs []verbs.WR) (int, error) {
	if err := q.dev.alive(); err != nil {
		return 0, err
	}
	n, w := q.node, q.node.world
	w.stats.Doorbells++
	ready := w.now + n.slow(w.cost.NIC.Doorbell)
	if len(wrs) > 1 {
		bytes := w.cost.pcieBytes(len(wrs) * int(w.cost.NIC.WorkRequest))
		n.read.take(ready, n.slow(w.rate.dmaRead))
		ready = n.toNIC.take(ready, n.slow(span(bytes, w.rate.pciePerByte)))
		ready += n.slow(w.cost.PCIe.Read)
	}
	for i := range wrs {
		q.sq = grown(q.sq, q.head, q.tail)
		op := q.op(q.tail)
		*op = sendOp{wr: wrs[i], ready: ready, state: opQueued, inline: op.inline[:0]}
		if q.typ == verbs.UD {
			op.dst = q.dev.ahs[op.wr.AH-1] // the handle may be closed before its turn comes
		}
		if op.wr.Flags&verbs.FlagInline != 0 {
			var ok bool
			if op.inline, ok = q.dev.inline(op.inline, &op.wr); !ok {
				op.status = verbs.WCLocProtErr
			}
		}
		q.tail++
	}
	q.flush()
	q.wake(ready)
	return len(wrs), nil
}

// wake schedules a turn of the send queue, unless one comes no later.
func (q *qp) wake(t Time) {
	if q.state != verbs.StateRTS || q.exhausted() {
		return
	}
	t = max(t, q.hold, q.op(q.next).ready)
	if t < q.turnAt {
		q.turnAt = t
		q.node.world.schedule(t, event{kind: evSend, qp: q})
	}
}

// exhausted reports whether nothing is to be sent: all that was posted is, or what was posted after a
// request that failed. What was posted before that one is sent again until it is answered or fails.
func (q *qp) exhausted() bool { return q.next == q.tail || q.stuck && q.next > q.stuckAt }

// stick has nothing after a request sent, which failed.
func (q *qp) stick(seq uint64) {
	if !q.stuck || seq < q.stuckAt {
		q.stuck, q.stuckAt = true, seq
	}
}

// turn sends the next request, if it may be sent now.
func (q *qp) turn() {
	w := q.node.world
	if w.now != q.turnAt || q.state != verbs.StateRTS {
		return // superseded by an earlier turn, or too late
	}
	q.turnAt = Forever
	for q.next < q.tail && q.op(q.next).state >= opLanding {
		q.next++ // answered while it waited to be sent again
	}
	if q.exhausted() {
		q.retire() // of those skipped one may have ended when it was still to be sent
		return
	}
	op := q.op(q.next)
	if t := max(q.hold, op.ready); t > w.now {
		q.wake(t)
		return
	}
	if rdAtomic(op.wr.Op) && q.reading >= q.rts.MaxRdAtomic ||
		op.wr.Flags&verbs.FlagFence != 0 && q.reading > 0 {
		return // the end of a READ or atomic wakes it
	}
	m, status := q.prepare(op, q.next)
	if q.node.downUntil > w.now && status == verbs.WCSuccess {
		w.free(m)
		status = verbs.WCLocQPOpErr
		if q.typ == verbs.RC {
			status = verbs.WCRetryExcErr // as package ibv makes of it
		}
	}
	if status != verbs.WCSuccess {
		op.state, op.status = opDone, status
		q.stick(q.next)
		q.next++
		q.retire()
		return
	}
	free := q.transmit(m, op)
	op.state = opSent
	if rdAtomic(op.wr.Op) {
		q.reading++
	}
	if q.next++; q.typ == verbs.RC {
		q.startClock()
	}
	q.wake(free)
}

// prepare makes the message of a request, or the status of a request that is wrong locally.
func (q *qp) prepare(op *sendOp, seq uint64) (*message, verbs.WCStatus) {
	w, wr := q.node.world, &op.wr
	var spans [verbs.MaxSGE]extent
	sg := wr.SGE[:wr.NumSGE]
	need := verbs.Access(0)
	if rdAtomic(wr.Op) {
		need = verbs.AccessLocalWrite
	}
	inline := wr.Flags&verbs.FlagInline != 0
	total, ok := len(op.inline), op.status == verbs.WCSuccess
	switch {
	case inline:
	default:
		total, ok = q.sges(sg, need, &spans)
	}
	if !ok {
		return nil, verbs.WCLocProtErr
	}
	m := w.newMessage()
	m.kind, m.op, m.flags, m.seq, m.imm = mkRequest, wr.Op, wr.Flags, seq, wr.Imm
	m.src, m.here, m.incarnation, m.srcQPN = q.node, q.node, q.node.incarnation, q.qpn
	m.addr, m.rkey, m.compare, m.swap = wr.RemoteAddr, wr.RKey, wr.CompareAdd, wr.Swap
	if q.typ == verbs.UD {
		m.kind, m.dst, m.dstQPN, m.qkey = mkDatagram, op.dst, wr.RemoteQPN, wr.RemoteQKey
	} else {
		m.dst, m.dstQPN = q.peer, q.peerQPN
	}
	if rdAtomic(wr.Op) {
		m.want = uint32(total)
		return m, verbs.WCSuccess
	}
	m.length = uint32(total)
	if inline {
		m.buf = w.buffer(total)
		copy(m.buf, op.inline)
	} else {
		m.buf = w.gather(spans[:wr.NumSGE], total)
	}
	return m, verbs.WCSuccess
}

// transmit takes a message through the initiator's NIC and gives the time at which the engine is
// free again.
func (q *qp) transmit(m *message, op *sendOp) Time {
	n, w := q.node, q.node.world
	free := n.out.take(w.now, n.slow(w.rate.out.of(m.op, m.kind)))
	wire := free + n.slow(w.cost.NIC.Pipeline)
	if m.length > 0 && op.wr.Flags&verbs.FlagInline == 0 {
		issued := n.read.take(w.now, n.slow(w.rate.dmaRead))
		bytes := w.cost.pcieBytes(int(m.length))
		fetched := n.toNIC.take(issued, n.slow(span(bytes, w.rate.pciePerByte)))
		wire = max(wire, fetched+n.slow(w.cost.PCIe.Read+w.cost.NIC.Pipeline))
	}
	wire = max(wire, q.lastWire) // a QP sends in order
	q.lastWire = wire
	w.post(wire, evWire, m)
	return free
}

// inline copies the payload that travels with the doorbell. As with a real NIC its key is not
// looked at, but the memory must be registered with the device: nothing else is known here.
func (d *device) inline(b []byte, wr *verbs.WR) ([]byte, bool) {
	for _, g := range wr.SGE[:wr.NumSGE] {
		if g.Length == 0 {
			continue
		}
		r := d.node.findMR(g.LKey)
		off, in := 0, false
		if r != nil {
			off, in = r.offset(g.Addr, int(g.Length))
		}
		for i := 0; i < len(d.mrs) && !in; i++ {
			r = d.mrs[i]
			off, in = r.offset(g.Addr, int(g.Length))
		}
		if !in {
			return b, false
		}
		b = append(b, r.mem.bytes[off:off+int(g.Length)]...)
	}
	return b, true
}
