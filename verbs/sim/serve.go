package sim

import (
	"drtmd/verbs"
)

// This file is the responder's side of a QP.

// exec is a message that the NIC of its destination has processed.
func (n *Node) exec(m *message) {
	w := n.world
	switch m.kind {
	case mkProgram:
		n.deliver(m)
		return
	case mkPacket:
		n.deliverPacket(m)
		return
	}
	q := n.qpAt(m.dstQPN)
	if m.kind == mkResponse {
		if q == nil || q.peer != m.src || !n.up {
			w.drop(m)
			return
		}
		q.response(m)
		return
	}
	switch {
	case q == nil || !n.up || q.state != verbs.StateRTR && q.state != verbs.StateRTS:
		w.drop(m)
	case m.kind == mkDatagram && q.typ == verbs.UD:
		q.datagram(m)
	case m.kind == mkRequest && q.typ == verbs.RC && q.peer == m.src && q.peerQPN == m.srcQPN:
		q.request(m)
	default:
		w.drop(m) // not for this QP
	}
}

// request is a request of the peer.
func (q *qp) request(m *message) {
	w := q.node.world
	m.qp = q
	switch {
	case m.seq < q.expected:
		q.duplicate(m)
		return
	case m.seq > q.expected:
		if q.nacked {
			w.drop(m)
			return
		}
		q.nacked = true
		m.seq = q.expected
		q.reply(m, ansSequence)
		return
	}
	if m.op == verbs.OpSend || m.op == verbs.OpSendImm || m.op == verbs.OpWriteImm {
		if q.rqHead == q.rqTail {
			q.nacked = true
			m.wait = rnrTimer(q.rtr.MinRNRTimer)
			q.reply(m, ansRNR)
			return
		}
	}
	m.status = q.admit(m)
	q.expected++
	q.nacked = false
	q.inbox.push(m)
	q.start(m)
}

// admit checks a request and sets what it accesses. It consumes a receive for what needs one.
func (q *qp) admit(m *message) verbs.WCStatus {
	m.mode, m.nspans = accessNone, 0
	if rdAtomic(m.op) {
		if q.serving++; q.serving > q.rtr.MaxDestRdAtomic {
			return verbs.WCRemInvReqErr
		}
	}
	switch m.op {
	case verbs.OpSend, verbs.OpSendImm:
		m.recv, m.hasRQ = q.takeRecv()
		return q.scatter(m)
	case verbs.OpWriteImm:
		m.recv, m.hasRQ = q.takeRecv()
	}
	length, need := int(m.length), verbs.AccessRemoteWrite
	switch m.op {
	case verbs.OpRead:
		length, need = int(m.want), verbs.AccessRemoteRead
		m.mode = accessRead
	case verbs.OpCAS:
		length, need = 8, verbs.AccessRemoteAtomic
		m.mode = accessCAS
	case verbs.OpFAA:
		length, need = 8, verbs.AccessRemoteAtomic
		m.mode = accessFAA
	default:
		m.mode = accessWrite
	}
	if q.access&need == 0 {
		return verbs.WCRemInvReqErr
	}
	if length == 0 {
		return verbs.WCSuccess // neither key nor address are looked at
	}
	r := q.node.findMR(m.rkey)
	if r == nil || r.pd != q.pd || r.access&need == 0 {
		return verbs.WCRemAccessErr
	}
	off, in := r.offset(m.addr, length)
	if !in {
		return verbs.WCRemAccessErr
	}
	if see := q.node.world.cfg.OnAccess; see != nil {
		see(Access{Node: q.node.name, RKey: m.rkey, Op: m.op, Offset: off, Length: length})
	}
	m.spans[0], m.nspans = extent{mr: r, off: off, n: length}, 1
	q.node.world.trace.mix(uint64(off))
	return verbs.WCSuccess
}

// scatter aims a SEND at the receive that it consumed.
func (q *qp) scatter(m *message) verbs.WCStatus {
	total, ok := q.sges(m.recv.sge[:m.recv.n], verbs.AccessLocalWrite, &m.spans)
	if !ok {
		return verbs.WCRemOpErr
	}
	if total < int(m.length) {
		return verbs.WCRemInvReqErr
	}
	m.mode, m.nspans = accessWrite, int(m.recv.n)
	clip(m.spans[:m.nspans], int(m.length))
	return verbs.WCSuccess
}

