//go:build linux && amd64

package shm

import (
	"sync/atomic"
	"weak"

	"drtmd/verbs/lineword"
	"drtmd/verbs/shm/internal/fabric"
)

const (
	// publicOwners of each MR are lent for one operation at a time, to lanes that found all
	// others taken.
	publicOwners = 8

	recordLengthBits  = 7
	recordVersionBits = 14
)

// lane is one initiator: half of a QP. It locks one line at a time and has an owner entry in
// every MR that it locks lines of. Only its owner (who holds the CQ's lock) may use it.
type lane struct {
	dev      *device
	state    *atomic.Uint32 // the QP's
	target   *qpEntry       // the peer's QP that must stay up; nil: none
	wordQPN  uint64         // its QPN, as in qpEntry.word >> 8
	cache    [4]hold
	next     uint8
	borrowed hold // public entry of the operation under way
	regions  []weak.Pointer[region]
	rescued  int64 // when the owner of a line was last asked for (nanotime)
	scratch  [lineBytes]byte
	shifted  [lineBytes]byte
}

// hold is an owner entry that a lane has in a region.
type hold struct {
	r    *region
	e    *ownerEntry
	slot uint16
}

// fit reports whether the lane's QP, its target, and the region are still good. It is asked
// under each line lock: an initiator that was fenced while it slept changes nothing.
func (l *lane) fit(r *region) bool {
	if s := l.state.Load(); s != stateRTS && s != stateRTR || !r.live() {
		return false
	}
	return l.target == nil || l.targetUp()
}

func (l *lane) targetUp() bool {
	w := l.target.word.Load()
	s := uint32(w & 0xff)
	return w>>8 == l.wordQPN && (s == stateRTS || s == stateRTR)
}

// hold gives the lane's entry in r, or nil if it can have none now.
func (l *lane) hold(r *region) *hold {
	for i := range l.cache {
		if l.cache[i].r == r {
			return &l.cache[i]
		}
	}
	return l.holdSlow(r)
}

func (l *lane) holdSlow(r *region) *hold {
	if l.borrowed.r == r {
		return &l.borrowed
	}
	r.mu.Lock()
	slot := r.claims[l]
	r.mu.Unlock()
	if slot == 0 {
		if slot = l.claim(r, 1, r.count-publicOwners); slot != 0 {
			r.mu.Lock()
			r.claims[l] = slot
			r.mu.Unlock()
			l.regions = append(l.regions, weak.Make(r))
			l.compactRegions()
		}
	}
	if slot == 0 {
		l.giveBack()
		slot = l.claim(r, r.count-publicOwners+1, publicOwners)
		if slot == 0 {
			return nil
		}
		l.borrowed = hold{r: r, e: r.owner(slot), slot: slot}
		return &l.borrowed
	}
	h := &l.cache[l.next]
	l.next = (l.next + 1) % uint8(len(l.cache))
	*h = hold{r: r, e: r.owner(slot), slot: slot}
	return h
}

// compactRegions forgets regions that are gone, now and then.
func (l *lane) compactRegions() {
	if n := len(l.regions); n < 64 || n&(n-1) != 0 {
		return
	}
	kept := l.regions[:0]
	for _, w := range l.regions {
		if w.Value() != nil {
			kept = append(kept, w)
		}
	}
	l.regions = kept
}

// claim takes a free entry among n from slot first on; one of the dead is freed first.
func (l *lane) claim(r *region, first, n int) uint16 {
	self := l.dev.fab.Self()
	take := func(i int) bool {
		e := r.owner(uint16(i))
		if e.incarnation.Load() != 0 || !e.incarnation.CompareAndSwap(0, self.Incarnation) {
			return false
		}
		e.slot.Store(uint64(self.Slot) + 1)
		return true
	}
	for i := first; i < first+n; i++ {
		if take(i) {
			return uint16(i)
		}
	}
	for i := first; i < first+n; i++ {
		if l.dev.freeIfDead(r, uint16(i)) && take(i) {
			return uint16(i)
		}
	}
	return 0
}

// giveBack ends the loan of a public entry. The lane holds no line lock.
func (l *lane) giveBack() {
	if l.borrowed.r != nil {
		l.borrowed.e.free()
		l.borrowed = hold{}
	}
}

// close frees the lane's entries in all regions.
func (l *lane) close() {
	l.giveBack()
	for _, w := range l.regions {
		r := w.Value()
		if r == nil {
			continue
		}
		r.mu.Lock()
		slot := r.claims[l]
		delete(r.claims, l)
		r.mu.Unlock()
		if slot != 0 {
			r.owner(slot).free()
		}
	}
	l.regions, l.cache = nil, [4]hold{}
}

// free empties an entry whose owner holds no line.
func (e *ownerEntry) free() {
	atomic.StoreUint64(&e.intent, 0)
	e.slot.Store(0)
	e.incarnation.Store(0)
}

