package race

import (
	"fmt"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
)

// Marked steps of changes, and of a rehash.
const (
	stepLocated   = "race: subtable found"
	stepTentative = "race: slot tentative"
	stepConfirmed = "race: slot confirmed"
	stepSwapped   = "race: slot changed"
	stepHelped    = "race: record of another settled"
	stepSettled   = "race: settled"
	stepRehash    = "race: subtable locked"
	stepCopied    = "race: subtable copied"
)

// StepRehash is the marked step of a rehash, by a transaction or without: its subtable is locked.
const StepRehash = stepRehash

// StepsInPlace are those of a table on transactions that change objects in place, besides Steps: the subtable that was found
// may be split before it is looked at.
func StepsInPlace() []string { return []string{stepLocated} }

// Steps lists the marked steps.
func Steps() []string {
	return []string{stepTentative, stepConfirmed, stepSwapped, stepHelped, stepSettled, stepRehash, stepCopied}
}

// Versions count as those of layout.Version: an incarnation, odd while the key is there, in the high 32 bits, and
// a count of its updates.

// Next is the version that a key will have which was found at a place, when it is inserted or updated, or removed.
func (t *Table) Next(p *Place, remove bool) uint64 {
	switch {
	case !t.f.versions:
		return 0
	case remove:
		return (p.Version>>32 + 1) << 32
	case p.Found:
		return p.Version + 1
	}
	return (p.Version>>32/2*2 + 1) << 32
}

// Insert adds a key with a value; false: it is there already. p is from Find of this key; nil: it is found here. The
// version is that which the key has then. If the key has changed since Find, it is an Abort.
func (t *Table) Insert(f *fiber.Fiber, p *Place, key, value []byte) (version uint64, done bool, err error) {
	return t.change(f, p, key, func(p *Place) (uint64, bool, error) {
		if p.Found {
			return p.Version, false, nil
		}
		r := record{key: key, value: value, version: t.Next(p, false)}
		if p.slot.at == 0 {
			return r.version, true, t.plant(f, p, &r)
		}
		return r.version, true, t.swap(f, p, &r)
	})
}

// Update changes the value of a key; false: it is not there.
func (t *Table) Update(f *fiber.Fiber, p *Place, key, value []byte) (version uint64, done bool, err error) {
	return t.change(f, p, key, func(p *Place) (uint64, bool, error) {
		if !p.Found {
			return p.Version, false, nil
		}
		r := record{key: key, value: value, version: t.Next(p, false)}
		return r.version, true, t.swap(f, p, &r)
	})
}

// Delete removes a key; false: it is not there. The version is that of its absence.
func (t *Table) Delete(f *fiber.Fiber, p *Place, key []byte) (version uint64, done bool, err error) {
	return t.change(f, p, key, func(p *Place) (uint64, bool, error) {
		if !p.Found {
			return p.Version, false, nil
		}
		r := record{key: key, deleted: true, version: t.Next(p, true)}
		return r.version, true, t.swap(f, p, &r)
	})
}

// change does a change at a place once, or, if it is not given, until no other change comes in between.
func (t *Table) change(f *fiber.Fiber, p *Place, key []byte, once func(p *Place) (uint64, bool, error)) (uint64, bool,
	error) {
	if p != nil {
		return once(p)
	}
	for n := 0; ; n++ {
		found, err := t.Find(f, key)
		if err != nil {
			return 0, false, err
		}
		version, done, err := once(&found)
		if proto.AbortReason(err) == 0 || n == attempts || t.c.GivesUp() {
			return version, done, err
		}
		if err := t.c.Pause(f, n); err != nil {
			return 0, false, err
		}
	}
}

// prepare encodes a record into a spare block.
func (t *Table) prepare(f *fiber.Fiber, h, old uint64, r *record, more bool) (s rtx.Spare, w uint64, n int, err error) {
	if len(r.key) > maxKey || len(r.value) > maxValue || t.f.bytes(len(r.key), len(r.value)) > t.recordBytes {
		return s, 0, 0, fmt.Errorf("%w: a key of %d bytes and a value of %d, in blocks of %d", ErrRecord, len(r.key),
			len(r.value), t.recordBytes)
	}
	if s, err = t.c.Spare(f, t.cfg.Records, t.root, more); err != nil {
		return s, 0, 0, err
	}
	b := t.mr.Bytes()[t.outAt:][:t.recordBytes]
	n = t.f.encode(b, s.Ref, old, s.Block, r)
	if t.plain != nil {
		setWord(b, recordSettled, s.Block)
	}
	_, off := t.c.BlockAt(s.Block)
	return s, t.spread.slotWord(h, s.Block, off, n), n, nil
}

