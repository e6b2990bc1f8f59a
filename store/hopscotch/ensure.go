package hopscotch

import (
	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/words"
)

// EnsureIn finds the record of key or makes an absent one, inside a region. The state word of a
// new record is state, where memory has line words; elsewhere, and in a record that was there, it
// is left as it is. The version is the record's as it stands, live or absent; what the protocol
// does next follows from it (layout.Version). With an error, one of store.ErrKey, ErrFull and
// store.ErrSpent, no record was made and the region runs on. ok is false if the region has aborted. It
// does not allocate.
//
// Where memory has no line words a record is made at once, under the table's lock, whatever
// becomes of the region: an absent record that nobody has locked changes nothing.
func (t *Table) EnsureIn(r *htm.Region, key, state uint64) (off int, v layout.Version, ok bool, err error) {
	if t.lineWords {
		return ensure(t, words.Inside{R: r, M: t.m}, key, state, true)
	}
	if !r.Active() || !t.lock(r) {
		return 0, 0, false, nil
	}
	defer t.unlock()
	return ensure(t, words.Direct{R: r, Base: t.base}, key, state, t.config.CPULocks)
}

// ensure is EnsureIn; moves says whether records may be moved.
func ensure[A words.Access](t *Table, a A, key, state uint64, moves bool) (off int, v layout.Version,
	ok bool, err error) {
	if key == layout.NoKey {
		return 0, 0, true, store.ErrKey
	}
	p, ok := locate(t, a, key)
	if !ok {
		return 0, 0, false, nil
	}
	if p.off != 0 {
		w, ok := a.Load(p.off + layout.VersionOffset)
		return p.off, layout.Version(w), ok, nil
	}
	counter, ok := a.Load(t.at + countersAt)
	if !ok {
		return 0, 0, false, nil
	}
	if layout.Fresh(uint32(counter)).Spent() && !t.lacks(NoSpent) {
		return 0, 0, true, store.ErrSpent
	}
	n := record{key: key, state: state, counter: uint32(counter)}
	off, ok = makeRecord(t, a, &n, &p, moves)
	if ok && off == 0 {
		return 0, 0, true, ErrFull
	}
	return off, n.version, ok, nil
}

// record to be made.
type record struct {
	key, state uint64
	counter    uint32 // no incarnation that the key had is above
	version    layout.Version
}

// makeRecord makes the record of a key that has none: in its neighbourhood, in its chain, or in a new block. 0:
// there is no room.
func makeRecord[A words.Access](t *Table, a A, n *record, p *place, moves bool) (off int, ok bool) {
	i, ok := clearSlot(t, a, p.home, moves)
	if !ok {
		return 0, false
	}
	w, ok := a.Load(t.trailer(p)) // the home's own records may have moved
	if !ok {
		return 0, false
	}
	hop := layout.Hop(w)
	if i >= 0 {
		off = t.p.Slot(i)
		return off, bind(t, a, off, n) && a.Store(t.trailer(p), uint64(hop.With(i-p.home)))
	}
	if p.spare != 0 {
		return p.spare, bind(t, a, p.spare, n)
	}
	block, ok := takeBlock(t, a)
	if !ok || block < 0 {
		return 0, ok
	}
	off = t.p.Block(block)
	rest := uint64(0)
	if next, linked := hop.Block(); linked {
		rest = layout.MakeBlockLink(next)
	}
	return off, a.Store(t.p.Trailer(off), rest) && bind(t, a, off, n) &&
		a.Store(t.trailer(p), uint64(hop.Linked(layout.MakeBlockLink(block))))
}

// bind binds a free slot to a key. The key comes before the version: see layout.NoKey. The version is above
// what the slot had before, so that no reader takes the value of a record that was there for this one's.
func bind[A words.Access](t *Table, a A, off int, n *record) (ok bool) {
	was, ok := a.Load(off + layout.VersionOffset)
	if !ok || t.lineWords && !t.lacks(KeepState) && !a.Store(off+layout.StateOffset, n.state) {
		return false
	}
	n.version = layout.Fresh(max(n.counter, layout.Version(was).Incarnation()))
	return a.Store(off+layout.KeyOffset, n.key) && a.Store(off+layout.VersionOffset, uint64(n.version))
}

// vacant is the version of a slot that held a record with a version.
func vacant(v layout.Version) layout.Version {
	if v.Live() {
		v = v.Deleted()
	}
	return v.Unbind()
}

// takeBlock takes an overflow block out of the pool; -1: there is none. Free blocks have free slots, some of
// which may be locked: such a block is left where it is, and so are those behind it.
func takeBlock[A words.Access](t *Table, a A) (block int, ok bool) {
	w, ok := a.Load(t.at + poolFree)
	if !ok {
		return -1, false
	}
	if first, listed := layout.BlockLink(w); listed {
		if first >= t.p.Blocks {
			a.Corrupt()
			return -1, false
		}
		free, ok := isFree(t, a, t.p.Block(first))
		if !ok {
			return -1, false
		}
		if free {
			return first, unlist(t, a, first)
		}
	}
	next, ok := a.Load(t.at + poolNext)
	if !ok || next >= uint64(t.p.Blocks) {
		return -1, ok
	}
	return int(next), a.Store(t.at+poolNext, next+1)
}

func unlist[A words.Access](t *Table, a A, block int) (ok bool) {
	next, ok := a.Load(t.p.Trailer(t.p.Block(block)))
	if !ok {
		return false
	}
	n, ok := a.Load(t.at + poolCount)
	return ok && a.Store(t.at+poolFree, next) && a.Store(t.at+poolCount, n-1)
}

// giveBlock puts a block back into the pool.
func giveBlock[A words.Access](t *Table, a A, off int) (ok bool) {
	first, ok := a.Load(t.at + poolFree)
	if !ok {
		return false
	}
	n, ok := a.Load(t.at + poolCount)
	number := (off - t.p.Block(0)) / t.p.BlockBytes()
	return ok && a.Store(t.p.Trailer(off), first) && a.Store(t.at+poolFree, layout.MakeBlockLink(number)) &&
		a.Store(t.at+poolCount, n+1)
}

// Load stores a record in a table that nobody else uses yet: version layout.FirstVersion, state
// zero. It fails with store.ErrExists, store.ErrValueSize, or as EnsureIn does.
func (t *Table) Load(key uint64, value []byte) error {
	switch {
	case len(value) != t.config.ValueBytes:
		return store.ErrValueSize
	case key == layout.NoKey:
		return store.ErrKey
	}
	a := words.Plain{Base: t.base}
	if p, ok := locate(t, a, key); !ok {
		return store.ErrCorrupt
	} else if p.off != 0 {
		return store.ErrExists
	}
	off, _, ok, err := ensure(t, a, key, 0, true)
	switch {
	case err != nil:
		return err
	case !ok:
		return store.ErrCorrupt
	}
	t.record.Put(t.m.Bytes[off:off+t.record.Bytes], layout.FirstVersion, value)
	return nil
}
