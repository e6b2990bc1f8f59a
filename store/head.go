package store

import (
	"errors"

	"drtmd/store/internal/head"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// The head of a table, little endian, at the table's offset:
//
//	   0  magic 8 | id 8 | value bytes 8 | main buckets 8 | indirect buckets 8 | entries 8 |
//	      offset of the table 8 |
//	      layout 1 | its version 1 | index 1 | its version 1 | zero 4
//	  64  incarnation counter 8 | link counter 8 | lock 4, without line words | zero 44
//	 128  stripes of the pool of entries, a line each
//	 640  stripes of the pool of indirect buckets, a line each
//	1152  main buckets, indirect buckets, entries
//	      of a table that grows, rounded up to a bucket: the directory of extents (layout.Extent)
//
// Stripes are those of package pool. Free entries are chained by the first word of their value, free buckets
// by the key word of their first slot.
const (
	headMagic    = 0x31_65_6c_62_61_54_52_64 // "dRTable1"
	countersAt   = layout.CounterOffset
	linksAt      = countersAt + 8
	lockAt       = countersAt + 16
	entryPoolAt  = 2 * layout.LineBytes
	bucketPoolAt = entryPoolAt + pool.Bytes
	headEnd      = bucketPoolAt + pool.Bytes
	headBytes    = (headEnd + layout.BucketBytes - 1) &^ (layout.BucketBytes - 1)
)

// Peers know where the main buckets of an extent begin.
const _ = uint(layout.TableHeadBytes-headBytes) | uint(headBytes-layout.TableHeadBytes)

// ErrNotTable: the memory holds no table, or another one than the Config says.
var ErrNotTable = errors.New("memory does not hold this table")

// headWords are the words that identify a table.
func (t *Table) headWords() [8]uint64 {
	c := &t.config
	l, i := c.layout(), c.index()
	return [8]uint64{headMagic, uint64(c.ID), uint64(c.ValueBytes), uint64(c.MainBuckets),
		uint64(c.IndirectBuckets), uint64(c.Entries), uint64(t.at),
		head.Kinds(l, i)}
}

var headNames = [8]string{"magic", "table id", "value bytes", "main buckets", "indirect buckets",
	"entries", "offset", "layout and index"}

// checkHead compares the head in memory with the table's Config.
func (t *Table) checkHead() error {
	words := t.headWords()
	return head.Check(t.config.Name, func(i int) uint64 { return t.word(t.at + 8*i) }, words[:], headNames[:],
		ErrNotTable)
}

// format clears the table and writes its head, the magic last.
func (t *Table) format() {
	clear(t.m.Bytes[t.at : t.at+t.config.Bytes()])
	entries, buckets := t.entryPool(), t.bucketPool()
	entries.Format(t.setWord)
	buckets.Format(t.setWord)
	if t.config.Grows {
		t.setWord(t.at+t.config.tableBytes(), 1)
	}
	words := t.headWords()
	head.Store(func(i int, w uint64) { t.setWord(t.at+8*i, w) }, words[:])
}
