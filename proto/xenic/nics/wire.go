package nics

import (
	"encoding/binary"

	"drtmd/internal/invariant"
	"drtmd/store/layout"
)

// Messages between NICs, and between a NIC and its host. Every one begins with the transaction's ID.
const (
	msgExecute   uint8 = iota + 1 // accesses
	msgExecuted                   // status, values
	msgValidate                   // keys and versions
	msgValidated                  // status
	msgLog                        // shard, who gets the answer, updates, echo
	msgLogged                     // shard, backup, echo
	msgCommit                     // updates, or none: those that the NIC keeps
	msgCommitted                  //
	msgUnlock                     // keys; no answer
	msgShip                       // a call with the values of the coordinator's shard
	msgRefused                    // status: a shipped call came to nothing
	msgReturned                   // a shipped call that writes nothing has this result

	msgBegin   // from the host: a call
	msgValues  // to the host: the values of the call's accesses
	msgFinish  // from the host: the new values, or an abort
	msgEnd     // to the host: status, versions, result
	msgApplied // from the host: where a log begins now, and keys whose commits are in the tables
)

// Ref names a record.
type Ref struct {
	Table uint8 // from 0
	Key   uint64
}

// Access is what a transaction does to a record: it reads all of them.
type Access struct {
	Ref
	Write bool
}

// Value is what a record was.
type Value struct {
	Version layout.Version
	Bytes   []byte
}

// Update is what a record becomes.
type Update struct {
	Ref
	Value
}

// Bounds of messages: records of a transaction, rounds included, and bytes of a value, an argument or a result.
const (
	MaxAccesses = 1<<8 - 1
	MaxBytes    = 1<<16 - 1
)

// encoder appends.
type encoder struct{ b []byte }

func message(tx uint64) *encoder { return (&encoder{}).u64(tx) }

func (e *encoder) u8(v uint8) *encoder   { e.b = append(e.b, v); return e }
func (e *encoder) u16(v uint16) *encoder { e.b = binary.LittleEndian.AppendUint16(e.b, v); return e }
func (e *encoder) u64(v uint64) *encoder { e.b = binary.LittleEndian.AppendUint64(e.b, v); return e }

func (e *encoder) bytes(b []byte) *encoder {
	invariant.Assert(len(b) <= MaxBytes, "xenic: bytes do not fit into a message")
	e.u16(uint16(len(b)))
	e.b = append(e.b, b...)
	return e
}

func (e *encoder) count(n int) *encoder {
	invariant.Assert(n <= MaxAccesses, "xenic: too many records in a transaction")
	return e.u8(uint8(n))
}

const refBytes = 9

func (e *encoder) ref(r Ref) *encoder { return e.u8(r.Table).u64(r.Key) }

func (e *encoder) value(v Value) *encoder { return e.u64(uint64(v.Version)).bytes(v.Bytes) }

func (e *encoder) accesses(list []Access) *encoder {
	e.count(len(list))
	for _, a := range list {
		write := uint8(0)
		if a.Write {
			write = 1
		}
		e.ref(a.Ref).u8(write)
	}
	return e
}

func (e *encoder) values(list []Value) *encoder {
	e.count(len(list))
	for _, v := range list {
		e.value(v)
	}
	return e
}

func (e *encoder) updates(list []Update) *encoder {
	e.count(len(list))
	for _, u := range list {
		e.ref(u.Ref).value(u.Value)
	}
	return e
}

// decoder takes apart what an encoder of another node has made. It copies what it gives. Bytes that are none of
// ours end the program: NICs do not damage messages, so they are a bug.
type decoder struct{ b []byte }

func (d *decoder) take(n int) []byte {
	invariant.Assert(len(d.b) >= n, "xenic: a message is cut")
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) u8() uint8   { return d.take(1)[0] }
func (d *decoder) u16() uint16 { return binary.LittleEndian.Uint16(d.take(2)) }
func (d *decoder) u64() uint64 { return binary.LittleEndian.Uint64(d.take(8)) }

func (d *decoder) bytes() []byte { return append([]byte(nil), d.take(int(d.u16()))...) }
func (d *decoder) ref() Ref      { return Ref{Table: d.u8(), Key: d.u64()} }
func (d *decoder) value() Value  { return Value{layout.Version(d.u64()), d.bytes()} }

func (d *decoder) accesses() (list []Access) {
	for range d.u8() {
		list = append(list, Access{d.ref(), d.u8() == 1})
	}
	return list
}

// step is what a host says that its program came to.
func (e *encoder) step(s *Step) *encoder {
	abort := uint8(0)
	if s.Abort {
		abort = 1
	}
	e.u8(abort).accesses(s.More).count(len(s.Writes))
	for _, w := range s.Writes {
		e.bytes(w)
	}
	return e
}

func (d *decoder) step() (s Step) {
	s.Abort, s.More = d.u8() == 1, d.accesses()
	for range d.u8() {
		s.Writes = append(s.Writes, d.bytes())
	}
	return s
}

func (d *decoder) values() (list []Value) {
	for range d.u8() {
		list = append(list, d.value())
	}
	return list
}

func (d *decoder) updates() (list []Update) {
	for range d.u8() {
		list = append(list, Update{d.ref(), d.value()})
	}
	return list
}
