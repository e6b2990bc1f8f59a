package drtm

import (
	"fmt"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Figure 9(a), top to bottom: START, LocalTX, COMMIT. Figure 10 is in remote.go and local.go; the other
// ways in which an attempt can run are in readonly.go and fallback.go.

// way is how an attempt runs.
type way struct {
	// byVerbs: the local records are reached by verbs, too.
	byVerbs bool
	// start is START, up to where the program runs. load gives the program a local record. commit
	// takes the attempt to the point at which the transaction has taken place, if what it saw holds;
	// rollback only says whether it does.
	start func(*tx) error
	load  func(*tx, *record) error
	// complete loads more lines of a local record that was loaded in part; nil: all are loaded as a whole.
	complete func(*tx, *record, lineSet) error
	commit   func(*tx) error
	rollback func(*tx) error
}

// regional is Figure 8(a): local records in a region, others locked and leased before.
var regional = way{start: (*tx).startRegion, load: (*tx).readLocal, complete: (*tx).completeLocal,
	commit:   func(t *tx) error { return t.xend(true) },
	rollback: func(t *tx) error { return t.xend(false) }}

// Begin implements proto.Engine. What fails gives every lock back.
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	if attempt == 0 {
		e.Counters.Begun++
	}
	if e.spare.any() {
		e.spare.sweep(f, false)
	}
	part, err := e.subscribe(f, d)
	if err != nil {
		return nil, err
	}
	t := e.take(d, attempt)
	t.open(d, attempt)
	t.part = part
	t.Open(f, d)
	return t.begin(d)
}

// begin is START of an attempt that is open.
func (t *tx) begin(d *proto.Decl) (proto.Tx, error) {
	t.e.Ahead.Prefetch(d)
	err := t.Declare(d)
	if err == nil {
		err = t.athome(d)
	}
	if err == nil {
		t.F.Charge(costBegin)
		if err = t.divide(); err == nil {
			err = t.takeSlot()
		}
		if err == nil {
			err = t.way.start(t)
		}
	}
	if err != nil {
		t.Abort(err)
		return nil, err
	}
	return t, nil
}

// divide says which records are reached by verbs: those of other machines; all, if the way wants it;
// and without line words those to be inserted, whose entries have to be made, unless the CPU has their state words.
// It refuses those that their machine keeps to itself.
func (t *tx) divide() (err error) {
	e, own := t.e, t.e.Env.Node
	byCPU, parts := e.glob && !t.way.byVerbs, e.glob && t.way.complete != nil
	for i := range t.Records {
		r := &t.Records[i]
		here, inserted := r.Node == own, r.Mode == proto.ModeInsert
		r.Own.Local = here && (byCPU || !t.way.byVerbs && (!inserted || e.Near(r)))
		r.Own.Ask = inserted && !here // its machine finds the entry if there is one
		if !here && e.Env.Specs[r.Table-1].AtHome {
			err = e.notAtHome(r.Table, r.Node, fmt.Sprintf("key %d", r.Key))
		}
		if parts && here && len(r.Image) > layout.LineBytes {
			if a := &t.decl.Accesses[i]; a.InFields() {
				r.Lines = partOf(a, len(r.Image))
			}
		}
		t.remote = t.remote || !r.Own.Local
	}
	return err
}

// startRegion is START.
func (t *tx) startRegion() error {
	if err := t.lockRemote(); err != nil {
		return err
	}
	n := t.locate()
	if n > 0 {
		t.xbegin(n)
	}
	t.together = t.e.glob && n >= fewLocal
	return nil
}

// fewLocal is up to how many local records are loaded one by one, as the program touches them.
const fewLocal = 8

