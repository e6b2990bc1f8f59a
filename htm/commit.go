package htm

import (
	"math/bits"
	"slices"
	"sync/atomic"

	"drtmd/internal/invariant"
	"drtmd/verbs/lineword"
)

// Committer is what a commit asks its caller.
type Committer interface {
	// Confirm reports, by the real clock, whether everything outside of the region that it
	// depends on still holds (leases). It runs with the write set locked and before the read
	// set is compared; it must be quick and must not post.
	Confirm() bool
}

// RecordCommitter does what line words do where there are none. The calls come in this order:
// Lock, Confirm, Validate, then, after the publication, Unlock(true). All of them may wait and
// post: the region has ended. Whichever reports false ends the commit; Unlock(false) follows,
// also after Lock, which may have locked a part.
type RecordCommitter interface {
	Committer
	Lock() bool     // the records that were written, in global order
	Validate() bool // state and version of every record that was read
	Unlock(published bool)
}

// Commit ends the region (XEND) and reports whether its stores have taken effect. c may be nil.
// See the package comment for the order of things.
func (r *Region) Commit(c Committer) bool {
	invariant.Assert(r.state != idle, "htm commit without a region")
	if r.state == doomed {
		r.state = idle
		return false
	}
	if r.disturbed() {
		r.state = idle
		return false
	}
	if !r.worded {
		if rc, ok := c.(RecordCommitter); ok {
			return r.commitRecords(rc)
		}
		invariant.Assert(!r.plain || c == nil,
			"htm commit without line words needs a RecordCommitter")
	}
	invariant.Assert(!r.worded || !r.plain, "htm region mixes memory with and without line words")
	if !r.commitLines(c) {
		r.state = idle
		return false
	}
	r.end(idle)
	r.Stats.Committed++
	return true
}

func (r *Region) commitLines(c Committer) bool {
	if r.lacks(ValidateFirst) && r.worded && !r.valid() {
		r.abort(Conflict, 0)
		return false
	}
	if len(r.written) > 0 && r.worded && !r.lock() {
		return false
	}
	if c != nil && !r.lacks(ConfirmLast) {
		if !c.Confirm() {
			r.release(len(r.written))
			r.abort(Explicit, Unconfirmed)
			return false
		}
		r.step(StepConfirmed)
	}
	// Words of written lines must be as lock has left them, so they are compared too.
	if r.worded && r.lines.n > len(r.written) && !r.lacks(NoValidation) &&
		!r.lacks(ValidateFirst) && !r.valid() {
		r.release(len(r.written))
		r.abort(Conflict, 0)
		return false
	}
	if c != nil && r.lacks(ConfirmLast) && !c.Confirm() {
		r.release(len(r.written))
		r.abort(Explicit, Unconfirmed)
		return false
	}
	r.step(StepValidated)
	switch {
	case len(r.written) == 0:
	case r.worded:
		r.publish()
	default:
		r.publishPlain()
	}
	return true
}

// lock takes the lines of the write set, in ascending order; false if the region has aborted.
func (r *Region) lock() bool {
	if len(r.written) > 1 && !r.lacks(NoOrder) {
		r.sortWritten()
	}
	m, s := r.target, &r.lines
	if m.Journal != nil && !r.lacks(Unlisted) && !r.lacks(ListLate) {
		r.list()
		r.step(StepListed)
	}
	for i, at := range r.written {
		c := &s.checks[at]
		switch {
		case r.lacks(NoLock):
			c.seen = c.seen.LockedBy(m.Slot)
			continue
		case r.lacks(LockUnseen):
			if w := lineword.Load(c.word); !w.Locked() {
				c.seen = w
			}
		}
		held := c.seen.LockedBy(m.Slot)
		if !lineword.TryLockAs(c.word, c.seen, held) && !r.lockBusy(c, m.Slot) {
			r.release(i)
			r.abort(Conflict, 0)
			r.rescue(m, s.metas[at].number)
			return false
		}
		c.seen = held
		r.step(StepLocked)
	}
	if m.Journal != nil && r.lacks(ListLate) {
		r.list()
		r.step(StepListed)
	}
	return true
}

