package rtx

import (
	"fmt"
	"time"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// Early locks (section 4.5, Opt2: Sherman's callback): an object that is going to be updated is locked when it is read,
// not by the commit, so that two updates of it wait for each other instead of aborting. The lock is one without log: who
// finds it expired renews the pointer and releases it, whatever the owner is at. A commit of that object alone needs no
// further lock; one with a log turns the lock into its own by CAS, when the log is written.
//
// Who holds a lock waits for nobody: met another's lock, it lets go of its own and aborts. So clients that lock in
// different orders do not wait for each other.

// stepEarly is the marked step of a client that has an early lock.
const stepEarly = "rtx: locked early"

// StepsOfEarlyLocks are those of clients with Config.EarlyLocks, besides Steps.
func StepsOfEarlyLocks() []string { return []string{stepEarly} }

// earlyTries bounds the attempts to lock an object early that others lock and release meanwhile: then the commit does.
const earlyTries = 8

// ReadToUpdate is Read of an object that is going to be updated. With Config.EarlyLocks it is locked, unless the
// transaction has read it already.
func (t *Tx) ReadToUpdate(p Ptr) ([]byte, error) {
	if t.known(p) == nil {
		if _, err := t.enter(p, true, t.c.cfg.EarlyLocks && !t.view); err != nil {
			return nil, err
		}
	}
	return t.Read(p)
}

// enter makes an object one of the set, when it is unlocked. With a hint the block is read too, if it is asked for.
// early locks the object.
func (t *Tx) enter(p Ptr, block, early bool) (*entry, error) {
	c := t.c
	if c.broken != nil {
		return nil, c.broken
	}
	if !c.l.has(p) {
		return nil, fmt.Errorf("%w: no object %d", ErrUsage, p)
	}
	if len(t.set) == c.cfg.Objects {
		return nil, fmt.Errorf("%w: more than %d objects: raise Config.Objects", ErrTooLarge, len(t.set))
	}
	h, hinted := c.cfg.Hints.get(p)
	for n := 0; ; n++ {
		e, err := t.look(p, h, want{hint: hinted, block: block, lock: hinted && early})
		if err != nil {
			return nil, err
		}
		if !locked(e.word) && !isNil(e.dptr) {
			if e.class = c.l.classOf(e.dptr); e.class < 0 {
				return nil, fmt.Errorf("%w: object %d has data pointer %#x", ErrCorrupt, p, e.dptr)
			}
		}
		switch {
		case locked(e.word) && t.holds():
			return nil, t.yield(p, e.word)
		case locked(e.word):
			if err := c.meet(t.f, p, e.word, n); err != nil {
				return nil, err
			}
			hinted = false
			continue
		case early && e.lock == 0 && n < earlyTries && !isNil(e.dptr) && !c.givesUp():
			h, hinted = hint{p, e.word, e.dptr}, true
			continue
		}
		c.cfg.Hints.put(p, e.word, e.dptr)
		t.set = append(t.set, e)
		return &t.set[len(t.set)-1], nil
	}
}

// want is what look does besides reading the metadata.
type want struct {
	hint  bool // there is one
	block bool // get the block, if that is no further round trip
	lock  bool // lock the object, if the hint is right
}

// look reads the metadata of an object. If it is what a hint says, or has the same block, its value was read too; with
// lock, it was locked then. The metadata comes behind the block, to where the validation reads it, too. If there is a
// copy of the block, the metadata is all that is read.
func (t *Tx) look(p Ptr, h hint, w want) (e entry, err error) {
	c := t.c
	meta := t.meta(len(t.set))
	free, at := t.free, 0
	early := w.lock
	if early && t.early == 0 {
		lease, err := c.lease(t.f, 1)
		if err != nil {
			return e, err
		}
		t.early = lockWord(c.cfg.Owner, true, lease)
	}
	c.b.Reset()
	if early {
		c.cas(t.f, c.l.metaAt(p), h.word, t.early)
	}
	if w.hint && w.block && c.cfg.Copies.get(p, h.word, h.dptr, c.bug) == nil {
		class := c.l.classOf(h.dptr)
		if at, err = t.take(class); err != nil {
			return e, err
		}
		c.read(t.f, at, int(offsetOf(h.dptr)), c.l.Classes[class].Bytes)
	}
	c.read(t.f, meta, c.l.metaAt(p), metaBytes)
	if err := c.await(t.f); err != nil {
		t.keepLocked(p, h, early)
		return e, err
	}
	e = entry{ptr: p, word: c.word(meta), dptr: c.word(meta + 8), class: -1}
	if early && c.b.Old(0) == h.word {
		if e.word == t.early {
			t.f.Step(stepEarly)
			c.stats.Early++
			e.word, e.lock = h.word, t.early
		} else {
			t.early = 0 // it was repaired at once: an object never has the same lock word twice
		}
	}
	// A pointer that was renewed names the same block in the same place.
	if at != 0 && (e.word == h.word && sameUse(e.dptr, h.dptr) || c.bug == bugHintTrusted && !locked(e.word)) {
		e.data = at
		t.confirm(&e, meta, t.together(p, h.dptr))
		if e.confirmed && c.bug != bugHintTrusted {
			c.cfg.Copies.put(p, e.word, e.dptr, c.mr.Bytes()[at:t.free])
		}
		return e, nil
	}
	t.free = free
	if w.block && (!locked(e.word) || e.lock != 0) {
		return e, t.takeCopy(&e, meta)
	}
	return e, nil
}

// keepLocked makes an object one of the set that was locked early, though what was to be read with it is lost.
func (t *Tx) keepLocked(p Ptr, h hint, early bool) {
	c := t.c
	if !early || c.b.Err(0) != nil || c.b.Old(0) != h.word {
		return
	}
	e := entry{ptr: p, word: h.word, dptr: h.dptr, lock: t.early, forgotten: true, class: c.l.classOf(h.dptr)}
	if last := c.b.Len() - 1; c.b.Err(last) == nil { // the pointer may have been renewed since the hint
		e.dptr = c.word(t.meta(len(t.set)) + 8)
	}
	t.set = append(t.set, e)
}

// confirm notes that the metadata which was read to an offset says what the value is, and hence is its validation, too.
func (t *Tx) confirm(e *entry, meta int, so bool) {
	e.confirmed = so
	b := t.c.mr.Bytes()
	copy(b[meta+metaBytes:][:metaBytes], b[meta:][:metaBytes])
}

// takeCopy takes the block of an object from the copies, if its metadata is that of a copy.
func (t *Tx) takeCopy(e *entry, meta int) error {
	c := t.c
	b, class := c.cfg.Copies.get(e.ptr, e.word, e.dptr, c.bug), c.l.classOf(e.dptr)
	if b == nil || isNil(e.dptr) || class < 0 || c.l.Classes[class].Bytes != len(b) {
		return nil
	}
	at, err := t.take(class)
	if err != nil {
		return err
	}
	copy(c.mr.Bytes()[at:], b)
	e.data = at
	c.stats.Copied++
	t.confirm(e, meta, true)
	return nil
}

// learn remembers the metadata and the block that a commit under a lock word has given an object.
func (t *Tx) learn(e *entry, lock uint64) {
	c := t.c
	c.cfg.Hints.put(e.ptr, unlocked(lock), e.ndptr)
	c.cfg.Copies.put(e.ptr, unlocked(lock), e.ndptr, c.mr.Bytes()[e.out:][:c.l.Classes[e.class].Bytes])
}

// together reports whether one queue pair leads to an object's metadata and to its block, so that what is read of the
// one comes behind what was read of the other.
func (t *Tx) together(p Ptr, dptr uint64) bool {
	return !t.c.scattered() || PlaceNode(int(offsetOf(dptr))) == nodeOf(p)
}

// holds reports whether the transaction has locks.
func (t *Tx) holds() bool {
	for i := range t.set {
		if t.set[i].lock != 0 {
			return true
		}
	}
	return false
}

// yield lets go of all locks, because another's was met: the attempt is over. It repairs what that one is of, if it has
// expired.
func (t *Tx) yield(p Ptr, w uint64) error {
	err := proto.Aborting(proto.ReasonLocked)
	if t.c.bug == bugEarlyKept {
		return err
	}
	if failed := t.letGo(); failed != nil {
		return failed
	}
	if t.c.expired(leaseOf(w)) {
		if failed := t.c.repair(t.f, p, w); failed != nil {
			return failed
		}
	}
	return err
}

// close gives the early locks back that an attempt with some outcome has left.
func (t *Tx) close(err error) error {
	if t.c.broken != nil || !t.holds() || t.c.bug == bugEarlyKept || t.c.bug == bugKeepOwnLocks {
		return err
	}
	if failed := t.letGo(); failed != nil && (err != nil || t.c.broken != nil) {
		return failed // else what was done is done; whoever meets a lock on a lost node repairs it
	}
	return err
}

// meet waits for a lock of another for a while, or repairs what it is of, if it has expired.
func (c *Client) meet(f *fiber.Fiber, p Ptr, w uint64, n int) error {
	c.waited(p, w)
	if ownerOf(w) == c.cfg.Owner && leaseOf(w) > c.born {
		c.stats.Left++
	}
	if c.givesUp() {
		return proto.Aborting(proto.ReasonLocked)
	}
	now, lease := c.now(), leaseOf(w)
	if now >= lease {
		return c.repair(f, p, w)
	}
	d := c.wait(n)
	if c.cfg.EarlyLocks { // many may wait for one: a dead one's holds them up no longer than its lease
		d = min(d, time.Duration(min(lease-now, units(d)))*leaseUnit)
	}
	return f.Sleep(d)
}
