//go:build linux && amd64

package shm

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"drtmd/verbs"
)

// States as they stand in qpEntry.word.
const (
	stateReset  = uint32(verbs.StateReset)
	stateInit   = uint32(verbs.StateInit)
	stateRTR    = uint32(verbs.StateRTR)
	stateRTS    = uint32(verbs.StateRTS)
	stateErr    = uint32(verbs.StateErr)
	stateClosed = uint32(verbs.StateClosed)
)

// qp is a queue pair. The send half belongs to the holder of the send CQ's lock, the receive
// half to that of the receive CQ's; state is atomic, and the rest is fixed from RTR on.
type qp struct {
	dev    *device
	pd     uint32
	cfg    verbs.QPConfig
	index  uint32
	qpn    uint32
	entry  *qpEntry
	state  atomic.Uint32
	sendCQ *cq
	recvCQ *cq
	group  uint32 // of recvCQ

	peer   *peer // RC; written once, under device.mu: see peerDied
	target *qpEntry
	rtr    verbs.RTRAttr
	rts    verbs.RTSAttr

	send sendHalf
	recv recvHalf
}

// CreateQP makes a queue pair in RESET with its receive area.
func (p *pd) CreateQP(c verbs.DriverQPConfig) (verbs.DriverQP, error) {
	d := p.dev
	q := &qp{dev: d, pd: p.id, cfg: c.QPConfig, sendCQ: c.DriverSendCQ.(*cq),
		recvCQ: c.DriverRecvCQ.(*cq)}
	q.state.Store(stateReset)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := q.recv.init(q); err != nil {
		return nil, err
	}
	switch n := len(d.qpFree); {
	case n > 0:
		q.index, d.qpFree = d.qpFree[0], d.qpFree[1:]
	case len(d.qpGen) < maxQP:
		q.index = uint32(len(d.qpGen))
		d.qpGen = append(d.qpGen, 0)
	default:
		d.arenas.giveLocked(d, q.recv.block, func() bool { return true })
		return nil, &verbs.Error{Op: "ibv_create_qp", Errno: syscall.ENOMEM,
			Detail: fmt.Sprintf("a context has at most %d QPs", maxQP)}
	}
	d.qpGen[q.index] = d.qpGen[q.index]%(1<<(24-qpBits)-1) + 1
	q.qpn = d.qpGen[q.index]<<qpBits | q.index
	q.send.init(q)
	q.entry = &d.ctl.qps[q.index]
	q.recvCQ.enlist(q, true)
	q.sendCQ.enlist(q, false)
	q.recv.open(q)
	q.publish(stateReset)
	d.qps[q.index] = q
	return q, nil
}

// publish shows the configuration and the state to peers, the state last.
func (q *qp) publish(state uint32) {
	e := q.entry
	e.kind.Store(uint32(q.cfg.Type))
	e.access.Store(uint32(q.cfg.Access))
	e.pd.Store(q.pd)
	e.qkey.Store(q.cfg.QKey)
	e.areaSegment.Store(q.recv.block.segment)
	e.areaOffset.Store(q.recv.block.offset)
	e.areaSlots.Store(q.recv.mask + 1)
	e.cq.Store(q.recvCQ.index)
	e.group.Store(q.group)
	e.word.Store(uint64(q.qpn)<<8 | uint64(state))
}

// move changes the state unless the QP has failed.
func (q *qp) move(from, to uint32) {
	if q.state.CompareAndSwap(from, to) {
		q.publish(to)
		if q.state.Load() != to { // failed in between
			q.entry.word.Store(uint64(q.qpn)<<8 | uint64(q.state.Load()))
		}
	}
}

func (q *qp) QPN() uint32 { return q.qpn }

func (q *qp) ToInit() error {
	q.move(stateReset, stateInit)
	return nil
}

