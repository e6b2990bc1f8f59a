package occ

import (
	"encoding/binary"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
)

// The phases over one-sided verbs: EXECUTE, LOCK and VALIDATE. The end of an attempt is in back.go.

// verbLooks bounds how often a record is READ that others change meanwhile.
const verbLooks = 8

// acquireByVerbs is acquire for the records that are not Local.
func (t *tx) acquireByVerbs(p proto.Phase, from, to int, which func(*record) (flags, bool)) error {
	for range verbLooks {
		if err := t.place(p, from, to, which); err != nil {
			return err
		}
		t.Batch.Reset()
		for i := from; i < to; i++ {
			r := &t.Records[i]
			if r.Own.Local {
				continue
			}
			t.F.Charge(itemCostPs)
			switch f, _ := which(r); {
			case f&flagLock != 0:
				t.postLock(p, i, f)
			case r.Own.Fetched && (t.e.Worded() || bySeal(r)):
				r.Own.Op = t.Batch.Len() // nothing more is READ
			default:
				t.postRead(p, i)
			}
		}
		if t.Batch.Len() > 0 {
			t.trips++
			_ = t.Batch.Await(t.F) // each has its own error
		}
		var err error
		again := false
		for i := from; i < to; i++ {
			r := &t.Records[i]
			if r.Own.Local {
				continue
			}
			if f, _ := which(r); f&flagLock != 0 {
				err = first(err, t.tookLock(r, f))
				r.Own.Local = true
				continue
			}
			whole, failed := t.tookRead(i)
			err = first(err, failed)
			r.Own.Local = whole || failed != nil
			again = again || !r.Own.Local
		}
		if err != nil || !again {
			return err
		}
	}
	return proto.Aborting(proto.ReasonConflict)
}

// find finds the places of records, and counts those that have none.
func (t *tx) find(p proto.Phase, from, to int, a remote.Absence) (missing int, err error) {
	if to > from {
		if _, _, err := t.looks.At(to-1, lookBytes); err != nil {
			return 0, err
		}
	}
	missing, err = t.Look(from, to, a)
	t.countSent(p)
	return missing, err
}

// place finds the places of records. One that has none is absent, unless it is to be locked: then its host
// makes an entry.
func (t *tx) place(p proto.Phase, from, to int, which func(*record) (flags, bool)) error {
	missing, err := t.find(p, from, to, remote.Unproved) // dateAbsences, or the host, looks again
	if err != nil || missing == 0 {
		return err
	}
	absent := func(r *record) bool {
		f, _ := which(r)
		return !r.Own.Local && !r.Own.Found && f&flagLock == 0
	}
	if missing, err = t.dateAbsences(p, from, to, missing, absent); err != nil || missing == 0 {
		return err
	}
	ensure := false
	for i := from; i < to; i++ {
		r := &t.Records[i]
		switch {
		case r.Own.Local || r.Own.Found:
		case absent(r):
			r.Accept(t.absence(i, r), false)
			r.Own.Local = true
		default:
			ensure = true
		}
	}
	if !ensure {
		return nil
	}
	err = t.Ensure(from, to)
	t.countSent(p)
	return err
}

// dateAbsences READs the counters of the tables in which records were not found, looks these up once more, and counts
// those that were not found then. An absence holds from the first of that on, as long as the counter stays the same.
// The READs go out together, on one queue pair and so in this order, unless it is the host that looks a key up.
func (t *tx) dateAbsences(p proto.Phase, from, to, missing int, which func(*record) bool) (still int, err error) {
	t.Batch.Reset()
	t.dated = t.dated[:0]
	asks := false
	for i := from; i < to; i++ {
		if r := &t.Records[i]; which(r) {
			t.postCounters(p, i, r)
			t.dated = append(t.dated, dated{i, r.Own.Op})
			asks = asks || t.e.Env.Specs[r.Table-1].Ordered
		}
	}
	if len(t.dated) == 0 {
		return missing, nil
	}
	if asks {
		t.trips++
		_ = t.Batch.Await(t.F) // each has its own error
	}
	still, err = t.find(p, from, to, remote.ProvedAtOnce)
	if !asks {
		_ = t.Batch.Await(t.F) // each has its own error
	}
	for _, d := range t.dated {
		r := &t.Records[d.record]
		r.Own.Op = d.op
		err = first(err, t.readsFailed(r, t.counters(r)))
	}
	return still, err
}

