package robinhood

import (
	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/pool"
	"drtmd/store/words"
)

// EnsureIn finds the record of key or makes an absent one, inside a region. The state word of a new record is state,
// where memory has line words; elsewhere, and in a record that was there, it is left as it is. The version is the
// record's as it stands, live or absent; what the protocol does next follows from it (layout.Version). With an error,
// one of store.ErrKey, ErrOverflowFull, ErrRecordsFull and store.ErrSpent, no record was made and the region runs on.
// ok is false if the region has aborted. It does not allocate.
//
// Where memory has no line words a record is made at once, under the table's lock, whatever becomes of the region: an
// absent record that nobody has locked changes nothing.
func (t *Table) EnsureIn(r *htm.Region, key, state uint64) (off int, v layout.Version, ok bool, err error) {
	if t.lineWords && !t.lacks(SwapOutside) {
		return ensure(t, words.Inside{R: r, M: t.m}, key, state, t.regionMoves())
	}
	if t.lineWords {
		return ensure(t, words.Plain{Base: t.base}, key, state, len(t.path))
	}
	if !r.Active() || !t.lock(r) {
		return 0, 0, false, nil
	}
	defer t.unlock()
	most := 0
	if t.config.CPULocks {
		most = len(t.path)
	}
	return ensure(t, words.DirectOf(r, t.m), key, state, most)
}

// record to be made.
type record struct {
	key, state uint64
	counter    uint32 // no incarnation that the key had is above
	version    layout.Version
}

// maxTries bounds how often an insertion begins anew because somebody has locked a record that was to move.
const maxTries = 4

// ensure is EnsureIn; most bounds the records that may be moved.
func ensure[A words.Access](t *Table, a A, key, state uint64, most int) (off int, v layout.Version,
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
	for try := 0; ; try++ {
		if try == maxTries {
			most = 0
		}
		off, again, ok, err := makeRecord(t, a, &n, p.home, most)
		if !again || !ok {
			return off, n.version, ok, err
		}
	}
}

// path is what an insertion does: the records in the slots t.path[:moves], each of which takes the slot of the next
// one; the last one takes the free slot with the number end. If end is -1, the last record, or the new one if there is
// no other, goes to overflow.
type path struct{ moves, end int }

// makeRecord makes the record of a key that has none. again: somebody has locked a record that was to move.
func makeRecord[A words.Access](t *Table, a A, n *record, home, most int) (off int, again, ok bool, err error) {
	p, ok := plan(t, a, home, most)
	if !ok {
		return 0, false, false, nil
	}
	hand := home // home of the record that goes to overflow
	if p.moves > 0 {
		key, ok := a.Load(t.p.Slot(t.path[p.moves-1]) + layout.KeyOffset)
		if !ok {
			return 0, false, false, nil
		}
		hand = t.p.Home(key)
	}
	var over overflow
	if p.end < 0 {
		if over, ok = findOverflow(t, a, hand); !ok {
			return 0, false, false, nil
		}
		if over.slot == 0 {
			return 0, false, true, ErrOverflowFull
		}
	}
	var large pool.Spare
	if t.outside {
		if large, ok = pool.Find(a, t.recordPool()); !ok {
			return 0, false, false, nil
		}
		if large.Off == 0 {
			return 0, false, true, ErrRecordsFull
		}
	}
	if p.end < 0 && !takeOverflow(t, a, hand, &over) {
		return 0, false, false, nil
	}
	to := to{slot: over.slot, index: -1}
	if p.end >= 0 {
		to.slot, to.index = t.p.Slot(p.end), p.end
	}
	if t.lacks(SwapFromFront) && p.moves > 0 && !t.outside {
		ok = swapFromFront(t, a, t.path[:p.moves], to)
		to.slot, to.index = t.p.Slot(t.path[0]), t.path[0]
	} else {
		for i := p.moves - 1; i >= 0 && ok; i-- {
			from := t.path[i]
			moved, ok := move(t, a, from, to)
			if !moved || !ok {
				return 0, true, ok, nil
			}
			to.slot, to.index = t.p.Slot(from), from
		}
	}
	if !ok || t.outside && !pool.Take(a, large) {
		return 0, false, false, nil
	}
	off, ok = bind(t, a, n, home, to, large.Off)
	return off, false, ok, nil
}

