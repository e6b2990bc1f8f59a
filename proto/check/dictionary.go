package check

import (
	"cmp"
	"slices"

	"drtmd/proto/history"
)

// entry is a key of a table.
type entry struct {
	table history.Table
	key   history.Key
}

// dictionary numbers keys from 0 in the order of their first appearance: a hash table with linear
// probing, at most half full.
type dictionary struct {
	entries []entry
	slots   []uint32 // number + 1, 0 for free; a power of two of them
}

const leastSlots = 1 << 10

func hash(t history.Table, k history.Key) uint64 {
	h := (uint64(k) ^ uint64(t)<<48) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0xff51afd7ed558ccd
	return h ^ h>>32
}

// number gives the number of a key.
func (d *dictionary) number(t history.Table, k history.Key) uint32 {
	if 2*(len(d.entries)+1) > len(d.slots) {
		d.grow()
	}
	mask := uint64(len(d.slots) - 1)
	for i := hash(t, k) & mask; ; i = (i + 1) & mask {
		switch n := d.slots[i]; {
		case n == 0:
			d.entries = append(d.entries, entry{t, k})
			d.slots[i] = uint32(len(d.entries))
			return uint32(len(d.entries) - 1)
		case d.entries[n-1] == entry{t, k}:
			return n - 1
		}
	}
}

func (d *dictionary) grow() {
	d.slots = make([]uint32, max(leastSlots, 2*len(d.slots)))
	mask := uint64(len(d.slots) - 1)
	for n, e := range d.entries {
		i := hash(e.table, e.key) & mask
		for d.slots[i] != 0 {
			i = (i + 1) & mask
		}
		d.slots[i] = uint32(n + 1)
	}
}

// sorted gives the numbers of all keys by table and key.
func (d *dictionary) sorted() []uint32 {
	s := make([]uint32, len(d.entries))
	for i := range s {
		s[i] = uint32(i)
	}
	slices.SortFunc(s, func(a, b uint32) int { return d.compare(a, d.entries[b]) })
	return s
}

// compare orders a numbered key and a key.
func (d *dictionary) compare(number uint32, e entry) int {
	a := d.entries[number]
	return cmp.Or(cmp.Compare(a.table, e.table), cmp.Compare(a.key, e.key))
}
