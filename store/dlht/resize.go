package dlht

import (
	"math/bits"
	"runtime"
)

// grow gives an index that is full a next one: with twice the bins, or with as many if most of its link buckets
// are in chains that have become short. After nil the caller tries again: the index has grown, or another thread is
// about to make it grow. crowded: what is full is a bin.
func (c *core) grow(x *index, crowded bool) error {
	current := c.index.Load()
	if x.next.Load() != nil {
		return nil // it has grown since the caller looked: current may be a later index
	}
	if current != x {
		// x itself is still being filled. Two moves at once are never under way.
		c.moveAll(current)
		return nil
	}
	if x.making.Load() {
		c.yield()
		return nil
	}
	records, links := x.contents()
	if crowded && records < len(x.bins)/2 {
		return ErrCrowded
	}
	bins := len(x.bins)
	if crowded || links > len(x.links)/2 {
		bins *= 2
	}
	if most := c.config.MaxBytes; most > 0 && x.bytes()+indexBytes(bins) > most {
		return ErrBound
	}
	if _, ok := c.hostHas(indexBytes(bins)); !ok {
		return ErrMemory
	}
	if !x.making.CompareAndSwap(false, true) {
		c.yield()
		return nil
	}
	next := makeIndex(bins)
	// A bin with three link buckets that becomes two bins, of 8 or more records and of 4 or more, takes four there.
	next.reserved.Store(int64(len(x.links) + len(x.links)/fullLinks))
	x.next.Store(next)
	return nil
}

// yield lets other threads go on.
func (c *core) yield() {
	if c.config.step != nil {
		c.config.step()
		return
	}
	runtime.Gosched()
}

// contents counts the records, and the link buckets that they need.
func (x *index) contents() (records, links int) {
	for i := range x.bins {
		n := x.bins[i].header().count()
		records += n
		if n > ownSlots {
			links++
		}
		if n > ownSlots+bucketSlots {
			links += 2
		}
	}
	return records, links
}

// moveOthers moves some bins that nobody has undertaken to move.
func (c *core) moveOthers(x *index) {
	if x.claimed.Load() >= int64(len(x.bins)) {
		return
	}
	from := int(x.claimed.Add(moveSome)) - moveSome
	for i := from; i < min(from+moveSome, len(x.bins)); i++ {
		c.moveBin(x, i)
	}
}

// moveAll moves every bin, and waits for those that other threads are moving.
func (c *core) moveAll(x *index) {
	for i := range x.bins {
		c.moveBin(x, i)
	}
	c.finish(x)
}

// moveBin returns when a bin has moved.
func (c *core) moveBin(x *index, i int) {
	b := &x.bins[i]
	for {
		c.step()
		h := b.header()
		switch {
		case h&moved != 0:
			return
		case h&frozen != 0:
			c.yield() // for the copying of at most 15 slots
		case b.change(h, h|frozen):
			c.copyBin(x, i, h)
			c.step()
			for h = b.header(); !b.change(h, h|moved); h = b.header() {
				// Only a deliberate bug changes the header of a frozen bin.
			}
			if x.moved.Add(1) == int64(len(x.bins)) {
				c.finish(x)
			}
			return
		}
	}
}

// copyBin copies the records of a frozen bin to its new ones, which nobody else can reach.
func (c *core) copyBin(x *index, i int, h header) {
	next := x.next.Load()
	var filled [2]int // slots of the new bin with the same number, and of the one that is len(x.bins) further
	for left := h.takenSlots(); left != 0; left &= left - 1 {
		key, value := x.slot(&x.bins[i], bits.TrailingZeros64(uint64(left))/2).load()
		to := int(c.hashOf(key, value) & uint64(len(next.bins)-1))
		half := (to - i) / len(x.bins)
		b, at := &next.bins[to], filled[half]
		filled[half]++
		if at >= ownSlots && !next.linkFor(b, at, false) {
			panic("dlht: no link bucket for a bin that moves, though they are reserved")
		}
		c.step()
		next.slot(b, at).store(key, value)
	}
	for half, n := range filled {
		if n > 0 {
			next.bins[i+half*len(x.bins)].change(0, takenBits&(1<<(2*n)-1)+version)
		}
	}
}

// finish makes the next index the current one, when every bin has moved.
func (c *core) finish(x *index) {
	next := x.next.Load()
	next.reserved.Store(0)
	c.index.CompareAndSwap(x, next)
}
