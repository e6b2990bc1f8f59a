package hopscotch

import (
	"drtmd/store"
	"drtmd/store/internal/head"
	"drtmd/store/layout"
)

// The head of a table, little endian, at the table's offset:
//
//	  0  magic 8 | id 8 | value bytes 8 | homes 8 | blocks 8 | offset of the table 8 |
//	     layout 1 | its version 1 | index 1 | its version 1 | zero 12
//	 64  incarnation counter 8 | lock 4, without line words | zero 52
//	128  first free block and one, 0: none 8 | number of those never used before 8 | number in the free
//	     list 8 | zero 40
//	192  zero
//	256  slots, blocks
//
// Free blocks are chained by the trailer of their first slot. A slot is free if its version says that it is
// bound to no key; its key word is layout.NoKey.
const (
	headMagic  = 0x31_70_6f_48_54_52_64_64 // "ddRTHop1"
	countersAt = layout.CounterOffset
	lockAt     = countersAt + 8
	poolAt     = 2 * layout.LineBytes
	headBytes  = layout.HopscotchHeadBytes

	poolFree  = poolAt
	poolNext  = poolAt + 8
	poolCount = poolAt + 16
)

// headWords are the words that identify a table.
func (t *Table) headWords() [7]uint64 {
	c := &t.config
	l, i := c.layout(), layout.HopscotchInline
	return [7]uint64{headMagic, uint64(c.ID), uint64(c.ValueBytes), uint64(c.Homes), uint64(c.Blocks),
		uint64(t.at), head.Kinds(l, i)}
}

var headNames = [7]string{"magic", "table id", "value bytes", "homes", "overflow blocks", "offset",
	"layout and index"}

// checkHead compares the head in memory with the table's Config.
func (t *Table) checkHead() error {
	words := t.headWords()
	return head.Check(t.config.Name, func(i int) uint64 { return t.word(t.at + 8*i) }, words[:], headNames[:],
		store.ErrNotTable)
}

// format clears the table and writes its head, the magic last.
func (t *Table) format() {
	clear(t.m.Bytes[t.at : t.at+t.config.Bytes()])
	for off := t.p.Slots; off < t.p.End(); off += t.p.Stride {
		t.setWord(off+layout.KeyOffset, layout.NoKey)
		t.setWord(off+layout.VersionOffset, uint64(layout.Version(0).Unbind()))
	}
	words := t.headWords()
	head.Store(func(i int, w uint64) { t.setWord(t.at+8*i, w) }, words[:])
}
