package sim

import (
	"encoding/binary"

	"drtmd/verbs"
)

// This file is the receiving side of a UD QP.

// datagram is a datagram for a UD QP: taken if a receive is there that fits, dropped otherwise,
// as is one with the wrong key.
func (q *qp) datagram(m *message) {
	w := q.node.world
	if m.qkey != q.qkey || q.rqHead == q.rqTail {
		w.drop(m)
		return
	}
	r := &q.rq[q.rqHead&uint64(len(q.rq)-1)]
	var spans [verbs.MaxSGE]extent
	total, ok := q.sges(r.sge[:r.n], verbs.AccessLocalWrite, &spans)
	if ok && total < int(m.length)+verbs.GRHBytes {
		w.drop(m)
		return
	}
	m.qp, m.spans, m.nspans, m.mode = q, spans, int(r.n), accessWrite
	m.recv, m.hasRQ = q.takeRecv()
	if !ok {
		m.status = verbs.WCLocProtErr
	}
	packet := w.buffer(verbs.GRHBytes + int(m.length))
	grh(packet, m)
	copy(packet[verbs.GRHBytes:], m.buf)
	w.freeBuffer(m.buf)
	m.buf, m.length = packet, uint32(len(packet))
	clip(m.spans[:m.nspans], len(packet))
	q.inbox.push(m)
	q.start(m)
}

// grh writes the global route header of a datagram.
func grh(b []byte, m *message) {
	clear(b[:verbs.GRHBytes])
	b[0] = 6 << 4
	binary.BigEndian.PutUint16(b[4:], uint16(m.length))
	b[6], b[7] = 0x1b, 64
	copy(b[8:24], m.src.gid[:])
	copy(b[24:40], m.dst.gid[:])
}

// datagramLanded completes the receive of a datagram.
func (q *qp) datagramLanded(m *message) {
	wc := verbs.WC{Op: verbs.WCOpcode(verbs.OpRecv), ByteLen: m.length, SrcQPN: m.srcQPN,
		Flags: verbs.WCWithGRH}
	if m.op == verbs.OpSendImm {
		wc.Flags, wc.Imm = wc.Flags|verbs.WCWithImm, m.imm
	}
	failed := m.status != verbs.WCSuccess
	if failed {
		wc = verbs.WC{Status: m.status}
	}
	q.received(m, wc)
	if failed {
		q.fail()
	}
	q.node.world.free(m)
}
