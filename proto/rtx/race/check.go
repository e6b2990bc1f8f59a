package race

import (
	"fmt"
	"math/bits"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
)

// Walk visits the records of one subtable, deleted ones apart. at is 0 at first, and then what the Walk before gave;
// false: that was the last one.
func (t *Table) Walk(f *fiber.Fiber, at uint64, visit func(key, value []byte, version uint64)) (next uint64, more bool,
	err error) {
	// Places are suffixes of hashes, with their bits in the other order, so that a subtable has neighbours.
	h := uint64(bits.Reverse32(uint32(at)))
	k, err := t.eachRecord(f, h, func(_ slot, r *record, _ []byte) error {
		if !r.deleted {
			visit(r.key, r.value, r.version)
		}
		return nil
	})
	next = at + 1<<(32-k.depth)
	return next, err == nil && next < 1<<32, err
}

// eachRecord visits all records of a subtable, tentative ones apart, and gives the subtable. If a record changes
// meanwhile, it is an Abort.
func (t *Table) eachRecord(f *fiber.Fiber, h uint64, visit func(s slot, r *record, b []byte) error) (known, error) {
	for range mostStale {
		k, err := t.look(f, h)
		if err != nil {
			return k, err
		}
		t.b.Reset()
		t.read(f, t.copyAt, k.at, t.tableBytes)
		if err := t.checkNow(f, &k); err != nil {
			return k, err
		}
		if !t.current(&k) || !t.headedCopy(&k, h) {
			continue
		}
		for i := range 3 * t.groups {
			for j := range bucketSlots {
				at := groupsAt + i*bucketBytes + 8 + 8*j
				s := slot{k.at + at, t.word(t.copyAt + at)}
				if s.word == 0 || tentative(s.word) {
					continue
				}
				t.found[0] = s
				if err := t.readRecords(f, t.found[:1]); err != nil {
					return k, err
				}
				r, b, ok := t.recordIn(0, s.word)
				if !ok {
					return k, doomed()
				}
				if err := visit(s, &r, b); err != nil {
					return k, err
				}
			}
		}
		return k, nil
	}
	return known{}, proto.Aborting(proto.ReasonLocked)
}

// headedCopy is headed of the whole subtable, as eachRecord has read it.
func (t *Table) headedCopy(k *known, h uint64) bool {
	for i := range 3 * t.groups {
		if t.word(t.copyAt+groupsAt+i*bucketBytes) != header(k.depth, h) {
			return false
		}
	}
	return true
}

// Contents is what Check has found.
type Contents struct {
	Objects []rtx.Ptr // subtables and pages
	Records []uint64  // data pointers of their blocks
	Keys    int       // that are there
}

// Check looks at a table at rest: the directory, the buckets' headers, and that each record lies where its key's hash
// says, once. It settles what clients have left that will not come back, and empties their tentative slots, before.
func (t *Table) Check(f *fiber.Fiber) (c Contents, err error) {
	var steps []step
	err = t.transact(f, true, func(tx Tx) (err error) {
		c.Objects, steps = c.Objects[:0], steps[:0]
		b, err := tx.Read(t.root)
		if err != nil || b == nil {
			return err
		}
		return t.checkPage(tx, rtx.Ptr(word(b, rootPage)), 0, 0, &c, &steps)
	})
	if err != nil {
		return c, err
	}
	where := map[string]int{}
	for _, s := range steps {
		h, depth := uint64(s.index), entryDepth(s.entry)
		k, err := t.look(f, h)
		if err != nil {
			return c, err
		}
		if k.ptr != entryPtr(s.entry) || k.depth != depth {
			return c, fmt.Errorf("suffix %#x leads to object %d of depth %d, not %d of %d", h, k.ptr, k.depth,
				entryPtr(s.entry), depth)
		}
		if err := t.sweep(f, &k); err != nil {
			return c, err
		}
		_, err = t.eachRecord(f, h, func(s slot, r *record, b []byte) error {
			if other, ok := where[string(r.key)]; ok {
				return fmt.Errorf("key %x is in the slots at %#x and %#x", r.key, other, s.at)
			}
			where[string(r.key)] = s.at
			if err := t.checkPlace(&k, s, hashOf(r.key)); err != nil {
				return fmt.Errorf("key %x: %w", r.key, err)
			}
			if !r.deleted {
				c.Keys++
			}
			c.Records = append(c.Records, word(b, recordSelf))
			p := Place{slot: s, self: word(b, recordSelf), ref: word(b, recordRef), old: word(b, recordOld),
				told: word(b, recordSettled)}
			if p.told != p.self {
				return t.help(f, &p)
			}
			return nil
		})
		if err != nil {
			return c, fmt.Errorf("object %d: %w", k.ptr, err)
		}
	}
	return c, nil
}

