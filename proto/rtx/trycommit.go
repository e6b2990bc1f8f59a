package rtx

import (
	"encoding/binary"
	"fmt"
	"time"

	"drtmd/verbs/fiber"
)

// encodeLog makes the log of the transaction with a lock word, from c.entries.
func (c *Client) encodeLog(lock uint64) {
	b := c.mr.Bytes()[c.logOut:]
	le := binary.LittleEndian
	for i, x := range c.entries {
		e := b[logEntries+entryBytes*i:]
		le.PutUint64(e, x.ref)
		le.PutUint64(e[8:], x.old)
		le.PutUint64(e[16:], x.new)
	}
	le.PutUint64(b[logBody:], lock)
	le.PutUint64(b[logBody+16:], uint64(len(c.entries)))
	le.PutUint64(b[logBody+8:], hashLog(b, len(c.entries)))
}

// hashLog is the hash over lock word, number and entries of a log.
func hashLog(b []byte, n int) uint64 {
	return hashBytes(b[logBody:logBody+8]) ^ hashBytes(b[logBody+16:logEntries+entryBytes*n])
}

// decodeLog reads the log at c.logIn into c.found: the lock word of who wrote it, and whether it is whole.
func (c *Client) decodeLog() (lock uint64, whole bool) {
	b := c.mr.Bytes()[c.logIn:]
	le := binary.LittleEndian
	lock = le.Uint64(b[logBody:])
	c.found = c.found[:0]
	n := le.Uint64(b[logBody+16:])
	if n > uint64(c.l.Slots) || le.Uint64(b[logBody+8:]) != hashLog(b, int(n)) {
		return lock, false
	}
	slots := c.l.Owners * c.l.Slots
	for i := range int(n) {
		e := b[logEntries+entryBytes*i:]
		x := logEntry{le.Uint64(e), le.Uint64(e[8:]), le.Uint64(e[16:])}
		if refSlot(x.ref) >= slots || !c.l.has(refPtr(x.ref)) {
			return lock, false
		}
		c.found = append(c.found, x)
	}
	return lock, true
}

// tryCommit installs the updates of a log, if it can take the header from one state to DOING, under a new lease
// (Figure 9). Done twice, or by two at once, it has the same effect. It returns the state that it found, or DONE.
func (c *Client) tryCommit(f *fiber.Fiber, log int, from, lock uint64, entries []logEntry) (uint64, error) {
	doing := header(stateDoing, lock, c.commitLease(from))
	begin := c.cfg.Clock.Now()
	old, err := c.casNow(f, log, from, doing)
	if err != nil || old != from {
		return old, err
	}
	f.Step(stepDoing)
	done := header(stateDone, lock, 0)
	if c.bug == bugDoneFirst {
		if _, err := c.casNow(f, log, doing, done); err != nil {
			return 0, err
		}
	}
	c.b.Reset()
	if c.bug == bugReleaseFirst {
		c.releaseAll(f, lock, entries)
		if err := c.phase(f, stepReleased); err != nil {
			return 0, err
		}
	}
	if h, err := c.stillDoing(f, log, doing, &begin); err != nil || h != doing {
		return h, err
	}
	if err := c.swingAll(f, lock, entries); err != nil {
		return 0, err
	}
	if h, err := c.stillDoing(f, log, doing, &begin); err != nil || h != doing {
		return h, err
	}
	for _, x := range entries {
		c.cas(f, c.l.slotAt(refSlot(x.ref)), x.new, c.retired(x.old))
	}
	if err := c.phase(f, stepSlots); err != nil {
		return 0, err
	}
	c.releaseAll(f, lock, entries)
	if err := c.await(f); err != nil {
		return 0, err
	}
	f.Step(stepReleased)
	if c.bug == bugDoneFirst {
		return done, nil
	}
	if old, err = c.casNow(f, log, doing, done); err != nil {
		return 0, err
	}
	f.Step(stepDone)
	if old != doing {
		c.stats.Unexpected++
		return old, nil
	}
	return done, nil
}

// stillDoing is the header of a log that this client has taken over, looked at again if it has been stopped since: others
// may have finished the transaction, and once the log is DONE, blocks and in the end whole pointers of it are used again
// (section 4.4). begin is when the header was known to be this one; then it is later.
func (c *Client) stillDoing(f *fiber.Fiber, log int, doing uint64, begin *time.Duration) (uint64, error) {
	now := c.cfg.Clock.Now()
	if past := now - *begin; past >= 0 && past < wrapTime/4 || c.bug == bugDoneFirst {
		return doing, nil
	}
	*begin = now
	if err := c.readNow(f, c.words, log, 8); err != nil {
		return 0, err
	}
	h := c.word(c.words)
	if h != doing {
		c.stats.Overtaken++
	}
	return h, nil
}

// swingAll swings the pointers of a log. They are awaited before any lock is released: who repairs an earlier update
// without log of an object, and was slow, may have renewed its pointer since this transaction has read it.
func (c *Client) swingAll(f *fiber.Fiber, lock uint64, entries []logEntry) error {
	first := c.b.Len()
	for _, x := range entries {
		c.swing(f, x)
	}
	if err := c.await(f); err != nil {
		return err
	}
	if c.cfg.Awaited {
		f.Step(stepSwung)
	}
	follow := false
	for i, x := range entries {
		old := uint64(0)
		if c.bug != bugUpdateByWrite && c.bug != bugRenewalLost {
			old = c.b.Old(first + i)
		}
		follow = follow || old != x.old && sameUse(old, x.old)
	}
	if follow {
		for _, x := range entries {
			if err := c.follow(f, lock, x); err != nil {
				return err
			}
		}
	}
	c.b.Reset()
	return nil
}

// mostRenewals bounds the repairs of earlier updates that one swing waits for.
const mostRenewals = 1 << 12

// follow swings a pointer from what it was renewed to. While the object has the transaction's lock, and its block is
// in the place where the transaction has read it, nobody has swung it.
func (c *Client) follow(f *fiber.Fiber, lock uint64, x logEntry) error {
	meta := c.l.metaAt(refPtr(x.ref))
	for range mostRenewals {
		if err := c.readNow(f, c.words, meta, metaBytes); err != nil {
			return err
		}
		d := c.word(c.words + 8)
		if c.word(c.words) != lock || !sameUse(d, x.old) {
			return nil
		}
		if old, err := c.casNow(f, meta+8, d, x.new); err != nil || old == d {
			return err
		}
	}
	return c.fail(c.corrupt("the pointer of object %d is renewed all the time", refPtr(x.ref)))
}

// commitLease is the lease of who takes a header over, an owner or a repairer: above the one in the header.
func (c *Client) commitLease(from uint64) uint64 {
	return max(c.now()+units(c.cfg.Timing.Commit), from&leaseMask+1)
}

// releaseAborted releases all locks of an aborted log.
func (c *Client) releaseAborted(f *fiber.Fiber, lock uint64, entries []logEntry) error {
	c.b.Reset()
	for _, x := range entries {
		c.cas(f, c.l.metaAt(refPtr(x.ref)), lock, unlocked(lock))
	}
	return c.await(f)
}

// releaseAll adds the release of all locks of a log to the batch.
func (c *Client) releaseAll(f *fiber.Fiber, lock uint64, entries []logEntry) {
	for _, x := range entries {
		c.release(f, c.l.metaAt(refPtr(x.ref)), lock)
	}
}

func (c *Client) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
