package twopl

import (
	"encoding/binary"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// chunkRecords is the number of copies in one piece of registered memory.
const chunkRecords = 16

// lockStage is how far a record's lock has come.
type lockStage uint8

const (
	lockNone  lockStage = iota + 1
	lockAsked           // requested, and the answer is not known
	lockHeld
)

func (s lockStage) String() string {
	return [...]string{"?", "none", "asked", "held"}[min(s, lockHeld)]
}

// record is a record of a transaction.
type record struct {
	table   *table
	key     proto.Key
	node    proto.NodeID
	lock    lockStage
	located bool
	ensured bool      // the host has made, or found, the entry for this transaction
	off     uint64    // of the entry, bytes from the start of the node's memory
	buf     []byte    // copy of the entry; the value in it is the transaction's view
	sge     verbs.SGE // of buf
	op      int       // index in the batch of the record's first operation
	ops     int       // number of them
	posted  bool      // all of them
	is      layout.Presence
	found   layout.Version // valid if the record is live or absent
	live    bool           // in the transaction's view
	read    bool           // taken down in the history, or written first
	written bool           // by the program
	stored  bool           // what was written is known to be in memory
}

// tx implements proto.Tx. One fiber has it between Begin and the end.
type tx struct {
	e       *Engine
	f       *fiber.Fiber
	word    lockWord
	records []record
	chunks  []*verbs.MR
	batch   fiber.Batch
	lookups *remote.Batch
	hist    *history.Txn
	calls   []*rpc.Call // with bodies and callErr: one per request to a host
	bodies  []*body
	callErr []error
}

var _ proto.Tx = (*tx)(nil)

// nameLocks gives the transaction a lock word that no other has.
func (t *tx) nameLocks() {
	e := t.e
	t.word = makeLockWord(e.cfg.Node, e.cfg.Worker, e.nextTx%maxTxs, e.cfg.Life)
	if e.lacks(SameWord) {
		t.word = makeLockWord(e.cfg.Node, 0, 0, e.cfg.Life)
	}
	e.nextTx++
}

// grow makes room for chunkRecords more records.
func (t *tx) grow() error {
	mr, err := t.e.cfg.Fibers.PD().AllocMR(chunkRecords*t.e.stride, verbs.AccessLocalWrite,
		verbs.MROptions{NoHuge: true})
	if err != nil {
		return err
	}
	t.chunks = append(t.chunks, mr)
	return nil
}

// find gives the transaction's record of a key, nil if it has none. Transactions are small: a
// search in order beats an index.
func (t *tx) find(id proto.TableID, k proto.Key) *record {
	for i := range t.records {
		if r := &t.records[i]; r.key == k && r.table.id == id {
			return r
		}
	}
	return nil
}

// add gives the record of a key, a new one if there is none, which acquire has to lock.
func (t *tx) add(id proto.TableID, k proto.Key) (*record, error) {
	if r := t.find(id, k); r != nil {
		return r, nil
	}
	tab, err := t.e.table(id)
	if err != nil {
		return nil, proto.UnknownTable(id, k, len(t.e.cfg.Tables))
	}
	node, err := proto.Home(t.e.cfg.Placement, id, k, len(t.e.cfg.Peers))
	if err != nil {
		return nil, err
	}
	n := len(t.records)
	if n == MaxRecords {
		return nil, ErrTooManyRecords
	}
	if n == len(t.chunks)*chunkRecords {
		if err := t.grow(); err != nil {
			return nil, err
		}
	}
	mr, at := t.chunks[n/chunkRecords], n%chunkRecords*t.e.stride
	size := layout.HeaderBytes + tab.valueBytes
	t.records = append(t.records, record{table: tab, key: k, lock: lockNone,
		node: node, buf: mr.Bytes()[at : at+size : at+size], sge: mr.SGE(at, size)})
	return &t.records[n], nil
}

// access gives a locked record.
func (t *tx) access(id proto.TableID, k proto.Key, value []byte) (*record, error) {
	t.f.Charge(copyCostPs)
	r := t.find(id, k)
	if r == nil {
		n := len(t.records)
		var err error
		if r, err = t.add(id, k); err != nil {
			return nil, err
		}
		if err := t.acquire(n); err != nil {
			return nil, err
		}
	}
	if value != nil && len(value) != r.table.valueBytes {
		return nil, proto.WrongSize(id, k, len(value), r.table.valueBytes)
	}
	return r, nil
}

func (r *record) value() []byte { return r.buf[layout.ValueOffset:] }

func (r *record) keyWord() uint64 { return binary.NativeEndian.Uint64(r.buf[layout.KeyOffset:]) }

func (r *record) version() layout.Version {
	return layout.Version(binary.NativeEndian.Uint64(r.buf[layout.VersionOffset:]))
}

func (r *record) setVersion(v layout.Version) {
	binary.NativeEndian.PutUint64(r.buf[layout.VersionOffset:], uint64(v))
}

// next is the version that the transaction gives a written record.
func (r *record) next() layout.Version {
	switch {
	case !r.live:
		return r.found.Deleted()
	case !r.found.Live():
		return r.found.Inserted()
	}
	return r.found.Written()
}

// changed reports whether the record has to be written: what was inserted and deleted again by
// the same transaction was not.
func (r *record) changed() bool { return r.written && (r.live || r.found.Live()) }

// spare reports whether the transaction had an entry made for the record, and did not come to lock
// it.
func (r *record) spare() bool { return r.ensured && r.located && r.lock == lockNone }

// endsAbsent reports whether the record is locked and will not exist when the transaction has
// ended, so that its entry is of no use.
func (r *record) endsAbsent() bool {
	if r.lock != lockHeld {
		return false
	}
	if r.changed() {
		return !r.live
	}
	return r.is == layout.Absent
}

// Read implements proto.Txn.
func (t *tx) Read(id proto.TableID, k proto.Key, dst []byte) error {
	r, err := t.access(id, k, dst)
	if err != nil {
		return err
	}
	return t.copyOut(r, dst)
}

func (t *tx) copyOut(r *record, dst []byte) error {
	if len(dst) != r.table.valueBytes {
		return proto.WrongSize(r.table.id, r.key, len(dst), r.table.valueBytes)
	}
	t.recordRead(r)
	if !r.live {
		return proto.ErrNotFound
	}
	copy(dst, r.value())
	return nil
}

// GetForUpdate implements proto.Txn: every lock is one for writing.
func (t *tx) GetForUpdate(id proto.TableID, k proto.Key, dst []byte) error {
	return t.Read(id, k, dst)
}

// ReadMany implements proto.Txn: what is not locked yet is locked together.
func (t *tx) ReadMany(gets []proto.Get) error {
	n := len(t.records)
	for i := range gets {
		if _, err := t.add(gets[i].Table, gets[i].Key); err != nil {
			t.records = t.records[:n] // nothing was locked of these
			return err
		}
	}
	if err := t.acquire(n); err != nil {
		return err
	}
	for i := range gets {
		g := &gets[i]
		g.Err = t.Read(g.Table, g.Key, g.Value)
		if g.Err != nil && g.Err != proto.ErrNotFound {
			return g.Err
		}
	}
	return nil
}

// Scan implements proto.Txn: there is no ordered store.
func (t *tx) Scan(proto.TableID, proto.Key, proto.Key, func(proto.Key, []byte) bool) error {
	return proto.ErrUnsupported
}

// Write implements proto.Txn.
func (t *tx) Write(id proto.TableID, k proto.Key, value []byte) error {
	r, err := t.access(id, k, value)
	if err != nil {
		return err
	}
	if len(value) != r.table.valueBytes {
		return proto.WrongSize(id, k, len(value), r.table.valueBytes)
	}
	if !r.live {
		t.recordRead(r)
		return proto.ErrNotFound
	}
	t.set(r, value)
	return nil
}

// Insert implements proto.Txn.
func (t *tx) Insert(id proto.TableID, k proto.Key, value []byte) error {
	r, err := t.access(id, k, value)
	if err != nil {
		return err
	}
	if len(value) != r.table.valueBytes {
		return proto.WrongSize(id, k, len(value), r.table.valueBytes)
	}
	t.recordRead(r)
	if r.live {
		return proto.ErrExists
	}
	if !r.found.Live() && r.found.Spent() {
		return proto.Aborting(proto.ReasonFull)
	}
	t.set(r, value)
	return nil
}

// set makes value the record's in the transaction's view.
func (t *tx) set(r *record, value []byte) {
	copy(r.value(), value)
	r.live, r.written, r.read = true, true, true
}

// Delete implements proto.Txn.
func (t *tx) Delete(id proto.TableID, k proto.Key) error {
	r, err := t.access(id, k, nil)
	if err != nil {
		return err
	}
	t.recordRead(r)
	if !r.live {
		return proto.ErrNotFound
	}
	r.live, r.written = false, true
	return nil
}
