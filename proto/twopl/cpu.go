package twopl

import (
	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/verbs/lineword"
)

// cpuLooks is how often the CPU looks at a line that somebody has locked: longer than a remote
// operation or the commit of a region keeps one that is running.
const cpuLooks = 100

// cpuLocal reports whether the CPU locks and unlocks the record. A record whose lock was asked of
// the device and not answered is left to the device.
func (t *tx) cpuLocal(r *record) bool {
	return t.e.cpuLocks && r.Node == t.e.Env.Node &&
		(r.Own.Hold != onesided.Asked || t.e.lacks(CPUAsked))
}

// lockLine takes a line's lock as a remote operation does, and gives the word it had.
func (t *tx) lockLine(m *htm.Memory, off int) (p *uint64, w lineword.Word, ok bool) {
	p = &m.Words[off/lineword.LineBytes]
	if t.e.lacks(CPUNoLine) {
		return p, lineword.Load(p), true
	}
	for range cpuLooks {
		if w = lineword.Load(p); !w.Locked() && lineword.TryLock(p, w, m.Slot) {
			return p, w, true
		}
		lineword.Pause()
	}
	return p, w, false
}

// cpuLock locks a local record and copies it. The error is another's lock. Under the lock of the line it
// sees whether the entry is the key's, before it takes the record's, so a stale entry is never locked.
// A line that somebody keeps is left to the device, which knows the dead.
func (t *tx) cpuLock(r *record) error {
	o := &r.Own
	m, off := t.e.Memory(r)
	p, w, ok := t.lockLine(m, off)
	if !ok {
		return nil
	}
	entry := m.Bytes[off : off+len(r.Image)]
	first := min(lineword.LineBytes, len(entry))
	copy(r.Image, entry[:first])
	_, _, holder := onesided.Header(r)
	switch {
	case onesided.Presence(r) == layout.Stale && !t.e.lacks(CPUNoKeyCheck):
		lineword.Restore(p, w)
		o.Stale = true
		t.Drop(r)
		return nil
	case onesided.Word(holder) != onesided.Unlocked && !t.e.lacks(CPULockUnjudged):
		lineword.Restore(p, w)
		return t.Met(r, holder)
	}
	lineword.StoreUnlock(stateAt(m, off), uint64(t.word), p, w)
	// The other lines are nobody's to write but the holder's. Those who wrote them unlocked the
	// record afterwards.
	copy(r.Image[first:], entry[first:])
	onesided.SetState(r, uint64(t.word))
	o.Hold, o.Word, o.Ensured = onesided.Locked, uint64(t.word), false
	t.e.Sightings.Released(r.Node, o.Off)
	_ = t.Check(r) // a stale one is given back
	return nil
}

// cpuPublish writes a local record back, if it was changed, and unlocks it, unless it ends absent.
// The lines behind the first one come first. False: a line was busy, and all has to be done by the
// device.
func (t *tx) cpuPublish(r *record) bool {
	m, off := t.e.Memory(r)
	end := len(r.Image)
	changes := r.Changes()
	write := changes && r.Is
	if changes && !t.e.Skips(onesided.NewVersion) {
		r.Seal(r.Next())
	}
	if t.e.lacks(CPUHeaderFirst) {
		defer t.cpuPublishRest(r, write)
	} else if !t.cpuPublishRest(r, write) {
		return false
	}
	p, w, ok := t.lockLine(m, off)
	if !ok {
		return false
	}
	state := stateAt(m, off)
	if onesided.Word(*state) != t.word { // the message's arguments would be allocated
		invariant.Assertf(false, "twopl: a record that was locked by %v is %v", t.word,
			onesided.Word(*state))
	}
	if write {
		end = min(lineword.LineBytes, end)
		copy(m.Bytes[off+layout.ValueOffset:off+end], r.Image[layout.ValueOffset:end])
	}
	if changes {
		_, v, _ := onesided.Header(r)
		// Plans look at it without the line's lock.
		lineword.StoreRelease(onesided.WordIn(m, off+layout.VersionOffset), uint64(v))
		r.Own.Stored = true
	}
	if endsAbsent(r) {
		lineword.Unlock(p, w)
		return true
	}
	lineword.StoreUnlock(state, uint64(onesided.Unlocked), p, w)
	r.Own.Hold = onesided.Nothing
	return true
}

// cpuPublishRest is cpuPublish for the lines behind the first one.
func (t *tx) cpuPublishRest(r *record, write bool) bool {
	m, off := t.e.Memory(r)
	for at := lineword.LineBytes; write && at < len(r.Image); at += lineword.LineBytes {
		p, w, ok := t.lockLine(m, off+at)
		if !ok {
			return false
		}
		end := min(at+lineword.LineBytes, len(r.Image))
		copy(m.Bytes[off+at:off+end], r.Image[at:end])
		lineword.Unlock(p, w)
	}
	return true
}

// stateAt is the state word of an entry.
func stateAt(m *htm.Memory, off int) *uint64 { return onesided.WordIn(m, off+layout.StateOffset) }
