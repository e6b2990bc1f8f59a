//go:build linux && amd64

package shm

import (
	"sync/atomic"

	"drtmd/verbs"
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

// localViews and remoteViews bound the MRs that a lane keeps a view of. A request has at most
// verbs.MaxSGE local ones, which must not push each other out.
const (
	localViews  = 8
	remoteViews = 32
)

// lane is one initiator: half of a QP. It locks one line at a time and has an owner entry in
// every MR that it locks lines of. Only its owner (who holds the CQ's lock) may use it.
type lane struct {
	dev      *device
	state    *atomic.Uint32 // the QP's
	good     uint32         // bit s: in state s of the QP the lane may change memory
	target   *qpEntry       // the peer's QP that must stay up; nil: none
	wordQPN  uint64         // its QPN, as in qpEntry.word >> 8
	up       uint64         // qpEntry.word of the target in RTR
	rescued  int64          // when the owner of a line was last asked for (nanotime)
	op       uint32         // number of the operation under way
	inside   uint64         // odd while the lane may touch own MRs; see enter
	unfenced bool           // whoever looks at inside fences for the lane (fenceAll)
	next     uint32         // of local: where to look for one to replace
	local    [localViews]view
	remote   []view // remoteViews, direct mapped by key; nil for a half that only receives
	lent     *view  // has a public entry for the operation under way
	scratch  [lineBytes]byte
	shifted  [lineBytes]byte
}

// view is an MR that a lane uses, with its owner entry there.
type view struct {
	r    *region
	key  uint32      // of a peer's MR
	op   uint32      // operation that used it last
	e    *ownerEntry // nil until the lane locks a line
	slot uint16
}

// enter comes before a lane looks an own MR up whose memory it will touch, leave after the last
// touch: what it finds in between stays mapped. A full fence follows, the lane's own or that of
// fenceAll at the other side: the lane finds an MR gone, or whoever closes it finds the lane
// inside.
func (l *lane) enter() {
	switch {
	case l.inside&1 != 0:
	case l.unfenced:
		lineword.StoreRelease(&l.inside, l.inside+1)
	default:
		atomic.AddUint64(&l.inside, 1)
	}
}

func (l *lane) leave() {
	if l.inside&1 != 0 {
		lineword.StoreRelease(&l.inside, l.inside+1)
	}
}

// visit is a lane that was inside when an MR was closed.
type visit struct {
	lane *lane
	at   uint64
}

// over reports whether the lane has left since. It has not found the MR if it is inside again.
func (v visit) over() bool { return atomic.LoadUint64(&v.lane.inside) != v.at }

// visitsLocked finds the device's lanes that are inside. Caller holds device.mu.
func (d *device) visitsLocked() (vs []visit) {
	for _, q := range d.qps {
		for _, l := range [...]*lane{&q.send.lane, &q.recv.lane} {
			if n := atomic.LoadUint64(&l.inside); n&1 != 0 {
				vs = append(vs, visit{l, n})
			}
		}
	}
	return vs
}

// fit reports whether the lane's QP, its target, and the region are still good. It is asked
// under each line lock: an initiator that was fenced while it slept changes nothing.
func (l *lane) fit(r *region) bool {
	return l.good>>l.state.Load()&1 != 0 && r.live() && (l.target == nil || l.targetUp())
}

// targetUp reports whether the peer's QP is in RTR or RTS.
func (l *lane) targetUp() bool { return l.target.word.Load()-l.up <= uint64(stateRTS-stateRTR) }

// view gives the lane's view of an own MR.
func (l *lane) view(r *region) *view {
	for i := range l.local {
		if v := &l.local[i]; v.r == r {
			v.op = l.op
			return v
		}
	}
	for {
		v := &l.local[l.next%localViews]
		l.next++
		if v.r == nil || v.op != l.op {
			v.drop()
			*v = view{r: r, op: l.op}
			return v
		}
	}
}

// drop frees the owner entry of a view. The lane holds no line lock.
func (v *view) drop() {
	if v.e == nil {
		return
	}
	v.r.mu.Lock()
	defer v.r.mu.Unlock()
	if !v.r.closed {
		v.e.free()
	}
	v.e, v.slot = nil, 0
}

// hold sees to it that the view has an owner entry; false if it can have none now.
func (l *lane) hold(v *view) bool {
	return v.e != nil || l.holdSlow(v)
}

func (l *lane) holdSlow(v *view) bool {
	n := v.r.count - publicOwners
	slot := l.dev.claim(v.r, 1, n)
	if slot == 0 {
		l.giveBack()
		if slot = l.dev.claim(v.r, n+1, publicOwners); slot == 0 {
			return false
		}
		l.lent = v
	}
	v.e, v.slot = v.r.owner(slot), slot
	return true
}

// claim takes a free entry among n from slot first on; one of the dead is freed first.
func (d *device) claim(r *region, first, n int) uint16 {
	self := d.fab.Self()
	take := func(i int) bool {
		e := r.owner(uint16(i))
		if e.incarnation.Load() != 0 || !e.incarnation.CompareAndSwap(0, self.Incarnation) {
			return false
		}
		e.slot.Store(uint64(self.Slot) + 1)
		return true
	}
	start := int(d.nextOwner.Add(1)) % n // where others have not just looked
	for k := range n {
		if i := first + (start+k)%n; take(i) {
			return uint16(i)
		}
	}
	for i := first; i < first+n; i++ {
		if d.freeIfDead(r, uint16(i)) && take(i) {
			return uint16(i)
		}
	}
	return 0
}

// giveBack ends the loan of a public entry. The lane holds no line lock.
func (l *lane) giveBack() {
	if l.lent != nil {
		l.lent.drop()
		l.lent = nil
	}
}

// close frees the lane's entries in all MRs and lets go of the peer's.
func (l *lane) close(p *peer) {
	l.leave() // a hook that panicked has kept it inside
	l.giveBack()
	for i := range l.local {
		l.local[i].drop()
	}
	for i := range l.remote {
		if v := &l.remote[i]; v.r != nil {
			v.drop()
			p.release(v.r)
		}
	}
	if p != nil && l.remote != nil {
		p.mu.Lock()
		p.sweepLocked(true)
		p.mu.Unlock()
	}
	l.local, l.remote = [localViews]view{}, nil
}

// free empties an entry whose owner holds no line.
func (e *ownerEntry) free() {
	atomic.StoreUint64(&e.intent, 0)
	e.slot.Store(0)
	e.incarnation.Store(0)
}

// ownerOf is the incarnation of the process that has the entry, 0 if none has, and whether it lives.
// No incarnation has an entry again after it died: as long as the entry shows that of somebody dead,
// nobody else has had it.
func (d *device) ownerOf(e *ownerEntry) (inc uint64, alive bool) {
	inc = e.incarnation.Load()
	if inc == 0 {
		return 0, false
	}
	slot := e.slot.Load()
	if slot != 0 && slot <= fabric.MaxProcs &&
		d.fab.Alive(fabric.ProcID{Slot: uint16(slot - 1), Incarnation: inc}) {
		return inc, true
	}
	// Dead, or the entry is being claimed and shows the slot of its last owner still.
	for _, p := range d.fab.Peers() {
		if p.Incarnation == inc {
			return inc, true
		}
	}
	return inc, false
}

// rescue looks after a line that is locked at w: it is recovered if its owner is dead.
func (d *device) rescue(r *region, line uint64, w lineword.Word) {
	slot := w.Owner()
	if !w.Locked() {
		return
	}
	var inc uint64
	if slot != 0 && int(slot) <= r.slots() {
		var alive bool
		if inc, alive = d.ownerOf(r.owner(slot)); alive {
			return
		}
	}
	d.recoverLine(r, line, w, inc)
}

// freeIfDead frees an entry of a dead process, once the one line that it may have locked, or the
// commit that it was in, is recovered.
func (d *device) freeIfDead(r *region, slot uint16) bool {
	inc, alive := d.ownerOf(r.owner(slot))
	return inc == 0 || !alive && d.freeDead(r, slot, inc)
}

// freeDead is freeIfDead for the process with incarnation inc, which is dead. Others may do the same
// meanwhile, and lend the entry to somebody who lives: what is read of the entry, its journal and
// its line belongs to the dead only if the entry is still the dead's after that was read.
func (d *device) freeDead(r *region, slot uint16, inc uint64) bool {
	e := r.owner(slot)
	if int(slot) > r.count {
		if !d.recoverCommit(r, slot, inc) {
			return false
		}
	} else if line := atomic.LoadUint64(&e.intent) - 1; line < r.lineCount() {
		w := lineword.Load(r.word(line))
		if e.incarnation.Load() != inc {
			return false
		}
		if w.Locked() && w.Owner() == slot && !d.recoverLine(r, line, w, inc) {
			return false
		}
	}
	return e.freeOf(inc)
}

// freeOf frees the entry of the dead by one store, so that nothing is left to do to an entry that
// may be somebody else's by then: whoever claims it overwrites the rest.
func (e *ownerEntry) freeOf(inc uint64) bool { return e.incarnation.CompareAndSwap(inc, 0) }

// recoverLine rolls a line forward or back that a dead owner left locked at w, and unlocks it.
// The caller is not inside an operation on this region. It claims an entry, so that its own
// death on the way leaves the line to the next in the same shape. inc is the incarnation of the
// owner. A line that only messages are stored to is not rolled forward: that message does not arrive any more, and
// by now the line may have what its owner has stored. False: not now.
func (d *device) recoverLine(r *region, line uint64, w lineword.Word, inc uint64) bool {
	p := r.word(line)
	dead := w.Owner()
	switch {
	case dead == 0 || int(dead) > r.slots():
		// Nobody can be that owner: scribbled over.
		return lineword.TakeOver(p, w, 0) && unlocked(p, w)
	case int(dead) > r.count:
		return d.recoverCommit(r, dead, inc) && d.recoverListed(r, line, w, nil)
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
	valid := r.access&(verbs.AccessRemoteWrite|verbs.AccessRemoteAtomic) != 0 &&
		atomic.LoadUint64(&from.recordLine) == line+1 &&
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
		if i > r.count-publicOwners {
			if inc, alive := d.ownerOf(e); inc != 0 && !alive && !r.holdsLine(uint16(i), e) {
				e.freeOf(inc)
			}
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
