package store

import (
	"sync/atomic"
	"unsafe"

	"drtmd/htm"
	"drtmd/store/layout"
)

// AbortCorrupt is the code with which a region is aborted that reads an offset no table can have:
// a doomed view, where memory has no line words, or memory that somebody scribbled over.
const AbortCorrupt uint8 = 0xc0

// Find is the offset of the entry of key, outside of any region; there the caller checks it
// (layout.Match). A false proves nothing: see FindIn. It does not allocate.
func (t *Table) Find(key uint64) (off int, ok bool) {
	if raceEnabled {
		return t.findPeeking(key)
	}
	b := unsafe.Add(t.main, uintptr(layout.BucketIndex(key, t.mainCount)*layout.BucketBytes))
	for range t.chain {
		for i := uintptr(0); i < layout.BucketBytes; i += layout.SlotBytes {
			if atomic.LoadUint64((*uint64)(unsafe.Add(b, i+layout.SlotKeyOffset))) != key {
				continue
			}
			s := layout.Slot(atomic.LoadUint64((*uint64)(unsafe.Add(b, i))))
			if s.Type() == layout.Entry {
				off = int(s.Offset())
				return off, t.named(off)
			}
		}
		s := layout.Slot(atomic.LoadUint64((*uint64)(unsafe.Add(b,
			layout.LinkSlot*layout.SlotBytes))))
		if s.Type() != layout.Header {
			return 0, false
		}
		next, ok := t.linked(s)
		if !ok {
			return 0, false
		}
		b = unsafe.Add(t.base, next)
	}
	return 0, false
}

// findPeeking is Find for race builds: a line at a time.
func (t *Table) findPeeking(key uint64) (int, bool) {
	b := t.bucketAt(key)
	for range t.chain {
		var bucket layout.Bucket
		for i := range bucket {
			bucket[i] = t.word(b + 8*i)
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

// FindIn is Find inside a region. The lines of the chain that it reads join the read set, all of
// them if there is no entry, so that found and not found are both protected. ok is false if the
// region has aborted. It does not allocate.
func (t *Table) FindIn(r *htm.Region, key uint64) (off int, found, ok bool) {
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
