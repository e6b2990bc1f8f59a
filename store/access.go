package store

import (
	"unsafe"

	"drtmd/htm"
)

// access is how the code that changes a table reaches memory: inside a region, or plainly in a
// table that nobody else uses. ok is false if the region has aborted.
type access interface {
	load(off int) (v uint64, ok bool)
	store(off int, v uint64) (ok bool)
	corrupt() // says that memory is not as it can be
}

// inside is access inside a region.
type inside struct {
	r *htm.Region
	m *htm.Memory
}

func (a inside) load(off int) (uint64, bool)  { return a.r.Load64(a.m, off) }
func (a inside) store(off int, v uint64) bool { return a.r.Store64(a.m, off, v) }
func (a inside) corrupt()                     { a.r.Abort(AbortCorrupt) }

// plain is access to a table that nobody else uses.
type plain struct{ base unsafe.Pointer }

func (a plain) load(off int) (uint64, bool) { return *(*uint64)(unsafe.Add(a.base, off)), true }

func (a plain) store(off int, v uint64) bool {
	*(*uint64)(unsafe.Add(a.base, off)) = v
	return true
}

func (a plain) corrupt() {}
