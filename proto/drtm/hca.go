package drtm

import "drtmd/proto/onesided"

// recordCommitter is the commit where the CPU's atomics and the NIC's do not exclude each other
// (design decision 3): the state words of the local records that were written are taken by CAS
// through the NIC, in the global order; leases are confirmed; every local record that was read is
// looked at again, because a remote transaction may have locked, written and unlocked it since
// and only its version tells; then the region publishes, and the state words go back by CAS.
type recordCommitter tx

// Confirm is the transaction's.
func (r *recordCommitter) Confirm() bool { return (*tx)(r).Confirm() }

// Lock takes the state words of the local records that were written.
func (r *recordCommitter) Lock() bool {
	t := (*tx)(r)
	if t.e.lacks(HCANoLock) {
		return true
	}
	was := t.F.Shield()
	defer t.F.Unshield(was)
	t.Sort()
	if !t.e.lacks(HCALocalUnnamed) && t.nameLocks(true) != nil {
		return false
	}
	t.Batch.Reset()
	for i := range t.Records {
		if r := &t.Records[i]; r.Own.Local && r.Changes() {
			t.AskLock(r, uint64(t.lockWord()))
		}
	}
	_ = t.Batch.Await(t.F) // each has its own error
	all := true
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Local || r.Own.Hold != onesided.Asked {
			continue
		}
		switch {
		case t.Batch.Err(r.Own.Op) != nil:
			_ = t.Unsure(r, t.Batch.Err(r.Own.Op)) // the region gives the abort
			if t.e.lacks(HCAUnsureForgotten) {
				r.Own.Hold = onesided.Nothing
			}
			all = false
		case t.Batch.Old(r.Own.Op) != r.Own.Word && !t.e.lacks(HCALockUnjudged):
			r.Own.Hold = onesided.Nothing
			all = false
		default:
			r.Own.Hold, r.Own.Word = onesided.Locked, uint64(t.lockWord())
		}
	}
	return all
}

// Validate looks at every local record again that was read: same key, same version, and no lock
// but its own; and at scanned ranges.
func (r *recordCommitter) Validate() bool {
	t := (*tx)(r)
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Local || !r.Loaded || t.e.absenceBelieved(r) {
			continue
		}
		s := t.e.StateNow(r.Own.Off)
		mine := r.Own.Hold == onesided.Locked && s == r.Own.Word
		if !t.e.sameInCommit(t.e.KeyNow(r.Own.Off) == uint64(r.Key),
			t.e.VersionNow(r.Own.Off) == r.Version, mine || !State(s).Locked()) {
			return false
		}
	}
	if t.CheckRanges() != nil {
		return false
	}
	return !t.stores || t.e.lacks(HCALogAfterStores) || t.logWrites() == nil
}

// Unlock gives the state words back, whether or not the commit has taken place.
func (r *recordCommitter) Unlock(published bool) {
	t := (*tx)(r)
	if published && t.stores && t.e.lacks(HCALogAfterStores) {
		_ = t.logWrites()
	}
	was := t.F.Shield()
	defer t.F.Unshield(was)
	t.Batch.Reset()
	for i := range t.Records {
		if r := &t.Records[i]; r.Own.Local && held(r) {
			t.Back(r, false, true)
		}
	}
	_ = t.Batch.Await(t.F) // each has its own error
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Local || !held(r) {
			continue
		}
		if t.Batch.Err(r.Own.Op) != nil && !t.e.lacks(HCANoDebt) {
			t.owe(r, false) // the region has published what was written
		}
		r.Own.Hold = onesided.Nothing
	}
}
