//go:build linux && amd64

package shm

import (
	"errors"
	"math/bits"
	"unsafe"

	"drtmd/verbs/shm/internal/fabric"
)

const (
	arenaBytes    = 1 << 20
	minBlockShift = 8
	// maxBlockShift is the largest block that shares an arena; larger ones have their own.
	maxBlockShift = 18
)

// arenas hands out receive areas: blocks of exported segments, so that a QP costs no descriptor.
// Guarded by device.mu.
type arenas struct {
	free   [maxBlockShift + 1][]block
	segs   map[uint64]*fabric.Segment
	limbo  []limboBlock // freed, but a sender may still write there
	cursor block        // what is left of the newest arena
	left   uint64
}

// block is a piece of a segment.
type block struct {
	segment, offset uint64
	p               unsafe.Pointer
	shift           uint8
}

// limboBlock is a block that is free once quiet says so.
type limboBlock struct {
	block
	quiet func() bool
}

// takeLocked gives a zeroed block of at least n bytes. Caller holds device.mu, which is let go
// while memory is made.
func (a *arenas) takeLocked(d *device, n uint64) (block, error) {
	a.reclaim(d)
	shift := uint8(max(minBlockShift, bits.Len64(n-1)))
	if shift > maxBlockShift {
		b, err := a.add(d, n)
		b.shift = shift
		return b, err
	}
	if list := a.free[shift]; len(list) > 0 {
		b := list[len(list)-1]
		a.free[shift] = list[:len(list)-1]
		clear(unsafe.Slice((*byte)(b.p), 1<<shift))
		return b, nil
	}
	if a.left < 1<<shift {
		b, err := a.add(d, arenaBytes)
		if err != nil {
			return block{}, err
		}
		a.cursor, a.left = b, arenaBytes
	}
	b := a.cursor
	b.shift = shift
	a.cursor.offset += 1 << shift
	a.cursor.p = unsafe.Add(a.cursor.p, 1<<shift)
	a.left -= 1 << shift
	return b, nil
}

// add makes a segment.
func (a *arenas) add(d *device, size uint64) (block, error) {
	d.mu.Unlock()
	seg, id, err := d.newSegment(int(size), "", false)
	d.mu.Lock()
	if err != nil {
		return block{}, err
	}
	if a.segs == nil {
		a.segs = map[uint64]*fabric.Segment{}
	}
	a.segs[id] = seg
	return block{segment: id, p: unsafe.Pointer(unsafe.SliceData(seg.Bytes()))}, nil
}

// giveLocked takes a block back; it is used again once quiet says that no sender writes there.
func (a *arenas) giveLocked(d *device, b block, quiet func() bool) {
	a.limbo = append(a.limbo, limboBlock{b, quiet})
	a.reclaim(d)
}

func (a *arenas) reclaim(d *device) {
	kept := a.limbo[:0]
	for _, l := range a.limbo {
		switch {
		case !l.quiet():
			kept = append(kept, l)
		case l.shift > maxBlockShift:
			d.fab.Unexport(l.segment)
			_ = a.segs[l.segment].Close() // peers that still map it keep it
			delete(a.segs, l.segment)
		default:
			a.free[l.shift] = append(a.free[l.shift], l.block)
		}
	}
	clear(a.limbo[len(kept):])
	a.limbo = kept
}

func (a *arenas) close(d *device) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for id, s := range a.segs {
		d.fab.Unexport(id)
		errs = append(errs, s.Close())
	}
	a.segs = nil
	return errors.Join(errs...)
}