// conflict is the Abort of a change that another one has come in between.
func conflict() error { return proto.Aborting(proto.ReasonValidation) }

// swap changes the slot of a key from the record that was found to another one.
func (t *Table) swap(f *fiber.Fiber, p *Place, r *record) error {
	if p.open && t.bug != bugUnsettled {
		if err := t.help(f, p); err != nil {
			return err
		}
	}
	s, w, n, err := t.prepare(f, p.hash, p.self, r, false)
	if err != nil {
		return err
	}
	t.b.Reset()
	t.write(f, t.outAt, t.spread.offset(w), n*lineBytes)
	if err := t.then(f); err != nil {
		return err
	}
	i := t.cas(f, p.slot.at, p.slot.word, w)
	if t.bug == bugDeleteBlind && r.deleted {
		setWord(t.mr.Bytes(), t.wordAt, w)
		t.write(f, t.wordAt, p.slot.at, 8)
	}
	if err := t.checkNow(f, &p.in); err != nil {
		return err
	}
	f.Step(stepSwapped)
	if t.b.Old(i) != p.slot.word && (t.bug != bugDeleteBlind || !r.deleted) {
		return conflict()
	}
	if t.current(&p.in) {
		return t.settle(f, &s, p.self)
	}
	return t.resolve(f, &s, r.key, w, p.self)
}

// help has the slot of a record's owner know that the record is installed: what it has replaced is there then.
func (t *Table) help(f *fiber.Fiber, p *Place) error {
	if t.rx == nil {
		return t.tell(f, p)
	}
	at := t.rx.SlotOf(p.ref, t.root)
	if at == 0 {
		return t.c.Fail(t.corrupt("the record of the slot at %#x has reference %#x", p.slot.at, p.ref))
	}
	t.b.Reset()
	t.cas(f, at, p.self, t.c.Retired(p.old))
	if err := t.await(f); err != nil {
		return err
	}
	t.stats.Helped++
	f.Step(stepHelped)
	return nil
}

// settle leaves in the own slot the block of the record that was replaced, and says so in the new one.
func (t *Table) settle(f *fiber.Fiber, s *rtx.Spare, old uint64) error {
	retired := t.c.Retired(old)
	if t.plain != nil {
		t.c.Keep(*s, retired)
		return nil
	}
	_, off := t.c.BlockAt(s.Block)
	t.b.Reset()
	if t.rx == nil {
		t.cas(f, off+recordSettled, 0, s.Block)
		if err := t.await(f); err != nil {
			return err
		}
		f.Step(stepSettled)
		t.c.Keep(*s, retired)
		return nil
	}
	setWord(t.mr.Bytes(), t.wordAt, s.Block)
	i := t.cas(f, s.Slot, s.Block, retired)
	if err := t.then(f); err != nil {
		return err
	}
	t.write(f, t.wordAt, off+recordSettled, 8)
	if err := t.await(f); err != nil {
		return err
	}
	f.Step(stepSettled)
	if was := t.b.Old(i); was != s.Block && was != retired {
		return t.c.Fail(t.corrupt("the slot at %#x has %#x, not %#x", s.Slot, was, s.Block))
	}
	t.c.Keep(*s, retired)
	return nil
}

// resolve finds out what became of a change that met a rehash: an Abort says that it was not done. Who replaced
// the record before has settled it.
func (t *Table) resolve(f *fiber.Fiber, s *rtx.Spare, key []byte, w, old uint64) error {
	t.stats.Unclear++
	t.cache.get(hashOf(key)).ptr = 0
	p, err := t.Find(f, key)
	if err != nil {
		return t.unknown(err)
	}
	if p.slot.word == w {
		return t.settle(f, s, old)
	}
	now, seen, err := t.seen(f, s, old)
	if err != nil {
		return err
	}
	if !seen || t.bug == bugGivesUpEarly {
		return conflict()
	}
	t.c.Keep(*s, now)
	return nil
}

// seen reports whether the record in the block of a Spare, which no slot names any more, was in the table: who replaced it
// has settled it before. now is what belongs to the client in its place, old being the record that it replaced.
func (t *Table) seen(f *fiber.Fiber, s *rtx.Spare, old uint64) (now uint64, seen bool, err error) {
	t.b.Reset()
	if t.rx != nil {
		t.read(f, t.wordAt, s.Slot, 8)
		err = t.await(f)
		now = t.word(t.wordAt)
		return now, now != s.Block, err
	}
	// The block is the other client's now, which may have used it again: then it writes its own pointer before the settled
	// word, which is read first here.
	_, off := t.c.BlockAt(s.Block)
	t.read(f, t.wordAt, off+recordSettled, 8)
	t.read(f, t.metaAt, off+recordSelf, 8)
	err = t.await(f)
	return t.c.Retired(old), t.word(t.wordAt) == s.Block || t.word(t.metaAt) != s.Block, err
}

