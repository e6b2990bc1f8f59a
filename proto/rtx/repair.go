package rtx

import (
	"time"

	"drtmd/verbs/fiber"
)

// wrapTime is the shortest time in which a data pointer can repeat: its block is used 2^16 times, once in a
// transaction each. A repair or a commit that was stopped for a quarter of it looks at the log again, or at its lock,
// before it swings a pointer (section 4.4). A stop between that last look and the post of the CAS remains: if it lasts
// until the pointer has wrapped to the very same one, the CAS succeeds.
const wrapTime = (1 << 16) * 2 * time.Microsecond

// repair finishes or undoes the transaction whose expired lock was met at an object (Figure 10). Then the object
// is to be looked at again. The caller holds no lock.
func (c *Client) repair(f *fiber.Fiber, p Ptr, w uint64) error {
	c.stats.Repairs++
	if c.cfg.OnExpired != nil {
		c.cfg.OnExpired(w)
	}
	f.Step(stepRepair)
	if noLog(w) {
		return c.repairOne(f, p, w)
	}
	owner := ownerOf(w)
	if owner >= c.l.Owners {
		return c.fail(c.corrupt("object %d is locked by owner %d, and there are %d", p, owner, c.l.Owners))
	}
	log := c.l.ownerAt(owner)
	start := c.cfg.Clock.Now()
	if err := c.readNow(f, c.logIn, log, c.l.logBytes); err != nil {
		return err
	}
	h := c.word(c.logIn)
	lock, whole := c.decodeLog()
	f.Step(stepRead)
	if c.bug == bugChecksumIgnored {
		if !whole {
			return nil
		}
	} else if lock != w || !sameTag(h, w) || !whole {
		return nil // the log is of another transaction: this one is done
	}
	switch stateOf(h) {
	case stateInit:
		if c.bug == bugInitCommits {
			_, err := c.tryCommit(f, log, h, w, c.found)
			return err
		}
		old, err := c.casNow(f, log, h, header(stateAbort, w, 0))
		if err == nil && old == h {
			c.stats.Undone++
		}
		return err
	case stateAbort:
		return c.releaseAborted(f, w, c.found)
	case stateDoing:
		if !c.expired(h&leaseMask) && c.bug != bugRepairLease {
			return c.pause(f, 0)
		}
		if !c.expired(h & leaseMask) {
			c.stats.Overlaps++
		}
		if c.cfg.Clock.Now()-start > wrapTime/4 {
			return nil // too late to tell the log's pointers from those of later transactions
		}
		state, err := c.tryCommit(f, log, h, w, c.found)
		if err == nil && stateOf(state) == stateDone {
			c.stats.Finished++
		}
		return err
	}
	return nil
}

// repairOne undoes an update without log, or finds that it was done (section 4.5): it gives the data pointer
// another version, so that neither the suspect nor another repairer can swing it from what they have read, and
// then releases the lock. The paper copies the value to a new block for that.
func (c *Client) repairOne(f *fiber.Fiber, p Ptr, w uint64) error {
	meta, start := c.l.metaAt(p), c.cfg.Clock.Now()
	if err := c.readNow(f, c.words, meta, metaBytes); err != nil {
		return err
	}
	d := c.word(c.words + 8)
	if c.word(c.words) != w {
		return nil
	}
	if c.bug == bugSingleNoBlock {
		_, err := c.casNow(f, meta, w, unlocked(w))
		return err
	}
	if !isNil(d) {
		if c.l.classOf(d) < 0 {
			return c.fail(c.corrupt("object %d has data pointer %#x", p, d))
		}
		c.b.Reset()
		c.read(f, c.blockIn, int(offsetOf(d)), blockHeader)
		if err := c.then(f); err != nil {
			return err
		}
		c.read(f, c.words, meta, metaBytes)
		if err := c.await(f); err != nil {
			return err
		}
		if c.word(c.words) != w || c.word(c.words+8) != d {
			return nil
		}
		if c.stopped(start) {
			return nil
		}
		if err := c.keepReplaced(f, d, c.blockIn); err != nil {
			return err
		}
	}
	f.Step(stepCopied)
	if c.stopped(start) {
		return nil
	}
	old, err := c.casNow(f, meta+8, d, renewed(d))
	if err != nil || old != d {
		return err // it was swung meanwhile: what the new block has replaced comes first
	}
	f.Step(stepSwitched)
	c.stats.Undone++
	_, err = c.casNow(f, meta, w, unlocked(w))
	return err
}

// stopped reports whether this client, which repairs an update without log, was stopped since it began: the pointer that it
// has read may be one that is used again, with another value. Then the object is to be looked at again.
func (c *Client) stopped(start time.Duration) bool {
	if past := c.cfg.Clock.Now() - start; past >= 0 && past < wrapTime/4 {
		return false
	}
	c.stats.Overtaken++
	return true
}

// keepReplaced sees to it that the block which the block of a data pointer has replaced is in the slot that that
// one came from: who installed it may have died before. header is where its header was read to.
func (c *Client) keepReplaced(f *fiber.Fiber, d uint64, header int) error {
	slot := refSlot(c.word(header))
	if c.bug == bugSlotForgotten || slot >= c.l.Owners*c.l.Slots {
		return nil
	}
	_, err := c.casNow(f, c.l.slotAt(slot), d, c.retired(c.word(header+8)))
	return err
}