// list tells the journal which lines will be locked.
func (r *Region) list() {
	j := &r.target.journal
	for i, at := range r.written {
		j.List(i, uint64(r.lines.metas[at].number))
	}
	j.Locking(len(r.written))
}

// lockBusy is TryLock again on a line that only a reader holds.
func (r *Region) lockBusy(c *check, slot uint16) bool {
	return r.settles(c) && lineword.TryLock(c.word, c.seen, slot)
}

// release gives back the first n lines of the write set, of which none was stored to.
func (r *Region) release(n int) {
	if !r.worded || len(r.written) == 0 || r.lacks(KeepLines) || r.lacks(NoLock) {
		return
	}
	for _, at := range r.written[:n] {
		c := &r.lines.checks[at]
		lineword.Restore(c.word, c.seen)
	}
	r.idle()
}

// idle tells the journal that the commit is over.
func (r *Region) idle() {
	if m := r.target; m.Journal != nil && !r.lacks(NeverIdle) {
		m.journal.Idle()
	}
}

// sortWritten orders the write set by line number. It is mostly short, and often in order already.
func (r *Region) sortWritten() {
	a, of := r.written, r.lines.metas
	if len(a) > fewWritten {
		r.sortMany()
		return
	}
	for i := 1; i < len(a); i++ {
		x := a[i]
		j := i
		for ; j > 0 && of[a[j-1]].number > of[x].number; j-- {
			a[j] = a[j-1]
		}
		a[j] = x
	}
}

// fewWritten is up to how many lines are sorted by insertion.
const fewWritten = 16

// sortMany is sortWritten for many lines: their numbers are sorted together with their positions, which are below
// maxLines.
func (r *Region) sortMany() {
	r.order = r.order[:0]
	for _, at := range r.written {
		r.order = append(r.order, uint64(r.lines.metas[at].number)*maxLines|uint64(at))
	}
	slices.Sort(r.order)
	for i, x := range r.order {
		r.written[i] = int32(x % maxLines)
	}
}

// publish makes the stores take effect: once the journal says so, they have.
func (r *Region) publish() {
	m, s := r.target, &r.lines
	if !r.lacks(CommitLate) {
		r.committed()
	}
	if r.lacks(IdleEarly) {
		r.idle()
	}
	for _, at := range r.written {
		l, c := &s.metas[at], &s.checks[at]
		if r.lacks(UnlockFirst) {
			lineword.Unlock(c.word, c.seen)
			r.step(StepPublished)
			l.image.store(m, l)
			continue
		}
		l.image.store(m, l)
		r.step(StepStored)
		if r.lacks(NoVersion) {
			lineword.Restore(c.word, c.seen)
		} else {
			lineword.Unlock(c.word, c.seen)
		}
		if r.cfg.Published != nil {
			r.cfg.Published(m, l.number)
		}
		r.step(StepPublished)
	}
	if r.lacks(CommitLate) {
		r.committed()
	}
	r.idle()
}

// committed tells the journal that the commit has taken place, and the new lines.
func (r *Region) committed() {
	j := &r.target.journal
	if r.target.Journal == nil {
		return
	}
	if !r.lacks(NoImages) {
		for i, at := range r.written {
			j.Image(i, r.lines.metas[at].image.bytes())
		}
	}
	j.Committed(len(r.written))
	r.step(StepCommitted)
}

// store copies the words that were written to memory. The caller holds the line. They mostly follow each other.
func (p *image) store(m *Memory, l *meta) {
	to := m.line64(l.number)
	w := bits.TrailingZeros8(l.dirty)
	for d := l.dirty >> w; d != 0; d >>= 1 {
		if at := w % lineWords; d&1 != 0 && raceEnabled {
			atomic.StoreUint64(&to[at], p[at])
		} else if d&1 != 0 {
			to[at] = p[at]
		}
		w++
	}
}

func (r *Region) step(name string) {
	if r.cfg.Step != nil {
		r.cfg.Step(name)
	}
}
