package occ

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/onesided"
	"drtmd/proto/recovery"
	"drtmd/proto/txset"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/verbs"
)

// tx implements proto.Tx. One fiber has it between Begin and the end. Part.Hold says of a record
// whether it is locked, or whether that was asked for without an answer. Part.Local says that the
// record is not for one-sided verbs in the present round, or done.
type tx struct {
	onesided.Tx
	e     *Engine
	word  onesided.Word
	calls []*call
	asked int // of calls, in this round
	trips uint64
	looks txset.Buffers // what READs prove, by index of the record
	peeks bool          // nothing is locked
	lone  bool          // one record is declared
	dated []dated       // scratch of dateAbsences

	epoch uint64 // of the view in which the attempt began
	inLog bool   // it has begun LOG, and is not decided on all nodes
	// verdict is what its coordinator has decided when the view changed; 0: nothing.
	verdict recovery.Decision

	regions bool // the own node's records are the commit's region's
	settled bool // that region has committed
	// placed: it has committed updates that are not logged. Only carryOut may end the transaction then, and the
	// phase that commitRegion has begun.
	placed bool

	// Of LOG (backup.go).
	name     recovery.Name
	bodies   []int // bytes of the record for each node; 0: there is none
	rooms    []log.Reservation
	at       []*backup // whose rooms they are
	reserved bool      // rooms has room
	locksAll bool      // this LOCK is about all records
	holders  []proto.NodeID
	logs     []logged
	// Of LOG that locks (onetrip.go).
	own     undo           // what is locked and replaced in backups on the own machine
	denied  error          // a replica could not lock what the transaction needs
	unended []proto.NodeID // that have not confirmed how it ended
	out     *verbs.MR      // the records, as they lie in logs
	text    []byte
}

// Load is EXECUTE for the records from index from to before index to: it reads them, and locks those
// to be written where the strategy locks early. After an error some may be locked: finish gives them
// back.
func (t *tx) Load(from, to int) error {
	if err := t.F.Err(); err != nil || from == to {
		return err
	}
	was := t.F.Shield()
	defer t.F.Unshield(was)
	if err := t.e.view.begin(t); err != nil {
		return err
	}
	defer t.e.view.end()
	if err := t.e.view.reaches(t, from, to); err != nil {
		return err
	}
	t.F.Step(stepExecute)
	err := t.acquire(proto.PhaseExecute, from, to, t.executed)
	t.F.Step(stepExecuted)
	if err == nil {
		t.manage(from, to)
	}
	return err
}

// manage charges what software does to the records that EXECUTE has brought.
func (t *tx) manage(from, to int) {
	ps := int64(0)
	for i := from; i < to; i++ {
		ps += t.e.strategy.Software.Record(t.Records[i].Mode > proto.ModeRead)
	}
	t.F.Charge(ps)
}

// executed is what EXECUTE does to a record.
func (t *tx) executed(r *record) (f flags, ok bool) {
	if r.Loaded {
		return 0, false
	}
	if t.e.early && (r.Mode >= proto.ModeWrite || t.locksRead(r)) && !t.peeks && !t.regional(r) {
		return flagRead | flagLock, true
	}
	return flagRead, true
}

// locksRead reports whether a record is locked though it is only read: where LOCK is about all records, those
// that the CPU does not lock.
func (t *tx) locksRead(r *record) bool {
	if t.e.strategy.LocksAll {
		return t.locksAll && !t.e.lacks(readsUnlocked)
	}
	return t.e.strategy.Steps[proto.PhaseLock].Records&ReadSet != 0 && !t.e.byCPU(r, true)
}

