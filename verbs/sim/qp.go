package sim

import (
	"drtmd/verbs"
)

// recvWR is a posted receive.
type recvWR struct {
	token uint64
	sge   [verbs.MaxSGE]verbs.SGE
	n     uint8
}

// opState is how far a send request is.
type opState uint8

const (
	opQueued  opState = iota + 1 // not sent, or to be sent again
	opSent                       // no answer yet
	opLanding                    // its answer is being written to memory
	opDone                       // to be completed when its turn comes
)

// sendOp is a request in the send queue.
type sendOp struct {
	wr     verbs.WR
	inline []byte
	dst    *Node // UD: what its address handle named when it was posted
	ready  Time  // the NIC knows of it from then on
	state  opState
	status verbs.WCStatus
	length uint32 // of the answer's data
}

// rdAtomic tells what counts against MaxRdAtomic. It is answered with data, so that an acknowledgement of
// something later does not answer it.
func rdAtomic(op verbs.Opcode) bool { return op == verbs.OpRead || op.IsAtomic() }

// qp implements verbs.DriverQP. Send requests are numbered from 0; that number is the sequence
// number on the wire too, so no packet numbers are needed.
type qp struct {
	node           *Node
	dev            *device
	pd             *pd
	typ            verbs.QPType
	qpn            uint32
	state          verbs.QPState
	sendCQ, recvCQ *cq
	access         verbs.Access
	qkey           uint32
	peer           *Node
	peerQPN        uint32
	rtr            verbs.RTRAttr
	rts            verbs.RTSAttr

	// The requester's side.
	sq          []sendOp // ring, power of two
	head        uint64   // oldest not completed
	next        uint64   // next to be sent
	tail        uint64   // next to be posted
	turnAt      Time     // an evSend is scheduled for then; Forever = none
	hold        Time     // nothing is sent before
	stuck       bool     // the request stuckAt failed: nothing after it is sent
	stuckAt     uint64
	reading     int  // READs and atomics in flight
	retries     int  // left
	rnrRetries  int  // left
	deadline    Time // of the oldest unanswered request
	clockOn     bool // an evTimeout is in the heap
	lastWire    Time // when its last message was ready for the uplink
	lastArrival Time // ... and at the peer

	// The responder's side.
	rq       []recvWR // ring, power of two
	rqHead   uint64
	rqTail   uint64
	expected uint64 // sequence number of the next request
	answered uint64 // ... and of the next whose access completes
	nacked   bool   // a missing request was reported
	serving  int    // READs and atomics accepted and not answered
	inbox    inbox
	orphans  []uint64 // receives of requests that died with the QP
	results  []result // of the last atomics, by seq modulo its length
}

// result is a saved answer, for a request that is repeated because its answer was lost.
type result struct {
	seq  uint64 // plus 1; 0 = none
	data []byte
}

// CreateQP implements verbs.DriverPD.
func (p *pd) CreateQP(c verbs.DriverQPConfig) (verbs.DriverQP, error) {
	d := p.dev
	if err := d.alive(); err != nil {
		return nil, err
	}
	n := d.node
	q := &qp{node: n, dev: d, pd: p, typ: c.Type, qpn: uint32(len(n.qps) + firstQPN),
		state: verbs.StateReset, sendCQ: c.DriverSendCQ.(*cq), recvCQ: c.DriverRecvCQ.(*cq),
		access: c.Access, qkey: c.QKey, turnAt: Forever}
	n.qps = append(n.qps, q)
	d.qps = append(d.qps, q)
	return q, nil
}

func (q *qp) QPN() uint32 { return q.qpn }

func (q *qp) ToInit() error {
	q.state = verbs.StateInit
	return q.dev.alive()
}

// ToRTR implements verbs.DriverQP.
func (q *qp) ToRTR(peer *verbs.Endpoint, a verbs.RTRAttr) error {
	if err := q.dev.alive(); err != nil {
		return err
	}
	if peer != nil {
		n := q.node.world.byGID(peer.GID)
		if n == nil {
			return noRoute("ibv_modify_qp to RTR", peer.GID)
		}
		q.peer, q.peerQPN = n, peer.QPN
	}
	q.rtr, q.state = a, verbs.StateRTR
	return nil
}

// ToRTS implements verbs.DriverQP.
func (q *qp) ToRTS(_ uint32, a verbs.RTSAttr) error {
	q.rts, q.state = a, verbs.StateRTS
	q.retries, q.rnrRetries = a.RetryCount, a.RNRRetry
	return q.dev.alive()
}

