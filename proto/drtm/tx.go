package drtm

import (
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// way is how an attempt runs.
type way uint8

const (
	regional  way = iota + 1 // Figure 8(a): START, LocalTX in a region, COMMIT
	twoRounds                // §5.4: local records read in two rounds, remote ones leased
	leaseAll                 // §5.4: local records leased too
	fallback                 // §7.2: everything locked, no region
)

// tx is an attempt of a transaction. It is used again for others.
type tx struct {
	e      *Engine
	f      *fiber.Fiber
	decl   *proto.Decl
	way    way
	items  []item
	cursor int
	err    error // why the attempt is over though it was not ended
	ended  bool

	region   *htm.Region
	inRegion bool // a region was begun, and not committed
	aborts   int  // of regions, in this transaction's attempts so far
	overflow bool // one of them was for capacity
	late     bool // the fallback handler's leases ended before it was done

	end       time.Duration // common end of all leases; 0: there are none
	ticket    Ticket        // of this attempt's locks; 0: none was taken
	exclusive bool          // reads take the write lock too
	batch     fiber.Batch
	lookups   *remote.Batch
	calls     []*ensureCall
	buffer    buffer
	note      *history.Txn // nil unless a history is taken
	noted     bool         // it has the writes
}

// Begin starts an attempt of a transaction (START, Figure 9(a)).
func (e *Engine) Begin(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	if attempt == 0 {
		e.stats.Begun++
	}
	if e.host.n > 0 {
		e.host.sweep(f, 2, false)
	}
	t := e.take(d, attempt)
	t.open(f, d, attempt)
	err := t.declare(attempt)
	if err == nil {
		f.Charge(costBegin)
		switch t.way {
		case regional:
			if err = t.start(); err == nil {
				err = t.enter()
			}
		case twoRounds:
			if err = t.start(); err == nil {
				t.locate()
			}
		case leaseAll:
			err = t.start()
		case fallback:
			err = t.lockAll()
		}
	}
	if err != nil {
		t.Abort(err)
		return nil, err
	}
	return t, nil
}

// open makes the object this attempt's.
func (t *tx) open(f *fiber.Fiber, d *proto.Decl, attempt int) {
	if attempt == 0 || t.decl != d {
		t.aborts, t.overflow, t.late = 0, false, false
	}
	t.f, t.decl = f, d
	t.cursor, t.err, t.ended, t.inRegion = 0, nil, false, false
	t.end, t.ticket, t.exclusive = 0, 0, false
	t.items = t.items[:0]
	if t.e.recording != nil {
		t.noteBegin()
	}
}

// declare makes the items of the declaration and chooses the way.
func (t *tx) declare(attempt int) error {
	e, d := t.e, t.decl
	if err := t.buffer.grow(e.cfg.Worker.PD(), len(d.Accesses)); err != nil {
		return err
	}
	switch {
	case attempt >= e.cfg.Attempts,
		!d.ReadOnly && (t.overflow || t.aborts >= e.cfg.RegionAborts):
		t.way = fallback
		e.stats.Fallbacks++
	case d.ReadOnly && attempt < roundAttempts:
		t.way = twoRounds
		e.counts.TwoRounds++
	case d.ReadOnly:
		t.way = leaseAll
		e.counts.LeaseAll++
	default:
		t.way = regional
	}
	images := t.buffer.mr.Bytes()
	for i := range d.Accesses {
		a := &d.Accesses[i]
		if int(a.Table)-1 >= len(e.cfg.Specs) || a.Table == 0 {
			return proto.UnknownTable(a.Table, a.Key, len(e.cfg.Specs))
		}
		if d.ReadOnly && writes(a.Mode) {
			return proto.Undeclared(a.Table, a.Key, a.Mode, proto.ModeRead)
		}
		size := e.cfg.Specs[a.Table-1].ValueBytes
		at := i * t.buffer.stride
		node, err := proto.Home(e.cfg.Placement, a.Table, a.Key, len(e.cfg.Peers))
		if err != nil {
			return err
		}
		byVerbs := node != e.cfg.Node || t.way == fallback || t.way == leaseAll ||
			!e.glob && a.Mode == proto.ModeInsert
		t.items = append(t.items, item{key: a.Key, table: a.Table, mode: a.Mode, hold: nothing,
			node: node, verbs: byVerbs, at: at, size: size,
			image: images[at : at+layout.HeaderBytes+size]})
	}
	return nil
}

// Read copies a record's value to dst.
func (t *tx) Read(table proto.TableID, k proto.Key, dst []byte) error {
	return t.read(table, k, dst, proto.ModeRead)
}

// read is Read of a record that was declared for least at least.
func (t *tx) read(table proto.TableID, k proto.Key, dst []byte, least proto.Mode) error {
	it, err := t.access(table, k, len(dst), least)
	if err != nil {
		return err
	}
	if !it.is {
		return proto.ErrNotFound
	}
	copy(dst, it.value())
	return nil
}

// ReadMany is Read of each: START has fetched what is remote already.
func (t *tx) ReadMany(gets []proto.Get) error {
	for i := range gets {
		g := &gets[i]
		switch err := t.Read(g.Table, g.Key, g.Value); err {
		case nil, proto.ErrNotFound:
			g.Err = err
		default:
			return err
		}
	}
	return nil
}

// GetForUpdate is Read of a record that was declared to be written: it was locked, or its state
// checked for writing, before it was read.
func (t *tx) GetForUpdate(table proto.TableID, k proto.Key, dst []byte) error {
	return t.read(table, k, dst, proto.ModeWrite)
}

// Scan is not offered: the store is a hash table (§7.5).
func (t *tx) Scan(proto.TableID, proto.Key, proto.Key, func(proto.Key, []byte) bool) error {
	return proto.ErrUnsupported
}

// Write replaces the value of a record.
func (t *tx) Write(table proto.TableID, k proto.Key, value []byte) error {
	it, err := t.access(table, k, len(value), proto.ModeWrite)
	if err != nil {
		return err
	}
	if !it.is {
		return proto.ErrNotFound
	}
	copy(it.value(), value)
	it.dirty = true
	return nil
}

// Insert adds a record.
func (t *tx) Insert(table proto.TableID, k proto.Key, value []byte) error {
	it, err := t.access(table, k, len(value), proto.ModeInsert)
	if err != nil {
		return err
	}
	if it.is {
		return proto.ErrExists
	}
	copy(it.value(), value)
	it.is, it.dirty = true, true
	return nil
}

// Delete removes a record.
func (t *tx) Delete(table proto.TableID, k proto.Key) error {
	it, err := t.access(table, k, -1, proto.ModeInsert)
	if err != nil {
		return err
	}
	if !it.is {
		return proto.ErrNotFound
	}
	it.is, it.dirty = false, true
	return nil
}

// access finds the record of an operation, which must have been declared for least at least, loads
// it, and shows it to the program. size is that of the operation's value or buffer; negative: it
// has none.
func (t *tx) access(table proto.TableID, k proto.Key, size int, least proto.Mode) (*item, error) {
	if t.err != nil {
		return nil, t.err
	}
	it := t.find(table, k)
	if it == nil {
		if table == 0 || int(table) > len(t.e.cfg.Specs) {
			return nil, proto.UnknownTable(table, k, len(t.e.cfg.Specs))
		}
		return nil, proto.Undeclared(table, k, least, 0)
	}
	if it.mode < least {
		return nil, proto.Undeclared(table, k, least, it.mode)
	}
	if size >= 0 && size != it.size {
		return nil, proto.WrongSize(table, k, size, it.size)
	}
	if !it.loaded {
		if err := t.load(it); err != nil {
			t.err = err
			return nil, err
		}
	}
	if t.note != nil {
		t.noteSeen(it)
	}
	return it, nil
}

// load reads a local record; those reached by verbs were read by START.
func (t *tx) load(it *item) error {
	t.f.Charge(costAccess)
	t.f.Step("drtm: before access")
	if t.way == twoRounds {
		return t.loadRound(it)
	}
	return t.loadLocal(it)
}

// close gives the object back.
func (t *tx) close() {
	t.ended = true
	t.f = nil
	t.e.free = append(t.e.free, t)
}

// ensureCall is a request to a record's machine to make an absent entry.
type ensureCall struct {
	call rpc.Call
	item int
	req  [ensureRequestBytes]byte
	resp [ensureResponseBytes]byte
}
