package nocc

import (
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store/layout"
)

// tx is the engine's one transaction.
type tx struct {
	e       *Engine
	running bool
	// found are the records that were looked up, each once. Few: they are searched in turn.
	found  []place
	undo   []undo
	old    []byte // values that undo speaks of, one after the other
	record *history.Txn
}

// undo is what a record held before its first change.
type undo struct {
	at      int // index in found
	version layout.Version
	value   int  // where its old value begins
	ensured bool // the entry was made for this transaction
}

// find looks a record up, in what was found before first.
func (x *tx) find(t proto.TableID, k proto.Key) (*place, error) {
	for i := len(x.found) - 1; i >= 0; i-- {
		if p := &x.found[i]; p.key == k && p.id == t {
			return p, nil
		}
	}
	p, err := x.e.locate(t, k)
	if err != nil {
		return nil, err
	}
	x.found = append(x.found, p)
	return &x.found[len(x.found)-1], nil
}

// Read copies a record's value.
func (x *tx) Read(t proto.TableID, k proto.Key, dst []byte) error {
	p, err := x.find(t, k)
	if err != nil {
		return err
	}
	if len(dst) != p.table.ValueBytes() {
		return proto.WrongSize(t, k, len(dst), p.table.ValueBytes())
	}
	v := p.version()
	if !v.Live() {
		x.sawAbsent(p, v)
		return proto.ErrNotFound
	}
	copyValue(dst, p.value(len(dst)))
	if x.record != nil && !p.changed {
		x.record.Read(history.Table(t), history.Key(k), history.Version(v), history.DigestOf(dst))
	}
	return nil
}

// sawAbsent takes down that there is no record.
func (x *tx) sawAbsent(p *place, v layout.Version) {
	if x.record != nil && !p.changed {
		x.record.ReadAbsent(history.Table(p.id), history.Key(p.key), history.Version(v.Trace()))
	}
}

// ReadMany reads one record after the other.
func (x *tx) ReadMany(gets []proto.Get) error {
	for i := range gets {
		g := &gets[i]
		if g.Err = x.Read(g.Table, g.Key, g.Value); g.Err != nil && g.Err != proto.ErrNotFound {
			return g.Err
		}
	}
	return nil
}

// GetForUpdate is Read.
func (x *tx) GetForUpdate(t proto.TableID, k proto.Key, dst []byte) error {
	return x.Read(t, k, dst)
}

// Scan is not offered: the store has no order.
func (x *tx) Scan(proto.TableID, proto.Key, proto.Key, func(proto.Key, []byte) bool) error {
	return proto.ErrUnsupported
}

// Write replaces a value in place.
func (x *tx) Write(t proto.TableID, k proto.Key, value []byte) error {
	p, err := x.find(t, k)
	if err != nil {
		return err
	}
	if len(value) != p.table.ValueBytes() {
		return proto.WrongSize(t, k, len(value), p.table.ValueBytes())
	}
	v := p.version()
	if !v.Live() {
		x.sawAbsent(p, v)
		return proto.ErrNotFound
	}
	if !p.changed {
		x.save(p, v, false)
		*p.word(layout.VersionOffset) = uint64(v.Written())
	}
	copyValue(p.value(len(value)), value)
	return nil
}

// save notes what a record holds before its first change.
func (x *tx) save(p *place, v layout.Version, ensured bool) {
	p.changed = true
	x.undo = append(x.undo, undo{at: x.index(p), version: v, value: len(x.old), ensured: ensured})
	x.old = append(x.old, p.value(p.table.ValueBytes())...)
}

// before is the version that a changed record had before the transaction: what it becomes counts as one
// change.
func (x *tx) before(p *place) layout.Version {
	at := x.index(p)
	for i := range x.undo {
		if x.undo[i].at == at {
			return x.undo[i].version
		}
	}
	return p.version()
}

func (x *tx) index(p *place) int {
	for i := len(x.found) - 1; i > 0; i-- {
		if &x.found[i] == p {
			return i
		}
	}
	return 0
}

// Insert adds a record.
func (x *tx) Insert(t proto.TableID, k proto.Key, value []byte) error {
	p, err := x.find(t, k)
	if err != nil {
		return err
	}
	if len(value) != p.table.ValueBytes() {
		return proto.WrongSize(t, k, len(value), p.table.ValueBytes())
	}
	v := p.version()
	if v.Live() {
		if x.record != nil && !p.changed {
			x.record.Read(history.Table(t), history.Key(k), history.Version(v),
				history.DigestOf(p.value(len(value))))
		}
		return proto.ErrExists
	}
	x.sawAbsent(p, v)
	ensured := p.entry == nil
	if ensured {
		if v, err = x.e.ensure(p); err != nil {
			return err
		}
	}
	if !p.changed {
		x.save(p, v, ensured)
	}
	copyValue(p.value(len(value)), value)
	if v = x.before(p); v.Live() { // deleted by the transaction itself
		*p.word(layout.VersionOffset) = uint64(v.Written())
	} else {
		*p.word(layout.VersionOffset) = uint64(v.Inserted())
	}
	return nil
}

// Delete removes a record: it leaves a tombstone, whose entry the commit gives back.
func (x *tx) Delete(t proto.TableID, k proto.Key) error {
	p, err := x.find(t, k)
	if err != nil {
		return err
	}
	v := p.version()
	if !v.Live() {
		x.sawAbsent(p, v)
		return proto.ErrNotFound
	}
	if !p.changed {
		x.save(p, v, false)
	}
	if v = x.before(p); v.Live() {
		*p.word(layout.VersionOffset) = uint64(v.Deleted())
	} else { // inserted by the transaction itself
		*p.word(layout.VersionOffset) = uint64(v)
	}
	return nil
}
