package rtx

import (
	"encoding/binary"
	"fmt"
	"slices"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// Tx is a running transaction: the execution phase (Figure 7).
type Tx struct {
	c    *Client
	f    *fiber.Fiber
	set  []entry // objects that were touched
	free int     // in the arena
	view bool    // it reads only
	// early is the lock word of its early locks; 0: none yet.
	early uint64
	// whenLocked is called before the decision; nil: nothing is.
	whenLocked func() error
}

// entry is an object of the transaction.
type entry struct {
	ptr   Ptr
	word  uint64 // lock word, unlocked, and pointer as they were read
	dptr  uint64
	data  int // offset of the block that was read; 0: not read, or there is none
	out   int // offset of the new block; 0: not updated
	class int // of the block
	slot  int // of the new block
	ndptr uint64
	lock  uint64 // the own lock word that is on it; 0: none
	// forgotten: it was only read, and is not validated.
	forgotten bool
	// confirmed: the metadata was read behind the block, to where the validation reads it, and there was no lock or
	// the own one.
	confirmed bool
}

// Run runs a transaction until it commits, its code returns an error of its own on a valid view, or it has used
// up its attempts. body must return the errors of tx as they are. Nothing is left behind by an error but one of
// the transport, after which the outcome may be unknown.
func (c *Client) Run(f *fiber.Fiber, body func(tx *Tx) error) error {
	return c.run(f, body, false)
}

// View is Run of a transaction that reads only. If it reads one object, two round trips suffice: the validation
// travels with the block.
func (c *Client) View(f *fiber.Fiber, body func(tx *Tx) error) error {
	return c.run(f, body, true)
}

func (c *Client) run(f *fiber.Fiber, body func(tx *Tx) error, view bool) error {
	for attempt := 0; ; attempt++ {
		t, err := c.Begin(f, view)
		if err != nil {
			return err
		}
		err = t.counted(t.end(body(t)))
		if proto.AbortReason(err) == 0 {
			return err
		}
		if attempt+1 >= c.cfg.Attempts || c.givesUp() {
			return err
		}
		if err := c.pause(f, attempt); err != nil {
			return err
		}
	}
}

// Begin begins one attempt of a transaction, for who repeats it by itself; Run and View do all of that. Commit,
// Rollback or Abort ends the attempt; the next Begin does the same for one that was given up. What Tx returns is not
// to be used after the next Begin.
func (c *Client) Begin(f *fiber.Fiber, view bool) (*Tx, error) {
	if c.broken != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, c.broken)
	}
	t := &c.tx
	t.c, t.f = c, f
	if err := t.close(nil); err != nil {
		return nil, err
	}
	t.set, t.free, t.view, t.early, t.whenLocked = t.set[:0], c.arena, view, 0, nil
	return t, nil
}

// Commit makes what was updated take effect, if what was read is valid still; else it is an Abort. Any other
// error says that the client is broken, and the outcome of an update may be unknown.
func (t *Tx) Commit() error { return t.counted(t.end(nil)) }

// Rollback ends the attempt without effect: nil if what was read is valid, or an Abort.
func (t *Tx) Rollback() error {
	if t.c.broken != nil {
		return t.c.broken
	}
	return t.counted(t.close(t.validate()))
}

// Abort ends the attempt without effect. An error says that the client is broken.
func (t *Tx) Abort() error { return t.close(nil) }

// counted counts an Abort.
func (t *Tx) counted(err error) error {
	if reason := proto.AbortReason(err); reason != 0 {
		t.c.stats.Aborts[reason]++
	}
	return err
}

// end ends an attempt whose code returned err.
func (t *Tx) end(err error) error {
	switch {
	case t.c.broken != nil:
		return t.c.broken
	case proto.AbortReason(err) != 0:
		return t.close(err)
	case err != nil:
		if invalid := t.validate(); invalid != nil {
			return t.close(invalid)
		}
		return t.close(err)
	}
	return t.close(t.commit())
}

// Read gives the value of an object, nil if it was never written.
func (t *Tx) Read(p Ptr) ([]byte, error) {
	e, err := t.entryWith(p)
	if err != nil {
		return nil, err
	}
	if e.out != 0 {
		return t.payload(e.out, e.class), nil
	}
	if err := t.fetch(e); err != nil || isNil(e.dptr) {
		return nil, err
	}
	return t.payload(e.data, e.class), nil
}

