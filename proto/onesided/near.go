package onesided

import (
	"encoding/binary"
	"sync/atomic"

	"drtmd/htm"
	"drtmd/store/layout"
)

// Records that only their own machine accesses (Rules.Near). Where the device's atomics and the CPU's do not exclude each
// other, a state word belongs to one of them (design decision 3). The words of these records belong to the CPU: what other
// records take by requests to the own machine's NIC is done at once, and stands in the batch as a request that is done.

// Near reports whether a record's state word is the CPU's.
func (b *Base) Near(r *Record) bool { return r.Node == b.Env.Node && b.nearTable(int(r.Table)-1) }

func (b *Base) nearTable(i int) bool { return i < len(b.Rules.Near) && b.Rules.Near[i] }

// postNear asks for a record, and copies its content.
func (t *Tx) postNear(r *Record) {
	t.base.charge(t, t.base.Costs.Find)
	t.askNear(r)
	t.CopyHere(r, false) // whole, if the lock was taken; else nobody looks at the value
	t.Batch.Did(0)
}

// askNear is askOn.
func (t *Tx) askNear(r *Record) {
	o := &r.Own
	o.Hold, o.Op, o.unsent = Asked, t.Batch.Len(), false
	t.Batch.Did(t.swapState(r, o.Word, o.want))
}

// swapState swaps the state word of a near record, and gives what was there.
func (t *Tx) swapState(r *Record, expect, swap uint64) (old uint64) {
	m, off := t.base.Memory(r)
	word := WordIn(m, off+layout.StateOffset)
	if t.base.Skips(NearSwap) && layout.Locked(swap) {
		if old = atomic.LoadUint64(word); old == expect {
			t.step(t.base.Steps.Lines)
			atomic.StoreUint64(word, swap)
		}
		return old
	}
	return swapWord(word, expect, swap)
}

// swapWord is a compare-and-swap that gives what was there.
func swapWord(word *uint64, expect, swap uint64) (old uint64) {
	for {
		if atomic.CompareAndSwapUint64(word, expect, swap) {
			return expect
		}
		if old = atomic.LoadUint64(word); old != expect {
			return old
		}
	}
}

// writeNear stores a part of a record's image, for which the record is locked.
func (t *Tx) writeNear(r *Record, part layout.Span) {
	m, off := t.base.Memory(r)
	storeWords(m, off+part.From, r.Image[part.From:part.To])
	t.Batch.Did(0)
	t.step(t.base.Steps.Lines)
}

// storeWords stores bytes from an aligned place on, each word at once.
func storeWords(m *htm.Memory, off int, src []byte) {
	for ; len(src) >= 8; off, src = off+8, src[8:] {
		atomic.StoreUint64(WordIn(m, off), binary.NativeEndian.Uint64(src))
	}
	if len(src) == 0 {
		return
	}
	var last [8]byte
	binary.NativeEndian.PutUint64(last[:], WordAt(m, uint64(off)))
	copy(last[:], src)
	atomic.StoreUint64(WordIn(m, off), binary.NativeEndian.Uint64(last[:]))
}
