package hades

import (
	"math/bits"

	"drtmd/htm/bloom"
	"drtmd/proto"
	"drtmd/proto/hades/hardware"
	"drtmd/store/layout"
)

// lineSet are lines of a record: bit i is line i from its beginning on.
type lineSet uint64

const headerLine lineSet = 1

// maxLines of a record of which parts are accessed; a longer one is accessed as a whole.
const maxLines = 64

// allLines are those of a record of so many.
func allLines(count int) lineSet { return lineSet(1)<<min(count, maxLines) - 1 }

// linesAt are the lines of some bytes of a value, with that of the header: it stands for the record's place and version,
// so that fields of one record conflict. partly are those of which other bytes are left.
func (c *Chip) linesAt(offset, size int) (all, partly lineSet) {
	first, end := layout.ValueOffset+offset, layout.ValueOffset+offset+size
	if size == 0 || end > maxLines*layout.LineBytes {
		return headerLine, headerLine
	}
	header := headerLine
	if c.lacks(fieldWithoutHeader) {
		header = 0
	}
	from, to := first/layout.LineBytes, (end-1)/layout.LineBytes
	all = allLines(to+1) &^ allLines(from)
	if first%layout.LineBytes > 0 {
		partly |= 1 << from
	}
	if end%layout.LineBytes > 0 {
		partly |= 1 << to
	}
	return all | header, partly | header
}

// inFields notes which parts of its records a declaration names.
func (x *tx) inFields(d *proto.Decl) {
	for i := range d.Accesses {
		a := &d.Accesses[i]
		if !a.InFields() || a.Mode > proto.ModeWrite {
			continue
		}
		r := x.Find(a.Table, a.Key)
		if r == nil || x.longer(r) {
			continue
		}
		p := &r.Own
		for _, f := range a.Fields {
			lines, _ := x.e.chip.linesAt(int(f.Offset), int(f.Bytes))
			if f.Write && a.Mode == proto.ModeWrite {
				p.toWrite |= lines
			} else {
				p.toRead |= lines
			}
		}
		p.toRead &^= p.toWrite
	}
}

// longer reports whether a record has more lines than a lineSet.
func (x *tx) longer(r *record) bool { return len(r.Image) > maxLines*layout.LineBytes }

// wanted are the lines of a record that have to be accessed before the program sees it: to be read only, and to be
// written.
func (p *part) wanted(m proto.Mode) (read, write lineSet) {
	switch {
	case p.toRead|p.toWrite != 0:
		return p.toRead &^ p.toWrite, p.toWrite
	case m == proto.ModeInsert:
		return 0, headerLine // the others are written as a whole
	case m >= proto.ModeWrite:
		return 0, allLines(p.count)
	}
	return allLines(p.count), 0
}

// list gives lines of a record in x.lines.
func (x *tx) list(r *record, set lineSet) []bloom.Line {
	x.lines = x.appendLines(x.lines[:0], r, set)
	return x.lines
}

// appendLines appends lines of a record; a set with all of its bits has those behind them, too.
func (x *tx) appendLines(to []bloom.Line, r *record, set lineSet) []bloom.Line {
	for rest := set; rest != 0; rest &= rest - 1 {
		to = append(to, r.Own.first+bloom.Line(bits.TrailingZeros64(uint64(rest))))
	}
	if set == allLines(maxLines) {
		for i := maxLines; i < r.Own.count; i++ {
			to = append(to, r.Own.first+bloom.Line(i))
		}
	}
	return to
}

// fetch asks the node of a record for lines of it that are wanted, and for the others as shadows.
func (x *tx) fetch(r *record) error {
	p := &r.Own
	read, write := p.wanted(r.Mode)
	p.have = read | write
	x.shadows = x.appendLines(x.shadows[:0], r, allLines(p.count)&^p.have)
	for i := maxLines; i < p.count && p.have != allLines(maxLines); i++ { // lines that no set names
		x.shadows = append(x.shadows, p.first+bloom.Line(i))
	}
	if write != 0 {
		if err := x.request(r, write, true, x.shadows); err != nil || read == 0 {
			return err
		}
		return x.request(r, read, false, nil)
	}
	return x.request(r, read, false, x.shadows)
}

func (x *tx) request(r *record, lines lineSet, write bool, shadows []bloom.Line) error {
	x.open++
	x.e.chip.Fetch(x.number, hardware.NodeID(r.Node), x.list(r, lines), write, shadows...)
	return x.spend(requestPs)
}

// widen accesses lines of a record that the transaction has loaded in part. Their content has come with the others.
func (x *tx) widen(r *record, lines lineSet, write bool) error {
	p := &r.Own
	if lines &^= p.have; lines == 0 || p.count == 0 || !r.Loaded {
		return nil
	}
	here := r.Node == x.e.env.Node
	if here && x.e.chip.hybrid {
		return nil // software accesses whole records
	}
	if err := x.over(); err != nil {
		return err
	}
	p.have |= lines
	if here {
		how := load
		if write {
			how |= store
		}
		if err := x.touchLines(x.list(r, lines), how); err != nil {
			return err
		}
		return x.spend(0)
	}
	if err := x.request(r, lines, write, nil); err != nil {
		return err
	}
	return x.answered()
}

