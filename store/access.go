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

func directOf(r *htm.Region, base unsafe.Pointer) direct {
	return direct{words.Direct{R: r, Base: base}}
}

func (a direct) region() *htm.Region { return a.R }

func (a direct) at(t *Table) direct { return directOf(a.R, t.base) }

// plain is access to a table that nobody else uses.
type plain struct{ words.Plain }

func plainOf(base unsafe.Pointer) plain { return plain{words.Plain{Base: base}} }

func (a plain) region() *htm.Region { return nil }

func (a plain) at(t *Table) plain { return plainOf(t.base) }

// lock takes the table's lock, which serves memory without line words only.
func (t *Table) lock(r *htm.Region) bool {
	return t.lacks(NoTableLock) || words.Lock(r, t.base, t.at+lockAt)
}

func (t *Table) unlock() { words.Unlock(t.base, t.at+lockAt) }
