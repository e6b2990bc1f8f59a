package hades

import (
	"errors"
	"fmt"

	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/proto/history"
	"drtmd/store/layout"
)

// Commit implements proto.Tx.
func (x *tx) Commit() error {
	if x.Err != nil {
		err := x.Err
		x.Abort(err)
		return err
	}
	x.F.Step(stepCommit)
	err := x.over()
	for i := range x.Records {
		if r := &x.Records[i]; err == nil && r.Changes() {
			err = x.prepare(i, r)
		}
	}
	x.NoteWrites()
	for i := range x.Records {
		if r := &x.Records[i]; err == nil && r.Changes() {
			err = x.store(r)
		}
	}
	if err == nil {
		x.replicate()
		err = x.commit()
	}
	if err == nil && len(x.copies) == 0 && !x.mayTell() {
		x.finish(history.Aborted)
		return proto.Aborting(proto.ReasonMoved)
	}
	switch {
	case errors.Is(err, proto.ErrUnknownOutcome):
		x.finish(history.Unknown) // the others decide
		return err
	case err != nil:
		x.Abort(err)
		return err
	}
	x.e.stats.Committed++
	x.finish(history.Committed)
	return nil
}

// Rollback implements proto.Tx: what was read is committed, and nothing is written.
func (x *tx) Rollback() error {
	err := x.Err
	if err == nil {
		err = x.over()
	}
	if err == nil {
		x.e.chip.Undo(x.number)
		err = x.commit()
	}
	if err == nil && !x.mayTell() {
		x.finish(history.Aborted)
		return proto.Aborting(proto.ReasonMoved)
	}
	if err != nil {
		x.Abort(err)
		return err
	}
	for i := range x.Records {
		x.Records[i].Dirty = false
	}
	x.e.stats.RolledBack++
	x.finish(history.UserAborted)
	return nil
}

// mayTell reports whether the client may be told of what was read in the own memory alone: nobody serves in the place of
// this node. What was written has records that other nodes keep, and these know who is a member.
func (x *tx) mayTell() bool {
	c := x.e.chip
	return c.view == nil || x.e.env.MayServe() || c.lacks(serveLeaseless)
}

// Abort implements proto.Tx.
func (x *tx) Abort(error) {
	x.remember()
	x.drop()
	x.finish(history.Aborted)
}

// drop ends the transaction in the model, if that has not done so.
func (x *tx) drop() {
	if x.on && x.end == 0 {
		x.e.chip.Abort(x.number)
	}
	x.on = false
}

// finish ends the attempt.
func (x *tx) finish(o history.Outcome) {
	x.on = false
	for i := range x.Records {
		r := &x.Records[i]
		if !r.Own.held {
			continue
		}
		v := layout.Version(0)
		if o == history.Committed && r.Changes() {
			v = r.Next()
		}
		r.Own.held = false
		r.Own.home.release(held{r.At.Shard, x.e.env.Node, r.Table, r.Key, r.Own.place, v})
	}
	x.Close(o)
	x.e.free = append(x.e.free, x)
}

// prepare makes a record one that is written, inserted or deleted, if the program did so after it had read it only.
func (x *tx) prepare(i int, r *record) error {
	p := &r.Own
	switch {
	case r.Was && r.Mode < proto.ModeWrite && r.Node != x.e.env.Node:
		if err := x.fetchForWrite(r); err != nil || r.Is {
			return err
		}
		return x.prepare(i, r)
	case r.Was && (r.Is || p.held):
		return nil
	case r.Was: // a deletion: its entry is given back later
		home, b, err := x.home(r.Node, r.At.Shard)
		if err != nil {
			return err
		}
		place, err := home.ensure(b, r.Table, r.Key, x.e.env.Node)
		if err != nil {
			return err
		}
		p.held, p.home = true, home
		if place != p.place {
			p.place = place // it is on its way to be squashed
			return proto.Aborting(proto.ReasonConflict)
		}
		return nil
	case p.marked:
		return nil
	}
	x.value = append(x.value[:0], r.Value...)
	r.Mode, r.Loaded = proto.ModeInsert, false
	*p = part{}
	if err := x.Load(i, i+1); err != nil {
		return err
	}
	if r.Was {
		return proto.Aborting(proto.ReasonConflict)
	}
	r.Is = true
	copy(r.Value, x.value)
	return nil
}

