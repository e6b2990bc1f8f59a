package words

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"drtmd/internal/invariant"
	"drtmd/store/layout"
)

// Undo is a worker's journal of the change of a table that is under way, in memory that outlives the process. Where
// memory has no line words, a table changes store by store (Direct): a process that is killed in between leaves half a
// change, and the table's lock. So each word is noted before it is stored to, and whoever opens the memory again puts
// back what was there. A change is made when its notes are dropped; one that others see before that, when the word is
// stored that shows it to them (Access.Complete): they may have stored to a new entry by then, and committed.
//
// Little endian, from a multiple of 64 on:
//
//	 0  magic "dRtmUndo" 8 | room for so many notes 8 | notes 8 | zero 40
//	64  notes, the oldest first: offset of a word 8 | what it was 8
//
// The highest bit of the number of notes says that the change is made if the word of the newest note is no longer what it
// was.
//
// The stores of a process that is killed are there in their order; of a machine that loses power, only if it keeps its
// caches. One table at a time changes with a journal. It belongs to its worker.
type Undo struct {
	base unsafe.Pointer // of the memory region
	at   int
	n    uint64 // notes, as in memory
}

const (
	undoMagic = 0x6f_64_6e_55_6d_74_52_64 // "dRtmUndo"
	// undoNotes are more than the words of any change: in a B+ tree whose nodes are split, or made one, at each of 16
	// levels, some 75 at each.
	undoNotes     = 1500
	undoHeadBytes = layout.LineBytes
	undoCountAt   = 16
	undoNoteBytes = 16
	undoLast      = 1 << 63 // in the number of notes: the newest is of the last store of the change
	// UndoBytes is the memory of an Undo.
	UndoBytes = (undoHeadBytes + undoNotes*undoNoteBytes + layout.LineBytes - 1) &^ (layout.LineBytes - 1)
)

// FormatUndo makes a journal without notes at an offset of a memory region, where UndoBytes bytes are.
func FormatUndo(region []byte, at int) *Undo {
	u := undoAt(region, at)
	clear(region[at : at+UndoBytes])
	*u.word(0), *u.word(8) = undoMagic, undoNotes
	return u
}

// OpenUndo opens the journal that an earlier life has left, and puts back what the change noted there has stored to: words
// of the region's first tableBytes. undone says that there was one that was not made. It may be cut off and called again.
func OpenUndo(region []byte, at, tableBytes int) (u *Undo, undone bool, err error) {
	u = undoAt(region, at)
	count := *u.word(undoCountAt)
	n := count &^ undoLast
	switch {
	case *u.word(0) != undoMagic, *u.word(8) != undoNotes:
		return nil, false, fmt.Errorf("the journal of table changes at offset %d is none of this version", at)
	case n > undoNotes, count == undoLast:
		return nil, false, fmt.Errorf("the journal of table changes at offset %d has %d notes in room for %d", at, n, undoNotes)
	}
	for i := range n {
		if off := *u.note(i, 0); off%8 != 0 || off >= uint64(tableBytes) {
			return nil, false, fmt.Errorf("the journal of table changes at offset %d names a word at %#x: the tables have %#x bytes",
				at, off, tableBytes)
		}
	}
	if newest := n - 1; count != n && *u.region(*u.note(newest, 0)) != *u.note(newest, 8) { // the change is made
		n = 0
	}
	for i := range n { // a word that was stored to twice has its oldest note last
		last := n - 1 - i
		atomic.StoreUint64(u.region(*u.note(last, 0)), *u.note(last, 8))
	}
	u.Drop()
	return u, n > 0, nil
}

func undoAt(region []byte, at int) *Undo {
	return &Undo{base: unsafe.Pointer(unsafe.SliceData(region[:at+UndoBytes])), at: at}
}

func (u *Undo) word(off int) *uint64 { return (*uint64)(unsafe.Add(u.base, u.at+off)) }

// region is a word of a table.
func (u *Undo) region(off uint64) *uint64 { return (*uint64)(unsafe.Add(u.base, int(off))) }

func (u *Undo) note(i uint64, off int) *uint64 {
	return u.word(undoHeadBytes + int(i)*undoNoteBytes + off)
}

// add notes a word before it is stored to; last: as the last of its change.
func (u *Undo) add(off int, was uint64, last bool) {
	invariant.Assert(u.n < undoNotes, "the change of a table does not fit into its journal")
	atomic.StoreUint64(u.note(u.n, 0), uint64(off))
	atomic.StoreUint64(u.note(u.n, 8), was)
	if u.n++; last {
		u.n |= undoLast // no note comes behind it
	}
	atomic.StoreUint64(u.word(undoCountAt), u.n)
}

// Drop drops all notes: the change is made. Of no journal (nil) it does nothing.
func (u *Undo) Drop() {
	if u == nil {
		return
	}
	if u.n = 0; atomic.LoadUint64(u.word(undoCountAt)) != 0 {
		atomic.StoreUint64(u.word(undoCountAt), 0)
	}
}
