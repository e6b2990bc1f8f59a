package onesided

import (
	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
)

// Records that a scan has found may be read without lock or lease, and looked at again in the commit, after the
// ranges: who finds them unlocked and at the same version knows that they were so at the moment of CheckRanges.

// foundLooks bounds how often a record of the own machine is copied that others change meanwhile.
const foundLooks = 16

// ReadFound reads the records from index from to before index to, which a scan has found, all at once.
func (t *Tx) ReadFound(from, to int) error {
	if _, err := t.look(from, to, true, remote.Proved); err != nil {
		return err
	}
	was := t.F.Shield()
	defer t.F.Unshield(was)
	b := t.base
	t.Batch.Reset()
	for i := from; i < to; i++ {
		r := &t.Records[i]
		r.Own.Op, r.Own.Free = -1, true
		switch {
		case !r.Own.Found:
			return proto.Aborting(proto.ReasonValidation) // its entry was given back meanwhile
		case r.Node == b.Env.Node:
			if err := t.copyFound(r); err != nil {
				return err
			}
		default:
			// The header once more before, since the lines of a READ may be of moments in any order.
			_, sge, err := t.heads.At(i, layout.LineBytes)
			if err != nil {
				return err
			}
			conn := b.peer(r).Conn
			addr, rkey := b.Address(r)
			r.Own.Op = t.Batch.Len()
			t.Batch.Read(t.F, conn, verbs.SGE{Addr: sge.Addr, Length: layout.HeaderBytes, LKey: sge.LKey}, addr, rkey)
			t.Batch.Read(t.F, conn, r.SGE, addr, rkey)
			b.charge(t, b.Costs.Ask)
		}
	}
	if t.Batch.Len() == 0 {
		return nil
	}
	_ = t.Batch.Await(t.F) // each has its own error
	var err error
	for i := from; i < to; i++ {
		if r := &t.Records[i]; r.Own.Op >= 0 {
			err = worse(err, t.readFound(i, r))
		}
	}
	return err
}

// readFound takes a record that was READ.
func (t *Tx) readFound(i int, r *Record) error {
	for op := r.Own.Op; op < r.Own.Op+2; op++ {
		if err := t.Batch.Err(op); err != nil {
			return t.Unreachable(r, err)
		}
	}
	head, _, _ := t.heads.At(i, layout.LineBytes)
	key, v, s := header(head)
	_, again, s2 := Header(r)
	switch {
	case key == uint64(r.Key) && layout.Locked(s):
		return t.Met(r, s)
	case again != v || layout.Locked(s2):
		return proto.Aborting(proto.ReasonValidation)
	}
	return t.acceptFound(r)
}

func (t *Tx) acceptFound(r *Record) error {
	presence := Presence(r)
	if presence == layout.Stale {
		return t.Misplaced(r)
	}
	_, v, _ := Header(r)
	r.Accept(v, presence == layout.Live)
	return nil
}

// copyFound reads a record of the own machine.
func (t *Tx) copyFound(r *Record) error {
	for range foundLooks {
		if !t.CopyHere(r, true) {
			continue
		}
		if key, _, s := Header(r); key == uint64(r.Key) && layout.Locked(s) {
			return t.Met(r, s)
		}
		return t.acceptFound(r)
	}
	return proto.Aborting(proto.ReasonValidation)
}

// SameFound is an abort if one of the records that ReadFound has read is locked now, or another one.
func (t *Tx) SameFound() error {
	b := t.base
	if b.Skips(FoundCheck) {
		return nil
	}
	was := t.F.Shield()
	defer t.F.Unshield(was)
	t.Batch.Reset()
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Free || r.Node == b.Env.Node {
			continue
		}
		_, sge, err := t.heads.At(i, layout.LineBytes)
		if err != nil {
			return err
		}
		// The state first: if it is unlocked and the version the old one still, nobody had locked the record who
		// has changed it since.
		conn := b.peer(r).Conn
		addr, rkey := b.Address(r)
		r.Own.Op = t.Batch.Len()
		at := func(from, to int) verbs.SGE {
			return verbs.SGE{Addr: sge.Addr + uint64(from), Length: uint32(to - from), LKey: sge.LKey}
		}
		t.Batch.Read(t.F, conn, at(layout.StateOffset, layout.StateOffset+8), addr+layout.StateOffset, rkey)
		t.Batch.Read(t.F, conn, at(0, layout.StateOffset), addr, rkey)
	}
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Free || r.Node != b.Env.Node {
			continue
		}
		if key, v, s, ok := t.HeaderNow(r); !ok || key != uint64(r.Key) || v != r.Version || layout.Locked(s) {
			_ = t.Batch.Await(t.F)
			return proto.Aborting(proto.ReasonValidation)
		}
	}
	if t.Batch.Len() == 0 {
		return nil
	}
	_ = t.Batch.Await(t.F) // each has its own error
	var err error
	for i := range t.Records {
		r := &t.Records[i]
		if !r.Own.Free || r.Node == b.Env.Node {
			continue
		}
		head, _, _ := t.heads.At(i, layout.LineBytes)
		key, v, s := header(head)
		failed := t.Batch.Err(r.Own.Op)
		if failed == nil {
			failed = t.Batch.Err(r.Own.Op + 1)
		}
		switch {
		case failed != nil:
			err = worse(err, t.Unreachable(r, failed))
		case key != uint64(r.Key) || v != r.Version || layout.Locked(s):
			err = worse(err, proto.Aborting(proto.ReasonValidation))
		}
	}
	return err
}
