// Package words is how the code that changes a table of package store or hopscotch reaches the table's
// memory, word by word: inside a region, directly under the lock of a table without line words, or plainly
// while nobody else uses the table. The same code, generic over Access, runs on all three.
//
// Nothing allocates. An access belongs to the worker whose region or memory it has.
package words

import (
	"sync/atomic"
	"unsafe"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/verbs/lineword"
)

// Codes with which regions are aborted.
const (
	// AbortCorrupt: the region has read an offset that no table can have: a doomed view, where
	// memory has no line words, or memory that somebody scribbled over.
	AbortCorrupt uint8 = 0xc0
	// AbortBusy: the lock of a table without line words stayed taken.
	AbortBusy uint8 = 0xc1
)

// Access reaches aligned words of a memory region. ok is false if the region has aborted.
type Access interface {
	Load(off int) (v uint64, ok bool)
	// Peek is Load for searches, which check and bound what they find: in a region, the values may never have
	// existed together until Load or Validate is ok.
	Peek(off int) (v uint64, ok bool)
	Validate() (ok bool)
	Store(off int, v uint64) (ok bool)
	// Complete stores the last word of a change, with which others see it: where changes are noted (Undo), it is not
	// put back from then on.
	Complete(off int, v uint64) (ok bool)
	// Swap stores swap in a word that holds expect, which others may change meanwhile.
	Swap(off int, expect, swap uint64) (swapped, ok bool)
	Corrupt() // says that memory is not as it can be
}

// Checked gives ok back; if it is false, memory is not as it can be.
func Checked[A Access](a A, ok bool) bool {
	if !ok {
		a.Corrupt()
	}
	return ok
}

// Inside is access inside a region.
type Inside struct {
	R *htm.Region
	M *htm.Memory
}

// Load implements Access.
func (a Inside) Load(off int) (uint64, bool) { return a.R.Load64(a.M, off) }

// Peek implements Access.
func (a Inside) Peek(off int) (uint64, bool) { return a.R.Peek64(a.M, off) }

// Validate implements Access.
func (a Inside) Validate() bool { return a.R.Validate() }

// Store implements Access.
func (a Inside) Store(off int, v uint64) bool { return a.R.Store64(a.M, off, v) }

// Complete implements Access.
func (a Inside) Complete(off int, v uint64) bool { return a.R.Store64(a.M, off, v) }

// Swap implements Access. The region has the word to itself.
func (a Inside) Swap(off int, expect, swap uint64) (swapped, ok bool) {
	v, ok := a.Load(off)
	if !ok || v != expect {
		return false, ok
	}
	return true, a.Store(off, swap)
}

// Corrupt implements Access. What was peeked may also have changed meanwhile, which is a conflict.
func (a Inside) Corrupt() {
	if a.R.Consistent() {
		a.R.Abort(AbortCorrupt)
	}
}

// Direct is access to memory without line words, by whoever holds the table's lock: every store
// takes effect at once and in the order of the program, for NICs too.
type Direct struct {
	R    *htm.Region
	Base unsafe.Pointer // of the memory region
	Undo *Undo          // notes each store; nil: the memory does not outlive the process
}

// DirectOf is direct access to a memory.
func DirectOf(r *htm.Region, m *htm.Memory) Direct {
	return Direct{R: r, Base: unsafe.Pointer(unsafe.SliceData(m.Bytes))}
}

func (a Direct) word(off int) *uint64 { return (*uint64)(unsafe.Add(a.Base, off)) }

// Load implements Access.
func (a Direct) Load(off int) (uint64, bool) { return atomic.LoadUint64(a.word(off)), true }

// Peek implements Access.
func (a Direct) Peek(off int) (uint64, bool) { return a.Load(off) }

// Validate implements Access.
func (a Direct) Validate() bool { return true }

// Store implements Access.
func (a Direct) Store(off int, v uint64) bool {
	a.note(off, false)
	atomic.StoreUint64(a.word(off), v)
	return true
}

// Complete implements Access.
func (a Direct) Complete(off int, v uint64) bool {
	a.note(off, true)
	atomic.StoreUint64(a.word(off), v)
	return true
}

// Swap implements Access. It excludes CPUs; NICs' atomics only where the device says so.
func (a Direct) Swap(off int, expect, swap uint64) (swapped, ok bool) {
	invariant.Assert(a.Undo == nil, "a word that others change, too, cannot be put back")
	return atomic.CompareAndSwapUint64(a.word(off), expect, swap), true
}

