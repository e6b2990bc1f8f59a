package rtx

import (
	"slices"

	"drtmd/proto"
)

// letGo gives the locks back that are held. The words become what they were: the values are the same. A lock
// without log may be under repair by who takes the owner for dead, so the pointer changes first.
func (t *Tx) letGo() error {
	c := t.c
	c.b.Reset()
	for i := range t.set {
		if e := &t.set[i]; e.lock != 0 {
			if noLog(e.lock) && c.bug != bugAbortAlone {
				c.cas(t.f, c.l.metaAt(e.ptr)+8, e.dptr, renewed(e.dptr))
			}
			c.cas(t.f, c.l.metaAt(e.ptr), e.lock, e.word)
			e.lock = 0
		}
	}
	t.early = 0 // an object never has the same lock word twice
	if c.b.Len() == 0 {
		return nil
	}
	return c.await(t.f)
}

// commitOne commits the update of one object without a log (section 4.5, Opt1), under a lock word that it has already,
// if it was locked early. The pointer's CAS is the commit: who repairs takes the pointer away first.
func (t *Tx) commitOne(e *entry, lock uint64) error {
	c, f := t.c, t.f
	c.b.Reset()
	c.write(f, e.out, int(offsetOf(e.ndptr)), c.l.Classes[e.class].Bytes)
	if err := c.phase(f, stepLogged); err != nil {
		return err
	}
	c.committing = true
	expired, err := t.lockOne(e, lock)
	if c.broken != nil {
		return err
	}
	if err != nil {
		if c.bug != bugKeepOwnLocks || expired.w == 0 {
			if failed := t.letGo(); failed != nil {
				return failed
			}
		}
		return t.abortThenRepair(err, expired)
	}
	return t.installOne(e, lock)
}

// lockOne locks the one object that is updated, and validates. With an early lock and nothing else to validate it does
// nothing, and what installs the update follows in the same batch.
func (t *Tx) lockOne(e *entry, lock uint64) (expired expiredLock, err error) {
	c, f := t.c, t.f
	if e.lock == 0 {
		first := t.addLocks(lock)
		if err := c.phase(f, stepLocked); err != nil {
			return expiredLock{}, err
		}
		expired, err = t.validateLocked(first, lock)
		c.b.Reset()
		return expired, err
	}
	if c.bug == bugEarlyUnvalidated || !slices.ContainsFunc(t.set, func(x entry) bool { return x.ptr != e.ptr && !x.forgotten }) {
		return expiredLock{}, nil
	}
	t.addValidation()
	if err := c.await(f); err != nil {
		return expiredLock{}, err
	}
	f.Step(stepValid)
	c.b.Reset()
	return t.judge(lock)
}

// installOne installs the update of an object that has a lock word.
func (t *Tx) installOne(e *entry, lock uint64) error {
	c, f, x := t.c, t.f, t.c.entries[0]
	meta := c.l.metaAt(e.ptr)
	if c.bug == bugReleaseFirst {
		c.cas(f, meta, lock, unlocked(lock))
		if err := c.phase(f, stepReleased); err != nil {
			return err
		}
	}
	if c.now() > leaseOf(lock)+units(wrapTime/4) {
		if err := t.stillLocked(e, lock); err != nil {
			return err
		}
	}
	swing := c.b.Len()
	c.swing(f, x)
	if err := c.await(f); err != nil {
		return err
	}
	f.Step(stepSwung)
	if c.bug != bugUpdateByWrite && c.b.Old(swing) != x.old {
		e.lock = 0
		// Somebody has repaired it, and renewed the pointer. The lock is gone, or will be.
		if _, err := c.casNow(f, meta, lock, unlocked(lock)); err != nil {
			return err
		}
		return proto.Aborting(proto.ReasonLocked)
	}
	c.b.Reset()
	kept := c.cas(f, c.l.slotAt(refSlot(x.ref)), x.new, c.retired(x.old))
	if err := c.phase(f, stepSlots); err != nil {
		return err
	}
	c.release(f, meta, lock)
	if err := c.await(f); err != nil {
		return err
	}
	f.Step(stepReleased)
	if old := c.b.Old(kept); old != x.new && old != c.retired(x.old) {
		return c.fail(c.corrupt("slot %d of owner %d has %#x, not %#x", e.slot, c.cfg.Owner, old, x.new))
	}
	c.slots[e.slot] = c.retired(x.old)
	e.lock = 0
	t.learn(e, lock)
	c.stats.Commits++
	c.stats.Unlogged++
	return nil
}

// stillLocked awaits the batch, and is an Abort if the object has not the lock of this client any more: it was stopped for
// so long that others may have repaired and updated the object until its pointer was the same again.
func (t *Tx) stillLocked(e *entry, lock uint64) error {
	c := t.c
	c.read(t.f, c.words, c.l.metaAt(e.ptr), 8)
	if err := c.await(t.f); err != nil {
		return err
	}
	c.b.Reset()
	if c.word(c.words) == lock {
		return nil
	}
	e.lock = 0
	c.stats.Overtaken++
	return proto.Aborting(proto.ReasonLocked)
}
