//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"sync"
	"syscall"

	"drtmd/verbs"
)

// pd is a protection domain (verbs.DriverPD).
type pd struct {
	dev  *device
	c    *C.struct_ibv_pd
	once closeOnce
}

func (p *pd) Close() error {
	return p.once.do(func() error { return failed("ibv_dealloc_pd", C.ibv_dealloc_pd(p.c)) })
}

// closeOnce lets the second close return nil; one that met EBUSY may be repeated.
type closeOnce struct {
	mu   sync.Mutex
	done bool
}

func (o *closeOnce) do(f func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return nil
	}
	err := f()
	e, ok := err.(*verbs.Error)
	o.done = !ok || e.Errno != syscall.EBUSY
	return err
}
