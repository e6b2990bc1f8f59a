package tabletest

import (
	"fmt"
	"testing"

	"drtmd/store/layout"
	"drtmd/store/pool"
)

// Items says what leads to the item at an offset, for a walk over every word of a table at rest: each item is
// in its pool or in the table, once.
type Items map[int]string

// Meet takes down that an item was met, and fails if it was before.
func (s Items) Meet(off int, how string) error {
	if was := s[off]; was != "" {
		return fmt.Errorf("item at %d is %s and %s", off, was, how)
	}
	s[off] = how
	return nil
}

// Pool meets the free and the unused items of a pool, after all others were met, and fails if one is lost.
func (s Items) Pool(word func(off int) uint64, p pool.Pool) error {
	for i := range pool.Stripes {
		stripe := p.At + i*layout.LineBytes
		n := uint64(0)
		for off := word(stripe + pool.StripeFree); off != 0; off = word(int(off) + p.Next) {
			if !p.Holds(off) {
				return fmt.Errorf("free list leads to %d", off)
			}
			if err := s.Meet(int(off), "free"); err != nil {
				return err
			}
			if p.State != 0 && !layout.Version(word(int(off)+layout.VersionOffset)).Unbound() {
				return fmt.Errorf("free entry at %d is bound", off)
			}
			n++
		}
		if count := word(stripe + pool.StripeCount); count != n {
			return fmt.Errorf("stripe counts %d free items of %d", count, n)
		}
		for off := word(stripe + pool.StripeNext); off < word(stripe+pool.StripeEnd); off += uint64(p.Size) {
			if err := s.Meet(int(off), "unused"); err != nil {
				return err
			}
		}
	}
	for off := p.First; off < p.End; off += p.Size {
		if s[off] == "" {
			return fmt.Errorf("item at %d is lost", off)
		}
	}
	return nil
}

// LoadLeavesEvenRoom loads n records and fails if a stripe of a pool has much less room left than another: workers would
// meet in those that are left. A stripe may have the records of two runs more.
func LoadLeavesEvenRoom(t testing.TB, n int, load func(key uint64) error, word func(off int) uint64, p pool.Pool) {
	t.Helper()
	for key := range n {
		if err := load(uint64(key + 1)); err != nil {
			t.Fatal(err)
		}
	}
	least, most := p.End-p.First, 0
	for i := range pool.Stripes {
		stripe := p.At + i*layout.LineBytes
		room := int(word(stripe+pool.StripeEnd)-word(stripe+pool.StripeNext)) / p.Size
		least, most = min(least, room), max(most, room)
	}
	if most-least > 2*pool.LoadRun {
		t.Errorf("stripes have room for %d to %d items after %d records were loaded", least, most, n)
	}
}
