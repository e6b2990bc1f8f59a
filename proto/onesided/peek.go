package onesided

import (
	"bytes"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// peekLooks bounds how often Peek looks at a record that is being changed or locked.
const peekLooks = 64

// Peek reads one record with a transaction object that is free (DrTM §7.4's reconnaissance): it takes no
// lock and proves nothing.
func (t *Tx) Peek(f *fiber.Fiber, table proto.TableID, k proto.Key, dst []byte) error {
	b := t.base
	defer func() { t.F = nil }()
	t.F, t.Records = f, t.Records[:0]
	if err := t.Add(table, k, proto.ModeRead); err != nil {
		return err
	}
	r := &t.Records[0]
	if len(dst) != len(r.Value) {
		return proto.WrongSize(table, k, len(dst), len(r.Value))
	}
	reason := proto.ReasonConflict
	for range peekLooks {
		whole, err := t.peek(r)
		if err != nil {
			return err
		}
		key, _, s := Header(r)
		locked := layout.Locked(s)
		if whole && (!locked || b.Skips(PeekLock)) {
			presence := Presence(r)
			if b.Skips(PeekKey) {
				presence = layout.Live
			}
			switch presence {
			case layout.Live:
				copy(dst, r.Fetch())
				return nil
			case layout.Absent:
				return proto.ErrNotFound
			}
			t.Drop(r)
		}
		if locked && key == uint64(k) {
			reason = proto.ReasonLocked
			if err := t.Met(r, s); proto.AbortReason(err) == proto.ReasonOrphaned {
				return err
			}
		}
		if err := f.Yield(); err != nil {
			return err
		}
	}
	return proto.Aborting(reason)
}

// peek finds a record, copies its entry, and reports whether the copy is of one moment.
func (t *Tx) peek(r *Record) (whole bool, err error) {
	b := t.base
	r.Own.Found = false
	switch missing, err := t.look(0, 1, false, remote.Proved); {
	case err == errStale:
		SetState(r, 0) // there is nothing to see
		return false, nil
	case err != nil:
		return false, err
	case missing > 0:
		return false, proto.ErrNotFound
	case r.Node == b.Env.Node:
		return t.CopyHere(r, !b.Skips(PeekTwice)), nil
	}
	if r.Apart() && b.Worded() { // the layout's own proof
		was := t.F.Shield()
		defer t.F.Unshield(was)
		addr, rkey := b.Address(r)
		if err := b.peer(r).Conn.Read(t.F, r.SGE, addr, rkey); err != nil {
			return false, t.Unreachable(r, err)
		}
		return r.Proved() || b.Skips(PeekTwice), nil
	}
	again, sge, err := t.buffers.At(1, layout.HeaderBytes)
	if err != nil {
		return false, err
	}
	// Twice, the second time the header only: see CopyHere. A READ that is in flight has to end before
	// its buffer is used again.
	was := t.F.Shield()
	conn := b.peer(r).Conn
	addr, rkey := b.Address(r)
	t.Batch.Reset()
	for _, s := range [...]verbs.SGE{r.SGE, sge} {
		t.Batch.Read(t.F, conn, s, addr, rkey)
	}
	err = t.Batch.Await(t.F)
	t.F.Unshield(was)
	if err != nil {
		return false, t.Unreachable(r, err)
	}
	_, _, s := header(again)
	return bytes.Equal(again[:layout.StateOffset], r.Image[:layout.StateOffset]) &&
		!layout.Locked(s) || b.Skips(PeekTwice), nil
}

// CopyHere copies an entry of the own machine without a region, all of it or its Lines as of one moment, and
// reports false if it was being written. A line is copied at one moment. Whoever writes several lines of
// an entry, a region or a remote transaction, has the first one locked, by its word or by its state,
// before it writes any and until it has written all, and changes the version; so the copy is whole if
// the header is unlocked and the same before and after. twice says whether it is looked at.
func (t *Tx) CopyHere(r *Record, twice bool) bool {
	m, off := t.base.Memory(r)
	single := len(r.Image) <= layout.LineBytes || r.Lines == 1
	for at := 0; at < len(r.Image); at += layout.LineBytes {
		if r.Lines != 0 && r.Lines>>(at/layout.LineBytes)&1 == 0 {
			continue
		}
		if !m.PeekPart(off+at, r.Image[at:min(at+layout.LineBytes, len(r.Image))]) {
			return false
		}
		t.step(t.base.Steps.Lines)
	}
	if single && t.base.Worded() || !twice || t.base.Skips(CopyTwice) {
		return true
	}
	_, v, _ := Header(r)
	_, now, s, ok := t.HeaderNow(r)
	return ok && now == v && !layout.Locked(s)
}

// HeaderNow copies the header of an entry of the own machine as it is now, at one moment.
func (t *Tx) HeaderNow(r *Record) (key uint64, v layout.Version, state uint64, ok bool) {
	var words [layout.HeaderBytes / 8]uint64
	m, off := t.base.Memory(r)
	ok = m.PeekWords(off, &words)
	return words[layout.KeyOffset/8], layout.Version(words[layout.VersionOffset/8]), words[layout.StateOffset/8], ok
}
