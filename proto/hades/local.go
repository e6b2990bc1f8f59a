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
	if err := x.spend(findPs + x.e.software.Record(r.Mode > proto.ModeRead)); err != nil {
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
	p, b := &r.Own, x.e.chip.banks[r.At.Shard]
	if write := r.Mode >= proto.ModeInsert; write && !p.marked || p.count == 0 && !p.guard {
		p.guard, p.marked = true, write
		if err := x.readGuard(x.guardOf(r), write); err != nil {
			return err
		}
	}
	if p.count == 0 {
		if _, ok := b.find(r.Table, r.Key); !ok {
			r.Absent()
		}
		return nil
	}
	if err := x.readRecord(r); err != nil {
		return err
	}
	if place, ok := b.find(r.Table, r.Key); !ok || place != p.place {
		return nil // while a Locking Buffer was in the way
	}
	return x.accept(r, func() error { return x.readGuard(x.guardOf(r), false) })
}

// readGuard reads the line of a bucket or page, or writes it for an insertion.
func (x *tx) readGuard(line bloom.Line, write bool) error {
	x.lines = append(x.lines[:0], line)
	if x.e.chip.hybrid {
		return x.readSoftware(x.lines, write, nil)
	}
	if write {
		return x.touchLines(x.lines, store)
	}
	return x.touchLines(x.lines, load)
}

// readRecord loads a record of the own node. Of lines that the program does not access only the content is taken, for
// the checker.
func (x *tx) readRecord(r *record) error {
	p, c := &r.Own, x.e.chip
	if c.hybrid {
		p.have = allLines(p.count)
		return x.readSoftware(x.list(r, p.have), false, r.Image)
	}
	read, write := p.wanted(r.Mode)
	p.have = read | write
	how := load | store
	if r.Mode == proto.ModeInsert {
		how = store // what is there does not matter
	}
	if err := x.touchLines(x.list(r, write), how); err != nil {
		return err
	}
	if err := x.touchLines(x.list(r, read), load); err != nil {
		return err
	}
	for i := range p.count {
		c.Load(p.first+bloom.Line(i), &x.line)
		copy(r.Image[i*layout.LineBytes:], x.line[:])
	}
	return nil
}

// touch is what a program does to lines: it loads them, stores to them, or both.
type touch uint8

const (
	load touch = 1 << iota
	store
)

// touchLines accesses lines of the own node, all at once: it takes as long as the slowest. Lines that will be written are
// the transaction's from here on.
func (x *tx) touchLines(lines []bloom.Line, how touch) error {
	earlier, slowest := x.cycles, 0
	for _, line := range lines {
		x.cycles = 0
		var err error
		if how&load != 0 {
			err = x.retry(func() directory.Access { return x.e.chip.Read(x.number, line, &x.line) })
		}
		if err == nil && how&store != 0 {
			err = x.retry(func() directory.Access { return x.e.chip.Write(x.number, line, 0, nil) })
		}
		slowest = max(slowest, x.cycles)
		x.cycles = earlier + slowest
		if err != nil {
			return err
		}
	}
	return nil
}

// readSoftware is what HADES-H's software does to read lines of one record, or of a bucket or page.
func (x *tx) readSoftware(lines []bloom.Line, write bool, to []byte) error {
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
