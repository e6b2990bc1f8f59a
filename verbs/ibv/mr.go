//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"drtmd/verbs"
)

// hugeBytes is the size of a huge page on x86-64; other architectures fall back by themselves,
// since their kernel refuses the mapping or rounds it.
const hugeBytes = 2 << 20

// mr is a registered mapping (verbs.DriverMR).
type mr struct {
	pd      *pd
	c       *C.struct_ibv_mr
	mapping []byte // whole pages
	bytes   []byte // what was asked for
	kept    *kept  // nil: anonymous memory
	once    closeOnce
}

// AllocMR maps zeroed memory and registers it. From half a huge page on it tries to reserve huge
// pages: the kernel grants the mapping only if enough are free, so touching it cannot fail later.
// Where there are none it asks for transparent ones.
func (p *pd) AllocMR(size int, access verbs.Access, o verbs.MROptions) (verbs.DriverMR, error) {
	if o.Keep != "" {
		return p.allocKept(size, access, o.Keep)
	}
	if huge := !o.NoHuge && size >= hugeBytes/2; huge {
		rounded := (size + hugeBytes - 1) &^ (hugeBytes - 1)
		if b, err := mapMemory(rounded, unix.MAP_HUGETLB); err == nil {
			m, err := p.register(b, size, access)
			if err == nil {
				return m, nil
			}
			// A limit on huge pages (hugetlb cgroup) shows here; small pages may do.
			if err := unix.Munmap(b); err != nil {
				return nil, &verbs.Error{Op: "munmap", Err: err}
			}
		}
	}
	page := unix.Getpagesize()
	b, err := mapMemory((size+page-1)&^(page-1), 0)
	if err != nil {
		return nil, err
	}
	if !o.NoHuge {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // a wish; kernels without it refuse
	}
	m, err := p.register(b, size, access)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(b))
	}
	return m, nil
}

// allocKept opens or makes kept memory and registers it.
func (p *pd) allocKept(size int, access verbs.Access, name string) (verbs.DriverMR, error) {
	k, err := openKept(p.dev.keep, name, size)
	if err != nil {
		return nil, keptError(err)
	}
	m, err := p.register(k.mapping, size, access)
	if err != nil {
		return nil, errors.Join(err, k.close())
	}
	m.kept = k
	return m, nil
}

// mapMemory also keeps the memory out of children, so that a fork cannot move pages that the
// device writes to.
func mapMemory(size, flags int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|flags)
	if err != nil {
		return nil, mmapError("mmap", err)
	}
	if err := unix.Madvise(b, unix.MADV_DONTFORK); err != nil {
		return nil, errors.Join(mmapError("madvise", err), unix.Munmap(b))
	}
	return b, nil
}

func mmapError(op string, err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return &verbs.Error{Op: op, Errno: errno}
	}
	return &verbs.Error{Op: op, Err: err}
}

func (p *pd) register(b []byte, size int, access verbs.Access) (*mr, error) {
	m := &mr{pd: p, mapping: b, bytes: b[:size:size]}
	errno := C.drt_reg_mr(p.c, unsafe.Pointer(unsafe.SliceData(b)), C.size_t(size),
		C.uint32_t(access), &m.c)
	if err := failed("ibv_reg_mr", errno); err != nil {
		return nil, err
	}
	if s := p.dev.rxe; s != nil {
		addr := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
		s.addRegion(m.LKey(), region{pd: p, addr: addr, bytes: m.bytes, access: access})
	}
	return m, nil
}

func (m *mr) Bytes() []byte   { return m.bytes }
func (m *mr) LKey() uint32    { return uint32(m.c.lkey) }
func (m *mr) RKey() uint32    { return uint32(m.c.rkey) }
func (m *mr) Lines() []uint64 { return nil }

// Close deregisters and unmaps. Memory that could not be deregistered stays mapped: the device
// may still reach it.
func (m *mr) Close() error {
	return m.once.do(func() error {
		if s := m.pd.dev.rxe; s != nil {
			s.dropRegion(m.LKey())
		}
		if err := failed("ibv_dereg_mr", C.ibv_dereg_mr(m.c)); err != nil {
			return err
		}
		if m.kept != nil {
			if err := m.kept.close(); err != nil {
				return keptError(err)
			}
			return nil
		}
		if err := unix.Munmap(m.mapping); err != nil {
			return mmapError("munmap", err)
		}
		return nil
	})
}
