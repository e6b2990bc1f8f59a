package occ

import (
	"encoding/binary"
	"sync/atomic"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/protocol"
	"drtmd/store/layout"
	"drtmd/store/words"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lineword"
)

// lineLooks bounds how often the CPU looks at a line that somebody has locked.
const lineLooks = words.LineLooks

// recordLooks bounds how often a record is copied, or looked up, that others change meanwhile.
const recordLooks = 64

// share is a replica of a shard on the own machine.
type share = protocol.Share

// shareOf is the replica that holds a record here, and whether it serves it now; nil: there is none.
func (e *Engine) shareOf(t proto.TableID, k proto.Key) (s *share, serves bool) {
	at, err := proto.Locate(e.Env.Placement, t, k, len(e.Env.Peers))
	if err != nil || int(at.Shard) >= len(e.Env.Shares) {
		return nil, false
	}
	return e.Env.Shares[at.Shard], e.view.serves(&at)
}

// found is a record of the own machine.
type found struct {
	off     uint64 // of its entry; 0: there is none
	head    layout.Head
	present layout.Presence // Live or Absent
	// absent is the version that a key without an entry has, of a record that is absent and has no tombstone.
	absent layout.Version
}

// version of the record; that of an absence without an entry is the table's.
func (x *found) version() layout.Version {
	if x.off == 0 && x.present == layout.Absent {
		return x.absent
	}
	return x.head.Version
}

// same reports whether a record has been as it is now since it had version v. An absence without a tombstone
// may have been interrupted: the key was inserted, deleted and given back. The table's counter tells, which
// grows then: it must be the one of the time when the absence was read, or the entry must have been made
// under that one and never been written.
func (e *Engine) same(x *found, v layout.Version) bool {
	if x.present != layout.Absent || x.off != 0 && x.head.Version.Trace() != 0 {
		return x.head.Version == v
	}
	if e.lacks(absenceUndated) {
		return !v.Live() && v.Trace() == 0
	}
	return !v.Live() && (x.absent.Incarnation() == v.Incarnation() ||
		x.off != 0 && x.head.Version.Incarnation() == v.Incarnation())
}

// find looks a record up, first where it was, if that is known. ok is false if that could not be told.
func (e *Engine) find(s *share, i *item) (x found, ok bool) {
	t, k := i.table, i.key
	if x.off = i.at; x.off != 0 {
		if x.head, ok = e.headNow(s, x.off); ok {
			if x.present = x.head.Match(uint64(k)); x.present == layout.Live {
				return x, true
			}
		}
	}
	tab := s.Tables[t-1]
	for range recordLooks {
		off, there := tab.Find(uint64(k))
		if !there {
			var absent layout.Version
			if off, there, absent, ok = e.findSurely(s, t, k); !ok {
				continue
			}
			if !there {
				return found{present: layout.Absent, absent: absent}, true
			}
		}
		x = found{off: uint64(off)}
		if x.head, ok = e.headNow(s, uint64(off)); !ok {
			continue
		}
		if x.present = x.head.Match(uint64(k)); x.present == layout.Stale {
			continue
		}
		if ok = e.dateAbsence(s, t, &x); ok {
			return x, true
		}
	}
	return x, false
}

// dateAbsence adds to an absent record the version of the table's keys without an entry, after it was found.
func (e *Engine) dateAbsence(s *share, t proto.TableID, x *found) (ok bool) {
	if x.present != layout.Absent || x.head.Version.Trace() != 0 {
		return true
	}
	if e.Worded() && !e.region.Begin() {
		return false
	}
	if x.absent, ok = s.Tables[t-1].AbsentIn(e.region); ok && e.Worded() {
		ok = e.region.Commit(nil)
	}
	return ok
}

