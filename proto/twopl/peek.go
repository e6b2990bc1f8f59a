package twopl

import (
	"bytes"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lineword"
)

// peekTries bounds how often Peek looks at a record that is being changed.
const peekTries = 64

// Peek implements proto.Peeker: a READ of the entry, and a second one of its header where a READ
// is not atomic. A record that is unlocked at both looks, with the same version, was not written
// in between, because whoever writes it holds the lock all the while and raises the version first.
func (e *Engine) Peek(f *fiber.Fiber, id proto.TableID, k proto.Key, dst []byte) error {
	t, err := e.take(f)
	if err != nil {
		return err
	}
	// A READ that is in flight has to end before its buffer is used again.
	was := f.Shield()
	defer func() {
		f.Unshield(was)
		e.put(t)
	}()
	r, err := t.add(id, k)
	if err != nil {
		return err
	}
	if len(dst) != r.table.valueBytes {
		return proto.WrongSize(id, k, len(dst), r.table.valueBytes)
	}
	for range peekTries {
		missing, err := t.look(0)
		switch {
		case err != nil:
			return err
		case missing > 0:
			return proto.ErrNotFound
		}
		whole, err := t.peek(r)
		if err != nil {
			return unreachable(err)
		}
		if !whole {
			if s := r.state(); s != unlocked && t.met(r, s) == proto.ReasonOrphaned {
				return proto.Aborting(proto.ReasonOrphaned)
			}
			if err := f.Yield(); err != nil {
				return err
			}
			continue
		}
		t.inspect(r)
		if t.e.lacks(PeekNoKeyCheck) {
			r.is = layout.Match(uint64(r.key), uint64(r.key), r.found)
		}
		switch r.is {
		case layout.Live:
			copy(dst, r.value())
			return nil
		case layout.Absent:
			return proto.ErrNotFound
		}
		t.forget(r)
	}
	return proto.Aborting(proto.ReasonLocked)
}

// peek reads an entry and reports whether all of it is of one moment and unlocked.
func (t *tx) peek(r *record) (whole bool, err error) {
	p := &t.e.cfg.Peers[r.node]
	addr, rkey := p.Memory.Addr+r.off, p.Memory.RKey
	if err := p.Conn.Read(t.f, r.sge, addr, rkey); err != nil {
		return false, err
	}
	if r.state() != unlocked && !t.e.lacks(PeekNoLock) {
		return false, nil
	}
	if t.e.lacks(PeekNoSecondLook) {
		return true, nil
	}
	if t.e.cfg.Memory.Words != nil && len(r.buf) <= lineword.LineBytes {
		return true, nil
	}
	// The buffer of the second record, which there is none of.
	mr, at := t.chunks[0], t.e.stride
	header := mr.Bytes()[at : at+layout.HeaderBytes]
	if err := p.Conn.Read(t.f, mr.SGE(at, layout.HeaderBytes), addr, rkey); err != nil {
		return false, err
	}
	return bytes.Equal(header, r.buf[:layout.HeaderBytes]), nil
}