// note notes a word that is about to be stored to; last: with that, the change is made.
func (a Direct) note(off int, last bool) {
	if a.Undo != nil {
		a.Undo.add(off, atomic.LoadUint64(a.word(off)), last)
	}
}

// Corrupt implements Access.
func (a Direct) Corrupt() { a.R.Abort(AbortCorrupt) }

// Plain is access to a table that nobody else uses.
type Plain struct{ Base unsafe.Pointer }

func (a Plain) word(off int) *uint64 { return (*uint64)(unsafe.Add(a.Base, off)) }

// Load implements Access.
func (a Plain) Load(off int) (uint64, bool) { return *a.word(off), true }

// Peek implements Access.
func (a Plain) Peek(off int) (uint64, bool) { return *a.word(off), true }

// Validate implements Access.
func (a Plain) Validate() bool { return true }

// Store implements Access.
func (a Plain) Store(off int, v uint64) bool {
	*a.word(off) = v
	return true
}

// Complete implements Access.
func (a Plain) Complete(off int, v uint64) bool { return a.Store(off, v) }

// Swap implements Access.
func (a Plain) Swap(off int, expect, swap uint64) (swapped, ok bool) {
	if *a.word(off) != expect {
		return false, true
	}
	return true, a.Store(off, swap)
}

// Corrupt implements Access.
func (a Plain) Corrupt() {}

// lockSpins bounds the wait for a table's lock: much longer than its holder needs, unless it has
// lost its processor.
const lockSpins = 20_000

// Lock takes the lock of a table, which serves memory without line words only. No NIC touches it and
// its holder waits for nothing. If it stays taken the region is aborted with AbortBusy.
func Lock(r *htm.Region, base unsafe.Pointer, off int) bool {
	ok := TryLock(base, off)
	if !ok {
		r.Abort(AbortBusy)
	}
	return ok
}

// TryLock is Lock outside of regions.
func TryLock(base unsafe.Pointer, off int) bool {
	p := (*uint32)(unsafe.Add(base, off))
	for range lockSpins {
		if atomic.CompareAndSwapUint32(p, 0, 1) {
			return true
		}
		lineword.Pause()
	}
	return false
}

// Unlock gives the lock back.
func Unlock(base unsafe.Pointer, off int) { atomic.StoreUint32((*uint32)(unsafe.Add(base, off)), 0) }

// peekTries bounds how often a race build looks at a line that is being changed.
const peekTries = 1 << 20

// Now reads an aligned word outside of regions. base is that of the memory's bytes, and the offset is
// inside.
func Now(m *htm.Memory, base unsafe.Pointer, off int) uint64 {
	if raceEnabled {
		return nowLocked(m, off)
	}
	return atomic.LoadUint64((*uint64)(unsafe.Add(base, off)))
}

// nowLocked is Now for race builds: the whole line, under its word.
func nowLocked(m *htm.Memory, off int) uint64 {
	var line [htm.LineBytes]byte
	for range peekTries {
		if m.Peek(off/htm.LineBytes, &line) {
			return *(*uint64)(unsafe.Pointer(&line[off%htm.LineBytes]))
		}
	}
	invariant.Assert(false, "a line of the table stays locked")
	return 0
}

// LineLooks bounds how often LockLine looks at a line that somebody has locked. A worker of the same machine that
// loses the processor may keep it for long.
const LineLooks = 1 << 22

// rescueEvery is after how many looks the provider is asked whether the line's owner is dead.
const rescueEvery = 64

// LockLine takes the lock of the line of an offset as a remote operation does, outside of regions, and gives the word
// that it had, for lineword.Unlock, StoreUnlock or Restore. The memory has line words.
func LockLine(m *htm.Memory, off int) (p *uint64, w lineword.Word) {
	p = &m.Words[off/lineword.LineBytes]
	for i := range LineLooks {
		if w = lineword.Load(p); !w.Locked() && lineword.TryLock(p, w, m.Slot) {
			return p, w
		}
		if i%rescueEvery == rescueEvery-1 && m.Rescue != nil {
			m.Rescue(off / lineword.LineBytes)
		}
		lineword.Pause()
	}
	invariant.Assert(false, "a line of the own machine's memory stays locked")
	return nil, 0
}
