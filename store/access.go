package store

import (
	"sync/atomic"
	"unsafe"

	"drtmd/htm"
	"drtmd/verbs/lineword"
)

// access is how the code that changes a table reaches memory. ok is false if the region has
// aborted.
type access interface {
	load(off int) (v uint64, ok bool)
	store(off int, v uint64) (ok bool)
	corrupt() // says that memory is not as it can be
	grown()   // says that a table has more extents than the worker knows
}

// elsewhere is access that can be had to the memory of another extent.
type elsewhere[A any] interface {
	access
	at(t *Table) A
}

// inside is access inside a region.
type inside struct {
	r *htm.Region
	m *htm.Memory
}

func (a inside) load(off int) (uint64, bool)  { return a.r.Load64(a.m, off) }
func (a inside) store(off int, v uint64) bool { return a.r.Store64(a.m, off, v) }
func (a inside) corrupt()                     { a.r.Abort(AbortCorrupt) }
func (a inside) grown()                       { a.r.Abort(AbortGrown) }

func (a inside) at(t *Table) inside { return inside{a.r, t.m} }

// direct is access to memory without line words, by whoever holds the table's lock: every store
// takes effect at once and in the order of the program, for NICs too.
type direct struct {
	r    *htm.Region
	base unsafe.Pointer
}

func (a direct) load(off int) (uint64, bool) {
	return atomic.LoadUint64((*uint64)(unsafe.Add(a.base, off))), true
}

func (a direct) store(off int, v uint64) bool {
	atomic.StoreUint64((*uint64)(unsafe.Add(a.base, off)), v)
	return true
}

func (a direct) corrupt() { a.r.Abort(AbortCorrupt) }
func (a direct) grown()   { a.r.Abort(AbortGrown) }

func (a direct) at(t *Table) direct { return direct{a.r, t.base} }

// plain is access to a table that nobody else uses.
type plain struct{ base unsafe.Pointer }

func (a plain) load(off int) (uint64, bool) { return *(*uint64)(unsafe.Add(a.base, off)), true }

func (a plain) store(off int, v uint64) bool {
	*(*uint64)(unsafe.Add(a.base, off)) = v
	return true
}

func (a plain) corrupt() {}
func (a plain) grown()   {}

func (a plain) at(t *Table) plain { return plain{t.base} }

// lockSpins bounds the wait for the table's lock: much longer than its holder needs, unless it has
// lost its processor.
const lockSpins = 20_000

// lock takes the table's lock, which serves memory without line words only. No NIC touches it and
// its holder waits for nothing. If it stays taken the region is aborted with AbortBusy.
func (t *Table) lock(r *htm.Region) bool {
	if t.lacks(NoTableLock) {
		return true
	}
	p := (*uint32)(unsafe.Add(t.base, t.at+lockAt))
	for range lockSpins {
		if atomic.CompareAndSwapUint32(p, 0, 1) {
			return true
		}
		lineword.Pause()
	}
	r.Abort(AbortBusy)
	return false
}

func (t *Table) unlock() { atomic.StoreUint32((*uint32)(unsafe.Add(t.base, t.at+lockAt)), 0) }