// plan walks the slots from a home on, and notes in t.path which records a new one of that home displaces: at
// most so many.
func plan[A words.Access](t *Table, a A, home, most int) (p path, ok bool) {
	p.end = -1
	hand := home
	for i := home; i <= t.p.Last(home); i++ {
		slot := t.p.Slot(i)
		key, ok := a.Load(slot + layout.KeyOffset)
		if !ok {
			return p, false
		}
		if key == layout.NoKey {
			free, ok := isFree(t, a, slot)
			if !ok || free {
				p.end = i
				return p, ok
			}
			continue
		}
		// A record with its home behind that of the one in hand is displaced less.
		if h := t.p.Home(key); h > hand && p.moves < most {
			locked, ok := isLocked(t, a, slot)
			if !ok {
				return p, false
			}
			if !locked || t.lacks(MoveLocked) {
				t.path[p.moves], hand = i, h
				p.moves++
			}
		}
	}
	return p, true
}

// bind gives a free slot to a key, and the record at an offset if it stands outside. The key comes before the version:
// see layout.NoKey.
func bind[A words.Access](t *Table, a A, n *record, home int, to to, large int) (off int, ok bool) {
	off = to.slot
	if t.outside {
		off = large
	}
	n.version = layout.Fresh(n.counter)
	if t.lineWords && !t.lacks(KeepState) && !a.Store(off+layout.StateOffset, n.state) {
		return 0, false
	}
	if !a.Store(off+layout.KeyOffset, n.key) || !a.Store(off+layout.VersionOffset, uint64(n.version)) {
		return 0, false
	}
	if t.outside && (!a.Store(to.slot+layout.PointerOffset, uint64(large)) || !a.Store(to.slot+layout.KeyOffset, n.key)) {
		return 0, false
	}
	return off, displaced(t, a, home, to.index)
}

// overflow is a free place in the chain of a home's segment.
type overflow struct {
	slot  int        // offset; 0: there is none
	fresh pool.Spare // the block, if it is not in the chain yet
}

func findOverflow[A words.Access](t *Table, a A, home int) (o overflow, ok bool) {
	w, ok := a.Load(t.p.Word(home))
	if !ok {
		return o, false
	}
	ok = walk(t, a, home, layout.Segment(w), func(_, block int) (more, ok bool) {
		o.slot, ok = freeIn(t, a, block)
		return o.slot == 0, ok
	})
	if !ok || o.slot != 0 {
		return o, ok
	}
	if o.fresh, ok = pool.Find(a, t.blockPool()); !ok || o.fresh.Off == 0 {
		return o, ok
	}
	o.slot, ok = freeIn(t, a, o.fresh.Off)
	return o, ok
}

// freeIn is the offset of a free slot of a block; 0: there is none.
func freeIn[A words.Access](t *Table, a A, block int) (slot int, ok bool) {
	for i := range layout.OverflowSlots {
		slot = block + i*t.p.Stride
		if free, ok := isFree(t, a, slot); !ok || free {
			return slot, ok
		}
	}
	return 0, true
}

// takeOverflow puts a new block at the beginning of the chain.
func takeOverflow[A words.Access](t *Table, a A, home int, o *overflow) (ok bool) {
	if o.fresh.Off == 0 {
		return true
	}
	w, ok := a.Load(t.p.Word(home))
	if !ok || !pool.Take(a, o.fresh) {
		return false
	}
	word, rest := layout.Segment(w), uint64(0)
	if next, linked := word.Block(); linked {
		rest = layout.MakeBlockLink(next)
	}
	number := (o.fresh.Off - t.p.Blocks) / t.p.BlockBytes()
	return a.Store(t.p.Link(o.fresh.Off), rest) &&
		a.Store(t.p.Word(home), uint64(word.Linked(layout.MakeBlockLink(number))))
}

// Load stores a record in a table that nobody else uses yet: version layout.FirstVersion, state zero. It fails with
// store.ErrExists, store.ErrValueSize, or as EnsureIn does.
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
	own := t.stripe
	t.stripe = pool.Loading(own, t.loads)
	off, _, ok, err := ensure(t, a, key, 0, len(t.path))
	t.stripe, t.loads = own, t.loads+1
	switch {
	case err != nil:
		return err
	case !ok:
		return store.ErrCorrupt
	}
	t.record.Put(t.m.Bytes[off:off+t.record.Bytes], layout.FirstVersion, value)
	return nil
}