// findSurely looks a key up so that an absence is proved, and dated.
func (e *Engine) findSurely(s *share, t proto.TableID, k proto.Key) (off int, there bool,
	absent layout.Version, ok bool) {
	if !e.Worded() {
		if e.Env.Structure != nil {
			e.Env.Structure.Lock()
			defer e.Env.Structure.Unlock()
		}
		off, there = s.Tables[t-1].Find(uint64(k))
		absent, ok = s.Tables[t-1].AbsentIn(e.region)
		return off, there, absent, ok
	}
	if !e.region.Begin() {
		return 0, false, 0, false
	}
	if off, there, ok = s.Tables[t-1].FindIn(e.region, uint64(k)); ok && !there {
		absent, ok = s.Tables[t-1].AbsentIn(e.region)
	}
	if ok {
		ok = e.region.Commit(nil)
	}
	return off, there, absent, ok
}

// headNow is the header of an entry as of one moment. Without line words it is three words, of which the
// state is the oldest: if it is unlocked, and the version is that of before, the record was so then.
func (e *Engine) headNow(s *share, off uint64) (h layout.Head, ok bool) {
	if !e.Worded() {
		h.State = onesided.StateOf(s.Memory, off)
		h.Version, h.Key = onesided.VersionOf(s.Memory, off), onesided.KeyOf(s.Memory, off)
		return h, true
	}
	var w [layout.HeaderBytes / 8]uint64
	for range recordLooks {
		if s.Memory.PeekWords(int(off), &w) {
			return layout.Head{Key: w[layout.KeyOffset/8], Version: layout.Version(w[layout.VersionOffset/8]),
				State: w[layout.StateOffset/8]}, true
		}
		lineword.Pause()
	}
	return h, false
}

// furtherLines is where the value goes on in each further line of a table's records: behind the line's version,
// if it has one.
func furtherLines(s *share, t proto.TableID) (at int, versions bool) {
	if s.Tables[t-1].Record().Room > 0 {
		return layout.LineVersionBytes, true
	}
	return 0, false
}

// copyOut copies the value of a record that is not locked, as of one moment, with the header of that.
// Without line words, words are read in ascending order: version and state before the value. f, if not nil,
// marks steps.
func (e *Engine) copyOut(f *fiber.Fiber, s *share, i *item, x *found, dst []byte) (ok bool) {
	m, off := s.Memory, int(x.off)
	var line [layout.LineBytes]byte
	for range recordLooks {
		if !m.Peek(off/layout.LineBytes, &line) {
			lineword.Pause()
			continue
		}
		before := layout.HeadOf(line[:])
		at := copy(dst, line[layout.ValueOffset:])
		step(f, stepLine)
		several, skip := at < len(dst), 0
		if several {
			skip, _ = furtherLines(s, i.table)
		}
		ok = true
		for from := off + layout.LineBytes; at < len(dst) && ok; from += layout.LineBytes {
			ok = m.Peek(from/layout.LineBytes, &line)
			at += copy(dst[at:], line[skip:])
			step(f, stepLine)
		}
		if !ok {
			continue
		}
		x.head = before
		if several || !e.Worded() {
			now, ok := e.headNow(s, x.off)
			if e.lacks(newerVersion) && ok {
				x.head.Version = now.Version
			} else if !ok || now != before {
				continue
			}
		}
		x.present = x.head.Match(uint64(i.key))
		return x.present != layout.Stale
	}
	return false
}

// lockRecord locks the entry of a record if it is as x says and nobody has it.
func (e *Engine) lockRecord(s *share, x *found, t proto.TableID, k proto.Key, word onesided.Word) code {
	m, off := s.Memory, int(x.off)
	state := onesided.WordIn(m, off+layout.StateOffset)
	if !e.Worded() {
		// The CPUs of one machine exclude each other, and NICs never write state words here.
		if !atomic.CompareAndSwapUint64(state, uint64(onesided.Unlocked), uint64(word)) {
			x.head.State = atomic.LoadUint64(state)
			return locked
		}
		x.head, _ = e.headNow(s, x.off)
		if x.present = x.head.Match(uint64(k)); x.present == layout.Stale {
			atomic.StoreUint64(state, uint64(onesided.Unlocked))
			return busy
		}
		e.unseal(s, t, off)
		return done
	}
	p, w := words.LockLine(m, off)
	x.head = layout.HeadOf(m.Bytes[off : off+layout.HeaderBytes])
	x.present = x.head.Match(uint64(k))
	switch {
	case x.present == layout.Stale:
		lineword.Restore(p, w)
		return busy
	case onesided.Word(x.head.State) != onesided.Unlocked:
		lineword.Restore(p, w)
		return locked
	}
	lineword.StoreUnlock(state, uint64(word), p, w)
	return done
}

