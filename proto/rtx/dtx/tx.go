package dtx

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/inplace"
	"drtmd/verbs/fiber"
)

// Marked steps of a commit. The last two are there only if phases are awaited one by one.
const (
	stepLogged    = "dtx: log written"
	stepLocked    = "dtx: locked"
	stepFilled    = "dtx: new objects written" // of a transaction that makes them under the locks
	stepDecided   = "dtx: decided"
	stepInstalled = "dtx: value written"
)

// Steps lists the marked steps.
func Steps() []string { return []string{stepLogged, stepLocked, stepDecided, stepInstalled} }

// StepsUnderLocks are those of transactions with WhenLocked, besides Steps.
func StepsUnderLocks() []string { return []string{stepFilled} }

// Tx is a running transaction.
type Tx struct {
	c    *Client
	f    *fiber.Fiber
	set  []entry
	view bool // it reads only
	// committed: what it has allocated may be reached.
	committed bool
	// whenLocked is called before the decision; nil: nothing is.
	whenLocked func() error
}

// entry is an object of the transaction.
type entry struct {
	inplace.Object
	forgotten bool // it was only read, and is not validated
	confirmed bool // its metadata was read behind the block
}

// Begin begins a transaction, or one that only reads. Commit or Rollback ends it; one that is given up needs no end.
func (c *Client) Begin(f *fiber.Fiber, view bool) (*Tx, error) {
	if err := c.Broken(); err != nil {
		return nil, fmt.Errorf("%w: %w", rtx.ErrBroken, err)
	}
	t := &c.tx
	for i := range t.set {
		if e := &t.set[i]; e.Fresh && !t.committed {
			c.spare = append(c.spare, e.Ptr)
		}
	}
	t.c, t.f, t.set, t.view, t.committed, t.whenLocked = c, f, t.set[:0], view, false, nil
	return t, nil
}

// Fiber is the fiber that the transaction runs on.
func (t *Tx) Fiber() *fiber.Fiber { return t.f }

// Room of entry i in the client's memory: what was read, what it becomes, and its metadata at the validation.
func (c *Client) was(i int) int  { return c.blocks + 2*inplace.NodeBytes*i }
func (c *Client) is(i int) int   { return c.was(i) + inplace.NodeBytes }
func (c *Client) meta(i int) int { return c.metas + metaBytes*i }

// find is the index of an object in the set, which it becomes a part of; known: it was.
func (t *Tx) find(p rtx.Ptr) (i int, known bool, err error) {
	for i := range t.set {
		if t.set[i].Ptr == p {
			t.set[i].forgotten = false
			return i, true, nil
		}
	}
	o, err := t.c.Object(p, len(t.set))
	if err != nil {
		return 0, false, err
	}
	t.set = append(t.set, entry{Object: o})
	return len(t.set) - 1, false, nil
}

// payload is what the transaction sees of an object; nil: it was never written.
func (t *Tx) payload(i int) []byte {
	e := &t.set[i]
	at := t.c.was(i)
	switch {
	case e.Dirty:
		at = t.c.is(i)
	case t.c.Word(at+versionAt) == 0:
		return nil
	}
	return t.c.MR.Bytes()[at+metaBytes : at+e.Bytes : at+e.Bytes]
}

// load makes an object a part of the set, as it is when it is unlocked. It may be torn: then a writer has taken the lock
// since, and the validation finds another version.
func (t *Tx) load(p rtx.Ptr) (int, error) {
	i, known, err := t.find(p)
	if err != nil {
		return 0, err
	}
	for n := 0; !known; n++ {
		e, at := &t.set[i], t.c.was(i)
		t.c.B.Reset()
		t.c.Read(t.f, at, e.At, e.Bytes)
		if e.confirmed = t.view && i == 0; e.confirmed {
			t.c.Read(t.f, t.c.meta(i), e.At, metaBytes)
		}
		if err := t.c.Await(t.f); err != nil {
			return 0, err
		}
		lock := t.c.Word(at + lockAt)
		if known = lock == 0; !known {
			if err := t.c.Meet(t.f, lock, n); err != nil {
				return 0, err
			}
		}
	}
	return i, nil
}