// ToRTR finds the peer's process and, once, checks that its QP is there.
func (q *qp) ToRTR(peer *verbs.Endpoint, a verbs.RTRAttr) error {
	q.rtr = a
	e := q.entry
	e.limits.Store(uint32(a.MaxDestRdAtomic) | uint32(a.MinRNRTimer)<<8)
	if peer != nil {
		p, err := q.dev.peerByGID(peer.GID)
		if err != nil {
			return err
		}
		q.dev.mu.Lock()
		q.peer = p
		q.dev.mu.Unlock()
		q.target = &p.ctl.qps[peer.QPN&(maxQP-1)]
		l := &q.send.lane
		l.target, l.wordQPN = q.target, uint64(peer.QPN)
		l.up = l.wordQPN<<8 | uint64(stateRTR)
		q.send.lane.remote = make([]view, remoteViews)
		e.peer.Store(p.id.Incarnation)
		e.peerQPN.Store(peer.QPN)
	}
	q.move(stateInit, stateRTR)
	return nil
}

// retryTime is how long an operation is tried again: the specification's timeout, each try and
// each retry.
func retryTime(a verbs.RTSAttr) int64 {
	return 4096 << a.Timeout * int64(a.RetryCount+1)
}

func (q *qp) ToRTS(_ uint32, a verbs.RTSAttr) error {
	q.rts = a
	q.send.retryNs = retryTime(a)
	q.move(stateRTR, stateRTS)
	return nil
}

// ToError may be called from any goroutine: it changes atomics only, and the owners of the CQs
// flush when they poll.
func (q *qp) ToError() error {
	for {
		s := q.state.Load()
		if s == stateErr || s == stateClosed {
			return nil
		}
		if q.state.CompareAndSwap(s, stateErr) {
			break
		}
	}
	q.entry.word.Store(uint64(q.qpn)<<8 | uint64(stateErr))
	for _, c := range [...]*cq{q.sendCQ, q.recvCQ} {
		c.attention.Store(true)
		c.fire()
	}
	return nil
}

// Close destroys the QP. The layer holds the locks of both CQs.
func (q *qp) Close() error {
	q.state.Store(stateClosed)
	q.entry.word.Store(uint64(q.qpn)<<8 | uint64(stateClosed))
	q.sendCQ.mu.Lock() // the ticker may be at it
	q.sendCQ.unwait(q)
	q.send.lane.close(q.peer)
	q.sendCQ.mu.Unlock()
	q.endHalfMessage()
	q.recv.lane.close(nil)
	q.sendCQ.delist(q, false)
	q.recvCQ.delist(q, true)
	d := q.dev
	d.mu.Lock()
	d.arenas.giveLocked(d, q.recv.block, q.recv.quiet(q))
	delete(d.qps, q.index)
	d.qpFree = append(d.qpFree, q.index)
	d.mu.Unlock()
	for i := range q.send.datagrams {
		q.setTarget(uint32(i), nil)
	}
	if q.peer != nil {
		q.peer.letGo()
	}
	return nil
}

// sendHalf is the send queue. Requests run in order; the one at the head may be under way.
type sendHalf struct {
	lane    lane
	retryNs int64

	// Requests that could not run at once, a ring of the send depth.
	ring       []verbs.WR
	inline     []byte // MaxInline for each place of ring
	mask       uint32
	head, tail uint32

	// The operation at the head.
	now       current
	peerReady bool   // the target was seen in RTR or RTS, connected to this QP
	access    uint32 // the target's, valid with peerReady
	maxDest   uint32 // the target's max dest rd atomic
	pd        uint32 // the target's
	rnrNs     int64  // how long to wait for a receive
	area      unsafe.Pointer
	areaMask  uint64
	messages  uint64 // sent so far that consumed a receive
	datagrams datagramCache
	// inMiddle, if not nil, is called when a request has found its target: for tests.
	inMiddle func()
}

// current is how far the operation at the head of the send queue has come.
type current struct {
	done       uint64 // bytes moved; atomics: 1 = done, the result is not placed yet
	old        uint64 // result of an atomic
	carry      uint64 // bytes of lane.scratch, from carryAt on, that still have to be placed
	carryAt    uint64
	kept       bool // something but done and the sources is set
	deadline   int64
	rnrUntil   int64
	fetchUntil int64
	src        [verbs.MaxSGE]unsafe.Pointer
	srcLen     [verbs.MaxSGE]uint64
	srcCount   int
}

func (s *sendHalf) init(q *qp) {
	n := uint32(1)
	for n < uint32(q.cfg.SendDepth) {
		n *= 2
	}
	s.mask = n - 1
	s.lane = lane{dev: q.dev, state: &q.state, good: 1 << stateRTS,
		unfenced: remoteFences()}
}