// dated is a record whose absence is dated, and the first READ of that.
type dated struct{ record, op int }

// counters is how many a record's table has: one for each of its extents.
func (t *tx) counters(r *record) (n int) {
	t.e.There(r).Tables[r.Table-1].Counters(func(uint64, uint32) { n++ })
	invariant.Assert(n <= maxCounters, "a table has more extents than counters can be READ")
	return n
}

// postCounters posts the READs of the counters of a record's table.
func (t *tx) postCounters(p proto.Phase, i int, r *record) {
	peer := &t.e.Env.Peers[r.Node]
	r.Own.Op = t.Batch.Len()
	image, sge, err := t.looks.At(i, lookBytes)
	invariant.Assert(err == nil, "no room was made for what a READ proves")
	clear(image)
	n := 0
	t.e.There(r).Tables[r.Table-1].Counters(func(addr uint64, rkey uint32) {
		t.Batch.Read(t.F, peer.Conn, part(sge, n*counterBytes, counterBytes), addr, rkey)
		t.count(p, r.Node, 1, counterBytes)
		n++
	})
}

// absence is the version of a key without an entry, by the counters that were READ.
func (t *tx) absence(i int, r *record) layout.Version {
	image, _, _ := t.looks.At(i, lookBytes)
	counter := uint64(0)
	for n := range t.counters(r) {
		counter = max(counter, binary.LittleEndian.Uint64(image[n*counterBytes:]))
	}
	return layout.Fresh(uint32(counter))
}

const (
	counterBytes = 8
	// maxCounters fit into the memory of a record's look. Tables of clusters have one extent.
	maxCounters = lookBytes / counterBytes
)

// Where the READs of record i leave what they prove: the header before, and behind.
const (
	lookBefore = 0
	lookBehind = layout.HeaderBytes
	lookBytes  = layout.LineBytes
)

// look is memory for a header of record i, which find has made room for.
func (t *tx) look(i, at int) (head []byte, sge verbs.SGE) {
	image, sge, err := t.looks.At(i, lookBytes)
	invariant.Assert(err == nil, "no room was made for what a READ proves")
	return image[at : at+layout.HeaderBytes], part(sge, at, layout.HeaderBytes)
}

// part is some bytes of an SGE.
func part(s verbs.SGE, from, n int) verbs.SGE {
	return verbs.SGE{Addr: s.Addr + uint64(from), Length: uint32(n), LKey: s.LKey}
}

// postRead posts the READs of a record's entry, on one queue pair and so in this order: what proves that
// the copy is of one moment (package comment, Reads).
func (t *tx) postRead(p proto.Phase, i int) {
	r := &t.Records[i]
	r.Own.Op = t.Batch.Len()
	head, before := t.look(i, lookBefore)
	_, behind := t.look(i, lookBehind)
	switch {
	case bySeal(r):
		t.read(p, r, r.SGE, 0)
	case t.e.Worded():
		t.read(p, r, r.SGE, 0)
		if twoLooks(r) && !t.e.lacks(readOnce) {
			t.read(p, r, behind, 0)
		}
	default:
		if r.Own.Fetched {
			copy(head, r.Image[:layout.StateOffset]) // the look-up has READ it, before the copy
		} else {
			t.read(p, r, part(before, 0, layout.StateOffset), 0)
		}
		if t.e.strategy.by(proto.PhaseCommit) == OneSided {
			t.read(p, r, part(before, layout.StateOffset, 8), layout.StateOffset)
		}
		t.read(p, r, r.SGE, 0)
		t.postHead(p, r, behind)
	}
}

// twoLooks reports whether a READ of a record proves nothing by itself, where there are line words: it has
// several lines, and no version in each.
func twoLooks(r *record) bool { return len(r.Image) > layout.LineBytes && !r.Apart() }

// postHead posts the READs of a record's header.
func (t *tx) postHead(p proto.Phase, r *record, to verbs.SGE) {
	if t.e.Worded() {
		t.read(p, r, to, 0)
		return
	}
	// The state first: if it is unlocked then, and the version is the old one still, nobody had the record
	// locked at that moment who has changed it since.
	t.read(p, r, part(to, layout.StateOffset, 8), layout.StateOffset)
	t.read(p, r, part(to, 0, layout.StateOffset), 0)
}