// ToError implements verbs.DriverQP.
func (q *qp) ToError() error {
	q.fail()
	return nil
}

// ToReset implements verbs.DriverResetter.
func (q *qp) ToReset() error {
	if err := q.dev.alive(); err != nil {
		return err
	}
	q.state, q.stuck, q.turnAt, q.hold = verbs.StateReset, false, Forever, 0
	return nil
}

// Close implements verbs.DriverQP.
func (q *qp) Close() error {
	q.destroy()
	return nil
}

// destroy takes the QP away; messages that refer to it find it closed.
func (q *qp) destroy() {
	if q.state == verbs.StateClosed {
		return
	}
	q.abandon()
	q.state = verbs.StateClosed
	q.node.qps[q.qpn-firstQPN] = nil
	q.dev.qps = remove(q.dev.qps, q)
	q.sq, q.rq, q.results = nil, nil, nil
	q.head, q.next, q.tail = 0, 0, 0
}

// fail puts the QP into the error state and flushes what is posted, at once: who broke the QP
// finds every completion when it polls.
func (q *qp) fail() {
	if q.state >= verbs.StateErr {
		return
	}
	q.state = verbs.StateErr
	q.abandon()
	q.flush()
}

// broken is fail with an event that says why.
func (q *qp) broken(why string) {
	if q.state >= verbs.StateErr {
		return
	}
	q.fail()
	q.dev.event(verbs.DriverEvent{Event: verbs.Event{Type: verbs.EventQPFatal, QPN: q.qpn,
		Text: why}})
}

// abandon drops what has been accepted and not completed.
func (q *qp) abandon() {
	for m := q.inbox.first(); m != nil; m = q.inbox.first() {
		q.inbox.pop()
		if m.hasRQ {
			q.orphans = append(q.orphans, m.recv.token)
			m.hasRQ = false
		}
		if m.ready {
			q.node.world.free(m) // no event refers to it
		}
	}
}

// flush completes everything posted with WR_FLUSH_ERR, if the QP is in error.
func (q *qp) flush() {
	if q.state != verbs.StateErr {
		return
	}
	for ; q.head < q.tail; q.head++ {
		q.sendCQ.push(verbs.WC{ID: q.op(q.head).wr.Token, Status: verbs.WCWRFlushErr, QPN: q.qpn}, false)
	}
	q.next = q.tail
	for _, token := range q.orphans {
		q.recvCQ.push(verbs.WC{ID: token, Status: verbs.WCWRFlushErr, QPN: q.qpn}, false)
	}
	q.orphans = nil
	for ; q.rqHead < q.rqTail; q.rqHead++ {
		token := q.rq[q.rqHead&uint64(len(q.rq)-1)].token
		q.recvCQ.push(verbs.WC{ID: token, Status: verbs.WCWRFlushErr, QPN: q.qpn}, false)
	}
}

func (q *qp) op(seq uint64) *sendOp { return &q.sq[seq&uint64(len(q.sq)-1)] }

// grown doubles a ring when it is full; at and end are the numbers of its first and next item.
func grown[T any](ring []T, at, end uint64) []T {
	if end-at < uint64(len(ring)) {
		return ring
	}
	bigger := make([]T, max(4, 2*len(ring)))
	for i := at; i < end; i++ {
		bigger[i&uint64(len(bigger)-1)] = ring[i&uint64(len(ring)-1)]
	}
	return bigger
}

// PostRecv implements verbs.DriverQP.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if err := q.dev.alive(); err != nil {
		return 0, err
	}
	for i := range wrs {
		q.rq = grown(q.rq, q.rqHead, q.rqTail)
		q.rq[q.rqTail&uint64(len(q.rq)-1)] = recvWR{token: wrs[i].Token, sge: wrs[i].SGE,
			n: uint8(wrs[i].NumSGE)}
		q.rqTail++
	}
	q.flush()
	return len(wrs), nil
}

// takeRecv consumes the oldest receive.
func (q *qp) takeRecv() (recvWR, bool) {
	if q.rqHead == q.rqTail {
		return recvWR{}, false
	}
	r := q.rq[q.rqHead&uint64(len(q.rq)-1)]
	q.rqHead++
	return r, true
}

// received completes a receive.
func (q *qp) received(m *message, wc verbs.WC) {
	wc.ID, wc.QPN = m.recv.token, q.qpn
	m.hasRQ = false
	q.recvCQ.push(wc, m.flags&verbs.FlagSolicited != 0)
}
