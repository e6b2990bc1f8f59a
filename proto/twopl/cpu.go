package twopl

import (
	"encoding/binary"
	"unsafe"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/store/layout"
	"drtmd/verbs/lineword"
)

// cpuResult is how a lock request by the CPU ended.
type cpuResult uint8

const (
	cpuDone    cpuResult = iota + 1
	cpuRefused           // another transaction has the record
	cpuStale             // the entry is not the key's
	cpuBusy              // somebody keeps the line: leave it to the device, which knows the dead
)

func (r cpuResult) String() string {
	return [...]string{"?", "done", "refused", "stale", "busy"}[min(r, cpuBusy)]
}

// cpuLooks is how often the CPU looks at a line that somebody has locked: longer than a remote
// operation or the commit of a region keeps one that is running.
const cpuLooks = 100

// cpuLocal reports whether the CPU locks and unlocks the record. A record whose lock was asked of
// the device and not answered is left to the device.
func (t *tx) cpuLocal(r *record) bool {
	return t.e.cpuLocks && r.node == t.e.cfg.Node &&
		(r.lock != lockAsked || t.e.lacks(CPUAsked))
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

// cpuLock locks a local record and copies it. Under the lock of the line it sees whether the
// entry is the key's, before it takes the record's, so a stale entry is never locked.
func (t *tx) cpuLock(r *record) cpuResult {
	m := t.e.cfg.Memory
	off := int(r.off)
	p, w, ok := t.lockLine(m, off)
	if !ok {
		return cpuBusy
	}
	entry := m.Bytes[off : off+len(r.buf)]
	first := min(lineword.LineBytes, len(entry))
	copy(r.buf, entry[:first])
	switch {
	case layout.Match(uint64(r.key), r.keyWord(), r.version()) == layout.Stale &&
		!t.e.lacks(CPUNoKeyCheck):
		lineword.Restore(p, w)
		r.is = layout.Stale
		t.forget(r)
		return cpuStale
	case r.state() != unlocked && !t.e.lacks(CPULockUnjudged):
		lineword.Restore(p, w)
		return cpuRefused
	}
	lineword.StoreUnlock(wordAt(m, off+layout.StateOffset), uint64(t.word), p, w)
	// The other lines are nobody's to write but the holder's. Those who wrote them unlocked the
	// record afterwards.
	copy(r.buf[first:], entry[first:])
	r.lock, r.ensured = lockHeld, false
	t.e.sightings.Released(r.node, r.off)
	t.inspect(r)
	return cpuDone
}

// cpuPublish writes a local record back, if it was changed, and unlocks it, unless it ends absent.
// The lines behind the first one come first. False: a line was busy, and all has to be done by the
// device.
func (t *tx) cpuPublish(r *record) bool {
	m := t.e.cfg.Memory
	off := int(r.off)
	write := r.changed() && r.live
	if t.e.lacks(CPUHeaderFirst) {
		defer t.cpuPublishRest(r, write)
	} else if !t.cpuPublishRest(r, write) {
		return false
	}
	p, w, ok := t.lockLine(m, off)
	if !ok {
		return false
	}
	state := wordAt(m, off+layout.StateOffset)
	if lockWord(*state) != t.word { // the message's arguments would be allocated
		invariant.Assertf(false, "twopl: a record that was locked by %v is %v", t.word,
			lockWord(*state))
	}
	if write {
		end := min(lineword.LineBytes, len(r.buf))
		copy(m.Bytes[off+layout.ValueOffset:off+end], r.buf[layout.ValueOffset:end])
	}
	if r.changed() {
		*wordAt(m, off+layout.VersionOffset) = uint64(r.version())
		r.stored = true
	}
	if r.endsAbsent() {
		lineword.Unlock(p, w)
		return true
	}
	lineword.StoreUnlock(state, uint64(unlocked), p, w)
	r.lock = lockNone
	return true
}

// cpuPublishRest is cpuPublish for the lines behind the first one.
func (t *tx) cpuPublishRest(r *record, write bool) bool {
	m, off := t.e.cfg.Memory, int(r.off)
	for at := lineword.LineBytes; write && at < len(r.buf); at += lineword.LineBytes {
		p, w, ok := t.lockLine(m, off+at)
		if !ok {
			return false
		}
		end := min(at+lineword.LineBytes, len(r.buf))
		copy(m.Bytes[off+at:off+end], r.buf[at:end])
		lineword.Unlock(p, w)
	}
	return true
}

// wordAt is an aligned word of the memory.
func wordAt(m *htm.Memory, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(&m.Bytes[off : off+8][0]))
}

// state is the state word in the copy.
func (r *record) state() lockWord {
	return lockWord(binary.NativeEndian.Uint64(r.buf[layout.StateOffset:]))
}