// Meet waits for a lock that was met n times before, or repairs what it is of, if its owner is dead.
func (c *Client) Meet(f *fiber.Fiber, lock uint64, n int) error {
	if owner := int(lock) - 1; lock != 0 && c.members != nil && c.members.Removed(owner) {
		if err := c.Repair(f, owner); err != nil {
			return err
		}
		c.members.Repaired(owner)
		return nil
	}
	return c.Pause(f, n)
}

// Read gives the value of an object, nil if it was never written.
func (t *Tx) Read(p rtx.Ptr) ([]byte, error) {
	i, err := t.load(p)
	if err != nil {
		return nil, err
	}
	return t.payload(i), nil
}

// ReadToUpdate is Read: what is to be updated is locked by the commit.
func (t *Tx) ReadToUpdate(p rtx.Ptr) ([]byte, error) { return t.Read(p) }

// Update gives a copy of an object's value that the commit writes, nil if it was never written.
func (t *Tx) Update(p rtx.Ptr) ([]byte, error) {
	i, err := t.load(p)
	if err != nil || t.payload(i) == nil {
		return nil, err
	}
	if e := &t.set[i]; !e.Dirty {
		if t.view {
			return nil, fmt.Errorf("%w: a view updates object %d", rtx.ErrUsage, p)
		}
		b := t.c.MR.Bytes()
		copy(b[t.c.is(i):][:e.Bytes], b[t.c.was(i):][:e.Bytes])
		e.Dirty = true
	}
	return t.payload(i), nil
}

// Write gives room for a new value of an object, all zero, that the commit writes.
func (t *Tx) Write(p rtx.Ptr, class int) ([]byte, error) {
	i, err := t.load(p)
	if err != nil {
		return nil, err
	}
	if t.view || t.c.Class(t.set[i].Bytes) != class {
		return nil, fmt.Errorf("%w: class %d for object %d, in a view: %v", rtx.ErrUsage, class, p, t.view)
	}
	t.set[i].Dirty = true
	clear(t.payload(i))
	return t.payload(i), nil
}

// Alloc makes an object, with a value of zeros that the commit writes.
func (t *Tx) Alloc(class int) (rtx.Ptr, []byte, error) {
	if class != 1 || t.view {
		return 0, nil, fmt.Errorf("%w: class %d is not that of nodes, or in a view: %v", rtx.ErrUsage, class, t.view)
	}
	c := t.c
	if len(t.set) == inplace.Objects {
		return 0, nil, fmt.Errorf("%w: more than %d objects", rtx.ErrTooLarge, inplace.Objects)
	}
	if len(c.spare) == 0 {
		p, err := c.Take(t.f)
		if err != nil {
			return 0, nil, err
		}
		c.spare = append(c.spare, p)
	}
	last := len(c.spare) - 1
	p := c.spare[last]
	i, _, err := t.find(p)
	if err != nil {
		return 0, nil, err
	}
	c.spare = c.spare[:last]
	t.set[i].Fresh, t.set[i].Dirty = true, true
	clear(t.c.MR.Bytes()[t.c.was(i):][:2*inplace.NodeBytes])
	return p, t.payload(i), nil
}

// Confirm reports whether what was read of an object is still its value, for copies that outlive the transaction: an
// Abort if not, false if the transaction has updated it.
func (t *Tx) Confirm(p rtx.Ptr) (bool, error) {
	i, known, err := t.find(p)
	if err != nil || !known || t.set[i].Dirty {
		return false, err
	}
	t.c.B.Reset()
	t.c.Read(t.f, t.c.meta(i), t.set[i].At, metaBytes)
	if err := t.c.Await(t.f); err != nil {
		return false, err
	}
	if t.c.Word(t.c.meta(i)+lockAt) != 0 || t.c.Word(t.c.meta(i)+versionAt) != t.c.Word(t.c.was(i)+versionAt) {
		return false, proto.Aborting(proto.ReasonValidation)
	}
	return true, nil
}

// Forget takes what was only read so far out of the validation, until it is read again.
func (t *Tx) Forget() {
	for i := range t.set {
		t.set[i].forgotten = !t.set[i].Dirty
	}
}

// Commit makes what was updated take effect, if what was read is valid still; else it is an Abort.
func (t *Tx) Commit() error {
	err := t.commit()
	t.committed = err == nil
	return err
}