// tell has a record's block say that the record is installed, where blocks have no slots. It is a CAS: one that is late
// must not undo what the block's next record says.
func (t *Table) tell(f *fiber.Fiber, p *Place) error {
	_, off := t.c.BlockAt(p.self)
	t.b.Reset()
	i := t.cas(f, off+recordSettled, p.told, p.self)
	if err := t.await(f); err != nil {
		return err
	}
	t.stats.Helped++
	f.Step(stepHelped)
	if old := t.b.Old(i); old != p.told && old != p.self {
		return conflict()
	}
	return nil
}

// unknown makes an error of a change whose outcome is not known one that breaks the client: an Abort would say that
// it was not done.
func (t *Table) unknown(err error) error {
	if proto.AbortReason(err) == 0 {
		return err
	}
	return t.c.Fail(fmt.Errorf("a change met a rehash, and the client gave up before its end: %v", err)) // an Abort no more
}

// room finds a free slot for a key, in the emptier of its main buckets, else in an overflow bucket; 0: there is none.
func (t *Table) room(k *known, h uint64) int {
	bucket := combined(h, t.groups)
	var free, most, over int // offsets
	for c := range 2 {
		// The main bucket is the first half of the one side, and the second half of the other.
		n, first := 0, 0
		for i := range combinedSlots {
			s := t.slotOf(k, h, bucket, c*combinedSlots+i)
			if s.word != 0 {
				continue
			}
			if (i < bucketSlots) != mainFirst(bucket[c]) {
				if over == 0 {
					over = s.at
				}
				continue
			}
			if n++; first == 0 {
				first = s.at
			}
		}
		if n > most {
			most, free = n, first
		}
	}
	if free == 0 {
		return over
	}
	return free
}

// mainFirst reports whether the main bucket is the first one of a combined bucket at an offset.
func mainFirst(at int) bool { return (at-groupsAt)%groupBytes == 0 }

// plant inserts a key that was not found. Its buckets are as Find has read them.
func (t *Table) plant(f *fiber.Fiber, p *Place, r *record) error {
	at := t.room(&p.in, p.hash)
	if at == 0 {
		if p.in.depth == maxDepth {
			return fmt.Errorf("%w: %d keys have %d bits of their hashes in common", rtx.ErrFull, t.groups*groupBytes/8, maxDepth)
		}
		rehash := t.rehash
		if t.plain != nil {
			rehash = t.rehashPlain
		}
		if err := rehash(f, p.hash, &p.in); err != nil {
			return err
		}
		return conflict()
	}
	s, w, n, err := t.prepare(f, p.hash, 0, r, true)
	if err != nil {
		return err
	}
	t.b.Reset()
	t.write(f, t.outAt, t.spread.offset(w), n*lineBytes)
	if err := t.then(f); err != nil {
		return err
	}
	i := t.cas(f, at, 0, w|tentativeBit)
	if err := t.lookNow(f, &p.in, p.hash); err != nil {
		return err
	}
	f.Step(stepTentative)
	if t.b.Old(i) != 0 {
		return conflict()
	}
	if err := t.alone(f, p, r.key, at, w); err != nil {
		return err
	}
	t.b.Reset()
	i = t.cas(f, at, w|tentativeBit, w)
	if err := t.checkNow(f, &p.in); err != nil {
		return err
	}
	f.Step(stepConfirmed)
	switch {
	case t.b.Old(i) != w|tentativeBit:
		return conflict()
	case t.current(&p.in):
		return t.settle(f, &s, 0)
	}
	return t.resolve(f, &s, r.key, w, 0)
}

// alone sees to it that no other slot has the key, tentative ones included, when the own one is there. An Abort has
// withdrawn it.
func (t *Table) alone(f *fiber.Fiber, p *Place, key []byte, at int, w uint64) error {
	for range attempts {
		if !t.valid(&p.in, p.hash) {
			break
		}
		if t.bug == bugNoReread {
			return nil
		}
		other, v, err := t.search(f, &p.in, p.hash, key, at, true)
		if err != nil {
			return err
		}
		if v == absent {
			return nil
		}
		if v == present && !tentative(other.slot.word) {
			break
		}
		t.b.Reset()
		if v == present {
			t.stats.Killed++
			t.cas(f, other.slot.at, other.slot.word, 0)
		}
		if err := t.lookNow(f, &p.in, p.hash); err != nil {
			return err
		}
	}
	t.stats.Withdrawn++
	t.b.Reset()
	t.cas(f, at, w|tentativeBit, 0)
	if err := t.await(f); err != nil {
		return err
	}
	return conflict()
}
