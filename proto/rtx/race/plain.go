package race

import (
	"fmt"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Client is what a table needs of a memory node's client: an rtx.Client, a dtx.Client, or a Plain one.
type Client interface {
	// Extent says where buffers are registered, how many memory nodes there are, and how much memory one has.
	Extent() (pd *verbs.PD, nodes, bytes int)
	// Target is the way to a place, its address and key; Holds reports whether so many bytes are there.
	Target(place int) (*fiber.Conn, uint64, uint32)
	Holds(place, bytes int) bool
	Root(i int) rtx.Ptr
	ClassBytes(class int) int
	Broken() error
	Fail(err error) error
	Pause(f *fiber.Fiber, n int) error
	GivesUp() bool
	// Spare gives a block for a record, Keep says what it had there before, Retired how that is used next.
	Spare(f *fiber.Fiber, class int, p rtx.Ptr, more bool) (rtx.Spare, error)
	Keep(s rtx.Spare, d uint64)
	Retired(d uint64) uint64
	BlockAt(d uint64) (class, off int)
}

// Plain is a client of memory without transactions. A table on it is RACE as it was, with its own locks, and
// without failure tolerance: a client that dies in a rehash leaves the subtable locked for ever.
//
// Subtables and pages lie at fixed places. A rehash marks the buckets of its subtable, moves key by key with two
// CASes each, and has the directory name the new subtable. Operations on the subtable wait meanwhile, which those of RACE
// do not. A change needs no look at anything behind it: a rehash finds the slots that have changed since it read
// them, and empties tentative ones.
type Plain interface {
	Client
	// Lock takes the lock of an object, Unlock gives it back.
	Lock(f *fiber.Fiber, p rtx.Ptr) error
	Unlock(f *fiber.Fiber, p rtx.Ptr) error
	// Node gives an object that is nobody's, and Place where an object is.
	Node(f *fiber.Fiber) (rtx.Ptr, error)
	Place(p rtx.Ptr) int
}

// markBit is set in the headers of a subtable that is split, or was.
const markBit = 1 << 63

// OpenPlain makes a way to a table on a Plain client, and the table if there is none.
func OpenPlain(f *fiber.Fiber, c Plain, cfg Config) (*Table, error) {
	t, err := open(c, cfg)
	if err != nil {
		return nil, err
	}
	t.plain = c
	if err := t.createPlain(f); err != nil {
		t.closeLater(f)
		return nil, err
	}
	return t, nil
}

// readWord is a READ of a word, awaited.
func (t *Table) readWord(f *fiber.Fiber, off int) (uint64, error) {
	t.b.Reset()
	t.read(f, t.wordAt, off, 8)
	err := t.await(f)
	return t.word(t.wordAt), err
}

// writeWord adds the WRITE of a word to the batch: of one batch, all have the same.
func (t *Table) writeWord(f *fiber.Fiber, off int, w uint64) {
	setWord(t.mr.Bytes(), t.wordAt, w)
	t.write(f, t.wordAt, off, 8)
}

// DescribePlain reads what records a table that is there has.
func DescribePlain(f *fiber.Fiber, c Plain, root int) (cfg Config, there bool, err error) {
	t, err := open(c, Config{Tables: 1})
	if err != nil {
		return Config{}, false, err
	}
	t.plain = c
	defer t.closeLater(f)
	w, err := t.readWord(f, c.Place(c.Root(root))+rootMark)
	if err != nil || w == 0 {
		return Config{}, false, err
	}
	if w&^1 != formatMark {
		return Config{}, false, fmt.Errorf("%w: its root says %#x, which is no table of RACE", ErrFormat, w)
	}
	return Config{Versions: w&1 == 1}, true, nil
}

func (t *Table) createPlain(f *fiber.Fiber) (err error) {
	if err := t.plain.Lock(f, t.root); err != nil {
		return err
	}
	defer func() {
		if t.c.Broken() == nil {
			if failed := t.plain.Unlock(f, t.root); err == nil {
				err = failed
			}
		}
	}()
	at := t.plain.Place(t.root)
	w, err := t.readWord(f, at+rootMark)
	if err != nil {
		return err
	}
	if w != 0 {
		if w != t.mark() {
			return fmt.Errorf("%w: its root says %#x, not %#x: versions or none", ErrFormat, w, t.mark())
		}
		return nil
	}
	sub, err := t.newTable(f, 0, 0)
	if err != nil {
		return err
	}
	page, err := t.plain.Node(f)
	if err != nil {
		return err
	}
	b := t.mr.Bytes()[t.copyAt:][:t.tableBytes]
	clear(b)
	for i := range pageEntries {
		setWord(b, 8*i, entryWord(sub, 0, false))
	}
	t.b.Reset()
	t.write(f, t.copyAt, t.plain.Place(page), t.tableBytes)
	t.writeWord(f, at+rootPage, uint64(page))
	if err := t.await(f); err != nil {
		return err
	}
	t.b.Reset()
	t.writeWord(f, at+rootMark, t.mark())
	return t.await(f)
}

// newTable makes an empty subtable.
func (t *Table) newTable(f *fiber.Fiber, depth int, suffix uint64) (rtx.Ptr, error) {
	p, err := t.plain.Node(f)
	if err != nil {
		return 0, err
	}
	b := t.mr.Bytes()[t.copyAt:][:t.tableBytes]
	clear(b)
	setHeaders(b[valueAt:], t.groups, depth, suffix)
	t.b.Reset()
	t.write(f, t.copyAt, t.plain.Place(p), t.tableBytes)
	return p, t.await(f)
}

// walkPlain finds the entry that names the subtable of a hash.
func (t *Table) walkPlain(f *fiber.Fiber, h uint64) (step, error) {
	page, err := t.readWord(f, t.plain.Place(t.root)+rootPage)
	if err != nil {
		return step{}, err
	}
	s := step{page: rtx.Ptr(page)}
	for ; s.level*levelBits < maxDepth; s.level++ {
		s.index = int(h >> (levelBits * s.level) & (pageEntries - 1))
		if s.entry, err = t.readWord(f, t.plain.Place(s.page)+8*s.index); err != nil {
			return step{}, err
		}
		if s.entry&entryBit == 0 {
			break
		}
		if !entryPage(s.entry) {
			return s, nil
		}
		s.page = entryPtr(s.entry)
	}
	return step{}, t.c.Fail(t.corrupt("an entry of page %d is %#x", s.page, s.entry))
}

// rehashPlain splits the subtable of a hash, unless somebody else has done so.
func (t *Table) rehashPlain(f *fiber.Fiber, h uint64, k *known) (err error) {
	if err := t.plain.Lock(f, k.ptr); err != nil {
		return err
	}
	t.cache.get(h).ptr = 0
	s, err := t.walkPlain(f, h)
	if err != nil {
		return err
	}
	if entryPtr(s.entry) != k.ptr || entryDepth(s.entry) != k.depth {
		return t.plain.Unlock(f, k.ptr)
	}
	suffix := h & (1<<k.depth - 1)
	p, err := t.newTable(f, k.depth+1, suffix|1<<k.depth)
	if err != nil {
		_ = t.plain.Unlock(f, k.ptr) // the first error is the one to tell
		return err
	}
	if err := t.setMarks(f, k.at, markBit|header(k.depth, suffix)); err != nil {
		return err
	}
	f.Step(stepRehash)
	if err := t.migrate(f, k, t.plain.Place(p)); err != nil {
		return err
	}
	if err := t.namePlain(f, h, k, p); err != nil {
		return err
	}
	if err := t.setMarks(f, k.at, header(k.depth+1, suffix)); err != nil {
		return err
	}
	t.stats.Rehashes++
	return t.plain.Unlock(f, k.ptr)
}

// setMarks writes the headers of all buckets.
func (t *Table) setMarks(f *fiber.Fiber, at int, w uint64) error {
	t.b.Reset()
	for i := range 3 * t.groups {
		t.writeWord(f, at+groupsAt+i*bucketBytes, w)
	}
	return t.await(f)
}

// migrate moves the keys that move, one by one.
func (t *Table) migrate(f *fiber.Fiber, k *known, to int) error {
	for again, round := true, 0; again; round++ {
		if round == attempts {
			return t.c.Fail(t.corrupt("slots of object %d change all the time while it is split", k.ptr))
		}
		again = false
		t.b.Reset()
		t.read(f, t.copyAt, k.at, t.tableBytes)
		if err := t.await(f); err != nil {
			return err
		}
		for i := range 3 * t.groups * bucketSlots {
			at := valueAt + sharedAt(i)
			w := t.word(t.copyAt + at)
			if w == 0 {
				continue
			}
			if !tentative(w) {
				t.found[0] = slot{k.at + at, w}
				if err := t.readRecords(f, t.found[:1]); err != nil {
					return err
				}
				r, _, ok := t.recordIn(0, w)
				if again = again || !ok; !ok || hashOf(r.key)>>k.depth&1 == 0 {
					continue
				}
				t.b.Reset()
				t.cas(f, to+at, 0, w)
			} else {
				t.b.Reset()
			}
			gone := t.cas(f, k.at+at, w, 0)
			if err := t.await(f); err != nil {
				return err
			}
			if t.b.Old(gone) == w {
				continue
			}
			again = true // it was changed: the next round moves what is there now
			t.b.Reset()
			t.cas(f, to+at, w, 0)
			if err := t.await(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// namePlain has the directory name the new subtable, under the lock of the root.
func (t *Table) namePlain(f *fiber.Fiber, h uint64, k *known, p rtx.Ptr) error {
	x := halves{stay: k.ptr, move: p}
	if err := t.plain.Lock(f, t.root); err != nil {
		return t.c.Fail(fmt.Errorf("the directory is locked: %v", err)) // the subtable is marked
	}
	s, err := t.walkPlain(f, h)
	if err != nil {
		return err
	}
	bit := k.depth - s.level*levelBits
	at := t.plain.Place(s.page)
	if bit < levelBits {
		for i := range pageEntries {
			if (i^s.index)&(1<<bit-1) != 0 {
				continue
			}
			t.b.Reset()
			t.writeWord(f, at+8*i, x.half(k.depth, i>>bit))
			if err := t.await(f); err != nil {
				return err
			}
		}
		return t.plain.Unlock(f, t.root)
	}
	below, err := t.plain.Node(f)
	if err != nil {
		return t.c.Fail(fmt.Errorf("a page of the directory: %w", err)) // the subtable is marked
	}
	b := t.mr.Bytes()[t.copyAt:][:t.tableBytes]
	clear(b)
	for i := range pageEntries {
		setWord(b, 8*i, x.half(k.depth, i))
	}
	t.b.Reset()
	t.write(f, t.copyAt, t.plain.Place(below), t.tableBytes)
	t.writeWord(f, at+8*s.index, entryWord(below, 0, true))
	if err := t.await(f); err != nil {
		return err
	}
	return t.plain.Unlock(f, t.root)
}

// lookPlain is look: it waits for marked buckets.
func (t *Table) lookPlain(f *fiber.Fiber, h uint64) (known, error) {
	for n := range attempts {
		k, err := t.locate(f, h)
		if err != nil {
			return known{}, err
		}
		t.b.Reset()
		if err := t.lookNow(f, &k, h); err != nil {
			return known{}, err
		}
		if t.headed(&k, h) {
			return k, nil
		}
		t.stats.Again++
		t.cache.get(h).ptr = 0
		if t.word(t.bucketsAt)&markBit != 0 {
			if err := t.c.Pause(f, n); err != nil {
				return known{}, err
			}
		}
	}
	return known{}, proto.Aborting(proto.ReasonLocked)
}
