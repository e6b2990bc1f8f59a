package robinhood

import (
	"fmt"

	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

// checkTable looks at every word of a table at rest and says what does not fit: a record stands at most D_m from its
// home or in its segment's chain, and once; displacements are exact; a block is in one chain or in the pool, and so is
// a record outside of slots.
func checkTable(t *Table) error {
	c := &checker{t: t, keys: map[uint64]bool{}, blocks: tabletest.Items{}, records: tabletest.Items{},
		displaced: map[int]int{}}
	for i := range t.p.SlotCount() {
		if err := c.slot(i); err != nil {
			return fmt.Errorf("slot %d: %w", i, err)
		}
	}
	for s := 0; s*layout.SegmentHomes < t.p.Homes; s++ {
		if err := c.segment(s); err != nil {
			return fmt.Errorf("segment %d: %w", s, err)
		}
	}
	if err := c.blocks.Pool(t.word, withoutState(t.blockPool())); err != nil {
		return fmt.Errorf("blocks: %w", err)
	}
	if t.outside {
		return c.records.Pool(t.word, t.recordPool())
	}
	return nil
}

type checker struct {
	t         *Table
	keys      map[uint64]bool
	blocks    tabletest.Items
	records   tabletest.Items
	displaced map[int]int // of segments
}

// record looks at a slot and gives its key; false: it is free.
func (c *checker) record(slot int) (key uint64, taken bool, err error) {
	t := c.t
	key = t.word(slot + layout.KeyOffset)
	if !t.outside {
		if bound := !layout.Version(t.word(slot + layout.VersionOffset)).Unbound(); bound != (key != layout.NoKey) {
			return 0, false, fmt.Errorf("key %#x, bound %v", key, bound)
		}
	}
	if key == layout.NoKey {
		return key, false, nil
	}
	if c.keys[key] {
		return 0, false, fmt.Errorf("key %d stands twice", key)
	}
	c.keys[key] = true
	if t.outside {
		off := int(t.word(slot + layout.PointerOffset))
		if !t.named(off) || t.word(off+layout.KeyOffset) != key {
			return 0, false, fmt.Errorf("key %d leads to %d", key, off)
		}
		err = c.records.Meet(off, "in a slot")
	}
	return key, true, err
}

func (c *checker) slot(i int) error {
	key, taken, err := c.record(c.t.p.Slot(i))
	if err != nil || !taken {
		return err
	}
	home := c.t.p.Home(key)
	if i < home || i > c.t.p.Last(home) {
		return fmt.Errorf("key %d, whose home is %d", key, home)
	}
	s := home / layout.SegmentHomes
	c.displaced[s] = max(c.displaced[s], i-home)
	return nil
}

func (c *checker) segment(s int) error {
	t := c.t
	word := layout.Segment(t.word(t.p.Word(s * layout.SegmentHomes)))
	if word.Displacement() != c.displaced[s] {
		return fmt.Errorf("its records are displaced by %d: %v", c.displaced[s], word)
	}
	for link, ok := word.Block(); ok; {
		if link >= t.p.Count {
			return fmt.Errorf("block %d of %d", link, t.p.Count)
		}
		block := t.p.Block(link)
		if err := c.blocks.Meet(block, "in a chain"); err != nil {
			return err
		}
		records := 0
		for i := range layout.OverflowSlots {
			key, taken, err := c.record(block + i*t.p.Stride)
			switch {
			case err != nil:
				return err
			case taken && t.p.Home(key)/layout.SegmentHomes != s:
				return fmt.Errorf("key %d is in the chain, its home is %d", key, t.p.Home(key))
			case taken:
				records++
			}
		}
		if records == 0 {
			return fmt.Errorf("block %d is empty", link)
		}
		link, ok = layout.BlockLink(t.word(t.p.Link(block)))
	}
	return nil
}