// start schedules the access of a request, or of a datagram.
func (q *qp) start(m *message) {
	n, w := q.node, q.node.world
	c := &w.cost.PCIe
	t, perByte := w.now, w.rate.pciePerByte
	if m.status != verbs.WCSuccess {
		w.begin(m, t, perByte)
		return
	}
	switch m.mode {
	case accessRead:
		issued := n.read.take(t, n.slow(w.rate.dmaRead))
		m.buf = w.buffer(int(m.want))
		d := n.slow(span(w.cost.pcieBytes(int(m.want)), perByte))
		t = n.toNIC.take(issued, d) - d + n.slow(c.Read)
	case accessWrite:
		d := n.slow(span(w.cost.pcieBytes(int(m.length)), perByte))
		t = n.toHost.take(t, d) - d + n.slow(c.Write)
	case accessCAS, accessFAA:
		s := &m.spans[0]
		unit := (uint64(s.off)/8 + uint64(s.mr.key)*31) % atomicUnits
		hold := n.slow(w.cost.NIC.AtomicHold)
		t = n.atomics[unit].take(t, hold) - hold + n.slow(c.Read+w.cost.NIC.AtomicLatency)
	}
	w.begin(m, t, perByte)
}

// served goes on after the access of a request: it is complete, or was refused.
func (q *qp) served(m *message) {
	w := q.node.world
	q.answered++
	if rdAtomic(m.op) {
		q.serving--
	}
	if m.status != verbs.WCSuccess {
		q.refused(m)
		return
	}
	if m.hasRQ {
		wc := verbs.WC{Op: verbs.WCOpcode(verbs.OpRecv), ByteLen: m.length}
		if m.op == verbs.OpWriteImm {
			wc.Op = verbs.WCOpcode(verbs.OpRecvWriteImm)
		}
		if m.op != verbs.OpSend {
			wc.Flags, wc.Imm = verbs.WCWithImm, m.imm
		}
		q.received(m, wc)
	}
	switch {
	case m.op == verbs.OpRead:
	case rdAtomic(m.op):
		q.save(m)
	default:
		w.freeBuffer(m.buf)
		m.buf = nil
	}
	q.reply(m, ansDone)
}

// refused answers with an error, which breaks the QP on both sides.
func (q *qp) refused(m *message) {
	local := verbs.WCSuccess
	if m.hasRQ {
		switch m.status {
		case verbs.WCRemInvReqErr:
			if m.op != verbs.OpWriteImm { // there it is the QP that does not allow it
				local = verbs.WCLocLenErr
			}
		case verbs.WCRemOpErr, verbs.WCLocProtErr:
			local, m.status = verbs.WCLocProtErr, verbs.WCRemOpErr
		}
	}
	if local != verbs.WCSuccess {
		q.received(m, verbs.WC{Status: local})
	} else if m.hasRQ {
		q.orphans = append(q.orphans, m.recv.token)
		m.hasRQ = false
	}
	event := verbs.EventQPReqErr
	if m.status == verbs.WCRemAccessErr {
		event = verbs.EventQPAccessErr
	}
	text := m.op.String() + " refused: " + m.status.String()
	q.node.world.freeBuffer(m.buf)
	m.buf = nil
	q.reply(m, ansError)
	q.fail()
	q.dev.event(verbs.DriverEvent{Event: verbs.Event{Type: event, QPN: q.qpn, Text: text}})
}

// save keeps the answer of what must not be executed twice.
func (q *qp) save(m *message) {
	if q.results == nil {
		q.results = make([]result, maxRdAtomic)
	}
	r := &q.results[m.seq%uint64(len(q.results))]
	r.seq, r.data = m.seq+1, append(r.data[:0], m.buf...)
}

// duplicate answers a request that was accepted before: the answer was lost, or late.
func (q *qp) duplicate(m *message) {
	w := q.node.world
	if m.seq >= q.answered {
		w.drop(m) // it is being worked on: the answer will come
		return
	}
	w.freeBuffer(m.buf)
	m.buf = nil
	switch {
	case m.op == verbs.OpRead: // a READ may be executed again, and see what came later
		status := q.admit(m)
		q.serving--
		if status != verbs.WCSuccess {
			w.drop(m)
			return
		}
		m.status = status
		m.buf = w.buffer(int(m.want))
		if m.nspans > 0 {
			s := m.spans[0]
			if s.locked() {
				w.drop(m) // it is repeated once more
				return
			}
			copy(m.buf, s.mr.mem.bytes[s.off:s.off+s.n])
		}
	case rdAtomic(m.op):
		r := result{}
		if q.results != nil {
			r = q.results[m.seq%uint64(len(q.results))]
		}
		if r.seq != m.seq+1 {
			w.drop(m)
			return
		}
		m.buf = w.buffer(len(r.data))
		copy(m.buf, r.data)
	}
	q.reply(m, ansDone)
}

// reply turns a request into its answer and sends it.
func (q *qp) reply(m *message, a answer) {
	w, n := q.node.world, q.node
	if a != ansDone {
		w.freeBuffer(m.buf)
		m.buf = nil
	}
	m.kind, m.answer, m.qp = mkResponse, a, nil
	m.dst, m.src, m.here = m.src, n, n
	m.dstQPN, m.srcQPN = m.srcQPN, q.qpn
	m.incarnation = n.incarnation
	m.length = uint32(len(m.buf))
	m.mode, m.nspans, m.ready = accessNone, 0, false
	w.post(w.now+n.slow(w.cost.NIC.Pipeline), evWire, m)
}
