package race

import (
	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
)

// rehash splits the subtable of a hash in one transaction, unless somebody else has done so.
func (t *Table) rehash(f *fiber.Fiber, h uint64, k *known) error {
	done := false
	err := t.transact(f, false, func(tx Tx) error {
		done = false
		clear(t.shared)
		s, err := t.walk(tx, h)
		if err != nil {
			return err
		}
		if entryPtr(s.entry) != k.ptr || entryDepth(s.entry) != k.depth {
			return nil // it was split
		}
		stay, err := tx.Update(k.ptr)
		if err != nil {
			return err
		}
		if stay == nil {
			return doomed()
		}
		x, move, err := t.halves(tx, k)
		if err != nil {
			return err
		}
		was := stay
		if x.fresh != nil {
			stay = x.fresh
			copy(stay, was)
			t.bury(was)
		}
		if err := t.name(tx, s, k, x, h); err != nil {
			return err
		}
		done = true
		// Most records are looked at before the lock, so that it is held for two round trips.
		if err := t.share(f, k, stay, move, h); err != nil {
			return err
		}
		tx.WhenLocked(func() error {
			f.Step(stepRehash)
			if t.bug == bugCopyUnlocked {
				return nil
			}
			now, err := tx.Reread(k.ptr)
			if err != nil {
				return err
			}
			if x.fresh != nil {
				copy(stay, now)
			}
			if err := t.share(f, k, stay, move, h); err != nil {
				return err
			}
			f.Step(stepCopied)
			return nil
		})
		return nil
	})
	t.cache.get(h).ptr = 0
	if err == nil && done {
		t.stats.Rehashes++
	}
	return err
}

// name has the directory name the new subtable, with the upper half of the hashes, and the greater depth.
func (t *Table) name(tx Tx, s step, k *known, x halves, h uint64) error {
	page, err := tx.Update(s.page)
	if err != nil {
		return err
	}
	bit := k.depth - s.level*levelBits
	if bit < levelBits {
		for i := range pageEntries {
			if (i^s.index)&(1<<bit-1) == 0 {
				setWord(page, 8*i, x.half(k.depth, i>>bit))
			}
		}
		return nil
	}
	below, value, err := tx.Alloc(t.cfg.Tables)
	if err != nil {
		return err
	}
	setWord(page, 8*s.index, entryWord(below, 0, true))
	for i := range pageEntries {
		setWord(value, 8*i, x.half(k.depth, i))
	}
	return nil
}

// halves are the subtables that one is split into.
type halves struct {
	stay, move rtx.Ptr
	// fresh is the value of stay, if that is a new subtable, too; nil: it is the one that is split.
	fresh []byte
}

// halves allocates the subtable that records move to, and gives its value. Where transactions change objects in place, the
// other half is new, too: a log of values is written before the lock, and slots change until then.
func (t *Table) halves(tx Tx, k *known) (x halves, move []byte, err error) {
	x.stay = k.ptr
	if t.rx == nil {
		if x.stay, x.fresh, err = tx.Alloc(t.cfg.Tables); err != nil {
			return x, nil, err
		}
	}
	x.move, move, err = tx.Alloc(t.cfg.Tables)
	return x, move, err
}

// bury marks the buckets of a subtable that no entry of the directory names any more.
func (t *Table) bury(value []byte) {
	if t.bug == bugUnburied {
		return
	}
	for i := range 3 * t.groups {
		setWord(value, inValue+i*bucketBytes, markBit)
	}
}

// half is the entry of hashes whose next bit is the lowest one of i, of a subtable of a depth that is split.
func (x *halves) half(depth, i int) uint64 {
	if i&1 == 1 {
		return entryWord(x.move, depth+1, false)
	}
	return entryWord(x.stay, depth+1, false)
}

// shared is what is known of a slot that was shared out: where its record goes.
type shared struct {
	word uint64
	move bool
}

// share gives each record of a subtable to one of two values. stay has all of them. Records that the share before has
// looked at are not read again.
func (t *Table) share(f *fiber.Fiber, k *known, stay, move []byte, h uint64) error {
	clear(move)
	suffix := h & (1<<k.depth - 1)
	setHeaders(stay, t.groups, k.depth+1, suffix)
	setHeaders(move, t.groups, k.depth+1, suffix|1<<k.depth)
	if err := t.judge(f, k, stay); err != nil {
		return err
	}
	for i := range t.shared {
		at := sharedAt(i)
		switch w := word(stay, at); {
		case w == 0:
		case tentative(w):
			setWord(stay, at, 0)
		case t.shared[i].move:
			setWord(move, at, w)
			setWord(stay, at, 0)
		}
	}
	return nil
}

// sharedAt is where slot i of a subtable is in its value.
func sharedAt(i int) int { return inValue + i/bucketSlots*bucketBytes + 8 + i%bucketSlots*8 }

// judge reads the records that are not known, and notes where they go.
func (t *Table) judge(f *fiber.Fiber, k *known, stay []byte) error {
	if t.shared == nil {
		t.shared = make([]shared, 3*t.groups*bucketSlots)
	}
	n := 0
	var places [together]int
	for i := range t.shared {
		w := word(stay, sharedAt(i))
		if w != 0 && !tentative(w) && w != t.shared[i].word {
			places[n], t.found[n] = i, slot{k.at + valueAt + sharedAt(i), w}
			n++
		}
		if n == together || n > 0 && i == len(t.shared)-1 {
			if err := t.readRecords(f, t.found[:n]); err != nil {
				return err
			}
			for j, s := range t.found[:n] {
				r, _, ok := t.recordIn(j, s.word)
				if !ok {
					return doomed()
				}
				t.shared[places[j]] = shared{s.word, hashOf(r.key)>>k.depth&1 == 1}
			}
			n = 0
		}
	}
	return nil
}
