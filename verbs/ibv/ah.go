//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"runtime"
	"syscall"
	"unsafe"

	"drtmd/verbs"
)

// ah is an address handle (verbs.DriverAH).
type ah struct {
	dev    *device
	c      *C.struct_ibv_ah
	handle uint32
	once   closeOnce
}

func (p *pd) CreateAH(a verbs.AHAttr) (verbs.DriverAH, error) {
	const op = "ibv_create_ah"
	path, err := p.dev.path(a.Port, a.GIDIndex.Resolved(), a.GID, a.LID)
	if err != nil {
		return nil, err
	}
	path.hop_limit = C.uint8_t(a.HopLimit)
	path.traffic_class = C.uint8_t(a.TrafficClass)
	path.service_level = C.uint8_t(a.ServiceLevel)
	h := &ah{dev: p.dev}
	if errno := syscall.Errno(C.drt_create_ah(p.c, &path, &h.c)); errno != 0 {
		e := &verbs.Error{Op: op, Errno: errno}
		switch errno {
		case syscall.EINVAL:
			e.Hint = "wrong GID index, or a peer GID of another address family"
		case syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT:
			e.Hint = "the peer's address does not resolve: check its GID and the route to it"
		}
		return nil, e
	}
	if err := p.dev.publishAH(h); err != nil {
		C.ibv_destroy_ah(h.c)
		return nil, err
	}
	return h, nil
}

// path describes the way to a port. RoCE and ports that say so need a GRH; else the LID does.
func (d *device) path(port, gidIndex int, gid verbs.GID, lid uint16) (C.struct_drt_path, error) {
	p := C.struct_drt_path{gid_index: C.int(gidIndex), port: C.int(port), lid: C.uint16_t(lid)}
	var c C.struct_drt_port
	if err := failed("ibv_query_port", C.drt_query_port(d.ctx, C.int(port), &c)); err != nil {
		return p, err
	}
	if c.link_layer == C.IBV_LINK_LAYER_ETHERNET || c.grh_required != 0 {
		p.grh = 1
	}
	p.gid = *(*[16]C.uint8_t)(unsafe.Pointer(&gid))
	return p, nil
}

// publishAH gives the handle a number that posts find it by.
func (d *device) publishAH(h *ah) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.ahFree); n > 0 {
		h.handle, d.ahFree = d.ahFree[n-1], d.ahFree[:n-1]
	} else {
		h.handle = d.ahNext
		d.ahNext++
	}
	if err := failed("ibv_create_ah", C.drt_ah_set(d.ahs, C.uint32_t(h.handle), h.c)); err != nil {
		d.ahFree = append(d.ahFree, h.handle)
		return err
	}
	return nil
}

// withdrawAH returns when no post can be using the handle any more.
func (d *device) withdrawAH(h *ah) {
	d.mu.Lock()
	defer d.mu.Unlock()
	C.drt_ah_set(d.ahs, C.uint32_t(h.handle), nil) // cannot fail: its block is there
	for q := range d.datagram {
		for C.drt_posting(q.c) != 0 { // a post takes microseconds
			runtime.Gosched()
		}
	}
	d.ahFree = append(d.ahFree, h.handle)
}

func (h *ah) Handle() uint32 { return h.handle }

func (h *ah) Close() error {
	return h.once.do(func() error {
		h.dev.withdrawAH(h)
		return failed("ibv_destroy_ah", C.ibv_destroy_ah(h.c))
	})
}
