package store

import (
	"drtmd/htm"
	"drtmd/store/layout"
	"drtmd/store/pool"
)

// EnsureIn finds the entry of key or makes an absent one, inside a region. The state word of a
// new entry is state, where memory has line words; elsewhere, and in an entry that was there, it
// is left as it is. The version is the entry's as it stands, live or absent; what the protocol
// does next follows from it (layout.Version). With an error, one of ErrKey, ErrEntriesFull,
// ErrIndirectFull and ErrSpent, nothing was stored and the region runs on. ok is false if the
// region has aborted. It does not allocate.
//
// Where memory has no line words an entry is made at once, under the table's lock, whatever
// becomes of the region: an absent entry that nobody has locked changes nothing.
func (t *Table) EnsureIn(r *htm.Region, key, state uint64) (off int, v layout.Version, ok bool,
	err error) {
	if t.lineWords {
		return ensure(t, insideOf(r, t.m), key, state)
	}
	if !r.Active() || !t.lock(r) {
		return 0, 0, false, nil
	}
	off, v, ok, err = ensure(t, directOf(r, t), key, state)
	t.unlock() // not if it panics: see words.Undo
	return off, v, ok, err
}

func ensure[A access](t *Table, a A, key, state uint64) (off int, v layout.Version, ok bool,
	err error) {
	if key == layout.NoKey {
		return 0, 0, true, ErrKey
	}
	p, ok := locate(t, a, key)
	if !ok {
		return 0, 0, false, nil
	}
	if p.slotAt != 0 {
		return met(a, &p)
	}
	counter, ok := a.Load(t.at + countersAt)
	if !ok {
		return 0, 0, false, nil
	}
	return create(t, a, key, state, &p, uint32(counter))
}

// met gives the entry that a key has, and brings its slot up to date.
func met[A access](a A, p *place) (off int, v layout.Version, ok bool, err error) {
	off = int(p.slot.Offset())
	w, ok := a.Load(off + layout.VersionOffset)
	v = layout.Version(w)
	if ok && !v.Live() && v.Lossy() != p.slot.Lossy() {
		ok = a.Store(p.slotAt, uint64(layout.MakeSlot(layout.Entry, v.Lossy(), uint64(off))))
	}
	return off, v, ok, nil
}

// create makes an entry for a key that has none: entry first, then what leads to it, then the one
// word that makes it reachable. In the entry the key comes before the version: see layout.NoKey. No
// incarnation that the key had is above counter.
func create[A access](t *Table, a A, key, state uint64, p *place, counter uint32) (off int,
	v layout.Version, ok bool, err error) {
	v = layout.Fresh(counter)
	if v.Spent() && !t.lacks(NoSpent) {
		return 0, 0, true, ErrSpent
	}
	entry, ok := pool.Find(a, t.entryPool())
	if !ok {
		return 0, 0, false, nil
	}
	if entry.Off == 0 {
		return 0, 0, true, ErrEntriesFull
	}
	var bucket pool.Spare
	if p.freeAt == 0 {
		if bucket, ok = pool.Find(a, t.bucketPool()); !ok {
			return 0, 0, false, nil
		}
		if bucket.Off == 0 {
			return 0, 0, true, ErrIndirectFull
		}
	}
	off = entry.Off
	slot := layout.MakeSlot(layout.Entry, v.Lossy(), uint64(off))
	if t.lacks(SlotFirst) && p.freeAt != 0 && !setSlot(a, p.freeAt, slot, key) {
		return 0, 0, false, nil
	}
	if !pool.Take(a, entry) || !a.Store(off+layout.KeyOffset, key) ||
		!a.Store(off+layout.VersionOffset, uint64(v)) {
		return 0, 0, false, nil
	}
	if t.lineWords && !t.lacks(KeepState) && !a.Store(off+layout.StateOffset, state) {
		return 0, 0, false, nil
	}
	if p.freeAt != 0 {
		return off, v, a.Store(p.freeAt+layout.SlotKeyOffset, key) && a.Complete(p.freeAt, uint64(slot)), nil
	}
	return off, v, pool.Take(a, bucket) && extend(t, a, p.last, bucket.Off, slot, key), nil
}

// extend turns the last slot of a full bucket into a link to a new one, which receives that
// slot's entry and the new one. The link's key word stays, so that the slot changes by one store:
// a reader sees the entry in the one place or in the other.
func extend[A access](t *Table, a A, full, bucket int, slot layout.Slot, key uint64) bool {
	last := full + layout.LinkSlot*layout.SlotBytes
	resident, ok := a.Load(last)
	if !ok {
		return false
	}
	residentKey, ok := a.Load(last + layout.SlotKeyOffset)
	if t.lacks(LinkFirst) {
		ok = ok && setLink(t, a, last, bucket)
	}
	if !ok || !setSlot(a, bucket, layout.Slot(resident), residentKey) ||
		!setSlot(a, bucket+layout.SlotBytes, slot, key) {
		return false
	}
	link, ok := nextLink(t, a, bucket)
	return ok && a.Complete(last, uint64(link))
}

// setSlot stores a slot, key first.
func setSlot[A access](a A, at int, s layout.Slot, key uint64) bool {
	return a.Store(at+layout.SlotKeyOffset, key) && a.Store(at, uint64(s))
}

// setLink makes a slot the link to a bucket.
func setLink[A access](t *Table, a A, at, bucket int) bool {
	link, ok := nextLink(t, a, bucket)
	return ok && a.Store(at, uint64(link))
}

// nextLink is a link to a bucket, with the next number of a link.
func nextLink[A access](t *Table, a A, bucket int) (link layout.Slot, ok bool) {
	n, ok := a.Load(t.at + linksAt)
	if !ok {
		return 0, false
	}
	if t.lacks(SameLink) {
		n = 0
	}
	link = layout.MakeSlot(layout.Header, layout.Lossy(n&layout.MaxLossy), uint64(bucket))
	return link, a.Store(t.at+linksAt, n+1)
}

// Load stores a record in a table that nobody else uses yet: version layout.FirstVersion, state
// zero. It fails with ErrExists, ErrValueSize, or as EnsureIn does.
func (t *Table) Load(key uint64, value []byte) error {
	switch {
	case len(value) != t.config.ValueBytes:
		return ErrValueSize
	case key == layout.NoKey:
		return ErrKey
	}
	a := plainOf(t.base)
	p, ok := locate(t, a, key)
	if !ok {
		return ErrCorrupt
	}
	if p.slotAt != 0 {
		return ErrExists
	}
	counter, _ := a.Load(t.at + countersAt)
	own := t.stripe
	t.stripe = pool.Loading(own, t.loads)
	off, _, ok, err := create(t, a, key, 0, &p, uint32(counter))
	t.stripe, t.loads = own, t.loads+1
	if err != nil {
		return err
	}
	if !ok {
		return ErrCorrupt
	}
	t.record.Put(t.m.Bytes[off:], layout.FirstVersion, value)
	return nil
}
