package hopscotch

import (
	"fmt"

	"drtmd/store/layout"
)

// checkTable looks at every word of a table at rest and says what does not fit: a record stands in its
// home's neighbourhood and map, or in its home's chain, and once; a block is in one chain or in the pool.
func checkTable(t *Table) error {
	c := &checker{t: t, keys: map[uint64]bool{}, blocks: map[int]string{}, mapped: map[int]bool{}}
	for home := range t.p.Homes {
		if err := c.home(home); err != nil {
			return fmt.Errorf("home %d: %w", home, err)
		}
	}
	for i := range t.p.SlotCount() {
		if _, bound := c.bound(t.p.Slot(i)); bound && !c.mapped[i] {
			return fmt.Errorf("slot %d holds a record that is in no map", i)
		}
		if i >= t.p.Homes && t.word(t.p.Trailer(t.p.Slot(i))) != 0 {
			return fmt.Errorf("slot %d, which is no home, has a hop word", i)
		}
	}
	return c.pool()
}

type checker struct {
	t      *Table
	keys   map[uint64]bool
	blocks map[int]string // where they are
	mapped map[int]bool   // slots
}

// bound is the key of a slot, if it is bound to one.
func (c *checker) bound(off int) (key uint64, ok bool) {
	key = c.t.word(off + layout.KeyOffset)
	return key, !layout.Version(c.t.word(off + layout.VersionOffset)).Unbound()
}

func (c *checker) record(off, home int) error {
	key, bound := c.bound(off)
	switch {
	case !bound:
		return fmt.Errorf("the slot at %d is in the map, and bound to no key", off)
	case c.t.p.Home(key) != home:
		return fmt.Errorf("key %d, whose home is %d", key, c.t.p.Home(key))
	case c.keys[key]:
		return fmt.Errorf("key %d stands twice", key)
	}
	c.keys[key] = true
	return nil
}

func (c *checker) home(home int) error {
	t := c.t
	hop := layout.Hop(t.word(t.p.Trailer(t.p.Slot(home))))
	if hop.Moving() {
		return fmt.Errorf("a record is being moved: %v", hop)
	}
	for i := range layout.Neighbours {
		if !hop.Has(i) {
			continue
		}
		if c.mapped[home+i] {
			return fmt.Errorf("slot %d is in two maps", home+i)
		}
		c.mapped[home+i] = true
		if err := c.record(t.p.Slot(home+i), home); err != nil {
			return err
		}
	}
	link, ok := hop.Block()
	for ok {
		if link >= t.p.Blocks || c.blocks[link] != "" {
			return fmt.Errorf("block %d of %d is also %s", link, t.p.Blocks, c.blocks[link])
		}
		c.blocks[link] = "in a chain"
		records := 0
		for i := range layout.BlockSlots {
			off := t.p.Block(link) + i*t.p.Stride
			if key, bound := c.bound(off); !bound {
				if key != layout.NoKey {
					return fmt.Errorf("a free slot has key %d", key)
				}
				continue
			}
			if err := c.record(off, home); err != nil {
				return err
			}
			records++
		}
		if records == 0 {
			return fmt.Errorf("block %d is empty", link)
		}
		link, ok = layout.BlockLink(t.word(t.p.Trailer(t.p.Block(link))))
	}
	return nil
}

func (c *checker) pool() error {
	t, n := c.t, 0
	for link, ok := layout.BlockLink(t.word(t.at + poolFree)); ok; n++ {
		if link >= t.p.Blocks || c.blocks[link] != "" {
			return fmt.Errorf("free block %d of %d is also %s", link, t.p.Blocks, c.blocks[link])
		}
		c.blocks[link] = "free"
		link, ok = layout.BlockLink(t.word(t.p.Trailer(t.p.Block(link))))
	}
	if n != int(t.word(t.at+poolCount)) {
		return fmt.Errorf("%d free blocks, counted as %d", n, t.word(t.at+poolCount))
	}
	if used := int(t.word(t.at + poolNext)); used != len(c.blocks) {
		return fmt.Errorf("%d blocks were used, %d are in chains or free", used, len(c.blocks))
	}
	return nil
}
