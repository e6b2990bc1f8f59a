package records

import (
	"sync/atomic"
	"unsafe"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/words"
	"drtmd/verbs/lineword"
)

// looks bounds how often EnsureIn looks a record up that others give back meanwhile, before it has them wait.
const looks = 16

// EnsureIn finds the record of key or makes an absent one, at once, whatever becomes of the region. The state word of
// a new record is state, where memory has line words; elsewhere, and in a record that was there, it is left as it is.
// The version is the record's as it stands, live or absent. With an error, one of store.ErrKey, store.ErrEntriesFull,
// store.ErrSpent and those of package dlht, nothing was stored and the region runs on. ok is false if the region has
// aborted. It does not allocate, unless the index grows.
func (t *Table) EnsureIn(r *htm.Region, key, state uint64) (off int, v layout.Version, ok bool, err error) {
	switch {
	case key == layout.NoKey:
		return 0, 0, true, store.ErrKey
	case !r.Active():
		return 0, 0, false, nil
	}
	for range looks {
		off, found := t.Find(key)
		if !found {
			break
		}
		if v, bound := t.bound(off, key); bound {
			return off, v, true, nil
		}
	}
	off, v, _, err = t.make(key, state)
	return off, v, true, err
}

// bound is the version of a record, if it is bound to a key.
func (t *Table) bound(off int, key uint64) (v layout.Version, ok bool) {
	v = t.version(off)
	return v, !v.Unbound() && t.word(off+layout.KeyOffset) == key && t.version(off) == v
}

// make makes the record of a key, unless another worker has.
func (t *Table) make(key, state uint64) (off int, v layout.Version, made bool, err error) {
	if !t.lacks(UnlockedStripe) {
		defer t.index.lock(key).Unlock()
	}
	if off, found := t.Find(key); found {
		return off, t.version(off), false, nil
	}
	if t.config.step != nil {
		t.config.step()
	}
	if v = layout.Fresh(t.Incarnations()); v.Spent() && !t.lacks(NoSpent) {
		return 0, 0, false, store.ErrSpent
	}
	if off = t.take(); off == 0 {
		return 0, 0, false, store.ErrEntriesFull
	}
	t.bind(off, key, v, state)
	if _, _, err = t.index.keys.Insert(key, uint64(off)); err != nil {
		p, w := t.lockLine(off)
		t.unbind(off, v)
		t.unlockLine(off, 0, p, w)
		t.give(off)
		return 0, 0, false, err
	}
	return off, v, true, nil
}

// ReclaimIn gives the record of an absent key back, at once, if its state word is exactly state: what the caller put
// there or saw there, and knows to hold nobody's lock but its own. The state word becomes zero where memory has line
// words; elsewhere it is left alone, and the caller unlocks it afterwards. The table keeps the incarnation, so that the
// key's versions go on growing. With an error, one of store.ErrNoEntry, store.ErrLive and store.ErrState, nothing was
// stored and the region runs on. ok is false if the region has aborted. It does not allocate.
func (t *Table) ReclaimIn(r *htm.Region, key, state uint64) (ok bool, err error) {
	if !r.Active() {
		return false, nil
	}
	defer t.index.lock(key).Unlock()
	off, found := t.Find(key)
	if !found {
		return true, store.ErrNoEntry
	}
	p, w := t.lockLine(off) // nobody locks the record between the look and its end
	v, err := t.givable(off, state)
	if err != nil {
		t.restoreLine(p, w)
		return true, err
	}
	t.raise(v.Incarnation())
	t.index.keys.Delete(key)
	t.unbind(off, v)
	t.unlockLine(off, 0, p, w)
	t.give(off)
	return true, nil
}

// givable is the version of a record that may be given back.
func (t *Table) givable(off int, state uint64) (v layout.Version, err error) {
	v = layout.Version(atomic.LoadUint64(t.at64(off + layout.VersionOffset)))
	switch {
	case v.Live() && !t.lacks(ReclaimLive):
		return v, store.ErrLive
	case atomic.LoadUint64(t.at64(off+layout.StateOffset)) != state && !t.lacks(ReclaimAnyState):
		return v, store.ErrState
	}
	return v, nil
}

// bind binds a free record to a key. The key comes before the version: see layout.NoKey.
func (t *Table) bind(off int, key uint64, v layout.Version, state uint64) {
	p, w := t.lockLine(off)
	atomic.StoreUint64(t.at64(off+layout.KeyOffset), key)
	atomic.StoreUint64(t.at64(off+layout.VersionOffset), uint64(v))
	t.unlockLine(off, state, p, w)
}

// unbind is the end of a record that the index does not lead to any more. The key goes first: from here on nobody with
// an out-of-date place takes the record for the key's, whatever comes next. The caller has the line's lock.
func (t *Table) unbind(off int, v layout.Version) {
	if !t.lacks(KeepKey) {
		atomic.StoreUint64(t.at64(off+layout.KeyOffset), layout.NoKey)
	}
	atomic.StoreUint64(t.at64(off+layout.VersionOffset), uint64(v.Unbind()))
}

// lockLine locks the first line of a record, where memory has line words.
func (t *Table) lockLine(off int) (p *uint64, w lineword.Word) {
	if !t.lineWords {
		return nil, 0
	}
	return words.LockLine(t.m, off)
}

// unlockLine stores the record's state word and unlocks its line; without line words it does neither.
func (t *Table) unlockLine(off int, state uint64, p *uint64, w lineword.Word) {
	if t.lineWords {
		lineword.StoreUnlock(t.at64(off+layout.StateOffset), state, p, w)
	}
}

// restoreLine unlocks a line that was not changed.
func (t *Table) restoreLine(p *uint64, w lineword.Word) {
	if t.lineWords {
		lineword.Restore(p, w)
	}
}

// at64 is an aligned word of the memory.
func (t *Table) at64(off int) *uint64 { return (*uint64)(unsafe.Add(t.base, off)) }
