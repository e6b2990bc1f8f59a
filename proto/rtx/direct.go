package rtx

import (
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Direct operations (section 4.5, Opt2). An index that has an algorithm of its own for single records changes words
// inside the block of an object by CAS, without a transaction, and its records are blocks that no object has. It
// looks at the object's metadata behind each such operation: if that is unlocked and names the same block, no
// transaction has replaced the block, and the next one sees the change.

// indexBit marks the reference in the header of a block that is a record of an index. The pointer is the index's.
const indexBit Ptr = 1 << (ptrBits - 1) // no node has so high a number

// Locked reports whether a lock word is that of a locked object.
func Locked(w uint64) bool { return locked(w) }

// Hash is the hash of whole words.
func Hash(b []byte) uint64 { return hashBytes(b) }

// Extent says where buffers are registered, how many memory nodes there are, and how much memory one has.
func (c *Client) Extent() (pd *verbs.PD, nodes, bytes int) { return c.cfg.PD, len(c.nodes), c.l.bytes }

// Holds reports whether so many bytes are at a place.
func (c *Client) Holds(place, bytes int) bool {
	return PlaceNode(place) < len(c.nodes) && PlaceOffset(place)+bytes <= c.l.bytes
}

// Fail makes the client useless: what it has in flight may still happen.
func (c *Client) Fail(err error) error { return c.fail(err) }

// Then has what a batch gets from now on take effect after what is in it: with several memory nodes it is awaited.
func (c *Client) Then(f *fiber.Fiber, b *fiber.Batch) error {
	if !c.scattered() {
		return nil
	}
	if err := b.Await(f); err != nil {
		return c.fail(err)
	}
	return nil
}

// MetaAt is where the metadata of an object is: lock word 8 | data pointer 8.
func (c *Client) MetaAt(p Ptr) int { return c.l.metaAt(p) }

// BlockAt is the class of the block that a data pointer names, and its offset; -1: none has it.
func (c *Client) BlockAt(d uint64) (class, off int) { return c.l.classOf(d), int(offsetOf(d)) }

// ClassBytes is the size of a class's blocks.
func (c *Client) ClassBytes(class int) int { return c.l.Classes[class].Bytes }

// Meet waits for a lock that was met n times before, or repairs what it is of, if it has expired. No transaction of
// the client is under way.
func (c *Client) Meet(f *fiber.Fiber, p Ptr, w uint64, n int) error { return c.meet(f, p, w, n) }

// Pause waits before something is tried again for the n-th time.
func (c *Client) Pause(f *fiber.Fiber, n int) error { return c.pause(f, n) }

// GivesUp reports whether waits are to end.
func (c *Client) GivesUp() bool { return c.givesUp() }

// Spare is a block for a record of an index. It stays in its slot until Keep.
type Spare struct {
	Block uint64 // data pointer
	Ref   uint64 // the header's first word
	Slot  int    // the offset of its slot
	index int
}

// Spare gives a block of a class, for a record of the index that p is the root of. more says that the record is
// new, so that no other block comes back for it.
func (c *Client) Spare(f *fiber.Fiber, class int, p Ptr, more bool) (Spare, error) {
	c.entries = c.entries[:0]
	if more {
		if err := c.provide(f, class, 1); err != nil {
			return Spare{}, err
		}
	}
	i, err := c.pick(f, class)
	if err != nil {
		return Spare{}, err
	}
	slot := c.cfg.Owner*c.l.Slots + i
	return Spare{Block: c.slots[i], Ref: ref(slot, p|indexBit), Slot: c.l.slotAt(slot), index: i}, nil
}

// Retired is the pointer that a slot keeps for a block that was replaced; for none, that of an empty slot.
func (c *Client) Retired(d uint64) uint64 { return c.retired(d) }

// Keep notes what the slot of a Spare has now.
func (c *Client) Keep(s Spare, d uint64) { c.slots[s.index] = d }

// SlotOf is the offset of the slot that the header's first word names; 0: it is no record's of the index p.
func (c *Client) SlotOf(r uint64, p Ptr) int {
	if refPtr(r) != p|indexBit || refSlot(r) >= c.l.Owners*c.l.Slots {
		return 0
	}
	return c.l.slotAt(refSlot(r))
}

// WhenLocked has the commit call a function when all objects are locked and valid, before it is decided: see Reread.
// The transaction writes its blocks behind that, and has a log.
func (t *Tx) WhenLocked(call func() error) { t.whenLocked = call }

// Reread reads the value of an object that is updated, in WhenLocked, where nobody replaces its block.
func (t *Tx) Reread(p Ptr) ([]byte, error) {
	e, err := t.entry(p)
	if err != nil {
		return nil, err
	}
	if e.out == 0 || e.lock == 0 || isNil(e.dptr) {
		return nil, ErrUsage
	}
	const head = blockHeader
	if err := t.c.readNow(t.f, e.out+head, int(offsetOf(e.dptr))+head, t.c.l.Classes[e.class].Payload()); err != nil {
		return nil, err
	}
	return t.payload(e.out, e.class), nil
}

// Overwrite changes the value of an object in its block, by a WRITE, at once, whatever becomes of the transaction. It is
// for mutations of indexes: nothing protects it.
func (t *Tx) Overwrite(p Ptr, change func(value []byte)) error {
	e, err := t.entryWith(p)
	if err != nil {
		return err
	}
	if err := t.fetch(e); err != nil || e.data == 0 {
		return err
	}
	change(t.payload(e.data, e.class))
	t.c.b.Reset()
	t.c.write(t.f, e.data, int(offsetOf(e.dptr)), t.c.l.Classes[e.class].Bytes)
	return t.c.await(t.f)
}

// Fiber is the fiber that the transaction runs on.
func (t *Tx) Fiber() *fiber.Fiber { return t.f }
