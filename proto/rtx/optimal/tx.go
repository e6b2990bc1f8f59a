package optimal

import (
	"bytes"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/inplace"
	"drtmd/verbs/fiber"
)

// Tx is one operation of an index.
type Tx struct {
	c   *Client
	f   *fiber.Fiber
	set []inplace.Object
}

// Begin begins an operation. Commit, Rollback or Abort ends it: locks are held meanwhile. An Abort may follow either.
func (c *Client) Begin(f *fiber.Fiber) (*Tx, error) {
	if c.Broken() != nil {
		return nil, fmt.Errorf("%w: %w", rtx.ErrBroken, c.Broken())
	}
	t := &c.tx
	t.c, t.f, t.set = c, f, t.set[:0]
	return t, nil
}

// Room of entry i in the client's memory: what was read, and what it becomes.
func was(i int) int { return 2 * nodeBytes * i }
func is(i int) int  { return 2*nodeBytes*i + nodeBytes }

// check is where the validation of entry i reads its first 16 bytes to, as in Table 2, and its lock word behind them.
func check(i int) int { return 2*nodeBytes*inplace.Objects + checkBytes*i }

const (
	validated  = 16
	checkBytes = validated + 8
)

// find is the index of an object in the set, which it becomes a part of; known: it was.
func (t *Tx) find(p rtx.Ptr) (i int, known bool, err error) {
	for i := range t.set {
		if t.set[i].Ptr == p {
			return i, true, nil
		}
	}
	o, err := t.c.Object(p, len(t.set))
	if err != nil {
		return 0, false, err
	}
	t.set = append(t.set, o)
	return len(t.set) - 1, false, nil
}

// payload is what the operation sees of an object; nil: it was never written.
func (t *Tx) payload(i int) []byte {
	e := &t.set[i]
	if t.c.Word(was(i)) == 0 && !e.Dirty {
		return nil
	}
	at := was(i)
	if e.Dirty {
		at = is(i)
	}
	return t.c.MR.Bytes()[at+edgeBytes : at+e.Bytes-edgeBytes : at+e.Bytes-edgeBytes]
}

// whole reports whether what was read is one version.
func (t *Tx) whole(i int) bool {
	return t.c.Word(was(i)) == t.c.Word(was(i)+t.set[i].Bytes-edgeBytes)
}

// Read gives the value of an object, nil if it was never written.
func (t *Tx) Read(p rtx.Ptr) ([]byte, error) {
	i, known, err := t.find(p)
	if err != nil {
		return nil, err
	}
	for n := 0; !known; n++ {
		t.c.B.Reset()
		t.c.Read(t.f, was(i), t.set[i].At, t.set[i].Bytes)
		if err := t.c.Await(t.f); err != nil {
			return nil, err
		}
		if known = t.whole(i); !known {
			if err := t.c.Pause(t.f, n); err != nil {
				return nil, err
			}
		}
	}
	return t.payload(i), nil
}

// ReadToUpdate is Read of an object with its lock.
func (t *Tx) ReadToUpdate(p rtx.Ptr) ([]byte, error) {
	i, err := t.claim(p)
	if err != nil {
		return nil, err
	}
	return t.payload(i), nil
}

// claim makes an object one that may be updated: with its lock, unless the commit takes that.
func (t *Tx) claim(p rtx.Ptr) (int, error) {
	if !t.c.parts.Optimistic {
		return t.lock(p)
	}
	if _, err := t.Read(p); err != nil {
		return 0, err
	}
	i, _, err := t.find(p)
	return i, err
}

// lock locks an object and reads it: an Abort if it has changed since it was read without.
func (t *Tx) lock(p rtx.Ptr) (int, error) {
	i, known, err := t.find(p)
	if err != nil || t.set[i].Held || t.set[i].Fresh {
		return i, err
	}
	before := t.c.Word(was(i))
	for n := 0; ; n++ {
		t.c.B.Reset()
		cas := t.c.CAS(t.f, t.c.lockAt(p), 0, t.c.Own())
		t.c.Read(t.f, was(i), t.set[i].At, t.set[i].Bytes)
		if err := t.c.Await(t.f); err != nil {
			return 0, err
		}
		if t.c.B.Old(cas) == 0 {
			break
		}
		if err := t.c.Pause(t.f, n); err != nil {
			return 0, err
		}
	}
	t.set[i].Held = true
	if !t.whole(i) {
		return 0, fmt.Errorf("%w: object %d has two versions, and its lock was free", rtx.ErrCorrupt, p)
	}
	if known && t.c.Word(was(i)) != before {
		return 0, proto.Aborting(proto.ReasonValidation)
	}
	return i, nil
}

// Update gives a copy of an object's value that the commit writes, nil if it was never written.
func (t *Tx) Update(p rtx.Ptr) ([]byte, error) {
	i, err := t.claim(p)
	if err != nil || t.payload(i) == nil {
		return nil, err
	}
	if e := &t.set[i]; !e.Dirty {
		b := t.c.MR.Bytes()
		copy(b[is(i):is(i)+e.Bytes], b[was(i):was(i)+e.Bytes])
		e.Dirty = true
	}
	return t.payload(i), nil
}

// Write gives room for a new value of an object, all zero, that the commit writes.
func (t *Tx) Write(p rtx.Ptr, class int) ([]byte, error) {
	i, err := t.claim(p)
	if err != nil {
		return nil, err
	}
	if t.c.Class(t.set[i].Bytes) != class {
		return nil, fmt.Errorf("%w: class %d for object %d", rtx.ErrUsage, class, p)
	}
	t.set[i].Dirty = true
	clear(t.payload(i))
	return t.payload(i), nil
}