// Update gives a copy of an object's value that the commit installs, nil if it was never written: use Write then.
func (t *Tx) Update(p Ptr) ([]byte, error) {
	e, err := t.entryWith(p)
	if err != nil {
		return nil, err
	}
	if e.out == 0 {
		if err := t.fetch(e); err != nil || isNil(e.dptr) {
			return nil, err
		}
		if err := t.room(e, e.class); err != nil {
			return nil, err
		}
		n := t.c.l.Classes[e.class].Bytes
		copy(t.c.mr.Bytes()[e.out:e.out+n], t.c.mr.Bytes()[e.data:e.data+n])
	}
	return t.payload(e.out, e.class), nil
}

// Write gives room for a new value of an object, all zero, that the commit installs. class is that of its first
// value, for ever.
func (t *Tx) Write(p Ptr, class int) ([]byte, error) {
	e, err := t.entry(p)
	if err != nil {
		return nil, err
	}
	if class < 0 || class >= len(t.c.l.Classes) || (!isNil(e.dptr) || e.out != 0) && class != e.class {
		return nil, fmt.Errorf("%w: class %d for object %d, which has class %d", ErrUsage, class, p, e.class)
	}
	if e.out == 0 {
		if err := t.room(e, class); err != nil {
			return nil, err
		}
	}
	b := t.payload(e.out, class)
	clear(b)
	return b, nil
}

// Callbacks of section 4.5 (Opt2): an index that knows better than the validation what conflicts.

// Confirm reports whether what was read of an object is still its value, for copies that outlive the transaction:
// an Abort if not, false if the transaction has updated it.
func (t *Tx) Confirm(p Ptr) (bool, error) {
	e, err := t.entry(p)
	if err != nil || e.out != 0 {
		return false, err
	}
	at := t.c.words
	if e.confirmed && t.c.cfg.Hints != nil {
		at = t.meta(t.index(e)) + metaBytes
	} else if err := t.c.readNow(t.f, at, t.c.l.metaAt(p), metaBytes); err != nil {
		return false, err
	}
	if w := t.c.word(at); w != e.word && (w != e.lock || e.lock == 0) || t.c.word(at+8) != e.dptr {
		return false, proto.Aborting(proto.ReasonValidation)
	}
	return true, nil
}

// Forget takes what was only read so far out of the validation, until it is read again.
func (t *Tx) Forget() {
	for i := range t.set {
		if e := &t.set[i]; e.out == 0 {
			e.forgotten = true
		}
	}
}

// payload is the program's part of a block in the arena.
func (t *Tx) payload(at, class int) []byte {
	return t.c.mr.Bytes()[at+blockHeader : at+t.c.l.Classes[class].Bytes : at+t.c.l.Classes[class].Bytes]
}

// room takes room for the new block of an object.
func (t *Tx) room(e *entry, class int) (err error) {
	if t.view {
		return fmt.Errorf("%w: a view updates object %d", ErrUsage, e.ptr)
	}
	e.out, err = t.take(class)
	if err == nil {
		e.class = class
	}
	return err
}

// take takes room for a block.
func (t *Tx) take(class int) (int, error) {
	n := t.c.l.Classes[class].Bytes
	if t.free+n > t.c.arenaEnd {
		return 0, fmt.Errorf("%w: blocks of more than %d bytes: raise Config.Bytes", ErrTooLarge, t.c.cfg.Bytes)
	}
	at := t.free
	t.free += n
	return at, nil
}

// index is where an entry is in the set.
func (t *Tx) index(e *entry) int {
	return slices.IndexFunc(t.set, func(x entry) bool { return x.ptr == e.ptr })
}

// meta is where the metadata of the i-th object of the set is read to; the validation reads to the 16 bytes behind.
func (t *Tx) meta(i int) int { return t.c.metas + 2*metaBytes*i }

// known is an object of the set; nil: it is none.
func (t *Tx) known(p Ptr) *entry {
	for i := range t.set {
		if e := &t.set[i]; e.ptr == p {
			e.forgotten = false
			return e
		}
	}
	return nil
}

// entry is an object of the set, or makes it one: its metadata is read, when it is unlocked.
func (t *Tx) entry(p Ptr) (*entry, error) {
	if e := t.known(p); e != nil {
		return e, nil
	}
	return t.enter(p, false, false)
}

// entryWith is entry of an object whose value is asked for.
func (t *Tx) entryWith(p Ptr) (*entry, error) {
	if e := t.known(p); e != nil {
		return e, nil
	}
	return t.enter(p, true, false)
}

func (c *Client) givesUp() bool { return c.cfg.GiveUp != nil && c.cfg.GiveUp() }

