package verbs

import (
	"errors"
	"sync/atomic"
)

// table maps small integers to objects: read without a lock, written under the caller's.
type table[T any] struct {
	p atomic.Pointer[[]atomic.Pointer[T]]
}

// get returns nil for what is not there.
func (t *table[T]) get(i uint32) *T {
	s := t.p.Load()
	if s == nil || int(i) >= len(*s) {
		return nil
	}
	return (*s)[i].Load()
}

func (t *table[T]) set(i uint32, v *T) {
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

// closer is a driver's object.
type closer interface{ Close() error }

// closeAfter closes what was made before err, and returns both errors.
func closeAfter(err error, c closer) error { return errors.Join(err, c.Close()) }

func asError(err error, e **Error) bool { return errors.As(err, e) }