func (t *Tx) commit() error {
	if err := t.c.Broken(); err != nil {
		return err
	}
	logged := 0
	for i := range t.set {
		if e := &t.set[i]; e.Dirty {
			t.c.SetWord(t.c.is(i)+versionAt, t.c.Word(t.c.was(i)+versionAt)+1)
			if !e.Fresh {
				logged++
			}
		}
	}
	switch {
	case logged == 0:
		return t.validate() // objects that are new cannot be reached
	case logged > mostLogged:
		return fmt.Errorf("%w: updates of %d objects, of up to %d", rtx.ErrTooLarge, logged, mostLogged)
	}
	if err := t.log(logged); err != nil {
		return err
	}
	t.f.Step(stepLogged)
	if err := t.lock(); err != nil {
		return t.undo(err)
	}
	t.f.Step(stepLocked)
	switch {
	case t.whenLocked == nil:
	case t.c.bug == bugFreshLate:
		return errors.Join(t.install(), t.fill())
	default:
		if err := t.fill(); err != nil {
			return t.undo(err)
		}
		t.f.Step(stepFilled)
	}
	return t.install()
}

// WhenLocked has the commit call a function when all that is updated is locked and valid, before it is decided: see Reread.
// The objects that are new are written behind that. What is updated is in the log by then, and must stay as it is.
func (t *Tx) WhenLocked(call func() error) { t.whenLocked = call }

// Reread reads the value of an object that is updated, in WhenLocked, where no other transaction changes it.
func (t *Tx) Reread(p rtx.Ptr) ([]byte, error) {
	i, known, err := t.find(p)
	if err != nil {
		return nil, err
	}
	if e := &t.set[i]; !known || !e.Held {
		return nil, rtx.ErrUsage
	}
	c, e := t.c, &t.set[i]
	c.B.Reset()
	c.Read(t.f, c.was(i)+metaBytes, e.At+metaBytes, e.Bytes-metaBytes)
	if err := c.Await(t.f); err != nil {
		return nil, err
	}
	return c.MR.Bytes()[c.was(i)+metaBytes : c.was(i)+e.Bytes : c.was(i)+e.Bytes], nil
}

// fill has the program make the new objects under the locks, and writes them.
func (t *Tx) fill() error {
	if err := t.whenLocked(); err != nil {
		return err
	}
	t.c.B.Reset()
	t.addFresh()
	return t.c.Await(t.f)
}

// addFresh adds the WRITEs of new objects to the batch.
func (t *Tx) addFresh() {
	for i := range t.set {
		if e := &t.set[i]; e.Fresh {
			t.c.Write(t.f, t.c.is(i), e.At, e.Bytes)
		}
	}
}

// log WRITEs the log, and the objects that are new, unless they are made under the locks.
func (t *Tx) log(n int) error {
	c := t.c
	b := c.MR.Bytes()
	c.number++
	at := c.logOut + logEntries
	c.B.Reset()
	if t.whenLocked == nil {
		t.addFresh()
	}
	for i := range t.set {
		if e := &t.set[i]; e.Dirty && !e.Fresh {
			c.SetWord(at, uint64(e.Ptr))
			c.SetWord(at+8, c.Word(c.is(i)+versionAt))
			copy(b[at+entryHead:], b[c.is(i)+metaBytes:][:e.Bytes-metaBytes])
			at += entryHead + e.Bytes - metaBytes
		}
	}
	c.SetWord(c.logOut+logState, c.number<<2|stateLocked)
	c.SetWord(c.logOut+logCount, uint64(n))
	c.SetWord(c.logOut+logHash, rtx.Hash(b[c.logOut+logEntries:at]))
	if c.bug == bugLogLate {
		at = c.logOut + 8
	}
	c.Write(t.f, c.logOut, c.Shape.OwnerAt(c.Owner), at-c.logOut)
	return c.Await(t.f)
}

// addValidation adds the READs of the metadata to the batch.
func (t *Tx) addValidation() {
	for i := range t.set {
		if e := &t.set[i]; !e.Fresh && !e.forgotten {
			t.c.Read(t.f, t.c.meta(i), e.At, metaBytes)
		}
	}
}

