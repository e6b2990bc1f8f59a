package txctx

import "drtmd/proto"

// Geometry of a TxCache (§3).
const (
	Height = 16  // entries
	Width  = 128 // bytes of the value of each
)

// Op is what a transaction does to a record, or OpCommit.
type Op uint8

// Operations. Those with Get have read the record, and changed it then.
const (
	OpGet Op = iota + 1
	OpPut
	OpInsert
	OpDelete
	OpGetPut
	OpGetInsert
	OpGetDelete
	OpCommit
)

func (o Op) String() string {
	return [...]string{"?", "get", "put", "insert", "delete", "get+put", "get+insert", "get+delete", "commit"}[min(o, OpCommit)]
}

// change is what the operation does to the record at the commit: OpPut, OpInsert, OpDelete, or 0.
func (o Op) change() Op {
	switch o {
	case OpGetPut, OpGetInsert, OpGetDelete:
		return o - OpGetPut + OpPut
	case OpPut, OpInsert, OpDelete:
		return o
	}
	return 0
}

// State is how far a request is.
type State uint8

// States.
const (
	NotYetDone  State = iota + 1
	Success           // the entry has the value as the transaction sees it
	KeyNotFound       // there is none
)

func (s State) String() string {
	return [...]string{"?", "not yet done", "success", "key not found"}[min(s, KeyNotFound)]
}

// Entry is a line of a TxCache.
type Entry struct {
	table proto.TableID
	key   proto.Key
	op    Op
	state State
	twice bool   // the transaction has inserted and then deleted it, and not read it
	value []byte // in buf, or in large
	buf   [Width]byte
	large []byte // kept for the next record that needs it
}

// Op of the entry.
func (e *Entry) Op() Op { return e.op }

// State of the entry.
func (e *Entry) State() State { return e.state }

// Value is the record's value as the transaction sees it, without a copy. It must not be written. nil unless the state
// is Success.
func (e *Entry) Value() []byte {
	if e.state != Success {
		return nil
	}
	return e.value
}

// open readies the entry for a record with values of n bytes.
func (e *Entry) open(t proto.TableID, k proto.Key, n int) {
	e.table, e.key = t, k
	if e.value = e.buf[:min(n, Width)]; n > Width {
		if cap(e.large) < n {
			e.large = make([]byte, n)
		}
		e.value = e.large[:n]
	}
}
