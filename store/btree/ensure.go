package btree

import (
	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/pool"
	"drtmd/store/words"
)

// EnsureIn finds the entry of key or makes an absent one, inside a region. The state word of a
// new entry is state, where memory has line words; elsewhere, and in an entry that was there, it
// is left as it is. The version is the entry's as it stands, live or absent; what the protocol
// does next follows from it (layout.Version). With an error, one of store.ErrKey, store.ErrEntriesFull,
// ErrNodesFull and store.ErrSpent, nothing was stored and the region runs on. ok is false if the region has
// aborted. It does not allocate.
//
// Where memory has no line words an entry is made at once, under the table's lock, whatever
// becomes of the region: an absent entry that nobody has locked changes nothing.
func (t *Table) EnsureIn(r *htm.Region, key, state uint64) (off int, v layout.Version, ok bool, err error) {
	if key == layout.NoKey {
		return 0, 0, true, store.ErrKey
	}
	if t.lineWords {
		p, ok := t.descendIn(r, key)
		if !ok {
			return 0, 0, false, nil
		}
		return ensureAt(t, t.inside(r), key, state, p)
	}
	if !r.Active() || !t.lock(r) {
		return 0, 0, false, nil
	}
	off, v, ok, err = ensure(t, t.direct(r), key, state)
	t.unlock() // not if it panics: see words.Undo
	return off, v, ok, err
}

func ensure[A words.Access](t *Table, a A, key, state uint64) (off int, v layout.Version, ok bool, err error) {
	if key == layout.NoKey {
		return 0, 0, true, store.ErrKey
	}
	var p path
	if !descend(t, a, key, &p) {
		return 0, 0, false, nil
	}
	return ensureAt(t, a, key, state, &p)
}

// ensureAt is EnsureIn at the end of the path to the key.
func ensureAt[A words.Access](t *Table, a A, key, state uint64, p *path) (off int, v layout.Version, ok bool,
	err error) {
	if p.entry != 0 {
		w, ok := a.Load(p.entry + layout.VersionOffset)
		return p.entry, layout.Version(w), ok, nil
	}
	counter, ok := a.Load(t.at + countersAt)
	if !ok {
		return 0, 0, false, nil
	}
	return create(t, a, key, state, p, uint32(counter))
}

// create makes an entry for a key that has none, and then what leads to it. In the entry the key comes before
// the version: see layout.NoKey. No incarnation that the key had is above counter.
func create[A words.Access](t *Table, a A, key, state uint64, p *path, counter uint32) (off int,
	v layout.Version, ok bool, err error) {
	v = layout.Fresh(counter)
	if v.Spent() && !t.lacks(NoSpent) {
		return 0, 0, true, store.ErrSpent
	}
	entry, ok := pool.Find(a, t.entryPool())
	if !ok {
		return 0, 0, false, nil
	}
	if entry.Off == 0 {
		return 0, 0, true, store.ErrEntriesFull
	}
	if n := p.newNodes(); n > 0 {
		has, ok := pool.Has(a, t.nodePool(), n)
		if !ok {
			return 0, 0, false, nil
		}
		if !has {
			return 0, 0, true, ErrNodesFull
		}
	}
	off = entry.Off
	t.prefetch(off + t.stride)
	ok = pool.Take(a, entry) && a.Store(off+layout.KeyOffset, key) &&
		a.Store(off+layout.VersionOffset, uint64(v)) &&
		(!t.lineWords || t.lacks(KeepState) || a.Store(off+layout.StateOffset, state)) &&
		change(t, a, false) && insert(t, a, p, pair{key, uint64(off)}) && change(t, a, true)
	return off, v, ok, nil
}

// change counts, before and after a change of the tree, where memory has no line words. last: with that, an entry is made.
func change[A words.Access](t *Table, a A, last bool) (ok bool) {
	if t.lineWords || t.lacks(Uncounted) {
		return true
	}
	n, ok := a.Load(t.at + changesAt)
	if ok && last {
		return a.Complete(t.at+changesAt, n+1)
	}
	return ok && a.Store(t.at+changesAt, n+1)
}

// Load stores a record in a table that nobody else uses yet: version layout.FirstVersion, state
// zero. It fails with store.ErrExists, store.ErrValueSize, or as EnsureIn does.
func (t *Table) Load(key uint64, value []byte) error {
	if len(value) != t.config.ValueBytes {
		return store.ErrValueSize
	}
	own := t.stripe
	t.stripe = pool.Loading(own, t.loads)
	off, v, ok, err := ensure(t, t.plain(), key, 0)
	t.stripe, t.loads = own, t.loads+1
	switch {
	case err != nil:
		return err
	case !ok:
		return store.ErrCorrupt
	case v.Live():
		return store.ErrExists
	}
	t.record.Put(t.m.Bytes[off:], layout.FirstVersion, value)
	return nil
}
