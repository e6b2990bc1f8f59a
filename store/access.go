package store

import (
	"unsafe"

	"drtmd/htm"
	"drtmd/store/words"
)

// access is how the code that changes a table reaches memory. ok is false if the region has
// aborted.
type access interface {
	words.Access
	region() *htm.Region // nil: there is none
}

// elsewhere is access that can be had to the memory of another extent.
type elsewhere[A any] interface {
	access
	at(t *Table) A
}

// inside is access inside a region.
type inside struct{ words.Inside }

func insideOf(r *htm.Region, m *htm.Memory) inside { return inside{words.Inside{R: r, M: m}} }

func (a inside) region() *htm.Region { return a.R }

func (a inside) at(t *Table) inside { return insideOf(a.R, t.m) }

// direct is access to memory without line words, by whoever holds the table's lock.
type direct struct{ words.Direct }

func directOf(r *htm.Region, t *Table) direct {
	return direct{words.Direct{R: r, Base: t.base, Undo: t.undo}}
}

func (a direct) region() *htm.Region { return a.R }

func (a direct) at(t *Table) direct { return directOf(a.R, t) }

// plain is access to a table that nobody else uses.
type plain struct{ words.Plain }

func plainOf(base unsafe.Pointer) plain { return plain{words.Plain{Base: base}} }

func (a plain) region() *htm.Region { return nil }

func (a plain) at(t *Table) plain { return plainOf(t.base) }

// lock takes the table's lock, which serves memory without line words only.
func (t *Table) lock(r *htm.Region) bool {
	return t.lacks(NoTableLock) || words.Lock(r, t.base, t.at+lockAt)
}

func (t *Table) unlock() {
	t.undo.Drop()
	words.Unlock(t.base, t.at+lockAt)
}

// Journal has the table note its changes, which are stores one by one where memory has no line words, so that they can be
// put back if they are cut off. The table does not grow.
func (t *Table) Journal(u *words.Undo) {
	if !t.lacks(Unnoted) {
		t.undo = u
	}
}

// Unlock gives back the lock that an earlier life of kept memory has left. Nobody uses the table yet.
func (t *Table) Unlock() { words.Unlock(t.base, t.at+lockAt) }
