package rtx

import (
	"fmt"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// Marked steps, in the order in which a commit takes them. Some are there only if phases are awaited one by one
// (Config.Awaited).
const (
	stepLogged   = "rtx: log confirmed"
	stepLocked   = "rtx: locked"
	stepValid    = "rtx: validated"
	stepDoing    = "rtx: log DOING"
	stepSwung    = "rtx: pointers swung"
	stepSlots    = "rtx: blocks reclaimed"
	stepReleased = "rtx: released"
	stepDone     = "rtx: log DONE"
	stepAborting = "rtx: log ABORT"
	stepUndone   = "rtx: aborted, released"
	stepRepair   = "rtx: before repair"
	stepRead     = "rtx: repair, log read"
	stepCopied   = "rtx: repair, block reclaimed"
	stepSwitched = "rtx: repair, pointer renewed"
	stepReserved = "rtx: blocks reserved"
	stepStored   = "rtx: blocks in slots"
)

// StepsOfRepairs are those of repairs; between them the suspect may go on.
func StepsOfRepairs() []string {
	return []string{stepRepair, stepRead, stepCopied, stepSwitched, stepDoing}
}

// StepsWithLocks are those at which locks are held that may be repaired.
func StepsWithLocks() []string {
	return []string{stepLocked, stepValid, stepAborting, stepDoing, stepSwung}
}

// Steps lists the marked steps.
func Steps() []string {
	return []string{stepLogged, stepLocked, stepValid, stepDoing, stepSwung, stepSlots, stepReleased, stepDone,
		stepAborting, stepUndone, stepRepair, stepRead, stepCopied, stepSwitched, stepReserved, stepStored}
}

// commit is TXEnd (Figure 8). An error that is no Abort says that the client is broken, or what cannot be.
func (t *Tx) commit() error {
	c, f := t.c, t.f
	c.entries = c.entries[:0]
	if err := t.place(); err != nil {
		return err
	}
	n := len(c.entries)
	if n == 0 {
		if err := t.validate(); err != nil {
			return err
		}
		c.stats.ReadOnly++
		return nil
	}
	lease, err := c.lease(f, n)
	if err != nil {
		return err
	}
	alone := n == 1 && t.whenLocked == nil
	lock := lockWord(c.cfg.Owner, alone, lease)
	if alone {
		return t.commitOne(lock)
	}
	return t.commitLogged(lock)
}

// place gives each updated object the block of a slot, and its header.
func (t *Tx) place() error {
	c := t.c
	for class := range c.l.Classes {
		first := 0 // values of objects that have none
		for i := range t.set {
			if e := &t.set[i]; e.out != 0 && e.class == class && isNil(e.dptr) {
				first++
			}
		}
		if first > c.l.perClass-c.l.reserve() {
			return fmt.Errorf("%w: first values of %d objects of class %d; the memory's Shape.Slots allows %d",
				ErrTooLarge, first, class, c.l.perClass-c.l.reserve())
		}
		if first > 0 {
			if err := c.provide(t.f, class, first); err != nil {
				return err
			}
		}
	}
	for i := range t.set {
		e := &t.set[i]
		if e.out == 0 {
			continue
		}
		slot, err := c.pick(t.f, e.class)
		if err != nil {
			return err
		}
		e.slot, e.ndptr = slot, c.slots[slot]
		x := logEntry{ref(c.cfg.Owner*c.l.Slots+slot, e.ptr), e.dptr, e.ndptr}
		c.setWord(e.out, x.ref)
		c.setWord(e.out+8, x.old)
		c.entries = append(c.entries, x)
	}
	return nil
}

// validate reads the metadata of all objects again: for transactions that hold no lock.
func (t *Tx) validate() error {
	if len(t.set) == 0 {
		return nil
	}
	if len(t.set) > 1 || !t.set[0].confirmed {
		t.c.b.Reset()
		t.addValidation()
		if err := t.c.await(t.f); err != nil {
			return err
		}
	}
	expired, err := t.judge(0)
	if err != nil {
		return t.c.abortThenRepair(t.f, err, expired)
	}
	return nil
}

// addValidation adds the READs of the validation to the batch.
func (t *Tx) addValidation() {
	for i := range t.set {
		if e := &t.set[i]; !e.forgotten {
			t.c.read(t.f, t.meta(i)+metaBytes, t.c.l.metaAt(e.ptr), metaBytes)
		}
	}
}

// expiredLock is a lock of another that was found expired; none if the word is 0.
type expiredLock struct {
	p Ptr
	w uint64
}

// judge says whether what the validation has read is what the execution read. An object that is updated shows
// the own lock.
func (t *Tx) judge(lock uint64) (expired expiredLock, err error) {
	c := t.c
	for i := range t.set {
		e := &t.set[i]
		w, d := c.word(t.meta(i)+metaBytes), c.word(t.meta(i)+metaBytes+8)
		mine := e.out != 0 && lock != 0
		switch {
		case e.forgotten:
			continue
		case mine && w == lock && d == e.dptr:
			continue
		case mine:
		case (w == e.word || c.bug == bugValidateNoLock && locked(w)) && d == e.dptr,
			c.bug == bugValidateNothing && lock != 0:
			continue
		}
		if locked(w) && w != lock {
			if c.expired(leaseOf(w)) {
				return expiredLock{e.ptr, w}, proto.Aborting(proto.ReasonLocked)
			}
			err = proto.Aborting(proto.ReasonLocked)
			continue
		}
		err = proto.Aborting(proto.ReasonValidation)
	}
	return expiredLock{}, err
}

// abortThenRepair repairs what was found expired, after the own transaction has let go of everything.
func (c *Client) abortThenRepair(f *fiber.Fiber, err error, expired expiredLock) error {
	if expired.w == 0 {
		return err
	}
	if failed := c.repair(f, expired.p, expired.w); failed != nil {
		return failed
	}
	return err
}

// addLocks adds the CASes that lock all updated objects to the batch: each finds the word that the execution
// read, so it validates the word too. It returns the index of the first.
func (t *Tx) addLocks(lock uint64) (first int) {
	first = t.c.b.Len()
	for i := range t.set {
		if e := &t.set[i]; e.out != 0 {
			t.c.cas(t.f, t.c.l.metaAt(e.ptr), e.word, lock)
		}
	}
	return first
}

// judgeLocks notes what the CASes locked.
func (t *Tx) judgeLocks(first int) (expired expiredLock, err error) {
	c := t.c
	for i := range t.set {
		e := &t.set[i]
		if e.out == 0 {
			continue
		}
		old := c.b.Old(first)
		first++
		if e.held = old == e.word; e.held {
			continue
		}
		err = proto.Aborting(proto.ReasonValidation)
		if locked(old) {
			err = proto.Aborting(proto.ReasonLocked)
			if c.expired(leaseOf(old)) {
				expired = expiredLock{e.ptr, old}
			}
		}
	}
	return expired, err
}

// validateLocked awaits the CASes of the locks, of which first is the first in the batch, with the validation behind
// them. An Abort leaves to the caller what is held.
func (t *Tx) validateLocked(first int, lock uint64) (expired expiredLock, err error) {
	t.addValidation()
	if err := t.c.await(t.f); err != nil {
		return expiredLock{}, err
	}
	t.f.Step(stepValid)
	if expired, err = t.judgeLocks(first); err != nil {
		return expired, err
	}
	return t.judge(lock)
}

// letGo gives the locks back that are held. The words become what they were: the values are the same. A lock
// without log may be under repair by who takes the owner for dead, so the pointer changes first.
func (t *Tx) letGo(lock uint64) error {
	c := t.c
	c.b.Reset()
	for i := range t.set {
		if e := &t.set[i]; e.held {
			if noLog(lock) && c.bug != bugAbortAlone {
				c.cas(t.f, c.l.metaAt(e.ptr)+8, e.dptr, renewed(e.dptr))
			}
			c.cas(t.f, c.l.metaAt(e.ptr), lock, e.word)
			e.held = false
		}
	}
	if c.b.Len() == 0 {
		return nil
	}
	return c.await(t.f)
}

// commitOne commits the update of one object without a log (section 4.5, Opt1). The pointer's CAS is the commit:
// who repairs takes the pointer away first.
func (t *Tx) commitOne(lock uint64) error {
	c, f := t.c, t.f
	x := c.entries[0]
	var e *entry
	for i := range t.set {
		if t.set[i].out != 0 {
			e = &t.set[i]
		}
	}
	c.b.Reset()
	c.write(f, e.out, int(offsetOf(e.ndptr)), c.l.Classes[e.class].Bytes)
	if err := c.phase(f, stepLogged); err != nil {
		return err
	}
	first := t.addLocks(lock)
	if err := c.phase(f, stepLocked); err != nil {
		return err
	}
	expired, err := t.validateLocked(first, lock)
	if c.broken != nil {
		return err
	}
	if err != nil {
		if c.bug != bugKeepOwnLocks || expired.w == 0 {
			if failed := t.letGo(lock); failed != nil {
				return failed
			}
		}
		return c.abortThenRepair(f, err, expired)
	}
	meta := c.l.metaAt(e.ptr)
	c.b.Reset()
	if c.bug == bugReleaseFirst {
		c.cas(f, meta, lock, unlocked(lock))
		if err := c.phase(f, stepReleased); err != nil {
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
	c.stats.Commits++
	c.stats.Unlogged++
	return nil
}

// swing adds the update of a pointer to the batch.
func (c *Client) swing(f *fiber.Fiber, x logEntry) {
	at := c.l.metaAt(refPtr(x.ref)) + 8
	if c.bug == bugUpdateByWrite {
		c.writeWord(f, at, x.new)
		return
	}
	c.cas(f, at, x.old, x.new)
}

// release adds the release of a lock after a commit to the batch.
func (c *Client) release(f *fiber.Fiber, meta int, lock uint64) {
	if c.bug == bugReleaseByWrite {
		c.writeWord(f, meta, unlocked(lock))
		return
	}
	c.cas(f, meta, lock, unlocked(lock))
}

// writeWord adds a WRITE of a word, for mutations: a commit changes words by CAS alone.
func (c *Client) writeWord(f *fiber.Fiber, off int, v uint64) {
	const first, n = 128, (wordBytes - 128) / 8
	at := c.words + first + 8*(c.b.Len()%n)
	c.setWord(at, v)
	c.write(f, at, off, 8)
}

// retired is the pointer that a slot keeps for a block that was replaced.
func (c *Client) retired(d uint64) uint64 {
	if c.bug == bugPointerVersion {
		return d
	}
	return replaced(d)
}

// commitLogged commits several updates (Figure 8, from line 1 on).
func (t *Tx) commitLogged(lock uint64) error {
	c, f := t.c, t.f
	c.encodeLog(lock)
	log := c.l.ownerAt(c.cfg.Owner)
	init := header(stateInit, lock, 0)
	c.b.Reset()
	first := -1
	if c.bug == bugLockBeforeLog {
		first = t.addLocks(lock)
		if err := c.phase(f, stepLocked); err != nil {
			return err
		}
	}
	if t.whenLocked == nil {
		t.addBlocks()
	}
	c.write(f, c.logOut+logBody, log+logBody, logEntries-logBody+entryBytes*len(c.entries))
	begin := c.cas(f, log, c.header, init)
	if err := c.await(f); err != nil {
		return err
	}
	if old := c.b.Old(begin); old != c.header {
		return c.fail(c.corrupt("log of owner %d has header %#x, not %#x", c.cfg.Owner, old, c.header))
	}
	c.header = init
	f.Step(stepLogged)
	if first < 0 {
		c.b.Reset()
		first = t.addLocks(lock)
		if err := c.phase(f, stepLocked); err != nil {
			return err
		}
	}
	return t.decide(log, lock, init, first)
}

// addBlocks adds the WRITEs of all new blocks to the batch.
func (t *Tx) addBlocks() {
	for i := range t.set {
		if e := &t.set[i]; e.out != 0 {
			t.c.write(t.f, e.out, int(offsetOf(e.ndptr)), t.c.l.Classes[e.class].Bytes)
		}
	}
}

// fill has the program make the new blocks under the locks, and writes them.
func (t *Tx) fill() error {
	if err := t.whenLocked(); err != nil {
		return err
	}
	t.c.b.Reset()
	t.addBlocks()
	return t.c.await(t.f)
}

// decide is TXEnd from the validation on. first is the CAS of the first lock in the batch.
func (t *Tx) decide(log int, lock, init uint64, first int) error {
	c, f := t.c, t.f
	expired, err := t.validateLocked(first, lock)
	if err == nil && t.whenLocked != nil {
		err = t.fill()
	}
	if c.broken != nil {
		return err
	}
	if err != nil {
		if c.bug == bugKeepOwnLocks && expired.w != 0 {
			return c.abortThenRepair(f, err, expired)
		}
		if failed := t.undo(log, lock); failed != nil {
			return failed
		}
		return c.abortThenRepair(f, err, expired)
	}
	state, err := c.settle(f, log, lock, init)
	if err != nil {
		return err
	}
	if stateOf(state) == stateAbort { // somebody has repaired it, before it was committed
		if failed := t.undo(log, lock); failed != nil {
			return failed
		}
		return proto.Aborting(proto.ReasonLocked)
	}
	for i := range t.set {
		if e := &t.set[i]; e.out != 0 {
			c.slots[e.slot] = c.retired(e.dptr)
		}
	}
	c.stats.Commits++
	return nil
}

// settle is lines 14 to 24: it tries to commit until the log says that it is done, by whomever, or aborted.
func (c *Client) settle(f *fiber.Fiber, log int, lock, from uint64) (state uint64, err error) {
	for n := 0; ; n++ {
		state, err = c.tryCommit(f, log, from, lock, c.entries)
		if err != nil {
			return 0, err
		}
		switch stateOf(state) {
		case stateDone:
			c.header = state
			return state, nil
		case stateAbort:
			return state, nil
		}
		if c.bug == bugReuseEarly {
			c.header = state
			return header(stateDone, lock, 0), nil
		}
		// A repairer installs the updates.
		for ; !c.expired(state & leaseMask); n++ {
			if err := c.pause(f, n); err != nil {
				return 0, c.fail(err)
			}
			if err := c.readNow(f, c.words, log, 8); err != nil {
				return 0, err
			}
			if state = c.word(c.words); stateOf(state) == stateDone {
				c.header = state
				return state, nil
			}
		}
		from = state
	}
}

// undo aborts the own transaction: ABORT, release, DONE. So a repairer that has seen INIT and the owner agree.
func (t *Tx) undo(log int, lock uint64) error {
	c, f := t.c, t.f
	abort := header(stateAbort, lock, 0)
	if _, err := c.casNow(f, log, header(stateInit, lock, 0), abort); err != nil {
		return err
	}
	f.Step(stepAborting)
	if err := t.letGo(lock); err != nil {
		return err
	}
	f.Step(stepUndone)
	done := header(stateDone, lock, 0)
	old, err := c.casNow(f, log, abort, done)
	if err != nil {
		return err
	}
	if old != abort {
		return c.fail(c.corrupt("log of owner %d has header %#x after its abort", c.cfg.Owner, old))
	}
	c.header = done
	return nil
}