// lockRemote is START, lines 1 to 7: it locks the records to be written, leases the others until a
// common end, and READs all of them. Everything of a round is in flight at once.
func (t *tx) lockRemote() error {
	if !t.remote {
		return nil
	}
	if err := t.Locate(0, len(t.Records)); err != nil {
		return err
	}
	if !t.e.lacks(LockBeforeLog) {
		if err := t.nameLocks(false); err != nil {
			return err
		}
	}
	t.leaseTo = t.leaseEnd()
	for range startRounds + 1 {
		was := t.F.Shield()
		again, err := onesided.Round(&t.Tx, t, 0, len(t.Records))
		t.F.Unshield(was)
		switch {
		case err != nil:
			return err
		case !again:
			t.F.Step("drtm: after lock")
			if t.e.lacks(LockBeforeLog) {
				if err := t.nameLocks(false); err != nil {
					return err
				}
			}
			return t.usable()
		}
	}
	return proto.Aborting(proto.ReasonConflict)
}

// startRounds bounds how often START repeats a CAS with the state that the last one found.
const startRounds = 4

// usable refuses leases that were joined too late to be of use.
func (t *tx) usable() error {
	if t.end != 0 && !t.valid() && !t.e.startUnjudged() {
		t.e.Counters.LeaseWaits++
		return proto.Aborting(proto.ReasonLease)
	}
	return nil
}

// locate finds the local records outside of any region, and says how many there are: a stale place
// shows inside.
func (t *tx) locate() (n int) {
	e := t.e
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Local {
			continue
		}
		n++
		if r.Mode == proto.ModeInsert && e.glob {
			continue // the region will look: there is none, most of the time
		}
		off, found := e.tables[r.Table-1].Find(r.Key)
		r.Own.Off, r.Own.Found = uint64(off), found
		if found && e.glob {
			t.prefetch(r)
		}
		if !found && e.entryNeeded() {
			// Without line words only an entry can say that there is no record.
			off, c := t.EnsureHere(r)
			r.Own.Off, r.Own.Found = off, c == onesided.Done
		}
	}
	return n
}

// xbegin is START, line 8: the region of LocalTX. From here on the fiber must not wait.
func (t *tx) xbegin(records int) {
	t.F.Charge(costFind * int64(records))
	t.F.Step("drtm: before XBEGIN")
	t.region.Begin()
	t.inRegion = true
	t.e.Counters.RegionRuns++
}

// Load implements txset.Loader, for a local record that the program touches, or for records that a scan has
// found. Others that are reached by verbs were read by START.
func (t *tx) Load(from, to int) error {
	if !t.Records[from].Own.Local {
		return t.loadFound(from, to)
	}
	if t.together && t.way == &regional {
		return t.loadTogether(from)
	}
	t.F.Charge(costAccess)
	t.F.Step("drtm: before access")
	return t.way.load(t, &t.Records[from])
}

// Commit implements proto.Tx: COMMIT, in the order of design decision 6.
func (t *tx) Commit() error {
	err := t.Err
	if err == nil {
		err = t.way.commit(t)
	}
	if err != nil {
		t.Abort(err)
		return err
	}
	// The transaction has taken place. Whatever happens now it stays committed: its local writes may
	// have been read, and a remote record that cannot be reached stays locked, so that nobody reads the
	// value before, until the update is made (Finish) or the machine's recovery makes it.
	t.NoteWrites()
	t.F.Step("drtm: after commit")
	if t.ticket != 0 {
		if t.e.lacks(LogReclaimedEarly) {
			t.leaveSlot()
		}
		t.release(true)
		if err := t.logLate(); err != nil {
			return err
		}
	}
	if t.way == &fallback {
		t.e.Counters.CommittedFallen(t.decl.Kind)
	}
	if !t.pieceDone() {
		t.e.Counters.Committed++
	}
	f, h := t.F, &t.e.spare
	t.close(history.Committed)
	if h.deleted.n > 0 && !t.e.glob {
		h.look(f, &h.deleted, h.deleted.n, false)
	}
	return nil
}

// Rollback implements proto.Tx: no effect, if what the program saw was a valid view.
func (t *tx) Rollback() error {
	err := t.Err
	switch {
	case err != nil:
	case t.e.rollbackUnjudged(t.decl):
		t.leaveRegion()
	default:
		err = t.way.rollback(t)
	}
	if err != nil {
		t.Abort(err)
		return err
	}
	if t.ticket != 0 {
		t.release(false)
	}
	t.e.Counters.RolledBack++
	t.close(history.UserAborted)
	return nil
}

