package proto

import (
	"encoding/binary"

	"drtmd/verbs/fiber"
)

// Mode is what a transaction does to a record.
type Mode uint8

const (
	ModeRead   Mode = iota + 1
	ModeWrite       // read and written, or written only
	ModeInsert      // fails with ErrExists if there is one
	ModeDelete      // read and removed; ErrNotFound if there is none
)

func (m Mode) String() string {
	return name([]string{"?", "read", "write", "insert", "delete"}, int(m))
}

// Access is one record of a declaration.
type Access struct {
	Table TableID
	Mode  Mode
	Key   Key
	// Fields are the parts of the value that are read and written; none: all of it. Protocols that access whole records
	// ignore them.
	Fields [MaxFields]Field
}

// MaxFields that a declaration names of one record.
const MaxFields = 2

// Field is a part of a value: so many bytes from an offset on. One of no bytes is none.
type Field struct {
	Offset, Bytes uint16
	Write         bool // and not only read; in a record of ModeWrite
}

// InFields reports whether parts of the value are named.
func (a *Access) InFields() bool { return a.Fields[0].Bytes > 0 }

// Decl is what is known of a transaction before it begins. A record stands in it once, with its
// strongest mode. The engine reads it until the transaction has ended.
type Decl struct {
	Kind     uint8 // type of the transaction within its workload
	ReadOnly bool  // all accesses are ModeRead
	Accesses []Access
	// Groups of records, as the workload numbers them: those that the pieces of a chain change, and those in which
	// a read-only transaction must not see a chain between two of its pieces (DrTM §4.4).
	Groups []uint32
	// AtBarrier is what the transaction has to do with the barrier of its node, if it runs on an engine of chains.
	AtBarrier AtBarrier
}

// AtBarrier says what a transaction has to do with the barrier at which results are published (DrTM §4.2). 0: nothing.
// The barrier is that of one node: all pieces of publishers, and subscribers, access records of their own node only.
type AtBarrier uint8

// Values of AtBarrier.
const (
	// Publishes: a chain whose last piece is deferred to the barrier. It only adds.
	Publishes AtBarrier = iota + 1
	// Subscribes: a transaction that accesses what publishers add.
	Subscribes
)

// Changes reports whether the declaration has more than reads.
func (d *Decl) Changes() bool {
	for i := range d.Accesses {
		if d.Accesses[i].Mode != ModeRead {
			return true
		}
	}
	return false
}

// Get is one read of ReadMany.
type Get struct {
	Table TableID
	Key   Key
	Value []byte // receives the value; of the table's size
	Err   error  // nil or ErrNotFound
}

// Txn is what a program sees of a running transaction. Reads see the transaction's own writes.
// Every method may return an Abort, after which the program must return it; other errors are
// those named.
type Txn interface {
	// Read copies a record's value to dst, which has the table's size: ErrNotFound if there is
	// none.
	Read(t TableID, k Key, dst []byte) error
	// ReadMany is Read of several records at once, where the protocol can overlap them.
	ReadMany(gets []Get) error
	// GetForUpdate is Read of a record that the transaction is going to write.
	GetForUpdate(t TableID, k Key, dst []byte) error
	// Scan calls each with the records of keys in [from, to], in ascending order or, if from is above to, in
	// descending order, until it returns false. That no other record is in the range, up to where each
	// returned false, is protected like a value. value is valid during the call, and each does not use the
	// transaction. The table is Ordered, and both ends are on one node: ErrUnsupported, ErrPlacement.
	Scan(t TableID, from, to Key, each func(k Key, value []byte) bool) error
	// Write replaces the value of an existing record: ErrNotFound if there is none.
	Write(t TableID, k Key, value []byte) error
	// Insert adds a record: ErrExists if there is one.
	Insert(t TableID, k Key, value []byte) error
	// Delete removes a record: ErrNotFound if there is none.
	Delete(t TableID, k Key) error
}

// Adder is a Txn with additions to records of eight bytes. Most engines have it: see Add.
type Adder interface {
	// AddTo adds to the number in a record, which the transaction does not read: ErrNotFound if there is none. In a
	// piece of a chain, additions of different transactions commute.
	AddTo(t TableID, k Key, delta int64) error
}

// Add adds to the number in a record of eight bytes, little endian. The declaration has it as a write.
func Add(tx Txn, t TableID, k Key, delta int64) error {
	if a, ok := tx.(Adder); ok {
		return a.AddTo(t, k, delta)
	}
	var b [8]byte
	if err := tx.GetForUpdate(t, k, b[:]); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(b[:], binary.LittleEndian.Uint64(b[:])+uint64(delta))
	return tx.Write(t, k, b[:])
}

// Charger is a Txn that spends CPU time of the program in the simulator.
type Charger interface {
	// Charge spends picoseconds; on real transports it is free.
	Charge(ps int64)
}

// Fielder is a Txn with access to parts of values: see ReadAt and WriteAt.
type Fielder interface {
	// ReadAt copies bytes of a record's value from an offset on to dst: ErrNotFound if there is none.
	ReadAt(t TableID, k Key, offset int, dst []byte) error
	// WriteAt replaces bytes of an existing record's value from an offset on: ErrNotFound if there is none.
	WriteAt(t TableID, k Key, offset int, value []byte) error
}

// ReadAt reads a part of a value. An engine without fields reads the whole one into row, which has the table's size and
// may be where dst is.
func ReadAt(tx Txn, t TableID, k Key, offset int, dst, row []byte) error {
	if f, ok := tx.(Fielder); ok {
		return f.ReadAt(t, k, offset, dst)
	}
	if offset+len(dst) > len(row) {
		return WrongSize(t, k, offset+len(dst), len(row))
	}
	if err := tx.Read(t, k, row); err != nil {
		return err
	}
	copy(dst, row[offset:])
	return nil
}

// WriteAt writes a part of a value. An engine without fields reads and writes the whole one by row, which has the
// table's size and nothing of value.
func WriteAt(tx Txn, t TableID, k Key, offset int, value, row []byte) error {
	if f, ok := tx.(Fielder); ok {
		return f.WriteAt(t, k, offset, value)
	}
	if offset+len(value) > len(row) {
		return WrongSize(t, k, offset+len(value), len(row))
	}
	if err := tx.GetForUpdate(t, k, row); err != nil {
		return err
	}
	copy(row[offset:], value)
	return tx.Write(t, k, row)
}

// Program is a transaction of a workload, with its parameters.
type Program interface {
	// Execute runs the transaction's code. nil commits, ErrRollback rolls back, an Abort is
	// passed on; any other error rolls back and is returned by Run.
	Execute(tx Txn) error
}

// Dependent is a program whose records depend on what it reads. Plan is called before each
// attempt and fills in d by unprotected reads; Execute must check that they still hold, and
// returns Aborting(ReasonPlan) if not (DrTM §7.4).
type Dependent interface {
	Program
	Plan(f *fiber.Fiber, peek Peeker, d *Decl) error
}

// Peeker reads single records outside any transaction, each at one moment. What it gives proves
// nothing.
type Peeker interface {
	Peek(f *fiber.Fiber, t TableID, k Key, dst []byte) error
}

// RangePeeker is a Peeker that can look at ordered tables.
type RangePeeker interface {
	// PeekRange fills keys with those of the first records of a range, in its order: see Txn.Scan. Fewer than
	// there is room for are all. They are of no one moment, and prove nothing.
	PeekRange(f *fiber.Fiber, t TableID, from, to Key, keys []Key) (n int, err error)
}
