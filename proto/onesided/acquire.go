package onesided

import (
	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Locks are the words that a protocol puts into records.
type Locks interface {
	// Want is what a record's state word is to be; it sets the record's Part.Word to what is expected
	// there.
	Want(r *Record) (word uint64)
	// Posted is called when all requests of a round are in flight.
	Posted()
	// Judge says what it means that the CAS has found old.
	Judge(r *Record, old uint64) Verdict
}

// Verdict on a request for a record.
type Verdict uint8

// Verdicts.
const (
	Taken     Verdict = iota + 1 // the CAS has succeeded
	Joined                       // what it found serves as well
	Again                        // it can be taken over: the next round expects it
	Refused                      // another's lock
	InUse                        // another's lease
	Elsewhere                    // an own lock, by way of another record's place that was out of date
)

func (v Verdict) String() string {
	return [...]string{"?", "taken", "joined", "again", "refused", "in use", "elsewhere"}[min(v, Elsewhere)]
}

// Round asks for the records from index from to before index to of which the transaction holds nothing
// yet, all at once, and reports whether another round is needed. The fiber is shielded: it learns what
// became of each request.
func Round[L Locks](t *Tx, l L, from, to int) (again bool, err error) {
	t.Batch.Reset()
	for i := from; i < to; i++ {
		r := &t.Records[i]
		if o := &r.Own; o.Hold == Nothing && !o.Local && !o.Stale {
			o.want = l.Want(r)
			t.post(r)
		}
	}
	if t.Batch.Len() == 0 {
		return false, nil
	}
	l.Posted()
	_ = t.Batch.Await(t.F) // each has its own error
	for i := from; i < to; i++ {
		r := &t.Records[i]
		if r.Own.Hold != Asked {
			continue
		}
		old, failed := uint64(0), t.Batch.Err(r.Own.Op)
		if failed != nil {
			err = worse(err, t.Unsure(r, failed))
			continue
		}
		old = t.Batch.Old(r.Own.Op)
		verdict := l.Judge(r, old)
		again = again || verdict == Again
		err = worse(err, t.answer(r, old, verdict))
	}
	return again, err
}

// post asks for one record, and for its content.
func (t *Tx) post(r *Record) {
	if t.base.Near(r) && !t.base.Skips(NearRound) {
		t.postNear(r)
		return
	}
	conn := t.base.peer(r).Conn // both on one queue pair: the READ comes after the CAS
	addr, rkey := t.base.Address(r)
	if t.base.Skips(ReadBehind) {
		t.Batch.Read(t.F, conn, r.SGE, addr, rkey)
	}
	t.askOn(r, conn, addr, rkey)
	if !t.base.Skips(ReadBehind) {
		t.Batch.Read(t.F, conn, r.SGE, addr, rkey)
	}
	t.base.charge(t, t.base.Costs.Ask)
}

// AskLock posts the CAS of a record's state word from Part.Word to a lock, alone. It is on record before
// its answer, so that whatever fails later gives it back.
func (t *Tx) AskLock(r *Record, word uint64) {
	r.Own.want = word
	if t.base.Near(r) {
		t.askNear(r)
		return
	}
	addr, rkey := t.base.Address(r)
	t.askOn(r, t.base.peer(r).Conn, addr, rkey)
}

func (t *Tx) askOn(r *Record, conn *fiber.Conn, addr uint64, rkey uint32) {
	o := &r.Own
	o.Hold, o.Op, o.unsent = Asked, t.Batch.Len(), conn.Err() != nil
	t.Batch.CAS(t.F, conn, addr+layout.StateOffset, rkey, o.Word, o.want)
}

// readErr is the error of the READ of a record.
func (t *Tx) readErr(r *Record) error {
	if t.base.Skips(ReadBehind) {
		return t.Batch.Err(r.Own.Op - 1)
	}
	return t.Batch.Err(r.Own.Op + 1)
}

// Unsure takes a CAS that failed, and gives the abort. Its lock may be there, if it was sent.
func (t *Tx) Unsure(r *Record, err error) error {
	o := &r.Own
	if layout.Locked(o.want) && !o.unsent && !t.base.Skips(OwnerOfUnsure) {
		o.Word = o.want
	} else {
		o.Hold = Nothing // a lease ends by itself
	}
	return t.Unreachable(r, err)
}

// answer takes what the CAS of a record has found.
func (t *Tx) answer(r *Record, old uint64, v Verdict) error {
	b, o := t.base, &r.Own
	o.Hold = Nothing
	switch v {
	case Taken:
		b.Sightings.Released(r.Node, o.Off)
		o.Ensured = false
		if o.Word, o.Hold = o.want, Leased; layout.Locked(o.want) {
			o.Hold = Locked
		}
	case Joined:
		o.Word, o.Hold, o.Ensured = old, Leased, false
	case Again:
		o.Word = old
		return nil
	}
	if err := t.readErr(r); err != nil && !b.Skips(ReadDone) {
		return t.Unreachable(r, err)
	}
	switch {
	case o.Hold != Nothing:
		return t.Check(r)
	case Presence(r) == layout.Stale:
		// The lock may be the transaction's own, for the key that the entry belongs to by now, and would
		// be waited for in vain.
		return t.stale(r)
	case v == Elsewhere:
		o.Stale = true
		return errStale
	case v == InUse:
		return proto.Aborting(proto.ReasonLeased)
	}
	return t.Met(r, old)
}

// Check looks whether the entry that was locked or leased is the key's. Its state word must be as the
// CAS left it: one that was given to the key in between had another.
func (t *Tx) Check(r *Record) error {
	b, o := t.base, &r.Own
	_, v, s := Header(r)
	presence := Presence(r)
	switch {
	case s == o.Word || b.Skips(StateCheck) || b.Skips(ReadBehind):
	case o.Hold == Leased && !layout.Locked(s) && s != 0:
		// A lease that was joined at its very end, and taken again by another in between.
		return proto.Aborting(proto.ReasonLease)
	default:
		presence = layout.Stale
	}
	if presence == layout.Stale {
		if !b.Skips(KeyCheck) {
			return t.stale(r)
		}
		presence = layout.Live
	}
	r.Accept(v, presence == layout.Live)
	return nil
}

// stale takes an entry that is not the key's.
func (t *Tx) stale(r *Record) error {
	r.Own.Stale = true
	t.Drop(r)
	return errStale
}