// Abort implements proto.Tx: ABORT. It leaves the region and gives every lock back. The runner counts
// the cause.
func (t *tx) Abort(error) {
	if t.ended {
		return
	}
	t.leaveRegion()
	t.F.Step("drtm: abort")
	if t.ticket != 0 && !t.e.lacks(AbortKeepsLocks) {
		t.release(false)
	}
	t.close(history.Aborted)
}

// xend is COMMIT, lines 1 to 4: it ends the region, with the writes or without. Without local records
// there is no region: the locks are all held, and the leases' confirmation is the point.
func (t *tx) xend(store bool) error {
	if err := t.confirmedEarly(); err != nil {
		return err
	}
	if !t.inRegion {
		if !t.confirmed(NoConfirmRemote) {
			return proto.Aborting(proto.ReasonLease)
		}
		if err := t.spent(store); err != nil || !store {
			return err
		}
		return t.logWrites()
	}
	if store {
		if err := t.writeLocal(); err != nil {
			return err
		}
		if err := t.spent(store); err != nil {
			return t.leave(proto.ReasonFull)
		}
		t.NoteWrites()
		if err := t.logInRegion(); err != nil {
			return err
		}
	}
	t.stores = store
	t.F.Charge(costCommit)
	var c htm.Committer // of a region that has nothing to confirm: none
	switch {
	case !t.e.glob:
		c = (*recordCommitter)(t)
	case t.end != 0:
		c = t
	}
	if !t.region.Commit(c) {
		return t.regionOver()
	}
	t.inRegion = false
	if t.deletes {
		t.forgetDeleted(true)
	}
	return nil
}

// Confirm is COMMIT, lines 1 to 3: whether all leases are still valid. The commit of the region calls
// it with the write set locked: that is when the transaction takes place.
func (t *tx) Confirm() bool { return t.end == 0 || t.e.confirmUnjudged() || t.valid() }

// spent aborts if a remote record's incarnations are used up, while that is still possible.
func (t *tx) spent(store bool) error {
	if !store || !t.remote {
		return nil
	}
	for i := range t.Records {
		if r := &t.Records[i]; !r.Own.Local && t.e.usedUp(r) {
			return proto.Aborting(proto.ReasonFull)
		}
	}
	return nil
}

// release is COMMIT, lines 5 to 7: REMOTE_WRITE_BACK of all records at once, the updates only with
// commit. What cannot be done because the machine is gone, its queue pair having used up its retries,
// is owed. Shielded: a cancellation keeps no lock.
func (t *tx) release(commit bool) {
	was := t.F.Shield()
	defer t.F.Unshield(was)
	t.F.Step("drtm: before release")
	t.Batch.Reset()
	for i := range t.Records {
		if r := &t.Records[i]; held(r) {
			t.Back(r, commit && r.Changes(), true)
			t.oneByOne()
		}
	}
	_ = t.Batch.Await(t.F) // each has its own error
	t.F.Step("drtm: after release")
	for i := range t.Records {
		r := &t.Records[i]
		if !held(r) {
			continue
		}
		if !t.Confirmed(r) {
			t.owe(r, commit && r.Changes())
		}
		r.Own.Hold = onesided.Nothing
	}
	if commit {
		t.forgetDeleted(false)
	}
}

// held reports whether a record is locked, or may be.
func held(r *record) bool { return r.Own.Hold == onesided.Locked || r.Own.Hold == onesided.Asked }

// forgetDeleted tells the machines of deleted records, local ones or those by verbs, that their entries
// can be given back. A machine that is not told learns it from the next scan, or when it needs the room.
func (t *tx) forgetDeleted(local bool) {
	for i := range t.Records {
		r := &t.Records[i]
		switch {
		case r.Own.Local != local || r.Is || !r.Was || !r.Dirty:
		case r.Node == t.e.Env.Node:
			t.e.spare.forget(r.Table, r.Key)
		default:
			t.Forget(i)
		}
	}
}
