package robinhood

import (
	"drtmd/store"
	"drtmd/store/internal/head"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// The head of a table, little endian, at the table's offset:
//
//	  0  magic 8 | id 8 | value bytes 8 | homes 8 | overflow blocks 8 | records outside 8 | offset of the table 8 |
//	     layout 1 | its version 1 | index 1 | its version 1 | displacement limit 4
//	 64  incarnation counter 8 | lock 4, without line words | zero 52
//	128  zero, or stripes of the pool of records outside of slots, a line each
//	640  stripes of the pool of overflow blocks
//	1152 segment words, slots, blocks, records outside of slots
//
// Stripes are those of package pool. Free blocks are chained by their links, free records by the first word of their
// value. A slot is free if its key word is layout.NoKey.
const (
	headMagic  = 0x31_62_6f_52_54_52_64_64 // "ddRTRob1"
	countersAt = layout.CounterOffset
	lockAt     = countersAt + 8
	recordsAt  = 2 * layout.LineBytes
	blocksAt   = recordsAt + pool.Bytes
	headBytes  = layout.RobinhoodHeadBytes
)

// Peers know where the segment words begin.
const _ = uint(headBytes-blocksAt-pool.Bytes) | uint(blocksAt+pool.Bytes-headBytes)

// headWords are the words that identify a table.
func (t *Table) headWords() [8]uint64 {
	c := &t.config
	l, i := c.layout(), layout.Robinhoods
	return [8]uint64{headMagic, uint64(c.ID), uint64(c.ValueBytes), uint64(c.Homes), uint64(c.Blocks),
		uint64(c.Outside), uint64(t.at), head.Kinds(l, i) | uint64(c.Limit)<<32}
}

var headNames = [8]string{"magic", "table id", "value bytes", "homes", "overflow blocks", "records outside", "offset",
	"layout, index and displacement limit"}

// checkHead compares the head in memory with the table's Config.
func (t *Table) checkHead() error {
	words := t.headWords()
	return head.Check(t.config.Name, func(i int) uint64 { return t.word(t.at + 8*i) }, words[:], headNames[:],
		store.ErrNotTable)
}

// format clears the table and writes its head, the magic last.
func (t *Table) format() {
	clear(t.m.Bytes[t.at : t.at+t.config.Bytes()])
	free := func(slot int) {
		t.setWord(slot+layout.KeyOffset, layout.NoKey)
		if !t.outside {
			t.setWord(slot+layout.VersionOffset, uint64(layout.Version(0).Unbind()))
		}
	}
	for i := range t.p.SlotCount() {
		free(t.p.Slot(i))
	}
	for b := range t.p.Count {
		for i := range layout.OverflowSlots {
			free(t.p.Block(b) + i*t.p.Stride)
		}
	}
	if t.outside {
		records := t.recordPool()
		records.Format(t.setWord)
		for off := records.First; off < records.End; off += records.Size {
			t.setWord(off+layout.KeyOffset, layout.NoKey)
			t.setWord(off+layout.VersionOffset, uint64(layout.Version(0).Unbind()))
		}
	}
	blocks := t.blockPool()
	blocks.Format(t.setWord)
	words := t.headWords()
	head.Store(func(i int, w uint64) { t.setWord(t.at+8*i, w) }, words[:])
}

// recordPool is the pool of records outside of slots.
func (t *Table) recordPool() pool.Pool {
	return pool.Pool{At: t.at + recordsAt, First: t.p.End(), End: t.p.End() + t.config.Outside*t.record.Stride,
		Size: t.record.Stride, Next: layout.ValueOffset, State: layout.StateOffset, Stripe: t.stripe,
		TakeLocked: t.lacks(TakeLocked)}
}

// blockPool is the pool of overflow blocks. One whose first slot somebody has locked by an out-of-date address is
// left alone.
func (t *Table) blockPool() pool.Pool {
	p := pool.Pool{At: t.at + blocksAt, First: t.p.Blocks, End: t.p.End(), Size: t.p.BlockBytes(), Next: t.p.Link(0),
		Stripe: t.stripe, TakeLocked: t.lacks(TakeLocked)}
	if !t.outside {
		p.State = layout.StateOffset
	}
	return p
}
