//go:build linux && amd64

package shm

import (
	"strconv"
	"sync/atomic"
	"syscall"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

var _ verbs.DriverLineOwners = (*memory)(nil)

// ClaimLineOwner implements verbs.DriverLineOwners. Slots of the dead are recovered first, if no
// other is free.
func (m *memory) ClaimLineOwner() (uint16, []uint64, error) {
	r := m.region
	if !r.use() {
		return 0, nil, verbs.ErrClosed
	}
	defer r.done()
	var slot uint16
	if r.lined > 0 {
		slot = m.dev.claim(r, r.count+1, r.lined)
	}
	if slot == 0 {
		return 0, nil, noLineOwner(r.lined)
	}
	r.idleJournal(slot)
	return slot, r.journalWords(slot), nil
}

func (r *region) idleJournal(slot uint16) {
	j := lineword.MakeJournal(r.journalWords(slot))
	j.Idle()
}

// endLineOwner frees a line owner of kept memory that is opened again, whoever it was: only who
// has the memory open can be one, and that is the caller now. This process may have been it before.
func (d *device) endLineOwner(r *region, slot uint16) {
	e := r.owner(slot)
	if d.recoverCommit(r, slot, e.incarnation.Load()) {
		r.idleJournal(slot)
		e.free()
	}
}

func noLineOwner(n int) error {
	return &verbs.Error{Op: "claim line owner", Errno: syscall.ENOSPC,
		Detail: "all line owners of the MR are taken: " + strconv.Itoa(n),
		Hint:   "raise MROptions.LineOwners"}
}

// ReleaseLineOwner implements verbs.DriverLineOwners.
func (m *memory) ReleaseLineOwner(slot uint16) error {
	r := m.region
	if !r.use() {
		return nil // the MR is gone, and the entry with it
	}
	defer r.done()
	r.owner(slot).free()
	return nil
}

// RescueLine implements verbs.DriverLineOwners.
func (m *memory) RescueLine(line int) {
	r := m.region
	if line < 0 || uint64(line) >= r.lineCount() || !r.use() {
		return
	}
	defer r.done()
	m.dev.rescue(r, uint64(line), lineword.Load(r.word(uint64(line))))
}

// recoverCommit finishes or undoes the commit in which a line owner died, whose incarnation was inc:
// afterwards it holds no line that its journal lists. The journal stays as it is, so whoever dies in
// here leaves the rest to the next. Others may do all that meanwhile and lend the slot to somebody
// who lives: then its journal and its locks are not the dead's. A lock that was seen while the slot
// was the dead's is the dead's, and the slot and its journal stay the dead's until that lock is
// gone. False: not now.
func (d *device) recoverCommit(r *region, dead uint16, inc uint64) bool {
	e := r.owner(dead)
	j := lineword.MakeJournal(r.journalWords(dead))
	state, n := j.State()
	for i := range n {
		line := j.Line(i)
		if line >= r.lineCount() {
			continue
		}
		w := lineword.Load(r.word(line))
		if e.incarnation.Load() != inc {
			return true // others have recovered all of it
		}
		if !w.Locked() || w.Owner() != dead {
			continue // not locked yet when it died, or published already
		}
		var image *[lineBytes]byte
		if state == lineword.JournalCommitted {
			image = new([lineBytes]byte)
			j.Read(i, image)
		}
		if !d.recoverListed(r, line, w, image) {
			return false
		}
	}
	return true
}

// recoverListed gives a line that a dead line owner left locked at w its image, if there is one,
// and unlocks it at the next version. While that goes on the line belongs to an entry of this
// process, whose record holds the image: what recoverLine expects of the dead. False: not now.
func (d *device) recoverListed(r *region, line uint64, w lineword.Word,
	image *[lineBytes]byte) bool {
	p := r.word(line)
	if lineword.Load(p) != w {
		return true // done already
	}
	slot := d.claimRescuer(r, w.Owner())
	if slot == 0 {
		return false
	}
	e := r.owner(slot)
	defer e.free()
	atomic.StoreUint64(&e.intent, line+1)
	atomic.StoreUint64(&e.record, 0)
	if image != nil {
		e.stage(line, 0, lineBytes, w, image)
	}
	if !lineword.TakeOver(p, w, slot) {
		return true // somebody else was faster
	}
	if image != nil {
		lineword.CopyLine(r.line(line), image)
	}
	return unlocked(p, w)
}