// all is widen for an operation on the whole value.
func (x *tx) all(t proto.TableID, k proto.Key, m proto.Mode) error {
	if x.Err == nil {
		if r := x.Find(t, k); r != nil {
			x.Err = x.widen(r, allLines(r.Own.count), m == proto.ModeWrite)
		}
	}
	return x.Err
}

// partOf is widen for an operation on a part of a value; a record that the transaction does not know yet is added with
// that part.
func (x *tx) partOf(t proto.TableID, k proto.Key, m proto.Mode, lines lineSet) error {
	if x.Err != nil {
		return x.Err
	}
	r := x.Find(t, k)
	if r != nil {
		x.Err = x.widen(r, lines, m == proto.ModeWrite)
		return x.Err
	}
	i := len(x.Records)
	if err := x.Add(t, k, m); err != nil {
		return err
	}
	r = &x.Records[i]
	if !x.longer(r) {
		if r.Own.toRead = lines; m == proto.ModeWrite {
			r.Own.toRead, r.Own.toWrite = 0, lines
		}
	}
	x.Err = x.Load(i, i+1)
	return x.Err
}

// ReadAt implements proto.Fielder: the lines of the bytes are accessed.
func (x *tx) ReadAt(t proto.TableID, k proto.Key, offset int, dst []byte) error {
	lines, _ := x.e.chip.linesAt(offset, len(dst))
	if err := x.partOf(t, k, proto.ModeRead, lines); err != nil {
		return err
	}
	return x.Set.ReadAt(t, k, offset, dst)
}

// WriteAt implements proto.Fielder: lines that are written in part are fetched, the others are not (Table II).
func (x *tx) WriteAt(t proto.TableID, k proto.Key, offset int, value []byte) error {
	lines, partly := x.e.chip.linesAt(offset, len(value))
	if err := x.partOf(t, k, proto.ModeWrite, partly); err != nil {
		return err
	}
	if err := x.Set.WriteAt(t, k, offset, value); err != nil {
		return err
	}
	r := x.Find(t, k)
	if x.longer(r) {
		lines = allLines(r.Own.count) // no set names all of its lines
	}
	if x.e.chip.lacks(fieldHalfWritten) {
		lines &= headerLine | lineSet(1)<<((layout.ValueOffset+offset)/layout.LineBytes)
	}
	r.Own.dirty |= lines
	return nil
}

// Insert implements proto.Txn: all lines are written, also of a record that the transaction has changed and deleted.
func (x *tx) Insert(t proto.TableID, k proto.Key, value []byte) error {
	err := x.Set.Insert(t, k, value)
	x.wrote(t, k, err)
	return err
}

// Read implements proto.Txn.
func (x *tx) Read(t proto.TableID, k proto.Key, dst []byte) error {
	if err := x.all(t, k, proto.ModeRead); err != nil {
		return err
	}
	return x.Set.Read(t, k, dst)
}

// GetForUpdate implements proto.Txn.
func (x *tx) GetForUpdate(t proto.TableID, k proto.Key, dst []byte) error {
	if err := x.all(t, k, proto.ModeWrite); err != nil {
		return err
	}
	return x.Set.GetForUpdate(t, k, dst)
}

// ReadMany implements proto.Txn.
func (x *tx) ReadMany(gets []proto.Get) error {
	for i := range gets {
		if err := x.all(gets[i].Table, gets[i].Key, proto.ModeRead); err != nil {
			return err
		}
	}
	return x.Set.ReadMany(gets)
}

// Write implements proto.Txn: of a record that the transaction does not know yet, only lines that are written in part are
// fetched.
func (x *tx) Write(t proto.TableID, k proto.Key, value []byte) error {
	_, partly := x.e.chip.linesAt(0, len(value))
	if err := x.partOf(t, k, proto.ModeWrite, partly); err != nil {
		return err
	}
	err := x.Set.Write(t, k, value)
	x.wrote(t, k, err)
	return err
}

// AddTo implements proto.Adder.
func (x *tx) AddTo(t proto.TableID, k proto.Key, delta int64) error {
	if err := x.all(t, k, proto.ModeWrite); err != nil {
		return err
	}
	err := x.Set.AddTo(t, k, delta)
	x.wrote(t, k, err)
	return err
}

func (x *tx) wrote(t proto.TableID, k proto.Key, err error) {
	if err == nil {
		r := x.Find(t, k)
		r.Own.dirty = allLines(r.Own.count)
	}
}

// written are the lines of a record that the transaction writes at its commit.
func (p *part) written(r *record) lineSet {
	switch {
	case !r.Is:
		return headerLine // which says that it is deleted
	case !r.Was || p.dirty == 0:
		return allLines(p.count)
	}
	return p.dirty | headerLine
}
