package btree

import (
	"drtmd/store"
	"drtmd/store/internal/head"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// The head of a table, little endian, at the table's offset:
//
//	   0  magic 8 | id 8 | value bytes 8 | nodes 8 | entries 8 | offset of the table 8 |
//	      layout 1 | its version 1 | index 1 | its version 1 | zero 12
//	  64  incarnation counter 8 | change counter 8, lock 4, both without line words | zero 44
//	 128  offset of the root 8 | zero 56
//	 192  stripes of the pool of entries (package pool)
//	 704  stripes of the pool of nodes
//	1216  zero
//	1280  nodes, entries
//	      of a table that grows, rounded up to a bucket: the directory of extents (layout.Extent)
//
// The change counter is odd while the tree changes. Free entries are chained by the first word of their value,
// free nodes by the word behind their head.
const (
	headMagic   = 0x31_65_65_72_54_54_52_64 // "dRTTree1"
	countersAt  = layout.CounterOffset
	changesAt   = countersAt + 8
	lockAt      = countersAt + 16
	rootAt      = 2 * layout.LineBytes
	entryPoolAt = 3 * layout.LineBytes
	nodePoolAt  = entryPoolAt + pool.Bytes
	headBytes   = layout.TreeHeadBytes
)

const _ = uint(headBytes - nodePoolAt - pool.Bytes)

// headWords are the words that identify a table.
func (t *Table) headWords() [7]uint64 {
	c := &t.config
	l, i := c.layout(), c.index()
	return [7]uint64{headMagic, uint64(c.ID), uint64(c.ValueBytes), uint64(c.Nodes), uint64(c.Entries),
		uint64(t.at), head.Kinds(l, i)}
}

var headNames = [7]string{"magic", "table id", "value bytes", "nodes", "entries", "offset",
	"layout and index"}

// checkHead compares the head in memory with the table's Config.
func (t *Table) checkHead() error {
	words := t.headWords()
	return head.Check(t.config.Name, func(i int) uint64 { return t.word(t.at + 8*i) }, words[:], headNames[:],
		store.ErrNotTable)
}

// format clears the table, makes an empty leaf its root and writes its head, the magic last.
func (t *Table) format() {
	clear(t.m.Bytes[t.at : t.at+t.config.Bytes()])
	entries, nodes := t.entryPool(), t.nodePool()
	entries.Format(t.setWord)
	nodes.Format(t.setWord)
	for off := t.nodesAt; off < t.entriesAt; off += layout.NodeBytes {
		t.setWord(off, uint64(layout.MakeNodeHead(layout.FreeLevel, 0)))
	}
	root, _ := takeNode(t, t.plain())
	t.setWord(root, uint64(layout.MakeNodeHead(0, 0)))
	t.setWord(t.at+rootAt, uint64(root))
	if t.config.Grows {
		t.setWord(t.at+t.config.tableBytes(), 1)
	}
	words := t.headWords()
	head.Store(func(i int, w uint64) { t.setWord(t.at+8*i, w) }, words[:])
}