// checkPage looks at a page and those below, and finds subtables, each with its suffix as the index of a step.
func (t *Table) checkPage(tx Tx, p rtx.Ptr, level int, suffix uint64, c *Contents, steps *[]step) error {
	c.Objects = append(c.Objects, p)
	b, err := tx.Read(p)
	if err != nil {
		return err
	}
	if b == nil || level*levelBits > maxDepth {
		return fmt.Errorf("%w: page %d of level %d", rtx.ErrCorrupt, p, level)
	}
	var page [pageEntries]uint64 // what Read gave is valid until the attempt ends, but the set may grow
	for i := range page {
		page[i] = word(b, 8*i)
	}
	for i, e := range page {
		here := suffix | uint64(i)<<(level*levelBits)
		if e&entryBit == 0 {
			return fmt.Errorf("%w: entry %d of page %d is %#x", rtx.ErrCorrupt, i, p, e)
		}
		if entryPage(e) {
			if err := t.checkPage(tx, entryPtr(e), level+1, here, c, steps); err != nil {
				return err
			}
			continue
		}
		bit := entryDepth(e) - level*levelBits
		if bit < 0 || bit > levelBits || page[i&(1<<bit-1)] != e {
			return fmt.Errorf("%w: entry %d of page %d at level %d is %#x", rtx.ErrCorrupt, i, p, level, e)
		}
		if i < 1<<bit {
			c.Objects = append(c.Objects, entryPtr(e))
			*steps = append(*steps, step{page: p, level: level, index: int(here), entry: e})
		}
	}
	return nil
}

// sweep empties the tentative slots of a subtable, and looks at its headers.
func (t *Table) sweep(f *fiber.Fiber, k *known) error {
	t.b.Reset()
	t.read(f, t.copyAt, k.at, t.tableBytes)
	if err := t.await(f); err != nil {
		return err
	}
	want := t.word(t.copyAt + groupsAt)
	for i := range 3 * t.groups {
		at := groupsAt + i*bucketBytes
		if h := t.word(t.copyAt + at); h != want || int(h>>32) != k.depth {
			return fmt.Errorf("bucket %d has header %#x, not %#x", i, h, want)
		}
		for j := range bucketSlots {
			if w := t.word(t.copyAt + at + 8 + 8*j); tentative(w) {
				t.b.Reset()
				t.cas(f, k.at+at+8+8*j, w, 0)
				if err := t.await(f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkPlace: a slot must be one of those where a hash may be.
func (t *Table) checkPlace(k *known, s slot, h uint64) error {
	if fingerprint(s.word) != fingerprint(h) || t.word(t.copyAt+groupsAt) != header(k.depth, h) {
		return fmt.Errorf("%w: it is in a slot with word %#x of a subtable with header %#x", rtx.ErrCorrupt, s.word,
			t.word(t.copyAt+groupsAt))
	}
	for _, b := range combined(h, t.groups) {
		if at := k.at + b; s.at >= at && s.at < at+combinedBytes {
			return nil
		}
	}
	return fmt.Errorf("%w: it is in the slot at %#x, in none of its buckets", rtx.ErrCorrupt, s.at)
}

// Installed is rtx.Config.Installed for tables.
func Installed(f *fiber.Fiber, c *rtx.Client, root rtx.Ptr, d uint64) (bool, error) {
	var cfg Config
	var there bool
	err := c.View(f, func(tx *rtx.Tx) (err error) {
		cfg, there, err = Describe(tx, root)
		return err
	})
	if err != nil || !there {
		return false, err
	}
	cfg.Root = c.RootIndex(root)
	t, err := openOn(c, cfg)
	if err != nil {
		return false, err
	}
	is, err := t.installed(f, d)
	t.closeLater(f)
	return is, err
}

// installed reports whether a slot names a record of this client's former life. If a tentative one does, it is emptied.
func (t *Table) installed(f *fiber.Fiber, d uint64) (bool, error) {
	class, off := t.c.BlockAt(d)
	if class != t.cfg.Records {
		return false, nil
	}
	t.b.Reset()
	t.read(f, t.outAt, off, t.recordBytes)
	if err := t.await(f); err != nil {
		return false, err
	}
	b := t.mr.Bytes()[t.outAt:][:t.recordBytes]
	r, ok := t.f.decode(b)
	if !ok || word(b, recordSelf) != d {
		return false, nil // it was never written as a whole, so no slot names it
	}
	h := hashOf(r.key)
	for range attempts {
		k, err := t.look(f, h)
		if err != nil {
			return false, err
		}
		bucket, mine := combined(h, t.groups), slot{}
		for i := range 2 * combinedSlots {
			s := t.slotOf(&k, h, bucket, i)
			if s.word&(1<<linesShift-1) == t.spread.pointer(d, off) && s.word != 0 {
				mine = s
			}
		}
		switch {
		case mine.at == 0:
			return false, nil
		case !tentative(mine.word):
			return true, nil
		}
		t.b.Reset()
		t.cas(f, mine.at, mine.word, 0)
		if err := t.await(f); err != nil {
			return false, err
		}
	}
	return false, proto.Aborting(proto.ReasonLocked)
}
