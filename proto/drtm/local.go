package drtm

import (
	"encoding/binary"
	"errors"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/store"
	"drtmd/store/layout"
)

// LOCAL_READ and LOCAL_WRITE of Figure 10(b), inside the region of LocalTX.

// readLocal is LOCAL_READ, and the checks of LOCAL_WRITE for a record that is to be written.
func (t *tx) readLocal(r *record) error {
	presence := layout.Stale
	var err error
	if r.Own.Found {
		if presence, err = t.copyLocal(r); err != nil {
			return err
		}
	}
	if presence == layout.Stale {
		t.unshare(r)
		if err := t.findLocal(r); err != nil {
			return err
		}
		if !r.Own.Found {
			r.Absent() // the lines of its buckets are in the read set
			return nil
		}
		if presence, err = t.copyLocal(r); err != nil {
			return err
		}
		if presence == layout.Stale {
			return t.leave(proto.ReasonConflict) // only a doomed view can be so
		}
	}
	_, v, s := onesided.Header(r)
	if err := t.checkState(r, State(s)); err != nil {
		return err
	}
	r.Own.Word = s
	r.Accept(v, presence == layout.Live)
	return nil
}

// loadTogether loads a local record that the program touches first, and all others that are not to be inserted. The lines of
// the region are compared once, where records that are loaded one by one have them compared each time.
func (t *tx) loadTogether(touched int) error {
	t.together = false
	t.region.Gather()
	for i := range t.Records {
		r := &t.Records[i]
		if i != touched && (!r.Own.Local || r.Loaded || r.Mode == proto.ModeInsert) {
			continue
		}
		t.F.Charge(costAccess)
		t.F.Step("drtm: before access")
		if err := t.readLocal(r); err != nil {
			return err
		}
	}
	if !t.region.Gathered() {
		return t.regionOver()
	}
	return nil
}

// findLocal finds the entry of a record in the region.
func (t *tx) findLocal(r *record) error {
	table := &t.e.tables[r.Table-1]
	off, found, ok := 0, false, true
	if t.e.lacks(AbsenceOutsideRegion) {
		off, found = table.Find(r.Key)
	} else {
		off, found, ok = table.FindIn(t.region, r.Key)
	}
	r.Own.Off, r.Own.Found = uint64(off), found
	switch {
	case !ok:
		return t.regionOver()
	case !found && t.e.entryNeeded():
		return t.leave(proto.ReasonConflict) // it was given back again, or there is no room
	}
	return nil
}

// checkState aborts on a write lock, and, if the record is to be written, on an unexpired lease.
func (t *tx) checkState(r *record, s State) error {
	e, write := t.e, r.Mode != proto.ModeRead
	switch {
	case s == Init:
	case e.localUnjudged(s, write):
	case s.Locked():
		return t.leave(proto.AbortReason(t.Met(r, uint64(s))))
	case write && !e.expired(s.End()):
		return t.leave(proto.ReasonLeased)
	}
	return nil
}

// copyLocal copies the entry at the record's place into its image, in the region.
func (t *tx) copyLocal(r *record) (layout.Presence, error) {
	if !t.loadLines(r) {
		return 0, t.regionOver()
	}
	key, v, s := onesided.Header(r)
	if !t.e.glob && !t.e.lacks(NoSecondLookLocal) {
		// No line words: the copy is one only if nobody wrote between two looks (design decision 3).
		m, off := t.e.Env.Memory, int(r.Own.Off)
		v2, _ := t.region.Load64(m, off+layout.VersionOffset)
		s2, ok := t.region.Load64(m, off+layout.StateOffset)
		if !ok {
			return 0, t.regionOver()
		}
		if layout.Version(v2) != v || State(s2).Locked() != State(s).Locked() {
			return 0, t.leave(proto.ReasonConflict)
		}
	}
	if t.e.lacks(NoKeyCheckLocal) {
		return layout.Live, nil
	}
	return layout.Match(uint64(r.Key), key, v), nil
}

