package nics

import (
	"encoding/binary"

	"drtmd/internal/invariant"
	"drtmd/store/layout"
	"drtmd/verbs/smartnic"
)

// Messages between NICs, and between a NIC and its host. Every one begins with the transaction's ID.
const (
	msgExecute   uint8 = iota + 1 // accesses
	msgExecuted                   // status, values
	msgValidate                   // keys and versions, and ranges
	msgValidated                  // status
	msgLog                        // shard, who gets the answer, news, shards that are written, updates, echo
	msgLogged                     // shard, backup, echo
	msgCommit                     // updates, or none: those that the NIC keeps
	msgCommitted                  //
	msgUnlock                     // keys; no answer
	msgShip                       // a call with the values of the coordinator's shard
	msgRefused                    // status: a shipped call came to nothing
	msgReturned                   // a shipped call that writes nothing has this result
	msgSettle                     // news of transactions of this sender, where there is no LOG to take them
	msgSettled                    // its answer
	msgAsk                        // of the recovery: see recover.go
	msgSay                        // its answer
	msgRead                       // place in the list, an access: the record is read, and not locked (separate.go)
	msgHas                        // place, status, value
	msgLock                       // keys and versions that are locked if they are still so
	msgHeld                       // status
	msgKeys                       // a range, of which the keys are wanted (ranges.go)
	msgFound                      // status, stamp, keys

	msgBegin   // from the host: a call
	msgLocal   // from the host: what a local transaction has read, and its updates
	msgValues  // to the host: the values of the call's accesses
	msgFinish  // from the host: the new values, or an abort
	msgRange   // to the host: keys of a range
	msgEnd     // to the host: status, versions, result
	msgApplied // from the host: where a log begins now, entries that were made, and keys whose commits are in the tables
	msgRefuse  // from the host: what a local transaction has read that its program rolls back, as msgLocal
)

// Ref names a record.
type Ref struct {
	Table uint8 // from 0
	Key   uint64
}

// Access is what a transaction does to a record: it reads all of them.
type Access struct {
	Ref
	Write  bool
	Insert bool // an absent one needs room in its table; Write, too
}

// Flags of an access.
const (
	flagWrite  = 1
	flagInsert = 2
)

// Value is what a record was. An absent record has no bytes, and a version that is not live.
type Value struct {
	Version layout.Version
	Bytes   []byte
}

// Update is what a record becomes.
type Update struct {
	Ref
	Value
}

// Does is what a program does to a record that it has locked.
type Does uint8

// What a program does to a record.
const (
	Keep   Does = iota // it stays as it is
	Put                // it has a new value; an absent one is inserted
	Remove             // it is deleted
)

// Write is what becomes of a record.
type Write struct {
	Does  Does
	Bytes []byte // of Put
}

// Bounds of messages: records of a transaction, rounds included, and bytes of a value, an argument or a result.
const (
	MaxAccesses = 1<<10 - 1
	MaxBytes    = 1<<16 - 1
	// MostBytes is how much the records of a transaction take in a message, each as RecordBytes says.
	MostBytes = smartnic.MaxPayload - newsBytes - 2*MaxAccesses
)

// RecordBytes is what a record takes in a message, and in a log.
func RecordBytes(valueBytes int) int { return refBytes + 8 + 2 + valueBytes }

// newsBytes is how much a LOG takes beside its updates, with news of as many transactions as it takes.
const newsBytes = 64 + 2*(2+8*mostNews)

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
	return e.u16(uint16(n))
}

const refBytes = 9

func (e *encoder) ref(r Ref) *encoder { return e.u8(r.Table).u64(r.Key) }

func (e *encoder) value(v Value) *encoder { return e.u64(uint64(v.Version)).bytes(v.Bytes) }

func (e *encoder) accesses(list []Access) *encoder {
	e.count(len(list))
	for _, a := range list {
		flags := uint8(0)
		if a.Write {
			flags = flagWrite
		}
		if a.Insert {
			flags |= flagInsert
		}
		e.ref(a.Ref).u8(flags)
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

// shards are those that a transaction writes.
func (e *encoder) shards(list []int) *encoder {
	e.count(len(list))
	for _, s := range list {
		e.u16(uint16(s))
	}
	return e
}

func (d *decoder) shards() (list []int) {
	for range d.count() {
		list = append(list, int(d.u16()))
	}
	return list
}

// count is how many records come; 0 if that is more than a transaction has.
func (d *decoder) count() int {
	n := int(d.u16())
	if n > MaxAccesses {
		d.bad = true
	}
	if d.bad {
		return 0
	}
	return n
}

func (e *encoder) names(list []uint64) *encoder {
	e.u16(uint16(len(list)))
	for _, tx := range list {
		e.u64(tx)
	}
	return e
}

func (d *decoder) names() (list []uint64) {
	for range d.u16() {
		if d.bad {
			return nil
		}
		list = append(list, d.u64())
	}
	return list
}

func (e *encoder) updates(list []Update) *encoder {
	e.count(len(list))
	for _, u := range list {
		e.ref(u.Ref).value(u.Value)
	}
	return e
}

// decoder takes apart what an encoder of another node has made. It copies what it gives. Bytes that are none of ours
// make it bad: what it gives then is empty, and whoever asked for it does nothing.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n int) []byte {
	if len(d.b) < n {
		d.b, d.bad = nil, true
	}
	if d.bad {
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) u8() uint8 {
	if b := d.take(1); !d.bad {
		return b[0]
	}
	return 0
}

func (d *decoder) u16() uint16 {
	if b := d.take(2); !d.bad {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) u64() uint64 {
	if b := d.take(8); !d.bad {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) bytes() []byte { return append([]byte(nil), d.take(int(d.u16()))...) }
func (d *decoder) ref() Ref      { return Ref{Table: d.u8(), Key: d.u64()} }
func (d *decoder) value() Value  { return Value{layout.Version(d.u64()), d.bytes()} }

func (d *decoder) accesses() (list []Access) {
	for range d.count() {
		r, flags := d.ref(), d.u8()
		list = append(list, Access{r, flags&flagWrite != 0, flags&flagInsert != 0})
	}
	return list
}

// step is what a host says that its program came to.
func (e *encoder) step(s *Step) *encoder {
	e.u8(uint8(s.Ends)).accesses(s.More).count(len(s.Writes))
	for _, w := range s.Writes {
		e.u8(uint8(w.Does)).bytes(w.Bytes)
	}
	if s.Range == nil {
		return e.u8(0)
	}
	return e.u8(1).keyRange(s.Range)
}

func (d *decoder) step() (s Step) {
	s.Ends, s.More = Ends(d.u8()), d.accesses()
	for range d.count() {
		s.Writes = append(s.Writes, Write{Does(d.u8()), d.bytes()})
	}
	if d.u8() != 0 {
		r := d.keyRange()
		s.Range = &r
	}
	return s
}

func (d *decoder) values() (list []Value) {
	for range d.count() {
		list = append(list, d.value())
	}
	return list
}

func (d *decoder) updates() (list []Update) {
	for range d.count() {
		list = append(list, Update{d.ref(), d.value()})
	}
	return list
}
