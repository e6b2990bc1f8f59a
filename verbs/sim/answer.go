package sim

import (
	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// This file is what the requester does about answers, and about missing ones.

// startClock starts the clock of retries, unless it runs.
func (q *qp) startClock() {
	w := q.node.world
	if q.next-q.head == 1 || q.deadline <= w.now {
		q.deadline = w.now.add(ackTimeout(q.rts.Timeout))
	}
	if !q.clockOn {
		q.clockOn = true
		w.schedule(q.deadline, event{kind: evTimeout, qp: q})
	}
}

// waiting reports whether an answer is due from the peer.
func (q *qp) waiting() bool {
	for s := q.head; s < q.next; s++ {
		if q.op(s).state == opSent {
			return true
		}
	}
	return false
}

// timeoutDue is asked at the time of an evTimeout. Where an answer came meanwhile, the clock is
// set anew or stopped, and nothing has happened.
func (q *qp) timeoutDue(now Time) bool {
	q.clockOn = false
	if q.state != verbs.StateRTS || !q.waiting() {
		return false
	}
	if q.deadline > now {
		q.clockOn = true
		q.node.world.schedule(q.deadline, event{kind: evTimeout, qp: q})
		return false
	}
	return true
}

// timedOut is the end of a wait for an answer.
func (q *qp) timedOut() {
	seq := q.head
	for q.op(seq).state != opSent {
		seq++
	}
	if q.retries == 0 {
		q.refuse(seq, verbs.WCRetryExcErr)
		return
	}
	q.retries--
	q.goBack(seq)
	q.wake(q.node.world.now)
}

// goBack makes everything from seq on, that is not answered, to be sent again.
func (q *qp) goBack(seq uint64) {
	for s := seq; s < q.next; s++ {
		if op := q.op(s); op.state == opSent {
			op.state = opQueued
			q.node.world.stats.Retransmits++
			if rdAtomic(op.wr.Op) {
				q.reading--
			}
		}
	}
	q.next = min(q.next, seq)
}

// refuse ends a request with an error; nothing after it is sent.
func (q *qp) refuse(seq uint64, s verbs.WCStatus) {
	op := q.op(seq)
	op.state, op.status = opDone, s
	q.stick(seq)
	q.retire()
}

// progress is an answer from the peer: the bounds of retries start anew.
func (q *qp) progress() {
	q.retries, q.rnrRetries = q.rts.RetryCount, q.rts.RNRRetry
	q.deadline = q.node.world.now.add(ackTimeout(q.rts.Timeout))
}

// response is an answer that has come through the NIC.
func (q *qp) response(m *message) {
	w := q.node.world
	if q.state != verbs.StateRTS || m.seq < q.head || m.seq >= q.tail {
		w.free(m)
		return
	}
	op := q.op(m.seq)
	if op.state >= opLanding || m.seq >= q.next && m.answer != ansDone && m.answer != ansError {
		w.free(m) // the answer to an earlier copy of the request has been taken
		return
	}
	switch m.answer {
	case ansDone, ansError:
		q.answer(m, op)
		return
	case ansRNR:
		if q.rnrRetries == 0 {
			q.refuse(m.seq, verbs.WCRNRRetryExcErr)
			break
		}
		q.rnrRetries--
		q.again(m.seq, m.wait)
	case ansSequence:
		q.again(m.seq, 0)
	}
	w.free(m)
}

// again sends everything from seq on once more after a wait.
func (q *qp) again(seq uint64, wait Time) {
	q.goBack(seq)
	q.hold = q.node.world.now.add(wait)
	q.deadline = q.hold.add(ackTimeout(q.rts.Timeout))
	q.wake(q.hold)
}

// answer takes the final answer to a request.
func (q *qp) answer(m *message, op *sendOp) {
	n, w := q.node, q.node.world
	q.progress()
	if op.state == opQueued && rdAtomic(op.wr.Op) {
		q.reading++ // it was to be sent again; it is in flight until its data has landed
	}
	op.state = opLanding
	m.qp = q
	if m.answer == ansError || len(m.buf) == 0 {
		w.post(w.now+n.slow(w.cost.PCIe.Write), evDone, m)
		q.wake(w.now)
		return
	}
	sg := op.wr.SGE[:op.wr.NumSGE]
	_, ok := q.sges(sg, verbs.AccessLocalWrite, &m.spans)
	m.nspans = len(sg)
	if !ok || !clip(m.spans[:m.nspans], len(m.buf)) {
		m.status = verbs.WCLocProtErr
		w.post(w.now+n.slow(w.cost.PCIe.Write), evDone, m)
		return
	}
	op.length = uint32(len(m.buf))
	m.mode = accessWrite
	d := n.slow(span(w.cost.pcieBytes(len(m.buf)), w.rate.pciePerByte))
	end := n.toHost.take(w.now, d)
	w.begin(m, end-d+n.slow(w.cost.PCIe.Write), w.rate.pciePerByte)
	q.wake(w.now)
}

// finish ends a request whose answer has reached memory.
func (w *World) finish(m *message) {
	q := m.qp
	if q.state == verbs.StateRTS && m.seq >= q.head {
		for s := q.head; s < m.seq; s++ {
			// The peer works in order: an answer acknowledges what came before.
			if op := q.op(s); op.state == opSent && !rdAtomic(op.wr.Op) {
				op.state = opDone
			}
		}
		op := q.op(m.seq)
		op.state, op.status = opDone, m.status
		if rdAtomic(op.wr.Op) {
			q.reading--
		}
		if m.status != verbs.WCSuccess {
			q.stick(m.seq)
		}
		q.retire()
	}
	w.free(m)
}

// retire completes requests in order.
func (q *qp) retire() {
	for q.head < q.next && q.state == verbs.StateRTS {
		op := q.op(q.head)
		if op.state != opDone {
			break
		}
		q.head++
		q.complete(op)
	}
	q.wake(q.node.world.now)
}

// complete gives the completion of a request, if it has one.
func (q *qp) complete(op *sendOp) {
	if op.status != verbs.WCSuccess {
		invariant.Assert(q.state == verbs.StateRTS, "a request failed on a QP that is not in RTS")
		q.sendCQ.push(verbs.WC{ID: op.wr.Token, Status: op.status, QPN: q.qpn}, false)
		q.fail()
		return
	}
	if op.wr.Flags&verbs.FlagSignaled != 0 {
		q.sendCQ.push(verbs.WC{ID: op.wr.Token, Op: verbs.WCOpcode(op.wr.Op), QPN: q.qpn,
			ByteLen: op.length}, false)
	}
}

// sent completes a datagram.
func (q *qp) sent(seq uint64) {
	if q.state == verbs.StateRTS && seq >= q.head && seq < q.next {
		q.op(seq).state = opDone
		q.retire()
	}
}