// loadLines copies an entry in the region. The simulator shows what comes between two lines of it.
func (t *tx) loadLines(r *record) bool {
	m, off := t.e.Env.Memory, int(r.Own.Off)
	switch {
	case r.Lines != 0: // only with line words
		return t.loadSome(r, r.Lines)
	case t.e.glob && len(r.Image) <= layout.LineBytes:
		position, ok := t.region.LoadLine(m, off, (*[layout.LineBytes]byte)(r.Image[:layout.LineBytes]))
		r.Own.InRegion, r.Own.Line = true, int32(position)
		return ok
	case t.e.glob && r.Mode == proto.ModeRead:
		return t.share(r, 0, len(r.Image))
	case t.e.glob || !t.e.Env.Simulated:
		return t.region.Load(m, off, r.Image)
	}
	for at := 0; at < len(r.Image); at += layout.LineBytes {
		to := min(at+layout.LineBytes, len(r.Image))
		if !t.region.Load(m, off+at, r.Image[at:to]) {
			return false
		}
		t.F.Step("drtm: between lines")
	}
	return true
}

// share copies lines of an entry in the region, whose copies are those in the record's image: what the program changes
// there is stored without a copy. Records of several lines that are written as a whole are not shared: most of their lines
// may turn out to be as they were (Region.Update).
func (t *tx) share(r *record, from, to int) bool {
	room := r.WholeLines()
	if to < len(r.Image) {
		room = room[:to]
	}
	position, ok := t.region.LoadLines(t.e.Env.Memory, int(r.Own.Off)+from, room[from:])
	if from == 0 {
		r.Own.InRegion, r.Own.Line = true, int32(position)
	}
	return ok
}

// unshare gives the region copies of its own: the image is to be that of another place.
func (t *tx) unshare(r *record) {
	if r.Own.InRegion {
		t.region.Return(t.e.Env.Memory, int(r.Own.Off), r.WholeLines())
		r.Own.InRegion = false
	}
}

// writeLocal is LOCAL_WRITE of everything that was written, and the making of entries for insertions.
func (t *tx) writeLocal() error {
	t.region.Hurry() // the program has seen all that it will
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Local || !r.Changes() {
			continue
		}
		if !r.Own.Found {
			if err := t.makeLocal(r); err != nil {
				return err
			}
		}
		t.F.Charge(costAccess)
		t.deletes = t.deletes || !r.Is
		if t.e.usedUp(r) {
			if !t.region.Consistent() {
				return t.regionOver()
			}
			return t.leave(proto.ReasonFull)
		}
		if !t.storeLocal(r) {
			return t.regionOver()
		}
	}
	return nil
}

// wordBytes is the size of a word, as many values are.
const wordBytes = 8

// storeLocal stores version and value. With line words the state goes along: an expired lease is
// cleared by the way (Figure 10(b), lines 4 to 6), since the line is written anyway. Elsewhere
// the state word belongs to the NIC.
func (t *tx) storeLocal(r *record) bool {
	m, off := t.e.Env.Memory, int(r.Own.Off)
	if !t.e.glob {
		return t.region.Store64(m, off+layout.VersionOffset, uint64(r.Next())) &&
			(!r.Is || t.region.Store(m, off+layout.ValueOffset, r.Value))
	}
	s := uint64(Init)
	if t.e.lacks(NoStateCheck) {
		s = r.Own.Word
	}
	if r.Is && !r.Own.InRegion && len(r.Value) == wordBytes { // a copy of the image would wait for the stores that have made it
		return t.region.Store64(m, off+layout.VersionOffset, uint64(r.Next())) &&
			t.region.Store64(m, off+layout.StateOffset, s) &&
			t.region.Store64(m, off+layout.ValueOffset, binary.LittleEndian.Uint64(r.Value))
	}
	r.Seal(r.Next())
	onesided.SetState(r, s)
	to := len(r.Image)
	if !r.Is {
		to = layout.ValueOffset
	}
	switch {
	case r.Own.InRegion && len(r.Image) <= layout.LineBytes:
		return t.region.Stored(m, int(r.Own.Line), off, htm.Words(layout.VersionOffset, to-layout.VersionOffset))
	case r.Own.InRegion:
		return t.storeShared(r)
	}
	if to <= layout.LineBytes { // entries begin lines, and the version always changes
		return t.region.Store(m, off+layout.VersionOffset, r.Image[layout.VersionOffset:to])
	}
	// Most columns of a long record stay as they are: the lines of these are read only.
	return t.region.Update(m, off+layout.VersionOffset, r.Image[layout.VersionOffset:to])
}

