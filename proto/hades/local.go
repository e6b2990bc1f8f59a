package hades

import (
	"drtmd/htm/bloom"
	"drtmd/htm/directory"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/store/layout"
)

// access loads a record of the own node.
func (x *tx) access(r *record) error {
	if err := x.spend(findPs); err != nil {
		return err
	}
	for !r.Loaded {
		if r.Own.tries++; r.Own.tries > maxTries {
			return proto.Aborting(proto.ReasonStale)
		}
		if err := x.locate(r); err != nil {
			return err
		}
		if err := x.accessOnce(r); err != nil {
			return err
		}
	}
	return x.spend(0)
}

func (x *tx) accessOnce(r *record) error {
	p, home := &r.Own, x.e.chip
	if write := r.Mode >= proto.ModeInsert; write && !p.marked || p.count == 0 && !p.guard {
		p.guard, p.marked = true, write
		if err := x.readGuard(x.guardOf(r), write); err != nil {
			return err
		}
	}
	if p.count == 0 {
		if _, ok := home.find(r.Table, r.Key); !ok {
			r.Absent()
		}
		return nil
	}
	if err := x.readLines(x.linesOf(r), r.Mode >= proto.ModeWrite, r.Image); err != nil {
		return err
	}
	if place, ok := home.find(r.Table, r.Key); !ok || place != p.place {
		return nil // while a Locking Buffer was in the way
	}
	return x.accept(r, func() error { return x.readGuard(x.guardOf(r), false) })
}

// readGuard reads the line of a bucket or page, and writes it for an insertion.
func (x *tx) readGuard(line bloom.Line, write bool) error {
	x.lines = append(x.lines[:0], line)
	return x.readLines(x.lines, write, nil)
}

// readLines loads lines of the own node. Lines that will be written are the transaction's from here on.
func (x *tx) readLines(lines []bloom.Line, write bool, to []byte) error {
	if x.e.chip.hybrid {
		return x.readRecord(lines, write && to == nil, to)
	}
	for i, line := range lines {
		err := x.retry(func() directory.Access { return x.e.chip.Read(x.number, line, &x.line) })
		if err == nil && to != nil {
			copy(to[min(i*layout.LineBytes, len(to)):], x.line[:])
		}
		if err == nil && write {
			err = x.retry(func() directory.Access { return x.e.chip.Write(x.number, line, 0, nil) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readRecord is readLines of HADES-H's software.
func (x *tx) readRecord(lines []bloom.Line, write bool, to []byte) error {
	for len(x.some) < len(lines) {
		x.some = append(x.some, hardware.Data{})
	}
	err := x.retry(func() directory.Access { return x.e.chip.ReadRecord(x.number, lines, x.some[:len(lines)]) })
	if err != nil {
		return err
	}
	for i := range lines {
		if to != nil {
			copy(to[min(i*layout.LineBytes, len(to)):], x.some[i][:])
		}
	}
	if write {
		x.e.chip.WriteRecord(x.number, lines[0], lines[0], 0, nil)
	}
	return nil
}

// retry repeats an access that a Locking Buffer denies.
func (x *tx) retry(access func() directory.Access) error {
	for {
		if err := x.over(); err != nil {
			return err
		}
		a := access()
		x.cycles += a.Cycles
		switch a.Verdict {
		case directory.Granted:
			return nil
		case directory.Conflict:
			return x.over()
		}
		x.denied = true
		err := x.wait(x.F)
		x.denied = false
		if err != nil {
			return err
		}
	}
}
