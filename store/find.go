package store

import (
	"math/bits"
	"sync/atomic"
	"unsafe"

	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/store/words"
	"drtmd/verbs/lineword"
)

// Codes with which this package aborts regions: those of package words.
const (
	AbortCorrupt = words.AbortCorrupt
	AbortBusy    = words.AbortBusy
)

// Find is the offset of the entry of key, outside of any region; there the caller checks it
// (layout.Match). A false proves nothing: see FindIn. It does not allocate.
func (t *Table) Find(key uint64) (off int, ok bool) {
	if raceEnabled {
		return t.findPeeking(key)
	}
	// Where a key stands in its bucket cannot be predicted, so no branch depends on it: then the
	// processor goes on, to the entry and to the next look-up, before the line has come.
	i, _ := bits.Mul64(layout.Hash(key), t.mainCount)
	b := (*layout.Bucket)(unsafe.Add(t.main, uintptr(i)*layout.BucketBytes))
	match := equal(b, 0, key) | equal(b, 1, key) | equal(b, 2, key) | equal(b, 3, key) |
		equal(b, 4, key) | equal(b, 5, key) | equal(b, 6, key) | equal(b, 7, key)
	if match != 0 {
		at := bits.TrailingZeros8(match) & layout.LinkSlot
		s := layout.Slot(atomic.LoadUint64(&b[2*at]))
		if off = int(s.Offset()); s.Type() == layout.Entry && off <= t.lastEntry {
			return off, true
		}
	}
	return t.findSlowly(b, key)
}

// Prefetch asks for what Find of a key reads first: its main bucket.
func (t *Table) Prefetch(key uint64) {
	i, _ := bits.Mul64(layout.Hash(key), t.mainCount)
	b := (*layout.Bucket)(unsafe.Add(t.main, uintptr(i)*layout.BucketBytes))
	lineword.Prefetch2(&b[0], &b[layout.BucketWords/2])
}

// equal has bit i set if the key word of slot i is key. It compiles to a comparison that sets a
// register.
func equal(b *layout.Bucket, i int, key uint64) uint8 {
	var bit uint8
	if atomic.LoadUint64(&b[2*i+1]) == key {
		bit = 1
	}
	return bit << i
}

// findSlowly is Find for what the eighth slot links to, and for keys that stand in a slot and in
// what is left of another one.
func (t *Table) findSlowly(b *layout.Bucket, key uint64) (int, bool) {
	for range t.chain {
		for i := 0; i < layout.BucketWords; i += 2 {
			if atomic.LoadUint64(&b[i+1]) != key {
				continue
			}
			s := layout.Slot(atomic.LoadUint64(&b[i]))
			if off := int(s.Offset()); s.Type() == layout.Entry {
				return off, off <= t.lastEntry
			}
		}
		s := layout.Slot(atomic.LoadUint64(&b[2*layout.LinkSlot]))
		next, ok := t.linked(s)
		if s.Type() != layout.Header || !ok {
			return 0, false
		}
		b = (*layout.Bucket)(unsafe.Add(t.base, next))
	}
	return 0, false
}

// findPeeking is Find for race builds: a line at a time.
func (t *Table) findPeeking(key uint64) (int, bool) {
	b := t.bucketAt(key)
	for range t.chain {
		var bucket layout.Bucket
		if !t.peekBucket(b, &bucket) {
			return 0, false
		}
		if s, ok := bucket.Find(key); ok {
			return int(s.Offset()), t.named(int(s.Offset()))
		}
		s, ok := bucket.Link()
		if !ok {
			return 0, false
		}
		if b, ok = t.linked(s); !ok {
			return 0, false
		}
	}
	return 0, false
}

// peekBucket copies a bucket, each line at one moment; false if one of them stays locked for
// longer than a commit takes. In the simulator nothing goes on while this looks again.
func (t *Table) peekBucket(at int, b *layout.Bucket) bool {
	const looks = 1 << 10
	bytes := (*[layout.BucketBytes]byte)(unsafe.Pointer(b))
	for i := 0; i < layout.BucketBytes; i += layout.LineBytes {
		n := 0
		for !t.m.Peek((at+i)/layout.LineBytes, (*[layout.LineBytes]byte)(bytes[i:])) {
			if n++; n == looks {
				return false
			}
		}
	}
	return true
}

// FindIn is Find inside a region. The lines of the chain that it reads join the read set, all of
// them if there is no entry, so that found and not found are both protected; without line words
// nothing protects them, and a false proves as little as Find's. ok is false if the region has
// aborted. It does not allocate.
func (t *Table) FindIn(r *htm.Region, key uint64) (off int, found, ok bool) {
	if t.lacks(AbsenceOutside) {
		if _, found = t.Find(key); !found {
			return 0, false, r.Active()
		}
	}
	b := t.bucketAt(key)
	for range t.chain {
		var line [4 * 2]uint64
		bytes := (*[layout.LineBytes]byte)(unsafe.Pointer(&line))[:]
		for half := range 2 {
			if !r.Load(t.m, b+half*layout.LineBytes, bytes) {
				return 0, false, false
			}
			for i := 0; i < len(line); i += 2 {
				if s := layout.Slot(line[i]); line[i+1] == key && s.Type() == layout.Entry {
					off = int(s.Offset())
					if !t.named(off) {
						r.Abort(AbortCorrupt)
						return 0, false, false
					}
					return off, true, true
				}
			}
		}
		s := layout.Slot(line[6]) // the eighth slot
		if s.Type() != layout.Header {
			return 0, false, true
		}
		if b, ok = t.linked(s); !ok {
			break
		}
	}
	r.Abort(AbortCorrupt)
	return 0, false, false
}