// read posts the READ of a part of a record's entry.
func (t *tx) read(p proto.Phase, r *record, to verbs.SGE, offset uint64) {
	m := &t.e.There(r).Memory
	t.Batch.Read(t.F, t.e.Env.Peers[r.Node].Conn, to, m.Addr+r.Own.Off+offset, m.RKey)
	t.count(p, r.Node, 1, int(to.Length))
}

// readsFailed is the first error of the operations from a record's first one to the next record's.
func (t *tx) readsFailed(r *record, n int) error {
	for op := r.Own.Op; op < r.Own.Op+n; op++ {
		if err := t.Batch.Err(op); err != nil {
			return t.Unreachable(r, err)
		}
	}
	return nil
}

// tookRead takes a record that was READ, and reports whether its copy is of one moment.
func (t *tx) tookRead(i int) (whole bool, err error) {
	r := &t.Records[i]
	if bySeal(r) {
		return t.tookSealed(r)
	}
	h := layout.HeadOf(r.Image)
	n := 1
	if r.Own.Fetched {
		n, r.Own.Fetched = 0, false
	}
	before, _ := t.look(i, lookBefore)
	behind, _ := t.look(i, lookBehind)
	switch {
	case !t.e.Worded():
		n += 3
		checked := t.e.strategy.by(proto.PhaseCommit) == OneSided
		if checked {
			n++
		}
		b, a := layout.HeadOf(before), layout.HeadOf(behind)
		whole = (b.Version == a.Version && b.Key == a.Key || t.e.lacks(copyUnproved)) &&
			!(checked && layout.Locked(b.State))
		h = a
	case twoLooks(r) && !t.e.lacks(readOnce) && n > 0:
		n = 2
		a := layout.HeadOf(behind)
		whole = a == h
		h = a
	case twoLooks(r) && n == 0:
	default:
		whole = !r.Apart() || r.Proved() || t.e.lacks(linesIgnored)
	}
	if err := t.readsFailed(r, n); err != nil {
		return false, err
	}
	if layout.Locked(h.State) && h.Key == uint64(r.Key) {
		return false, t.met(r, h)
	}
	if !whole {
		return false, nil
	}
	return t.acceptAs(r, h)
}

// acceptAs takes a record that is whole and not locked by its header, unless the place is another record's now.
func (t *tx) acceptAs(r *record, h layout.Head) (whole bool, err error) {
	presence := h.Match(uint64(r.Key))
	if t.e.lacks(staleAddress) && presence == layout.Stale {
		presence = layout.Live
	}
	if presence == layout.Stale {
		return false, t.Misplaced(r)
	}
	t.accept(r, h.Version, presence)
	return true, nil
}

// accept takes what was READ of a record that is not locked.
func (t *tx) accept(r *record, v layout.Version, p layout.Presence) {
	t.e.Sightings.Released(r.Node, r.Own.Off)
	r.Accept(v, p == layout.Live)
}

// met is the abort of a record whose header shows another's lock.
func (t *tx) met(r *record, h layout.Head) error {
	onesided.SetVersion(r, h.Version)
	return t.Met(r, h.State)
}

// postLock posts the CAS that locks a record, and behind it the READ of its entry, or of its header if the
// record was read before.
func (t *tx) postLock(p proto.Phase, i int, f flags) {
	r := &t.Records[i]
	to := r.SGE
	if f&flagRead == 0 {
		to.Length = layout.HeaderBytes
	}
	r.Own.Word = uint64(onesided.Unlocked)
	if t.e.lacks(readBeforeLock) {
		t.read(p, r, to, 0)
	}
	t.AskLock(r, uint64(t.word))
	t.count(p, r.Node, 1, casBytes)
	if !t.e.lacks(readBeforeLock) {
		t.read(p, r, to, 0)
	}
}

// casBytes are the operands of a CAS and the old value.
const casBytes = 24

