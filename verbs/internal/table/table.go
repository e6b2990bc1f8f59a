// Package table maps small integers to objects, for the data path. Package verbs finds QPs and address
// handles with it, and verbs/shm the handles behind WR.AH.
package table

import "sync/atomic"

// Table is read without a lock and from any goroutine, and written under the caller's lock. It
// grows and never shrinks. The zero value is empty.
type Table[T any] struct {
	p atomic.Pointer[[]atomic.Pointer[T]]
}

// Get returns nil for what is not there.
func (t *Table[T]) Get(i uint32) *T {
	s := t.p.Load()
	if s == nil || int(i) >= len(*s) {
		return nil
	}
	return (*s)[i].Load()
}

// Set puts v, or nil to take out what was there, at index i.
func (t *Table[T]) Set(i uint32, v *T) {
	s := t.p.Load()
	if s == nil || int(i) >= len(*s) {
		grown := make([]atomic.Pointer[T], max(64, 2*int(i)))
		if s != nil {
			for j := range *s {
				grown[j].Store((*s)[j].Load())
			}
		}
		s = &grown
		t.p.Store(s)
	}
	(*s)[i].Store(v)
}
