package store

import (
	"fmt"

	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// checkTable looks at every word of a table at rest and says what does not fit: each entry and
// each indirect bucket is either in the pool or reachable by exactly one way, what a slot names is
// bound to the slot's key, and no key stands twice.
func checkTable(t *Table) error {
	c := &checker{t: t, seen: tabletest.Items{}, keys: map[uint64]bool{}}
	for b := t.mainAt; b < t.indirectAt; b += layout.BucketBytes {
		if err := c.chain(b); err != nil {
			return err
		}
	}
	for _, p := range []pool.Pool{t.entryPool(), t.bucketPool()} {
		if err := c.seen.Pool(t.word, p); err != nil {
			return err
		}
	}
	if o := t.Occupancy(); o.Bound != c.entries || o.Chained != c.buckets {
		return fmt.Errorf("%s, but %d entries and %d indirect buckets were met", o, c.entries,
			c.buckets)
	}
	return nil
}

type checker struct {
	t                *Table
	seen             tabletest.Items
	keys             map[uint64]bool
	entries, buckets int
}

func (c *checker) chain(main int) error {
	t := c.t
	for b := main; ; {
		link := 0
		taken := false
		for i := range layout.BucketSlots {
			at := b + i*layout.SlotBytes
			s, key := layout.Slot(t.word(at)), t.word(at+layout.SlotKeyOffset)
			switch s.Type() {
			case layout.Free:
			case layout.Entry:
				taken = true
				if err := c.entry(int(s.Offset()), key, main, s.Lossy()); err != nil {
					return err
				}
			case layout.Header:
				next, ok := t.linked(s)
				if i != layout.LinkSlot || !ok {
					return fmt.Errorf("slot %d of the bucket at %d is a link: %s", i, b, s)
				}
				link = next
			default:
				return fmt.Errorf("slot %d of the bucket at %d is %s", i, b, s)
			}
		}
		if b != main && !taken {
			return fmt.Errorf("indirect bucket at %d is empty", b)
		}
		if link == 0 {
			return nil
		}
		c.buckets++
		if err := c.seen.Meet(link, "linked"); err != nil {
			return err
		}
		b = link
	}
}

func (c *checker) entry(off int, key uint64, main int, l layout.Lossy) error {
	t := c.t
	c.entries++
	v := layout.Version(t.word(t.VersionOffset(off)))
	switch {
	case !t.named(off):
		return fmt.Errorf("a slot of key %d names %d", key, off)
	case t.KeyAt(off) != key || v.Unbound():
		return fmt.Errorf("slot of key %d leads to key %d at %s", key, t.KeyAt(off), v)
	case t.bucketAt(key) != main:
		return fmt.Errorf("key %d stands in the chain at %d", key, main)
	case c.keys[key]:
		return fmt.Errorf("key %d stands twice", key)
	case (v.Lossy()-l)&layout.MaxLossy > layout.MaxLossy/2: // that of a later incarnation
		return fmt.Errorf("key %d at %s has a slot with lossy incarnation %d", key, v, l)
	}
	c.keys[key] = true
	return c.seen.Meet(off, "bound")
}
