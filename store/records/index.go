package records

import (
	"sync"
	"sync/atomic"

	"drtmd/store/dlht"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// stripes of keys. Workers that make or give back records of one stripe wait for each other; there are a few workers.
const stripes = 64

// maxStrays bounds how many locked places of a list are passed over: locked for a moment by someone with an out-of-date
// place, or for ever by one who died then.
const maxStrays = 64

// index is what the workers of a process share of a table.
type index struct {
	keys *dlht.Table // places of bound records
	// stripes exclude each other's changes of the same key. Look-ups take none.
	stripes [stripes]struct {
		sync.Mutex
		_ [layout.LineBytes - 8]byte
	}
	free [pool.Stripes]free
}

// free is a part of the places that are bound to no key.
type free struct {
	mu   sync.Mutex // guards the rest
	list []uint32   // indexes of records
	next int        // index of the next record that was never used
	end  int        // behind the last of those
	_    [layout.LineBytes - 48]byte
}

func newIndex(c Config) (x *index, err error) {
	x = &index{}
	x.keys, err = dlht.New(c.index())
	return x, err
}

// lock takes the lock of a key's stripe.
func (x *index) lock(key uint64) *sync.Mutex {
	l := &x.stripes[layout.Hash(key)%stripes].Mutex
	l.Lock()
	return l
}

// deal has the places of a new table dealt out to the stripes.
func (x *index) deal(entries int) {
	for i := range x.free {
		x.free[i].next, x.free[i].end = i*entries/pool.Stripes, (i+1)*entries/pool.Stripes
	}
}

// take takes a free place, from the worker's own stripe first; 0: there is none.
func (t *Table) take() (off int) {
	for i := range pool.Stripes {
		f := &t.index.free[(t.stripe+i)%pool.Stripes]
		f.mu.Lock()
		at, ok := t.takeFrom(f)
		f.mu.Unlock()
		if ok {
			return t.place(at)
		}
	}
	return 0
}

func (t *Table) takeFrom(f *free) (i int, ok bool) {
	last := len(f.list) - 1
	for at := last; at >= 0 && last-at < maxStrays; at-- {
		i = int(f.list[at])
		state := atomic.LoadUint64(t.at64(t.place(i) + layout.StateOffset))
		if layout.Locked(state) && !t.lacks(TakeLocked) {
			continue
		}
		f.list[at] = f.list[last]
		f.list = f.list[:last]
		return i, true
	}
	if f.next < f.end {
		f.next++
		return f.next - 1, true
	}
	return 0, false
}

// give puts a place into the worker's own stripe.
func (t *Table) give(off int) {
	f := &t.index.free[t.stripe]
	f.mu.Lock()
	f.list = append(f.list, uint32((off-t.place(0))/t.stride))
	f.mu.Unlock()
}

// rebuild makes the index of kept memory, which nobody uses.
func (t *Table) rebuild() error {
	t.index.deal(t.config.Entries)
	for i := range t.index.free {
		f := &t.index.free[i]
		last := f.next
		for at := f.next; at < f.end; at++ {
			ok, err := t.adopt(t.place(at))
			if err != nil {
				return err
			}
			for ; ok && last < at; last++ {
				f.list = append(f.list, uint32(last))
			}
			if ok {
				last = at + 1
			}
		}
		f.next = last
	}
	return nil
}

// adopt puts a record that an earlier life has left into the index, if it is bound. Of two records of a key the one
// with the higher version counts: its life has ended before it had let go of the other.
func (t *Table) adopt(off int) (bound bool, err error) {
	v := t.version(off)
	key := t.word(off + layout.KeyOffset)
	if !v.Unbound() && key != layout.NoKey {
		other, made, err := t.index.keys.Insert(key, uint64(off))
		switch {
		case err != nil || made:
			return true, err
		case v <= t.version(int(other)):
			t.drop(off)
			return false, nil
		}
		if _, _, err = t.index.keys.Put(key, uint64(off)); err != nil {
			return false, err
		}
		t.drop(int(other))
		t.give(int(other))
		return true, nil
	}
	t.drop(off)
	return false, nil
}

// drop makes a record of memory that nobody uses free: no lock in it means anything.
func (t *Table) drop(off int) {
	v := t.version(off)
	t.raise(v.Incarnation() &^ 1)
	t.setWord(off+layout.KeyOffset, layout.NoKey)
	t.setWord(off+layout.VersionOffset, uint64(layout.MakeVersion(v.Incarnation()&^1, 0).Unbind()))
	t.setWord(off+layout.StateOffset, 0)
}
