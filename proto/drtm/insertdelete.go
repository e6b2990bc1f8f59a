package drtm

import (
	"encoding/binary"
	"errors"

	"drtmd/proto"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Records that have no entry yet, or shall have none any more, from the side of the transaction:
// an insertion has an absent entry made, locks it in START like every record to be written, and its
// commit makes it live; an abort leaves it absent, and its machine takes it away. A deletion leaves
// a tombstone, which its machine is told of. A read that finds nothing leases an absent entry.

// ensure makes entries for the records that have none: absent ones, so that there is something to
// lock or lease. Requests to other machines are in flight together.
func (t *tx) ensure() error {
	e := t.e
	var first error
	n := 0
	for i := range t.items {
		it := &t.items[i]
		if !it.verbs || it.found {
			continue
		}
		if it.node == e.cfg.Node {
			off, a := e.host.ensure(it.table, it.key)
			if err := t.place(it, off, a); err != nil && first == nil {
				first = err
			}
			continue
		}
		if n == len(t.calls) {
			t.calls = append(t.calls, new(ensureCall))
		}
		c := t.calls[n]
		c.item = i
		encodeRequest(&c.req, it.table, it.key)
		if err := e.cfg.Peers[it.node].Session.Start(t.f, &c.call, TypeEnsure, c.req[:],
			c.resp[:]); err != nil {
			first = unreachableRPC(t.f, err)
			break
		}
		n++
	}
	if n > 0 {
		t.f.Step("drtm: before ensure")
	}
	for _, c := range t.calls[:n] {
		if _, err := c.call.Await(t.f, 0); err != nil {
			if first == nil {
				first = unreachableRPC(t.f, err)
			}
			continue
		}
		a := answer(binary.LittleEndian.Uint64(c.resp[:]))
		off := binary.LittleEndian.Uint64(c.resp[8:])
		it := &t.items[c.item]
		if a == answerDone {
			d := e.cfg.Peers[it.node].Tables[it.table-1].Descriptor()
			if !d.Entry(off) {
				a = answerBusy // not a place of this table
			}
		}
		if err := t.place(it, int(off), a); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// place takes the answer to an ensure.
func (t *tx) place(it *item, off int, a answer) error {
	switch a {
	case answerDone:
		it.off, it.found = off, true
		return nil
	case answerFull:
		return proto.Aborting(proto.ReasonFull)
	}
	return proto.Aborting(proto.ReasonConflict)
}

// sendForget tells a record's machine that its entry can be given back.
func (t *tx) sendForget(it *item) {
	if len(t.calls) == 0 {
		t.calls = append(t.calls, new(ensureCall))
	}
	c := t.calls[0]
	encodeRequest(&c.req, it.table, it.key)
	// The error does not matter: see forgetRemote.
	_, _ = t.e.cfg.Peers[it.node].Session.Call(t.f, TypeForget, c.req[:], c.resp[:], 0)
}

// unreachableRPC is the Abort of a call that failed: the machine does not answer.
func unreachableRPC(f *fiber.Fiber, err error) error {
	if stop := f.Err(); stop != nil {
		return stop
	}
	for _, gone := range [...]error{rpc.ErrPeerGone, rpc.ErrPeerReset, rpc.ErrUnanswered,
		rpc.ErrClosed, rpc.ErrBroken} {
		if errors.Is(err, gone) {
			return proto.Aborting(proto.ReasonUnreachable)
		}
	}
	return err
}
