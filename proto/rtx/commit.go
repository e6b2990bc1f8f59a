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

// StepsOfAbortedLogs are those between which a repair that has read the log of an aborted attempt can meet the next
// attempt of its owner, with its locks.
func StepsOfAbortedLogs() []string {
	return []string{stepValid, stepDoing, stepAborting, stepRead}
}

// Steps lists the marked steps.
func Steps() []string {
	return []string{stepLogged, stepLocked, stepValid, stepDoing, stepSwung, stepSlots, stepReleased, stepDone,
		stepAborting, stepUndone, stepRepair, stepRead, stepCopied, stepSwitched, stepReserved, stepStored}
}

// commit is TXEnd (Figure 8). An error that is no Abort says that the client is broken, or what cannot be.
func (t *Tx) commit() error {
	err := t.tryToCommit()
	t.c.committing = false
	return err
}

func (t *Tx) tryToCommit() error {
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
	if c.lostAt(c.l.ownerAt(c.cfg.Owner)) {
		node := PlaceNode(c.l.ownerAt(c.cfg.Owner))
		return &LostError{Node: node, Nodes: len(c.nodes), Err: fmt.Errorf("owner %d has its log there", c.cfg.Owner)}
	}
	one := t.alone()
	if one != nil && one.lock != 0 {
		return t.commitOne(one, one.lock)
	}
	lease, err := c.lease(f, n)
	if err != nil {
		return err
	}
	lock := lockWord(c.cfg.Owner, one != nil, lease)
	if one != nil {
		return t.commitOne(one, lock)
	}
	return t.commitLogged(lock)
}

// alone is the one object that is updated, without a log; nil: there must be one.
func (t *Tx) alone() (one *entry) {
	for i := range t.set {
		if e := &t.set[i]; e.out != 0 && one != nil {
			return nil
		} else if e.out != 0 {
			one = e
		}
	}
	if t.whenLocked != nil || t.c.cfg.Logged {
		return nil
	}
	return one
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
		return t.abortThenRepair(err, expired)
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

// judge says whether what the validation has read is what the execution read. An object that is held shows the own
// lock. lock is that of the commit; 0: there is none.
func (t *Tx) judge(lock uint64) (expired expiredLock, err error) {
	c := t.c
	for i := range t.set {
		e := &t.set[i]
		w, d := c.word(t.meta(i)+metaBytes), c.word(t.meta(i)+metaBytes+8)
		mine := e.lock != 0
		switch {
		case e.forgotten:
			continue
		case mine && w == e.lock && d == e.dptr:
			continue
		case mine:
		case (w == e.word || c.bug == bugValidateNoLock && locked(w)) && d == e.dptr,
			c.bug == bugValidateNothing && lock != 0:
			continue
		}
		if locked(w) && w != e.lock {
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
func (t *Tx) abortThenRepair(err error, expired expiredLock) error {
	if expired.w == 0 {
		return err
	}
	if t.c.bug != bugKeepOwnLocks {
		if failed := t.letGo(); failed != nil {
			return failed
		}
	}
	t.c.committing = false // the own attempt is over
	if failed := t.c.repair(t.f, expired.p, expired.w); failed != nil {
		return failed
	}
	return err
}

// addLocks adds the CASes that lock all updated objects to the batch: each finds the word that the execution
// read, or its early lock, so it validates the word too. It returns the index of the first.
func (t *Tx) addLocks(lock uint64) (first int) {
	first = t.c.b.Len()
	for i := range t.set {
		if e := &t.set[i]; e.out != 0 {
			want := lock
			if t.c.bug == bugEarlyUnlogged && e.lock != 0 {
				want = e.lock
			}
			t.c.cas(t.f, t.c.l.metaAt(e.ptr), e.expected(), want)
		}
	}
	return first
}

// expected is the word that the object has, if nobody else has changed it.
func (e *entry) expected() uint64 {
	if e.lock != 0 {
		return e.lock
	}
	return e.word
}

// judgeLocks notes what the CASes have locked with a lock word.
func (t *Tx) judgeLocks(first int, lock uint64) (expired expiredLock, err error) {
	c := t.c
	for i := range t.set {
		e := &t.set[i]
		if e.out == 0 {
			continue
		}
		old := c.b.Old(first)
		first++
		if old == e.expected() {
			if t.c.bug != bugEarlyUnlogged || e.lock == 0 {
				e.lock = lock
			}
			continue
		}
		e.lock = 0 // an early one was repaired
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
	if expired, err = t.judgeLocks(first, lock); err != nil {
		return expired, err
	}
	return t.judge(lock)
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
		return t.withoutBlocks(err, begin, log, lock)
	}
	c.committing = true
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

// withoutBlocks gives up a commit with a log whose blocks were not all written, before anything was locked for it. begin
// is the CAS of the log's header in the batch.
func (t *Tx) withoutBlocks(err error, begin, log int, lock uint64) error {
	c := t.c
	if c.broken != nil || c.b.Err(begin) != nil || c.b.Old(begin) != c.header || c.bug == bugLockBeforeLog {
		return c.fail(err)
	}
	c.header, c.committing = header(stateInit, lock, 0), true
	if failed := t.undo(log, lock); failed != nil {
		return failed
	}
	return err
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
			return t.abortThenRepair(err, expired)
		}
		if failed := t.undo(log, lock); failed != nil {
			return failed
		}
		return t.abortThenRepair(err, expired)
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
			e.lock = 0
			t.learn(e, lock)
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
	if err := t.letGo(); err != nil {
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
