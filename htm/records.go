package htm

import "sync/atomic"

// commitRecords is the commit where there are no line words (design decision 3). Speculation has
// ended before the first call, so the calls may post.
func (r *Region) commitRecords(c RecordCommitter) bool {
	r.end(idle)
	if r.lacks(RecordsValidateFirst) && !c.Validate() {
		return r.unlocked(c, Conflict, 0)
	}
	if !c.Lock() && !r.lacks(RecordsUnlocked) {
		return r.unlocked(c, Conflict, 0)
	}
	r.step(StepRecordsLocked)
	if !c.Confirm() {
		return r.unlocked(c, Explicit, Unconfirmed)
	}
	r.step(StepRecordsConfirmed)
	if !r.lacks(RecordsValidateFirst) && !c.Validate() && !r.lacks(RecordsUnvalidated) {
		return r.unlocked(c, Conflict, 0)
	}
	r.step(StepRecordsValid)
	if r.lacks(RecordsUnlockFirst) {
		c.Unlock(true)
		r.step(StepRecordsUnlocked)
	}
	r.publishPlain()
	r.step(StepRecordsStored)
	if !r.lacks(RecordsUnlockFirst) {
		c.Unlock(true)
	}
	r.step(StepRecordsUnlocked)
	r.Stats.Committed++
	return true
}

// unlocked ends a commit that did not take place.
func (r *Region) unlocked(c RecordCommitter, code Code, arg uint8) bool {
	if !r.lacks(RecordsKeepLocks) {
		c.Unlock(false)
	}
	r.code, r.arg = code, arg
	r.Stats.Aborts[code]++
	return false
}

// publishPlain stores what was written, each word at once, in ascending order within a line. Who
// reads a record meanwhile finds its state locked at one of the two looks, or its version
// changed.
func (r *Region) publishPlain() {
	r.sortWritten()
	for _, at := range r.written {
		l := &r.lines.metas[at]
		to := r.target.line64(l.number)
		for w := range to {
			if l.dirty>>w&1 != 0 {
				atomic.StoreUint64(&to[w], l.image[w])
			}
		}
	}
}