// acquire reads or locks records, those of the own node first, since a refusal costs nothing there,
// then those of all others at once.
func (t *tx) acquire(p proto.Phase, from, to int, which func(*record) (flags, bool)) error {
	defer t.countTrips(p)
	t.asked = 0
	byVerbs := false
	if p == proto.PhaseExecute && t.e.strategy.Gathers {
		if err := t.gather(from, to); err != nil {
			return err
		}
	} else if p == proto.PhaseExecute && to-from > 1 {
		t.lookAhead(from, to, which)
	}
	for i := from; i < to; i++ {
		r := &t.Records[i]
		f, ok := which(r)
		if r.Own.Local = true; !ok {
			continue
		}
		by := t.e.strategy.by(proto.PhaseExecute)
		if f&flagLock != 0 {
			by = t.e.strategy.by(proto.PhaseLock)
		}
		x := item{table: r.Table, flags: f, key: r.Key, version: r.Version}
		switch {
		case f == flagRead && t.readBackup(r):
		case t.e.byCPU(r, f&flagLock != 0):
			if err := t.acquireHere(r, &x); err != nil {
				return err
			}
		case by == OneSided:
			r.Own.Local, byVerbs = false, true
		default:
			t.add(by, TypeAcquire, i, &x)
		}
	}
	t.send(p)
	for _, c := range t.calls[:t.asked] {
		for _, i := range c.records {
			if f, _ := which(&t.Records[i]); f&flagLock != 0 && c.err == nil {
				t.Records[i].Own.Hold = onesided.Asked
			}
		}
	}
	var err error
	if byVerbs {
		err = t.acquireByVerbs(p, from, to, which)
	}
	t.await(p)
	for _, c := range t.calls[:t.asked] {
		err = first(err, t.acquiredThere(c, which))
	}
	return err
}

// acquireHere is acquire for a record of the own node.
func (t *tx) acquireHere(r *record, x *item) error {
	t.F.Charge(recordCostPs)
	var dst []byte
	if x.flags&flagRead != 0 {
		dst = r.Value
	}
	x.at = r.Own.Off
	t.e.lookedUp(t.e.Here(r), r.Table, r.Key)
	there, c := t.e.acquireHere(t.F, t.e.Here(r), x, t.word, dst)
	if c != done {
		return t.refusedHere(r, c, &there)
	}
	t.acquired(r, x.flags, there.version(), there.off)
	return nil
}

// refusedHere is the abort of a record of the own node.
func (t *tx) refusedHere(r *record, c code, there *found) error {
	h := head{code: c, state: onesided.Word(there.head.State), version: there.head.Version, off: there.off}
	return t.refusal(r, &h)
}

// acquiredThere takes the answer to a call.
func (t *tx) acquiredThere(c *call, which func(*record) (flags, bool)) error {
	if c.err != nil {
		return t.Unreachable(&t.Records[c.records[0]], c.err) // what was asked for may be locked
	}
	err := t.refused(c)
	rest := c.rest
	if t.e.lacks(answersSwapped) && len(c.records) > 1 && err == nil {
		t.swapAnswers(c, which)
	}
	for _, i := range c.records {
		r := &t.Records[i]
		f, _ := which(r)
		if err != nil { // all are taken, or none
			r.Own.Hold = onesided.Nothing
			continue
		}
		var value []byte
		if f&flagRead != 0 {
			value = r.Value
		}
		v, off, behind, ok := c.item(rest, value)
		if !ok {
			return errAnswer
		}
		rest = behind
		t.acquired(r, f, v, off)
	}
	return err
}

// swapAnswers is the mutation answersSwapped, where both answers are of one length.
func (t *tx) swapAnswers(c *call, which func(*record) (flags, bool)) {
	a, b := &t.Records[c.records[0]], &t.Records[c.records[1]]
	f, _ := which(a)
	if g, _ := which(b); a.Table == b.Table && f == g && f&flagRead != 0 {
		c.records[0], c.records[1] = c.records[1], c.records[0]
	}
}

// acquired takes down what was read, or locked.
func (t *tx) acquired(r *record, f flags, v layout.Version, off uint64) {
	r.Own.Off, r.Own.Found, r.Own.Elsewhere = off, off != 0, false
	t.e.Sightings.Released(r.Node, off)
	if f&flagLock != 0 {
		r.Own.Hold = onesided.Locked
	}
	if !r.Loaded {
		r.Take(v, v.Live())
	} else if !r.Was {
		r.Version = v // of the entry that was made, which is what its versions go on from
	}
}

// lockWrites is LOCK: what is written, and is not locked yet.
func (t *tx) lockWrites() error {
	if err := t.e.view.begin(t); err != nil {
		return err
	}
	defer t.e.view.end()
	t.F.Step(stepLock)
	t.locksAll = t.e.strategy.LocksAll && t.changes()
	err := t.acquire(proto.PhaseLock, 0, len(t.Records), t.toBeLocked)
	t.F.Step(stepLocked)
	return err
}

func (t *tx) toBeLocked(r *record) (flags, bool) {
	f := flagLock | flagCompare
	if !r.Changes() && t.e.lacks(readsAnyVersion) {
		f = flagLock
	}
	if t.e.locksInLog() && r.Node != t.e.Env.Node {
		return 0, false // LOG locks it
	}
	return f, (r.Changes() || r.Loaded && t.locksRead(r)) &&
		r.Own.Hold == onesided.Nothing && !t.regional(r)
}

