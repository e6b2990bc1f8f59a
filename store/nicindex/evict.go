package nicindex

import "drtmd/store/layout"

// maxSweep bounds the pages or values that one eviction looks at: a NIC core has other things to do.
const maxSweep = 1024

// mayGo reports whether an object can be evicted: the host's table has its value, and nobody waits for it.
func (x *Index) mayGo(p *position) bool {
	return p.owner == 0 && p.reads == 0 && (p.pins == 0 || x.lacks(EvictPinned))
}

// empty makes a position free.
func (x *Index) empty(n int32) {
	p := x.object(n)
	x.Stats.Evicted++
	x.drop(p)
}

// drop frees an object's position and value.
func (x *Index) drop(p *position) {
	if p.value != 0 {
		slot := p.value - 1
		x.owners[slot], x.freeVal = -x.freeVal, slot+1
		x.Stats.ValuesHeld--
	}
	if p.pins > 0 {
		x.Stats.Pinned--
	}
	*p = position{key: layout.NoKey}
	x.Stats.Objects--
}

// unlink takes a page of a chain whose positions are all free out of it.
func (x *Index) unlink(i int32) {
	p := &x.pages[i]
	from := &x.pages[p.segment]
	for from.next != i+1 {
		from = &x.pages[from.next-1]
	}
	from.next = p.next
	p.next, x.free = x.free, i+1
	x.Stats.Chained--
}

// sweepPages frees a page of a chain: the first one from the hand on whose objects may all go, and were not used since
// the hand passed. Pages of one segment are left alone.
func (x *Index) sweepPages(except int) bool {
	first := x.config.Segments
	n := len(x.pages) - first
	for range min(2*n, maxSweep) {
		i := first + x.pageHand
		x.pageHand = (x.pageHand + 1) % n
		p := &x.pages[i]
		if int(p.segment) == except {
			continue
		}
		goes := true
		for j := range p.at {
			o := &p.at[j]
			if o.key == layout.NoKey {
				continue
			}
			goes = goes && x.mayGo(o) && o.flags&flagUsed == 0
			o.flags &^= flagUsed
		}
		if !goes {
			continue
		}
		for j := range p.at {
			if p.at[j].key != layout.NoKey {
				x.empty(int32(i)*pagePositions + int32(j))
			}
		}
		x.unlink(int32(i))
		return true
	}
	return false
}

// sweepValues frees a value slot: that of the first object from the hand on that may go and was not used since the
// hand passed.
func (x *Index) sweepValues() bool {
	for range min(2*len(x.owners), maxSweep) {
		slot := x.valHand
		x.valHand = (x.valHand + 1) % len(x.owners)
		if x.owners[slot] <= 0 {
			continue
		}
		n := x.owners[slot] - 1
		o := x.object(n)
		if x.mayGo(o) && o.flags&flagUsed == 0 {
			x.empty(n)
			x.tidy(n)
			return true
		}
		o.flags &^= flagUsed
	}
	return false
}

// tidy gives the page of a position that has become free back, if it is empty and of a chain.
func (x *Index) tidy(n int32) {
	i := n / pagePositions
	if int(i) < x.config.Segments {
		return
	}
	for _, o := range x.pages[i].at {
		if o.key != layout.NoKey {
			return
		}
	}
	x.unlink(i)
}