// tookLock takes the answer to a lock. A record that turns out not to be the key's stays on record as asked
// for: whoever has its place now gets it back unlocked.
func (t *tx) tookLock(r *record, f flags) error {
	o := &r.Own
	op := o.Op + 1
	if t.e.lacks(readBeforeLock) {
		op = o.Op - 1
	}
	if err := t.Batch.Err(o.Op); err != nil {
		return t.Unsure(r, err)
	}
	old := t.Batch.Old(o.Op)
	if o.Hold = onesided.Nothing; onesided.Word(old) == onesided.Unlocked || t.e.lacks(lockUnjudged) {
		o.Hold, o.Word, o.Ensured = onesided.Locked, uint64(t.word), false
		t.e.Sightings.Released(r.Node, o.Off)
	}
	if err := t.Batch.Err(op); err != nil {
		return t.Unreachable(r, err)
	}
	h := layout.HeadOf(r.Image)
	presence := h.Match(uint64(r.Key))
	switch {
	case o.Hold == onesided.Locked && h.State != uint64(t.word) && !t.e.lacks(readBeforeLock),
		presence == layout.Stale && !t.e.lacks(staleLock):
		if o.Hold == onesided.Locked {
			o.Hold = onesided.Asked
		}
		return t.Misplaced(r)
	case o.Hold == onesided.Nothing && onesided.Word(old) == t.word:
		return t.Misplaced(r) // locked by way of another record's place, which was out of date
	case o.Hold == onesided.Nothing:
		return t.Met(r, old)
	}
	if !r.Loaded {
		r.Accept(h.Version, presence != layout.Absent)
		return nil
	}
	x := found{off: o.Off, head: h, present: presence}
	if f&flagCompare != 0 && !t.e.same(&x, r.Version) && !t.e.lacks(anyVersion) {
		return proto.Aborting(proto.ReasonValidation)
	}
	if !r.Was {
		r.Version = h.Version
	}
	return nil
}

// validateByVerbs is VALIDATE for the records that are not Local.
func (t *tx) validateByVerbs() error {
	p, n := proto.PhaseValidate, len(t.Records)
	missing, err := t.find(p, 0, n, remote.ProvedAtOnce)
	if err != nil {
		return err
	}
	t.Batch.Reset()
	for i := range t.Records {
		r := &t.Records[i]
		switch {
		case r.Own.Local:
		case r.Own.Found:
			t.F.Charge(itemCostPs)
			if r.Own.Op = t.Batch.Len(); r.Own.Sealed {
				t.postSeal(p, i)
				continue
			}
			_, to := t.look(i, lookBehind)
			t.postHead(p, r, to)
		case missing > 0:
			t.postCounters(p, i, r) // it has no entry
		}
	}
	if t.Batch.Len() == 0 {
		return err
	}
	t.trips++
	_ = t.Batch.Await(t.F) // each has its own error
	for i := range t.Records {
		if r := &t.Records[i]; !r.Own.Local {
			err = first(err, t.validated(i, r))
		}
	}
	return err
}

// validated compares the header of a record with what was read of it.
func (t *tx) validated(i int, r *record) error {
	if r.Own.Sealed && r.Own.Found {
		return t.sameSeal(i)
	}
	n := 1
	switch {
	case !r.Own.Found:
		n = t.counters(r)
	case !t.e.Worded():
		n = 2
	}
	if err := t.readsFailed(r, n); err != nil {
		return err
	}
	if !r.Own.Found {
		x := found{present: layout.Absent, absent: t.absence(i, r)}
		if r.Was || !t.e.same(&x, r.Version) && !t.e.lacks(absentUnvalidated) {
			return proto.Aborting(proto.ReasonValidation)
		}
		return nil
	}
	head, _ := t.look(i, lookBehind)
	x := found{off: r.Own.Off, head: layout.HeadOf(head)}
	x.present = x.head.Match(uint64(r.Key))
	if t.e.lacks(oldAddress) && x.present == layout.Stale {
		if x.present = layout.Absent; x.head.Version.Live() {
			x.present = layout.Live
		}
	}
	switch {
	case !r.Was && t.e.lacks(absentUnvalidated):
		return nil
	case x.present == layout.Stale:
		return t.Misplaced(r)
	case layout.Locked(x.head.State) && !t.e.lacks(lockUnseen):
		return t.met(r, x.head)
	case !t.e.same(&x, r.Version):
		return proto.Aborting(proto.ReasonValidation)
	}
	return nil
}
