//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"sync"
	"syscall"
	"unsafe"

	"drtmd/verbs"
)

// cq is a completion queue (verbs.DriverCQ).
type cq struct {
	rxe  *softRoCE  // nil on other drivers
	seen finder     // rxe only
	late []verbs.WC // rxe only: completions to come before what the driver has; guarded like seen
	c    *C.struct_drt_cq
	once closeOnce
}

// CreateCQ asks for exactly depth entries; the driver may grant more.
func (d *device) CreateCQ(depth int, id uint32, ch verbs.DriverChannel,
	singleThreaded bool) (verbs.DriverCQ, error) {
	q := &cq{rxe: d.rxe}
	var channel *C.struct_ibv_comp_channel
	if ch != nil {
		channel = ch.(*compChannel).c
	}
	single := C.int(0)
	if singleThreaded {
		single = 1
	}
	errno := C.drt_create_cq(d.ctx, C.int(depth), C.uint32_t(id), channel, single, &q.c)
	if err := failed("ibv_create_cq", errno); err != nil {
		return nil, err
	}
	return q, nil
}

// Poll is one call into C for up to len(wcs) completions.
func (q *cq) Poll(wcs []verbs.WC) (int, error) {
	if len(wcs) == 0 {
		return 0, nil
	}
	if q.rxe != nil {
		return q.poll(wcs)
	}
	return q.take(wcs)
}

// take is Poll of what the driver says.
func (q *cq) take(wcs []verbs.WC) (int, error) {
	n := C.drt_poll(q.c, (*C.struct_drt_wc)(unsafe.Pointer(&wcs[0])), C.int(len(wcs)))
	if n < 0 {
		return 0, errPoll()
	}
	return int(n), nil
}

// errPoll is all that ibv_poll_cq says of a queue that is broken. The layer adds to an error, so
// each caller gets one of its own.
func errPoll() error {
	return &verbs.Error{Op: "ibv_poll_cq", Errno: syscall.EIO,
		Hint: "the completion queue is broken; make it and its QPs anew"}
}

func (q *cq) Arm(solicitedOnly bool) error {
	only := C.int(0)
	if solicitedOnly {
		only = 1
	}
	return failed("ibv_req_notify_cq", C.drt_arm(q.c, only))
}

// Close does not wait for the program: events that were read are acknowledged, and the kernel
// drops those that were not.
func (q *cq) Close() error {
	return q.once.do(func() error { return failed("ibv_destroy_cq", C.drt_destroy_cq(q.c)) })
}

// compChannel is a completion channel (verbs.DriverChannel).
type compChannel struct {
	fd int

	mu sync.Mutex // guards c: a Consume may meet a Close
	c  *C.struct_ibv_comp_channel
}

// CreateChannel makes a channel with a non-blocking descriptor.
func (d *device) CreateChannel() (verbs.DriverChannel, error) {
	const op = "ibv_create_comp_channel"
	ch := &compChannel{}
	if err := failed(op, C.drt_create_channel(d.ctx, &ch.c)); err != nil {
		return nil, err
	}
	ch.fd = int(ch.c.fd)
	if err := failed(op, C.drt_nonblocking(ch.c.fd)); err != nil {
		_ = ch.Close() // the first error says it
		return nil, err
	}
	return ch, nil
}

func (ch *compChannel) FD() int { return ch.fd }

// Consume reads until none waits. CQs are armed by hand, so a call sees each at most once or
// twice and ends.
func (ch *compChannel) Consume(each func(cqID uint32)) error {
	var ids [64]uint32
	for {
		n, err := ch.take(ids[:])
		for _, id := range ids[:n] {
			each(id)
		}
		if err != nil || n < len(ids) {
			return err
		}
	}
}

func (ch *compChannel) take(ids []uint32) (int, error) {
	const op = "ibv_get_cq_event"
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.c == nil {
		return 0, &verbs.Error{Op: op, Err: verbs.ErrClosed}
	}
	var n C.int
	errno := C.drt_get_cq_events(ch.c, (*C.uint32_t)(unsafe.Pointer(&ids[0])),
		C.int(len(ids)), &n)
	return int(n), failed(op, errno)
}

func (ch *compChannel) Close() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.c == nil {
		return nil
	}
	if err := failed("ibv_destroy_comp_channel", C.ibv_destroy_comp_channel(ch.c)); err != nil {
		return err
	}
	ch.c = nil
	return nil
}