// validate is VALIDATE: what was read, and is not locked. A transaction of one record needs none, for it
// has read it at one moment. At a backup that is not enough where others only validate what they read: see readsAlone.
func (t *tx) validate() error {
	if t.readsAlone() || t.e.lacks(noValidate) {
		return nil
	}
	if err := t.e.view.begin(t); err != nil {
		return err
	}
	defer t.e.view.end()
	defer t.countTrips(proto.PhaseValidate)
	t.F.Step(stepValidate)
	t.asked = 0
	by, byVerbs := t.e.strategy.by(proto.PhaseValidate), false
	for i := range t.Records {
		r := &t.Records[i]
		if t.locksAll {
			break // all are locked
		}
		if r.Own.Local = true; !r.Loaded || r.Own.Hold != onesided.Nothing || t.settled && t.regional(r) {
			continue
		}
		x := item{table: r.Table, key: r.Key, version: r.Version}
		if r.Own.Elsewhere {
			if t.e.lacks(backupUnvalidated) {
				continue
			}
			if s := t.e.replica(r.At.Shard); t.e.lacks(validateAtBackup) && s != nil {
				if there, c := t.e.validateHere(s, &x); c != done {
					return t.refusedHere(r, c, &there)
				}
				continue
			}
		}
		switch {
		case t.e.byCPU(r, false):
			t.F.Charge(recordCostPs)
			x.at = r.Own.Off
			t.e.lookedUp(t.e.Here(r), r.Table, r.Key)
			if there, c := t.e.validateHere(t.e.Here(r), &x); c != done {
				return t.refusedHere(r, c, &there)
			}
		case by == 0: // it was locked, but for a mutation
		case by == OneSided:
			r.Own.Local, byVerbs = false, true
		default:
			t.add(by, TypeValidate, i, &x)
		}
	}
	t.send(proto.PhaseValidate)
	var err error
	if byVerbs {
		err = t.validateByVerbs()
	}
	t.await(proto.PhaseValidate)
	for _, c := range t.calls[:t.asked] {
		if c.err != nil {
			err = first(err, t.Unreachable(&t.Records[c.records[0]], c.err))
			continue
		}
		err = first(err, t.refused(c))
	}
	t.F.Step(stepValidated)
	return err
}

// readsAlone reports whether the transaction reads one record, and nothing can have come between. Dandelion's GetOne
// (§4.2.1) reads at a backup, too. With Dnl-4 that is not strictly serializable: a transaction that has read A and
// writes B has validated A, and its LOG has not reached the backup of B; another changes A, and ends; a GetOne that
// begins then would find the B of before. If reads are locked until the LOG is everywhere, A cannot change meanwhile.
func (t *tx) readsAlone() bool {
	if len(t.Records) != 1 || len(t.Ranges) > 0 || t.Records[0].Changes() {
		return false
	}
	return !t.Records[0].Own.Elsewhere || t.e.strategy.LocksAll || t.e.lacks(backupUnvalidated)
}

// release is COMMIT, with the updates, or the end of an attempt without effect: it unlocks everything.
// What was not confirmed stays on record, and is owed.
func (t *tx) release(p proto.Phase) {
	defer t.countTrips(p)
	if t.e.strategy.by(proto.PhaseCommit) == OneSided {
		t.releaseByVerbs(p)
		return
	}
	t.writeFirst(p)
	t.releaseThere(p, 0)
}

// writeFirst is the first round of a COMMIT that has two.
func (t *tx) writeFirst(p proto.Phase) {
	if t.e.strategy.Serial && p == proto.PhaseCommit {
		t.releaseThere(p, flagKeep)
		t.countTrips(p)
	}
}

// releaseThere is a round of release: with flagKeep the updates are written, and what is locked stays so.
func (t *tx) releaseThere(p proto.Phase, keep flags) {
	t.askRelease(p, keep)
	t.await(p)
	t.releasedThere(keep)
}