// alive reports whether the process that has the entry lives; an empty entry has none.
func (d *device) ownerAlive(e *ownerEntry) bool {
	inc, slot := e.incarnation.Load(), e.slot.Load()
	switch {
	case inc == 0:
		return false
	case slot != 0 && slot <= fabric.MaxProcs:
		return d.fab.Alive(fabric.ProcID{Slot: uint16(slot - 1), Incarnation: inc})
	}
	// Being claimed, or scribbled over.
	for _, p := range d.fab.Peers() {
		if p.Incarnation == inc {
			return true
		}
	}
	return false
}

// freeIfDead frees an entry of a dead process, once the one line that it may have locked is
// recovered.
func (d *device) freeIfDead(r *region, slot uint16) bool {
	e := r.owner(slot)
	inc := e.incarnation.Load()
	if inc == 0 {
		return true
	}
	if d.ownerAlive(e) {
		return false
	}
	if line := atomic.LoadUint64(&e.intent) - 1; line < r.lineCount() {
		w := lineword.Load(r.word(line))
		if w.Locked() && w.Owner() == slot && !d.recoverLine(r, line, w) {
			return false
		}
	}
	if !e.incarnation.CompareAndSwap(inc, recovering) {
		return false
	}
	e.free()
	return true
}

// recovering marks an entry that is being freed; no process has this incarnation in practice.
const recovering = 1<<64 - 1

// recoverLine rolls a line forward or back that a dead owner left locked at w, and unlocks it.
// The caller is not inside an operation on this region. It claims an entry, so that its own
// death on the way leaves the line to the next in the same shape. False: not now.
func (d *device) recoverLine(r *region, line uint64, w lineword.Word) bool {
	p := r.word(line)
	dead := w.Owner()
	if dead == 0 || int(dead) > r.count {
		// Nobody can be that owner: scribbled over.
		return lineword.TakeOver(p, w, 0) && unlocked(p, w)
	}
	slot := d.claimRescuer(r, dead)
	if slot == 0 {
		return false
	}
	e, from := r.owner(slot), r.owner(dead)
	defer e.free()
	atomic.StoreUint64(&e.intent, line+1)
	atomic.StoreUint64(&e.record, 0)
	record := atomic.LoadUint64(&from.record)
	valid := atomic.LoadUint64(&from.recordLine) == line+1 &&
		record>>recordVersionBits == w.Version() && record != 0
	if valid {
		e.data = from.data
		atomic.StoreUint64(&e.recordLine, line+1)
		atomic.StoreUint64(&e.record, record)
	}
	if !lineword.TakeOver(p, w, slot) {
		return true // somebody else was faster, or the owner lived after all
	}
	if valid {
		off, n := record>>recordLengthBits&127, record&127
		if off+n <= lineBytes {
			copy(r.line(line)[off:off+n], e.data[off:off+n])
		}
	}
	return unlocked(p, w)
}

func unlocked(p *uint64, w lineword.Word) bool {
	lineword.Unlock(p, w)
	return true
}

// claimRescuer takes an entry other than that of the dead, the public ones first. Of other dead
// owners it frees those that hold no line: to free the rest would come back here.
func (d *device) claimRescuer(r *region, dead uint16) uint16 {
	self := d.fab.Self()
	for i := r.count; i > 0; i-- {
		e := r.owner(uint16(i))
		if uint16(i) == dead {
			continue
		}
		if inc := e.incarnation.Load(); inc != 0 && i > r.count-publicOwners &&
			!d.ownerAlive(e) && !r.holdsLine(uint16(i), e) &&
			e.incarnation.CompareAndSwap(inc, recovering) {
			e.free()
		}
		if e.incarnation.CompareAndSwap(0, self.Incarnation) {
			e.slot.Store(uint64(self.Slot) + 1)
			return uint16(i)
		}
	}
	return 0
}

// holdsLine reports whether the entry's owner left the line locked that it meant to.
func (r *region) holdsLine(slot uint16, e *ownerEntry) bool {
	line := atomic.LoadUint64(&e.intent) - 1
	if line >= r.lineCount() {
		return false
	}
	w := lineword.Load(r.word(line))
	return w.Locked() && w.Owner() == slot
}

// stage notes in the entry what is about to be stored to a line, so that whoever finds the
// owner dead can finish it. image is the line with the bytes [off, off+n) filled in.
func (e *ownerEntry) stage(line, off, n uint64, w lineword.Word, image *[lineBytes]byte) {
	lineword.StoreRelease(&e.record, 0)
	lineword.CopyLine(&e.data, image)
	lineword.StoreRelease(&e.recordLine, line+1)
	lineword.StoreRelease(&e.record,
		w.Version()<<recordVersionBits|off<<recordLengthBits|n)
}