// storeShared is storeLocal of what the program has changed in a copy that the region shares: version and state, and of the
// value what it has written, without lines between that were not loaded.
func (t *tx) storeShared(r *record) bool {
	from, to := layout.VersionOffset, layout.ValueOffset
	if r.Is {
		at, end := r.Written()
		if to = layout.ValueOffset + end; at > 0 {
			if !t.storeImage(r, from, layout.ValueOffset) {
				return false
			}
			from = layout.ValueOffset + at
		}
	}
	if r.Lines == 0 {
		return t.storeImage(r, from, to)
	}
	for lines := r.Lines; lines != 0; {
		at, end := takeRun(&lines, len(r.Image))
		if at, end = max(at, from), min(end, to); at < end && !t.storeImage(r, at, end) {
			return false
		}
	}
	return true
}

// storeImage stores a part of an image that the region shares.
func (t *tx) storeImage(r *record, from, to int) bool {
	line := int(r.Own.Line) + from/layout.LineBytes
	return t.region.StoreShared(t.e.Env.Memory, line, int(r.Own.Off)+from, r.Image[from:to])
}

// makeLocal makes the entry of a record that has none, in the region that makes it live: nobody
// sees it absent.
func (t *tx) makeLocal(r *record) error {
	off, v, ok, err := t.e.tables[r.Table-1].Index().EnsureIn(t.region, uint64(r.Key), uint64(Init))
	switch {
	case !ok:
		return t.regionOver()
	case err != nil && !t.region.Consistent():
		return t.regionOver()
	case err != nil:
		return t.noRoom(err)
	}
	r.Own.Off, r.Own.Found, r.Version = uint64(off), true, v
	return nil
}

// noRoom leaves the region because a table has refused an entry: another attempt may find room that is given back now.
func (t *tx) noRoom(refused error) error {
	err := t.leave(proto.ReasonFull)
	if errors.Is(refused, store.ErrFull) && t.e.spare.makeRoom() != onesided.Full {
		err = proto.Aborting(proto.ReasonConflict)
	}
	return err
}

// leaveRegion aborts the region, if there is one.
func (t *tx) leaveRegion() {
	if t.inRegion {
		t.region.Abort(0)
		t.inRegion = false
	}
}

// leave aborts the region, with the reason as XABORT's code, and gives the attempt's error. One that
// had to give way to a lock or a lease counts for Config.Attempts only: a region can do it as soon
// as these are gone, while the fallback handler, waiting for them with locks of its own on records
// that many want, makes others wait in their turn, who then come to wait in the same way.
func (t *tx) leave(r proto.Reason) error {
	t.region.Abort(uint8(r))
	t.inRegion = false
	if r != proto.ReasonLocked && r != proto.ReasonLeased {
		t.aborts++
	}
	return proto.Aborting(r)
}

// regionOver is the attempt's error after the region has aborted.
func (t *tx) regionOver() error {
	t.inRegion = false
	t.aborts++
	code, arg := t.region.Aborted()
	switch code {
	case htm.Capacity:
		t.overflow = true
		return proto.Aborting(proto.ReasonCapacity)
	case htm.System, htm.Nested:
		return proto.Aborting(proto.ReasonSystem)
	case htm.Explicit:
		if arg == htm.Unconfirmed {
			return proto.Aborting(proto.ReasonLease)
		}
	}
	return proto.Aborting(proto.ReasonConflict)
}