// askRelease sends the requests of such a round.
func (t *tx) askRelease(p proto.Phase, keep flags) {
	t.asked = 0
	skipped := t.e.Env.Node // of the mutation: the first node that is met
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Hold == onesided.Nothing || r.Node == t.e.Env.Node || keep != 0 && !r.Changes() {
			continue
		}
		if t.e.lacks(forgottenNode) && p != proto.PhaseCommit && (skipped == t.e.Env.Node || skipped == r.Node) {
			skipped, r.Own.Hold = r.Node, onesided.Nothing
			continue
		}
		if t.e.lacks(readLocksLeft) && p != proto.PhaseCommit && r.Mode == proto.ModeRead {
			r.Own.Hold = onesided.Nothing
			continue
		}
		x := t.update(r)
		x.flags |= keep
		t.add(t.e.strategy.by(proto.PhaseCommit), TypeRelease, i, &x)
	}
	if t.sendsEnds() && keep == 0 {
		t.askEnds(true)
	}
	t.send(p)
	if keep == 0 {
		t.releaseHere()
	}
}

// releasedThere takes the answers.
func (t *tx) releasedThere(keep flags) {
	if t.sendsEnds() {
		t.ended()
	}
	for _, c := range t.calls[:t.asked] {
		if c.err != nil {
			continue
		}
		for n, i := range c.records {
			r := &t.Records[i]
			if c.head.code != done && n == c.head.index && r.Own.Hold != onesided.Asked {
				t.lost(r)
				continue
			}
			if r.Own.Stored = r.Changes(); keep == 0 {
				r.Own.Hold = onesided.Nothing
			}
		}
	}
}

// byCPU reports whether the CPU has locked a record.
func (t *tx) byCPU(r *record) bool { return t.e.byCPU(r, true) || t.regional(r) }

// releaseHere is release for the records that the CPU has locked.
func (t *tx) releaseHere() {
	for i := range t.Records {
		r := &t.Records[i]
		if r.Own.Hold == onesided.Nothing || !t.byCPU(r) {
			continue
		}
		t.F.Charge(recordCostPs)
		x := t.update(r)
		x.at = r.Own.Off
		if t.e.releaseHere(t.F, t.e.Here(r), &x, t.word) != done {
			t.lost(r)
			continue
		}
		t.released(r)
	}
}

// errLost is of a lock that a node has given to another while its transaction held it.
var errLost = errors.New("a lock was not its holder's any more; all nodes must run the same version")

// lost takes a lock that is not there any more: an update of its record is not confirmed.
func (t *tx) lost(r *record) {
	t.e.note(fmt.Errorf("node %d, table %d, key %d: %w", r.Node, r.Table, r.Key, errLost))
	r.Own.Hold = onesided.Nothing
}

// update is a record's item of a release.
func (t *tx) update(r *record) item {
	x := item{table: r.Table, key: r.Key}
	if !r.Changes() || r.Own.Stored {
		return x
	}
	if t.e.strategy.LogsPrimary && t.inLog && r.Node != t.e.Env.Node {
		return x // the log has brought it there
	}
	x.flags, x.version = flagWrite, r.Next()
	if r.Is {
		x.flags, x.value = flagWrite|flagValue, r.Value
	}
	return x
}

func (t *tx) released(r *record) {
	r.Own.Hold, r.Own.Stored = onesided.Nothing, r.Changes()
}

// first is the first error of two.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// forgetWrites takes back what the program has written.
func (t *tx) forgetWrites() {
	for i := range t.Records {
		r := &t.Records[i]
		r.Dirty, r.Is = false, r.Was
	}
}

// finish ends the attempt without effect.
func (t *tx) finish(o history.Outcome) {
	f := t.F
	was := f.Shield()
	defer f.Unshield(was)
	if f.Err() != nil {
		return // the node was killed: what is locked stays so
	}
	t.endWithout(o)
	if !t.e.view.beginRelease(t) {
		return // the node was killed
	}
	t.release(proto.PhaseExecute)
	t.e.view.end()
	f.Step(stepReleased)
	t.leave()
}

// finishInPhase is finish of whoever is in a phase: it does not wait for a change of the view, which waits for it.
func (t *tx) finishInPhase(o history.Outcome) {
	f := t.F
	was := f.Shield()
	defer f.Unshield(was)
	if f.Err() != nil {
		return // as in finish
	}
	t.endWithout(o)
	t.release(proto.PhaseExecute)
	f.Step(stepReleased)
	t.leave()
}

// endWithout ends the attempt without effect, before its locks are given back.
func (t *tx) endWithout(o history.Outcome) {
	t.End(o)
	t.forgetWrites()
	t.F.Step(stepAbort)
	t.unreserve()
}
