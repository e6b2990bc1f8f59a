package rtx

import (
	"fmt"
	"slices"

	"drtmd/verbs/fiber"
)

// A chunk word: whose the chunk is, and how many of its blocks were given out. Between the two counts are blocks
// that are on their way into slots: none of them was used yet.
//
//	63          48 47          32 31     16 15     0
//	+-------------+--------------+---------+--------+
//	| 0           | owner + 1    | in slots| given  |
//	+-------------+--------------+---------+--------+
func chunkWord(owner, stored, given int) uint64 {
	return uint64(owner+1)<<32 | uint64(stored)<<16 | uint64(given)
}

func chunkOwner(w uint64) int  { return int(w>>32) - 1 }
func chunkStored(w uint64) int { return int(w >> 16 & 0xFFFF) }
func chunkGiven(w uint64) int  { return int(w & 0xFFFF) }

// reserve is how many blocks of a class an owner keeps for updates of objects that have a block, when it gives
// others to objects that have none: such an update gets a block back, so memory that is full can still be changed,
// and objects be freed.
func (l *layout) reserve() int { return (l.perClass + 2) / 3 }

// provide sees to it that the slots of a class have the reserve and n blocks more.
func (c *Client) provide(f *fiber.Fiber, class, n int) error {
	for c.empty(class)+c.l.reserve()+n > c.l.perClass {
		if err := c.refill(f, class); err != nil {
			return err
		}
	}
	return nil
}

// empty is how many slots of a class have no block.
func (c *Client) empty(class int) (n int) {
	for i := range c.l.perClass {
		if isNil(c.slots[class*c.l.perClass+i]) {
			n++
		}
	}
	return n
}

// pick finds a slot of a class with a block that the transaction does not use yet, in turn: so a block rests for as
// long as there are others. It gets blocks from the pool if there is none.
func (c *Client) pick(f *fiber.Fiber, class int) (int, error) {
	for {
		for range c.l.perClass {
			i := c.next[class]
			if c.next[class]++; c.next[class] == c.l.perClass {
				c.next[class] = 0
			}
			slot := class*c.l.perClass + i
			if d := c.slots[slot]; !isNil(d) && !c.uses(slot) && !c.lostAt(int(offsetOf(d))) {
				return slot, nil
			}
		}
		if err := c.refill(f, class); err != nil {
			return 0, err
		}
	}
}

// uses reports whether the transaction has placed a block of the slot.
func (c *Client) uses(slot int) bool {
	for _, x := range c.entries {
		if refSlot(x.ref)%c.l.Slots == slot {
			return true
		}
	}
	return false
}

// refill puts fresh blocks of a class into empty slots.
func (c *Client) refill(f *fiber.Fiber, class int) error {
	empty := c.empty(class)
	if empty == 0 {
		return c.noBlocks(class)
	}
	if k := c.chunk[class]; k >= 0 && c.lostAt(c.l.chunkAt(class, k)) {
		c.chunk[class] = -1 // it stays the owner's
	}
	if c.chunk[class] < 0 {
		if err := c.takeChunk(f, class); err != nil {
			return err
		}
	}
	was := c.committing
	c.committing = true
	err := c.fillSlots(f, class, empty)
	c.committing = was
	return err
}

// noBlocks says why no block of a class can be had, with blocks in all slots.
func (c *Client) noBlocks(class int) error {
	for i := range c.l.perClass {
		if at := int(offsetOf(c.slots[class*c.l.perClass+i])); c.lostAt(at) {
			return &LostError{Node: PlaceNode(at), Nodes: len(c.nodes),
				Err: fmt.Errorf("owner %d has no other block of class %d", c.cfg.Owner, class)}
		}
	}
	return fmt.Errorf("%w: it updates more than %d objects of class %d; the memory's Shape.Slots says so", ErrTooLarge,
		c.l.perClass, class)
}

// fillSlots puts blocks of the chunk in use into empty slots.
func (c *Client) fillSlots(f *fiber.Fiber, class, empty int) error {
	chunk, given := c.chunk[class], c.used[class]
	n := min(empty, ChunkBlocks-given)
	old, err := c.casNow(f, c.l.chunkAt(class, chunk), chunkWord(c.cfg.Owner, given, given),
		chunkWord(c.cfg.Owner, given, given+n))
	if err != nil {
		return err
	}
	if old != chunkWord(c.cfg.Owner, given, given) {
		return c.fail(c.corrupt("chunk %d of class %d has word %#x", chunk, class, old))
	}
	f.Step(stepReserved)
	c.stats.Refills++
	return c.store(f, class, chunk, given, given+n)
}

// store puts blocks that were given out into empty slots, those that are there already apart.
func (c *Client) store(f *fiber.Fiber, class, chunk, stored, given int) error {
	first := class * c.l.perClass
	slot, end := first, first+c.l.perClass
	for k := stored; k < given; k++ {
		d := c.l.blockOf(class, chunk, k)
		if slices.Contains(c.slots[first:end], d) {
			continue
		}
		for slot < end && !isNil(c.slots[slot]) {
			slot++
		}
		if slot == end {
			return c.fail(c.corrupt("owner %d has no slot for a block of class %d", c.cfg.Owner, class))
		}
		old, err := c.casNow(f, c.l.slotAt(c.cfg.Owner*c.l.Slots+slot), c.slots[slot], d)
		if err != nil {
			return err
		}
		if old != c.slots[slot] {
			return c.fail(c.corrupt("slot %d of owner %d has %#x, not %#x", slot, c.cfg.Owner, old, c.slots[slot]))
		}
		c.slots[slot] = d
		f.Step(stepStored)
	}
	if _, err := c.casNow(f, c.l.chunkAt(class, chunk), chunkWord(c.cfg.Owner, stored, given),
		chunkWord(c.cfg.Owner, given, given)); err != nil {
		return err
	}
	c.chunk[class], c.used[class] = chunk, given
	if given == ChunkBlocks {
		c.chunk[class] = -1
	}
	return nil
}

// takeChunk takes a chunk of a class that is nobody's.
func (c *Client) takeChunk(f *fiber.Fiber, class int) error {
	each := c.l.chunkCount(class)
	chunks := each * c.l.Nodes
	const step = wordBytes / 8
	at := c.cfg.Rand.IntN(chunks) // owners do not all begin at the first, nor on the same node
	at -= at % each % step
	for looked, n := 0, 0; looked < chunks+step; looked += n {
		n = min(step, each-at%each)
		if c.lostAt(c.l.chunkAt(class, at)) {
			if at += n; at >= chunks {
				at = 0
			}
			continue
		}
		if err := c.readNow(f, c.words, c.l.chunkAt(class, at), 8*n); err != nil {
			return err
		}
		for i := 0; i < n; i++ {
			if c.word(c.words+8*i) != 0 {
				continue
			}
			old, err := c.casNow(f, c.l.chunkAt(class, at+i), 0, chunkWord(c.cfg.Owner, 0, 0))
			if err != nil {
				return err
			}
			if old == 0 {
				c.chunk[class], c.used[class] = at+i, 0
				return nil
			}
		}
		if at += n; at >= chunks {
			at = 0
		}
	}
	return fmt.Errorf("%w: no block of class %d (%d bytes) is left of %d", ErrFull, class,
		c.l.Classes[class].Bytes, c.l.Classes[class].Blocks)
}