// publish writes a record that is locked: the lines behind the first one, then the first one's part of
// the value and the version. It unlocks it in the end, unless it is kept.
func (e *Engine) publish(f *fiber.Fiber, s *share, off uint64, x *item) {
	unlock := x.flags&flagKeep == 0
	if e.lacks(unlockFirst) && unlock {
		e.unlockEntry(s, x.table, off)
		step(f, stepValue)
	}
	v, value := x.version, x.value
	n, skip, versions := min(len(value), layout.LineBytes-layout.ValueOffset), 0, false
	if n < len(value) {
		skip, versions = furtherLines(s, x.table)
	}
	for at := int(off) + layout.LineBytes; n < len(value); at += layout.LineBytes {
		word := lastWord{at: 0, v: layout.LineVersion(uint64(x.key), v), ok: versions}
		n += e.storeLine(s, at, skip, value[n:min(n+layout.LineBytes-skip, len(value))], word)
		step(f, stepValue)
	}
	head := lastWord{at: layout.VersionOffset, v: uint64(v), ok: !e.lacks(sameVersion)}
	value = value[:min(len(value), layout.LineBytes-layout.ValueOffset)]
	unlock = unlock && !e.lacks(unlockFirst)
	if unlock && e.Worded() { // others see the first line as it was, or with all of it
		e.storeUnlocked(s, int(off), value, head)
		step(f, stepWritten)
		return
	}
	e.storeLine(s, int(off), layout.ValueOffset, value, head)
	step(f, stepWritten)
	if unlock {
		e.unlockEntry(s, x.table, off)
	}
}

// storeUnlocked stores the first line's part of a value, the version and an unlocked state word, in this order: a CPU
// looks at the words without the line's lock.
func (e *Engine) storeUnlocked(s *share, off int, value []byte, version lastWord) {
	m := s.Memory
	p, w := words.LockLine(m, off)
	copy(m.Bytes[off+layout.ValueOffset:], value)
	if version.ok {
		lineword.StoreRelease(onesided.WordIn(m, off+version.at), version.v)
	}
	lineword.StoreUnlock(onesided.WordIn(m, off+layout.StateOffset), uint64(onesided.Unlocked), p, w)
}

// lastWord is a word of a line that is stored behind the rest of it; none if ok is false.
type lastWord struct {
	at int
	v  uint64
	ok bool
}

// storeLine stores bytes of a line from an offset in it on, and a version behind them.
func (e *Engine) storeLine(s *share, line, at int, b []byte, version lastWord) int {
	m := s.Memory
	if e.Worded() {
		p, w := words.LockLine(m, line)
		copy(m.Bytes[line+at:], b)
		if version.ok {
			atomic.StoreUint64(onesided.WordIn(m, line+version.at), version.v) // others look at it without the line's lock
		}
		lineword.Unlock(p, w)
		return len(b)
	}
	for i := 0; i < len(b); i += 8 { // word by word, as others read it
		var last [8]byte
		n := copy(last[:], b[i:])
		to := onesided.WordIn(m, line+at+i)
		if n < 8 {
			binary.NativeEndian.PutUint64(last[:], atomic.LoadUint64(to))
			copy(last[:], b[i:])
		}
		atomic.StoreUint64(to, binary.NativeEndian.Uint64(last[:]))
	}
	if version.ok {
		atomic.StoreUint64(onesided.WordIn(m, line+version.at), version.v)
	}
	return len(b)
}

