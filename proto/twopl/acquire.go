package twopl

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Marked steps of locking.
const (
	stepLocate = "twopl: before lookup"
	stepLock   = "twopl: before lock"
	stepLocked = "twopl: after lock"
)

// relocations bounds how often the records of one acquire are looked up again, because what was
// locked turned out to belong to another key.
const relocations = 8

// acquire locks and reads the records from index first on. After an error some may be locked:
// finish gives them back.
func (t *tx) acquire(first int) error {
	if first == len(t.records) {
		return nil
	}
	t.f.Step(stepLocate)
	for range relocations {
		if err := t.locate(first); err != nil {
			return err
		}
		t.f.Step(stepLock)
		was := t.f.Shield()
		err := t.lock(first)
		again := false
		if err == nil {
			again, err = t.giveStaleBack(first)
		}
		if err == nil && !again {
			err = t.giveAbsentBack(first)
		}
		t.f.Unshield(was)
		if err != nil || !again {
			t.f.Step(stepLocked)
			return err
		}
	}
	return proto.Aborting(proto.ReasonStale)
}

// lock asks for the locks that are not held: by the CPU where it may, since a refusal there costs
// nothing, then of the devices, all at once, with a READ behind each request.
func (t *tx) lock(first int) error {
	for i := first; i < len(t.records); i++ {
		r := &t.records[i]
		if r.lock != lockHeld && t.cpuLocal(r) {
			t.f.Charge(cpuLockCostPs)
			if t.cpuLock(r) == cpuRefused {
				return proto.Aborting(t.met(r, r.state()))
			}
		}
	}
	t.batch.Reset()
	for i := first; i < len(t.records); i++ {
		r := &t.records[i]
		if r.lock == lockHeld || r.is == layout.Stale {
			continue
		}
		t.f.Charge(recordCostPs)
		p := &t.e.cfg.Peers[r.node]
		addr, rkey := p.Memory.Addr+r.off, p.Memory.RKey
		if t.e.lacks(ReadFirst) {
			t.batch.Read(t.f, p.Conn, r.sge, addr, rkey)
		}
		r.op = t.batch.Len()
		t.batch.CAS(t.f, p.Conn, addr+layout.StateOffset, rkey, uint64(unlocked), uint64(t.word))
		if t.batch.Err(r.op) != nil {
			break // not posted; the answers say why
		}
		r.lock = lockAsked
		if !t.e.lacks(ReadFirst) {
			t.batch.Read(t.f, p.Conn, r.sge, addr, rkey)
		}
	}
	if t.batch.Len() == 0 {
		return nil
	}
	return t.answers(first)
}

// answers waits for the answers to what lock has posted.
func (t *tx) answers(first int) error {
	err := t.batch.Await(t.f)
	refused := proto.Reason(0)
	for i := first; i < len(t.records); i++ {
		r := &t.records[i]
		if r.lock == lockAsked && t.batch.Err(r.op) != nil && t.e.lacks(UnsureForgotten) {
			r.lock = lockNone
		}
		if r.lock != lockAsked || t.batch.Err(r.op) != nil {
			continue
		}
		holder := lockWord(t.batch.Old(r.op))
		r.lock = lockNone
		if holder == unlocked || t.e.lacks(LockUnjudged) ||
			holder == t.word && t.e.lacks(OwnWordHeld) {
			holder = unlocked
			r.lock, r.ensured = lockHeld, false
			t.e.sightings.Released(r.node, r.off)
		}
		if t.batch.Err(t.readOf(r)) != nil {
			continue
		}
		t.inspect(r)
		switch {
		case r.is == layout.Stale:
			t.forget(r)
		case holder == t.word:
			// By way of another of its records, whose place was out of date.
			r.is = layout.Stale
		case holder != unlocked:
			refused = max(refused, t.met(r, holder)) // orphaned, if any is
		}
	}
	switch {
	case err != nil:
		return unreachable(err)
	case refused != 0:
		return proto.Aborting(refused)
	}
	return nil
}

// readOf is the operation of the batch that has read a record.
func (t *tx) readOf(r *record) int {
	if t.e.lacks(ReadFirst) {
		return r.op - 1
	}
	return r.op + 1
}

// inspect looks whose entry it is that was copied.
func (t *tx) inspect(r *record) {
	r.found = r.version()
	r.is = layout.Match(uint64(r.key), r.keyWord(), r.found)
	if t.e.lacks(NoKeyCheck) {
		r.is = layout.Match(uint64(r.key), uint64(r.key), r.found)
	}
	r.live = r.is == layout.Live
}

// giveStaleBack unlocks entries that are not their keys', and says whether there is something to
// be looked up or locked once more.
func (t *tx) giveStaleBack(first int) (again bool, err error) {
	t.batch.Reset()
	for i := first; i < len(t.records); i++ {
		r := &t.records[i]
		if r.is != layout.Stale {
			continue
		}
		again = true
		if r.lock == lockHeld && !t.e.lacks(StaleKept) {
			t.postUnlock(r)
			r.lock = lockAsked
		}
	}
	if t.batch.Len() > 0 {
		if err := t.batch.Await(t.f); err != nil {
			return again, unreachable(err)
		}
	}
	for i := first; i < len(t.records); i++ {
		// What the words held does not matter: an entry may have been bound anew meanwhile.
		if r := &t.records[i]; r.is == layout.Stale {
			r.lock, r.is = lockNone, 0
		}
	}
	return again, nil
}

// giveAbsentBack is a mutation: locks of records that are absent are given back.
func (t *tx) giveAbsentBack(first int) error {
	if !t.e.lacks(AbsentLocksBack) {
		return nil
	}
	t.batch.Reset()
	for i := first; i < len(t.records); i++ {
		t.earlyUnlock(&t.records[i], t.records[i].is == layout.Absent)
	}
	return t.batch.Await(t.f)
}

// earlyUnlock gives a lock back that the transaction relies on.
func (t *tx) earlyUnlock(r *record, which bool) {
	if which && r.lock == lockHeld {
		t.postUnlock(r)
		r.lock = lockNone
	}
}

// postUnlock adds the request that gives a lock back, if it is held.
func (t *tx) postUnlock(r *record) { t.postUnlockOn(r, t.e.cfg.Peers[r.node].Conn) }

// postUnlockOn does that on a queue pair that updates were posted on before: if it was made anew
// in between, the unlock must fail with them.
func (t *tx) postUnlockOn(r *record, conn *fiber.Conn) {
	p := &t.e.cfg.Peers[r.node]
	at := p.Memory.Addr + r.off + layout.StateOffset
	if t.e.lacks(UnlockByWrite) {
		clear(r.buf[layout.StateOffset:layout.ValueOffset])
		t.batch.Write(t.f, conn, piece(r.sge, layout.StateOffset, 8), at, p.Memory.RKey)
		return
	}
	t.batch.CAS(t.f, conn, at, p.Memory.RKey, uint64(t.word), uint64(unlocked))
}

// unreachable makes an abort of the failure of an operation on a peer. The end of the fiber's
// own waiting stays what it is.
func unreachable(err error) error {
	switch {
	case proto.AbortReason(err) != 0, errors.Is(err, fiber.ErrCancelled),
		errors.Is(err, fiber.ErrStopped), errors.Is(err, fiber.ErrDeadline):
		return err
	}
	return fmt.Errorf("%w: %w", proto.Aborting(proto.ReasonUnreachable), err)
}
