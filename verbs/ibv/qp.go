//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"drtmd/verbs"
)

// qp is a queue pair (verbs.DriverQP).
type qp struct {
	dev *device
	pd  *pd
	cfg verbs.QPConfig
	c   *C.struct_drt_qp
	qpn uint32

	// rxe only. failing is set before the first move to ERR.
	failing        atomic.Bool
	sendCQ, recvCQ *cq
	sent           ledger // guarded by the lock of sendCQ
	lost           bool   // the result of an atomic: see missing; guarded by the lock of sendCQ
	received       ledger // guarded by the lock of recvCQ

	mu     sync.Mutex // serializes transitions and Close
	closed bool       // guarded by mu
	begun  bool       // guarded by mu: it has left RESET
}

// CreateQP makes a queue pair. Signaling is per request: the layer sets the flag where all are
// to be signaled.
func (p *pd) CreateQP(c verbs.DriverQPConfig) (verbs.DriverQP, error) {
	caps := C.struct_drt_caps{send_wr: C.uint32_t(c.SendDepth), recv_wr: C.uint32_t(c.RecvDepth),
		send_sge: C.uint32_t(c.SendSGE), recv_sge: C.uint32_t(c.RecvSGE),
		inline_bytes: C.uint32_t(c.MaxInline)}
	want := caps
	q := &qp{dev: p.dev, pd: p, cfg: c.QPConfig, sendCQ: c.DriverSendCQ.(*cq),
		recvCQ: c.DriverRecvCQ.(*cq)}
	errno := C.drt_create_qp(p.c, q.sendCQ.c, q.recvCQ.c, q.ud(), p.dev.ahs, &caps, &q.c)
	if err := failed("ibv_create_qp", errno); err != nil {
		return nil, err
	}
	q.qpn = uint32(C.drt_qpn(q.c))
	if caps.send_wr < want.send_wr || caps.recv_wr < want.recv_wr ||
		caps.send_sge < want.send_sge || caps.recv_sge < want.recv_sge ||
		caps.inline_bytes < want.inline_bytes {
		C.drt_destroy_qp(q.c)
		return nil, &verbs.Error{Op: "ibv_create_qp", Errno: syscall.ENOMEM,
			Detail: fmt.Sprintf("the device granted %+v of %+v", caps, want)}
	}
	if p.dev.rxe != nil {
		q.sent, q.received = newLedger(c.SendDepth), newLedger(c.RecvDepth)
		p.dev.rxe.addQP(q)
	}
	if c.Type == verbs.UD {
		p.dev.mu.Lock()
		p.dev.datagram[q] = true
		p.dev.mu.Unlock()
	}
	return q, nil
}

func (q *qp) ud() C.int {
	if q.cfg.Type == verbs.UD {
		return 1
	}
	return 0
}

func (q *qp) QPN() uint32 { return q.qpn }

// modify runs a transition unless the queue pair is closed.
func (q *qp) modify(op string, f func() C.int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return &verbs.Error{Op: op, Err: verbs.ErrClosed}
	}
	return failed(op, f())
}

func (q *qp) ToInit() error {
	return q.modify("ibv_modify_qp to INIT", q.toInit)
}

// toInit needs mu.
func (q *qp) toInit() C.int {
	a := C.struct_drt_qp_attr{port: C.int(q.cfg.Port), ud: q.ud(), qkey: C.uint32_t(q.cfg.QKey),
		access: C.uint32_t(q.cfg.Access)}
	errno := C.drt_to_init(q.c, &a)
	q.begun = q.begun || errno == 0
	return errno
}

func (q *qp) ToRTR(peer *verbs.Endpoint, r verbs.RTRAttr) error {
	a := C.struct_drt_qp_attr{ud: q.ud(), mtu: C.int(r.PathMTU),
		max_dest_rd_atomic: C.int(r.MaxDestRdAtomic), min_rnr_timer: C.int(r.MinRNRTimer)}
	if peer != nil {
		path, err := q.dev.path(q.cfg.Port, q.cfg.GIDIndex.Resolved(), peer.GID, peer.LID)
		if err != nil {
			return err
		}
		path.hop_limit = C.uint8_t(r.HopLimit)
		path.traffic_class = C.uint8_t(r.TrafficClass)
		path.service_level = C.uint8_t(r.ServiceLevel)
		a.path, a.peer_qpn, a.peer_psn = path, C.uint32_t(peer.QPN), C.uint32_t(peer.PSN)
	}
	return q.modify("ibv_modify_qp to RTR", func() C.int { return C.drt_to_rtr(q.c, &a) })
}

func (q *qp) ToRTS(psn uint32, r verbs.RTSAttr) error {
	a := C.struct_drt_qp_attr{ud: q.ud(), psn: C.uint32_t(psn), timeout: C.int(r.Timeout),
		retry: C.int(r.RetryCount), rnr_retry: C.int(r.RNRRetry),
		max_rd_atomic: C.int(r.MaxRdAtomic)}
	return q.modify("ibv_modify_qp to RTS", func() C.int { return C.drt_to_rts(q.c, &a) })
}

// ToError may come at any time, also after Close. The kernel knows no way from RESET to ERR, so
// it takes the one through INIT.
func (q *qp) ToError() error {
	q.failing.Store(true)
	return q.modify("ibv_modify_qp to ERR", func() C.int {
		if !q.begun {
			if errno := q.toInit(); errno != 0 {
				return errno
			}
		}
		return C.drt_to_error(q.c)
	})
}

// ToReset comes when everything that was posted has been polled.
func (q *qp) ToReset() error {
	return q.modify("ibv_modify_qp to RESET", func() C.int {
		errno := C.drt_to_reset(q.c)
		if errno == 0 {
			q.begun = false
			q.failing.Store(false)
		}
		return errno
	})
}

func (q *qp) queryState() (C.int, error) {
	var state C.int
	err := q.modify("ibv_query_qp", func() C.int { return C.drt_query_state(q.c, &state) })
	return state, err
}

// PostSend is one call into C for the whole list.
func (q *qp) PostSend(wrs []verbs.WR) (int, error) {
	if q.dev.rxe != nil {
		q.noteSends(wrs)
	}
	n, err := q.postSend(wrs)
	if q.dev.rxe != nil {
		q.sent.unnote(len(wrs) - n)
	}
	return n, err
}

func (q *qp) postSend(wrs []verbs.WR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	done := C.drt_post_send(q.c, (*C.struct_drt_wr)(unsafe.Pointer(&wrs[0])), C.int(len(wrs)))
	return int(done.n), failed("ibv_post_send", done.err)
}

// PostRecv is one call into C for the whole list.
func (q *qp) PostRecv(wrs []verbs.RecvWR) (int, error) {
	if q.dev.rxe != nil {
		return q.postRecvRXE(wrs)
	}
	return q.postRecv(wrs)
}

func (q *qp) postRecv(wrs []verbs.RecvWR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	done := C.drt_post_recv(q.c, (*C.struct_drt_recv_wr)(unsafe.Pointer(&wrs[0])),
		C.int(len(wrs)))
	return int(done.n), failed("ibv_post_recv", done.err)
}

func (q *qp) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	if q.cfg.Type == verbs.UD {
		q.dev.mu.Lock()
		delete(q.dev.datagram, q)
		q.dev.mu.Unlock()
	}
	if q.dev.rxe != nil {
		q.dev.rxe.dropQP(q)
	}
	if err := failed("ibv_destroy_qp", C.drt_destroy_qp(q.c)); err != nil {
		return err
	}
	q.closed = true
	return nil
}