// unlockEntry seals a record of a table that is locked, if its layout has seals, and stores an unlocked state word.
func (e *Engine) unlockEntry(s *share, t proto.TableID, off uint64) {
	if e.nicReaches(s) {
		e.swapByNIC(s, off, onesided.Unlocked)
		return
	}
	state := onesided.WordIn(s.Memory, int(off)+layout.StateOffset)
	if !e.Worded() {
		e.seal(s, t, int(off))
		atomic.StoreUint64(state, uint64(onesided.Unlocked))
		return
	}
	p, w := words.LockLine(s.Memory, int(off))
	lineword.StoreUnlock(state, uint64(onesided.Unlocked), p, w)
}

// storeState stores the state word of an entry that is locked.
func (e *Engine) storeState(s *share, t proto.TableID, off uint64, word onesided.Word) {
	if word == onesided.Unlocked {
		e.unlockEntry(s, t, off)
		return
	}
	if e.nicReaches(s) {
		e.swapByNIC(s, off, word)
		return
	}
	state := onesided.WordIn(s.Memory, int(off)+layout.StateOffset)
	if !e.Worded() {
		atomic.StoreUint64(state, uint64(word))
		return
	}
	p, w := words.LockLine(s.Memory, int(off))
	lineword.StoreUnlock(state, uint64(word), p, w)
}

// findHeld looks up a record that word has locked: its entry stays where it is, while others may change the
// buckets of its chain. An absence is proved.
func (e *Engine) findHeld(s *share, x *item, word onesided.Word) (off int, there bool) {
	t, k := x.table, x.key
	if x.at != 0 && onesided.KeyOf(s.Memory, x.at) == uint64(k) &&
		onesided.Word(onesided.StateOf(s.Memory, x.at)) == word {
		return int(x.at), true
	}
	for range lineLooks {
		if off, there = s.Tables[t-1].Find(uint64(k)); there && onesided.KeyOf(s.Memory, uint64(off)) == uint64(k) {
			return off, true
		}
		var ok bool
		if off, there, _, ok = e.findSurely(s, t, k); ok {
			return off, there && onesided.KeyOf(s.Memory, uint64(off)) == uint64(k)
		}
		lineword.Pause()
	}
	invariant.Assert(false, "a chain of the own machine's table keeps changing")
	return 0, false
}

// releaseHere gives the lock of a record back that word holds, with the update if there is one. An
// entry that ends absent goes back to the table. With flagKeep only the update is written.
func (e *Engine) releaseHere(f *fiber.Fiber, s *share, x *item, word onesided.Word) code {
	off, there := e.findHeld(s, x, word)
	if !there || onesided.Word(onesided.StateOf(s.Memory, uint64(off))) != word {
		return notHeld
	}
	v := onesided.VersionOf(s.Memory, uint64(off))
	if x.flags&flagWrite != 0 {
		v = x.version
	}
	switch {
	case x.flags&flagWrite != 0 && v.Live():
		e.publish(f, s, uint64(off), x)
		return done
	case x.flags&flagWrite != 0:
		e.storeLine(s, off, layout.ValueOffset, nil, lastWord{at: layout.VersionOffset, v: uint64(v), ok: true})
		step(f, stepWritten)
	}
	if x.flags&flagKeep != 0 {
		return done
	}
	if v.Live() {
		e.unlockEntry(s, x.table, uint64(off))
		return done
	}
	// With line words that unlocks it. Otherwise the entry may belong to another key by now, which
	// stays locked as long as this word is in it.
	if e.UnlinkAt(s, x.table, x.key, uint64(word), onesided.HostTries) != onesided.Done || !e.Worded() {
		e.unlockEntry(s, x.table, uint64(off))
	}
	return done
}

// step marks a step, if there is a fiber.
func step(f *fiber.Fiber, name string) {
	if f != nil {
		f.Step(name)
	}
}