// Alloc makes an object, with a value of zeros that the commit writes.
func (t *Tx) Alloc(class int) (rtx.Ptr, []byte, error) {
	if class != 1 {
		return 0, nil, fmt.Errorf("%w: class %d is not that of nodes", rtx.ErrUsage, class)
	}
	p, err := t.c.Take(t.f)
	if err != nil {
		return 0, nil, err
	}
	i, _, err := t.find(p)
	if err != nil {
		return 0, nil, err
	}
	t.set[i].Fresh, t.set[i].Dirty = true, true
	clear(t.c.MR.Bytes()[was(i) : was(i)+2*nodeBytes])
	return p, t.payload(i), nil
}

// Confirm is true: a block that was read is whole by itself.
func (t *Tx) Confirm(p rtx.Ptr) (bool, error) {
	i, known, err := t.find(p)
	return err == nil && known && !t.set[i].Dirty, err
}

// Fiber is the fiber that the operation runs on.
func (t *Tx) Fiber() *fiber.Fiber { return t.f }

// Forget does nothing: nothing is validated.
func (t *Tx) Forget() {}

// Commit writes what was updated, and unlocks, in one doorbell: objects that are new first, so that who finds a
// pointer to one finds it.
func (t *Tx) Commit() error {
	if t.c.parts.Optimistic {
		if err := t.validate(); err != nil {
			return err
		}
	}
	t.c.B.Reset()
	for _, fresh := range []bool{true, false} {
		for i := range t.set {
			if e := &t.set[i]; e.Dirty && e.Fresh == fresh {
				t.writeBack(i)
			}
		}
	}
	return t.unlock()
}

// validate locks what is updated, and reads the beginning of all objects behind that, and the locks of those that were
// only read. An Abort holds nothing. Operations that update nothing are not validated: what each has read is whole.
func (t *Tx) validate() error {
	c := t.c
	c.B.Reset()
	for i := range t.set {
		if e := &t.set[i]; e.Dirty && !e.Fresh {
			c.CAS(t.f, c.lockAt(e.Ptr), 0, c.Own())
		}
	}
	locks := c.B.Len()
	if locks == 0 {
		return nil
	}
	for i := range t.set {
		e := &t.set[i]
		if !e.Fresh {
			c.Read(t.f, check(i), e.At, validated)
		}
		if !e.Dirty {
			c.Read(t.f, check(i)+validated, c.lockAt(e.Ptr), 8)
		}
	}
	if err := c.Await(t.f); err != nil {
		return err
	}
	reason, n := proto.Reason(0), 0
	for i := range t.set {
		e := &t.set[i]
		if e.Dirty && !e.Fresh {
			e.Held = c.B.Old(n) == 0
			n++
		}
		switch {
		case e.Fresh:
		case e.Dirty != e.Held, !e.Dirty && c.Word(check(i)+validated) != 0:
			reason = proto.ReasonLocked
		case c.Word(check(i)) != c.Word(was(i)) && reason == 0:
			reason = proto.ReasonValidation
		}
	}
	if reason == 0 {
		return nil
	}
	if err := t.Abort(); err != nil {
		return err
	}
	return proto.Aborting(reason)
}

// writeBack writes an object that has changed: the version at its end, the payload, the version at its beginning.
func (t *Tx) writeBack(i int) {
	c, e := t.c, &t.set[i]
	b := c.MR.Bytes()
	next := c.Word(was(i)) + 1
	c.SetWord(is(i), next)
	c.SetWord(is(i)+e.Bytes-edgeBytes, next)
	if e.Fresh {
		c.Write(t.f, is(i), e.At, e.Bytes)
		return
	}
	old, now := b[was(i)+edgeBytes:was(i)+e.Bytes-edgeBytes], b[is(i)+edgeBytes:is(i)+e.Bytes-edgeBytes]
	if bytes.Equal(old, now) {
		return // then the versions stay, too
	}
	c.Write(t.f, is(i)+e.Bytes-edgeBytes, e.At+e.Bytes-edgeBytes, edgeBytes)
	c.Write(t.f, is(i)+edgeBytes, e.At+edgeBytes, len(now))
	if c.parts.Idempotent {
		c.CAS(t.f, e.At, next-1, next)
		return
	}
	c.Write(t.f, is(i), e.At, edgeBytes)
}

// unlock gives the locks back, behind what is in the batch.
func (t *Tx) unlock() error {
	c, locks := t.c, 0
	for i := range t.set {
		if e := &t.set[i]; e.Held {
			c.CAS(t.f, c.lockAt(e.Ptr), c.Own(), 0)
			e.Held = false
			locks++
		}
	}
	if locks == 0 && c.B.Len() == 0 {
		return nil
	}
	if err := c.Await(t.f); err != nil {
		return err
	}
	for i := range locks {
		if old := c.B.Old(c.B.Len() - locks + i); old != c.Own() {
			return fmt.Errorf("%w: a lock of owner %d had word %#x", rtx.ErrCorrupt, c.Owner, old)
		}
	}
	return nil
}

// Rollback ends the operation without effect.
func (t *Tx) Rollback() error { return t.Abort() }

// Abort is Rollback.
func (t *Tx) Abort() error {
	if t.c.Broken() != nil {
		return t.c.Broken()
	}
	t.c.B.Reset()
	return t.unlock()
}