// fetch reads the block of an object, once.
func (t *Tx) fetch(e *entry) error {
	if e.data != 0 || isNil(e.dptr) {
		return nil
	}
	at, err := t.take(e.class)
	if err != nil {
		return err
	}
	t.c.b.Reset()
	t.c.read(t.f, at, int(offsetOf(e.dptr)), t.c.l.Classes[e.class].Bytes)
	confirmed := t.view && len(t.set) == 1 && t.together(e.ptr, e.dptr)
	if confirmed {
		t.addValidation() // behind the block, on its queue pair
	}
	if err := t.c.await(t.f); err != nil {
		return err
	}
	e.data, e.confirmed = at, confirmed
	return nil
}

// Objects that were freed are in a list of their class and owner; each names the next one in its first 8 bytes.
// The list itself is an object, so whatever becomes of the transaction becomes of the list:
//
//	first free object of each class, 8 each | first and end of the objects that were never used, 8 each

// freshBatch is how many objects an owner takes at a time that were never used.
const freshBatch = 32

// poolPtr is the object that says which objects of a node were used so far; listPtr is the list of an owner.
func poolPtr(node int) Ptr { return ptrTo(node, 0) }

func (l *layout) listPtr(owner int) Ptr { return ptrTo(owner%l.Nodes, 1+owner) }

// updateOrWrite is Update, or Write if there is no value yet.
func (t *Tx) updateOrWrite(p Ptr, class int) ([]byte, error) {
	b, err := t.Update(p)
	if b != nil || err != nil {
		return b, err
	}
	return t.Write(p, class)
}

// Alloc makes an object of a class, with a value of zeros that the commit installs.
func (t *Tx) Alloc(class int) (Ptr, []byte, error) {
	l := t.c.l
	if class < 0 || class >= len(l.Classes) {
		return 0, nil, fmt.Errorf("%w: class %d, of 0..%d", ErrUsage, class, len(l.Classes)-1)
	}
	list, err := t.updateOrWrite(l.listPtr(t.c.cfg.Owner), l.lists)
	if err != nil {
		return 0, nil, err
	}
	le := binary.LittleEndian
	first, fresh, end := list[8*class:], list[8*len(l.Classes):], list[8*len(l.Classes)+8:]
	if p := Ptr(le.Uint64(first)); p != 0 && !t.c.Lost(nodeOf(p)) {
		b, err := t.Update(p)
		if err != nil {
			return 0, nil, err
		}
		if b == nil {
			return 0, nil, proto.Aborting(proto.ReasonValidation) // the list was out of date
		}
		le.PutUint64(first, le.Uint64(b))
		clear(b)
		return p, b, nil
	}
	if le.Uint64(fresh) == le.Uint64(end) {
		if err := t.takeFresh(fresh, end); err != nil {
			return 0, nil, err
		}
	}
	p := Ptr(le.Uint64(fresh))
	le.PutUint64(fresh, uint64(p)+1)
	b, err := t.Write(p, class)
	return p, b, err
}

// takeFresh takes objects that were never used, of the nodes in turn.
func (t *Tx) takeFresh(fresh, end []byte) error {
	l := t.c.l
	for range l.Nodes {
		node := t.c.fresh % l.Nodes
		if t.c.fresh++; t.c.Lost(node) {
			continue
		}
		pool, err := t.Read(poolPtr(node))
		if err != nil {
			return err
		}
		le := binary.LittleEndian
		from := uint64(ptrTo(node, l.internal()+l.Roots))
		if pool != nil {
			from = max(from, le.Uint64(pool))
		}
		to := min(from+freshBatch, uint64(ptrTo(node, l.metaCount())))
		if from >= to {
			continue
		}
		if pool, err = t.updateOrWrite(poolPtr(node), l.lists); err != nil {
			return err
		}
		le.PutUint64(pool, to)
		le.PutUint64(fresh, from)
		le.PutUint64(end, to)
		return nil
	}
	return fmt.Errorf("%w: all %d objects are in use; start the memory node with more", ErrFull, l.Objects*l.Nodes)
}

// Free gives an object back, which nobody may reach any more once the transaction has committed.
func (t *Tx) Free(p Ptr) error {
	l := t.c.l
	if indexOf(p) < l.internal()+l.Roots {
		return fmt.Errorf("%w: object %d is not allocated", ErrUsage, p)
	}
	list, err := t.updateOrWrite(l.listPtr(t.c.cfg.Owner), l.lists)
	if err != nil {
		return err
	}
	b, err := t.Update(p)
	if err != nil {
		return err
	}
	e, err := t.entry(p)
	if err != nil {
		return err
	}
	if b == nil {
		return proto.Aborting(proto.ReasonValidation) // a view that is out of date
	}
	first := list[8*e.class:]
	clear(b)
	copy(b, first[:8])
	binary.LittleEndian.PutUint64(first, uint64(p))
	return nil
}