// fetchForWrite has the lines of a record which were read and will be written join the write filter of their node
// (Write-fetch, Table II).
func (x *tx) fetchForWrite(r *record) error {
	r.Mode = proto.ModeWrite
	r.Own.toWrite |= r.Own.dirty | headerLine
	if err := x.request(r, r.Own.toWrite, true, nil); err != nil {
		return err
	}
	return x.answered()
}

// store writes a record into the lines of the own node, or into the copies of another's.
func (x *tx) store(r *record) error {
	r.Seal(r.Next())
	p, n := &r.Own, x.e.chip
	invariant.Assert(p.count > 0, "hades: a record is written that has no lines")
	here, lines := r.Node == x.e.env.Node, p.written(r)
	for i := range p.count {
		if i < maxLines && lines>>i&1 == 0 {
			continue
		}
		line, at := p.first+bloom.Line(i), i*layout.LineBytes
		bytes := r.Image[at:min(at+layout.LineBytes, len(r.Image))]
		switch {
		case !here:
			x.update(r, line, i == 0, bytes)
		case n.hybrid:
			n.WriteRecord(x.number, p.first, line, 0, bytes)
		default:
			err := x.retry(func() directory.Access { return n.Write(x.number, line, 0, bytes) })
			if err != nil {
				return err
			}
		}
	}
	if p.marked && !here {
		guard, node := x.guardOf(r), hardware.NodeID(r.Node)
		n.Update(x.number, node, guard, 0, nil)
		if n.hybrid {
			n.Advance(x.number, node, guard, 0)
		}
	}
	return x.spend(0)
}

// update changes the copy of a line of another node. In HADES-H the version of a header is a step of its own.
func (x *tx) update(r *record, line bloom.Line, header bool, bytes []byte) {
	n, node := x.e.chip, hardware.NodeID(r.Node)
	if !header || !n.hybrid {
		n.Update(x.number, node, line, 0, bytes)
		return
	}
	const version, behind = layout.VersionOffset, layout.VersionOffset + 8
	n.Update(x.number, node, line, 0, bytes[:version])
	n.Update(x.number, node, line, behind, bytes[behind:])
	n.Advance(x.number, node, line, uint64(r.Next()))
}

// commit has the model commit the transaction, and waits for the end. It is not cancelled.
func (x *tx) commit() error {
	f := x.F
	was := f.Shield()
	defer f.Unshield(was)
	if err := x.retry(func() directory.Access { return x.e.chip.Commit(x.number) }); err != nil {
		return err
	}
	for x.end == 0 {
		if x.acked {
			x.validate()
			continue
		}
		if err := x.wait(f); err != nil { // the node was killed
			return fmt.Errorf("%w: %w", proto.ErrUnknownOutcome, err)
		}
	}
	if x.end != hardware.Committed {
		return x.over()
	}
	f.Charge(int64(x.cycles) * hardware.CyclePs)
	x.cycles = 0
	if len(x.copies) > 0 {
		x.Told()
	}
	f.Step(stepCommitted)
	return nil
}

// validate is the Local Validation of HADES-H.
func (x *tx) validate() {
	x.acked = false
	if x.F.Step(stepValidate); x.over() != nil {
		return // the members have changed
	}
	x.cycles += x.e.chip.Validate(x.number).Cycles
}

// remember notes the lines of an attempt, for one that locks them before. Another placement has others.
func (x *tx) remember() {
	if v := x.e.chip.view; v != nil && x.epoch != v.epoch {
		x.forget()
		return
	}
	for i := range x.Records {
		r := &x.Records[i]
		p := &r.Own
		if p.count > 0 {
			write := p.dirty
			if r.Mode >= proto.ModeWrite {
				_, w := p.wanted(r.Mode)
				write |= w
			}
			if r.Changes() {
				write |= p.written(r)
			}
			for j := range p.count {
				if bit := lineSet(1) << j; j >= maxLines || (p.have|write)&bit != 0 {
					x.noteLine(r.Node, p.first+bloom.Line(j), j < maxLines && write&bit != 0 || j >= maxLines && write != 0)
				}
			}
		}
		if p.guard {
			x.noteLine(r.Node, x.guardOf(r), p.marked)
		}
	}
	for _, p := range x.pages {
		x.noteLine(p.node, p.line, false)
	}
}
