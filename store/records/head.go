package records

import (
	"drtmd/store"
	"drtmd/store/internal/head"
	"drtmd/store/layout"
)

// The head of a table, little endian, at the table's offset:
//
//	  0  magic 8 | id 8 | value bytes 8 | records 8 | offset of the table 8 |
//	     layout 1 | its version 1 | index 1 | its version 1 | zero 20
//	 64  incarnation counter 8 | zero 56
//	128  records
//
// A record is free if its version says that it is bound to no key; its key word is layout.NoKey then.
const (
	headMagic  = 0x31_63_65_52_54_52_64_64 // "ddRTRec1"
	countersAt = layout.CounterOffset
	headBytes  = layout.RecordsHeadBytes
)

// headWords are the words that identify a table.
func (t *Table) headWords() [6]uint64 {
	c := &t.config
	return [6]uint64{headMagic, uint64(c.ID), uint64(c.ValueBytes), uint64(c.Entries), uint64(t.at),
		head.Kinds(c.layout(), layout.DLHT)}
}

var headNames = [6]string{"magic", "table id", "value bytes", "records", "offset", "layout and index"}

// checkHead compares the head in memory with the table's Config.
func (t *Table) checkHead() error {
	words := t.headWords()
	return head.Check(t.config.Name, func(i int) uint64 { return t.word(t.at + 8*i) }, words[:], headNames[:],
		store.ErrNotTable)
}

// format clears the table and writes its head, the magic last.
func (t *Table) format() {
	clear(t.m.Bytes[t.at : t.at+t.config.Bytes()])
	for i := range t.config.Entries {
		t.setWord(t.place(i)+layout.KeyOffset, layout.NoKey)
		t.setWord(t.place(i)+layout.VersionOffset, uint64(layout.Version(0).Unbind()))
	}
	words := t.headWords()
	head.Store(func(i int, w uint64) { t.setWord(t.at+8*i, w) }, words[:])
}