// judge says whether the validation has read what the execution has.
func (t *Tx) judge() error {
	c := t.c
	for i := range t.set {
		e := &t.set[i]
		if e.Fresh || e.forgotten {
			continue
		}
		want := uint64(0)
		if e.Held {
			want = c.Own()
		}
		if c.Word(c.meta(i)+lockAt) != want {
			return proto.Aborting(proto.ReasonLocked)
		}
		if c.Word(c.meta(i)+versionAt) != c.Word(c.was(i)+versionAt) && c.bug != bugNoValidation {
			return proto.Aborting(proto.ReasonValidation)
		}
	}
	return nil
}

// validate is for transactions that hold no lock.
func (t *Tx) validate() error {
	if len(t.set) != 1 || !t.set[0].confirmed {
		t.c.B.Reset()
		if t.addValidation(); t.c.B.Len() == 0 {
			return nil
		}
		if err := t.c.Await(t.f); err != nil {
			return err
		}
	}
	return t.judge()
}

// lock locks what is updated, with the validation behind it. An Abort leaves the locks that it got.
func (t *Tx) lock() error {
	c := t.c
	c.B.Reset()
	for i := range t.set {
		if e := &t.set[i]; e.Dirty && !e.Fresh {
			c.CAS(t.f, e.At+lockAt, 0, c.Own())
		}
	}
	t.addValidation()
	if err := c.Await(t.f); err != nil {
		return err
	}
	n, all := 0, true
	for i := range t.set {
		if e := &t.set[i]; e.Dirty && !e.Fresh {
			e.Held = c.B.Old(n) == 0
			all = all && e.Held
			n++
		}
	}
	if !all {
		return proto.Aborting(proto.ReasonLocked)
	}
	return t.judge()
}

// addUnlocks adds the release of all locks to the batch.
func (t *Tx) addUnlocks() {
	for i := range t.set {
		if e := &t.set[i]; e.Held {
			t.c.CAS(t.f, e.At+lockAt, t.c.Own(), 0)
			e.Held = false
		}
	}
}

// undo gives the locks back.
func (t *Tx) undo(err error) error {
	if t.c.Broken() != nil {
		return err
	}
	t.c.B.Reset()
	if t.addUnlocks(); t.c.B.Len() == 0 {
		return err
	}
	if failed := t.c.Await(t.f); failed != nil {
		return failed
	}
	return err
}

// install decides, writes the values in place, and unlocks, in one doorbell: what is behind the decision is seen only
// with it.
func (t *Tx) install() error {
	c := t.c
	c.SetWord(c.logOut+logState, c.number<<2|stateDecided)
	c.B.Reset()
	c.Write(t.f, c.logOut+logState, c.Shape.OwnerAt(c.Owner)+logState, 8)
	if err := t.phase(stepDecided); err != nil {
		return err
	}
	for i := range t.set {
		if e := &t.set[i]; e.Held {
			if c.bug == bugLockAfterWrite {
				c.CAS(t.f, e.At+lockAt, c.Own(), 0)
			}
			if c.idempotent {
				c.Write(t.f, c.is(i)+metaBytes, e.At+metaBytes, e.Bytes-metaBytes)
				c.CAS(t.f, e.At+versionAt, c.Word(c.was(i)+versionAt), c.Word(c.is(i)+versionAt))
			} else {
				c.install(t.f, e.At, e.Bytes, c.is(i)+versionAt)
			}
			if err := t.phase(stepInstalled); err != nil {
				return err
			}
		}
	}
	t.addUnlocks()
	return c.Await(t.f)
}

// phase ends a phase of a commit, if they are awaited one by one.
func (t *Tx) phase(step string) error {
	if !t.c.awaited {
		return nil
	}
	if err := t.c.Await(t.f); err != nil {
		return err
	}
	t.f.Step(step)
	t.c.B.Reset()
	return nil
}

// Rollback ends the transaction without effect: nil if what was read is valid, or an Abort.
func (t *Tx) Rollback() error {
	if err := t.c.Broken(); err != nil {
		return err
	}
	return t.validate()
}

// Abort ends it without effect: nothing is held before Commit.
func (t *Tx) Abort() error { return t.c.Broken() }
