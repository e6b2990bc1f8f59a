package history

import (
	"encoding/binary"
	"errors"
)

// MaxOps is how many operations a transaction may have. A loader that records more splits them.
const MaxOps = 1 << 16

// maxOpBytes is the longest encoded operation: an addition.
const maxOpBytes = 1 + 3 + 10 + 10 + 10 + 8

// maxTxnBytes is the longest encoded transaction.
const maxTxnBytes = 2 + 8 + 10 + 10 + 10 + 3 + MaxOps*maxOpBytes

// minTxnBytes and minOpBytes are the shortest ones; they bound what counts can be true.
const (
	minTxnBytes = 2 + 1 + 1 + 1
	minOpBytes  = 1 + 1 + 1 + 1
)

var errContent = errors.New(whatContent)

// delta is what a transaction is encoded against: the one before it in its block.
type delta struct {
	seq   uint64
	start int64
}

// named is a bit beside the outcome: the transaction has a name.
const named = 0x80

// appendTxn encodes one transaction: outcome, kind, name, sequence and start relative to the one
// before, duration if it has an end, operations.
func appendTxn(b []byte, d *delta, r *Record) []byte {
	if r.Name != 0 {
		b = append(b, byte(r.Outcome)|named, byte(r.Kind))
		b = binary.LittleEndian.AppendUint64(b, r.Name)
	} else {
		b = append(b, byte(r.Outcome), byte(r.Kind))
	}
	b = binary.AppendVarint(b, int64(r.ID.Seq-d.seq))
	b = binary.AppendVarint(b, r.StartNs-d.start)
	if r.Outcome.ended() {
		b = binary.AppendUvarint(b, uint64(r.EndNs-r.StartNs))
	}
	d.seq, d.start = r.ID.Seq, r.StartNs
	b = binary.AppendUvarint(b, uint64(len(r.Ops)))
	for i := range r.Ops {
		b = appendOp(b, &r.Ops[i])
	}
	return b
}

func appendOp(b []byte, o *Op) []byte {
	b = append(b, byte(o.Kind))
	b = binary.AppendUvarint(b, uint64(o.Table))
	b = binary.AppendUvarint(b, uint64(o.Key))
	switch o.Kind {
	case OpScan, OpPiece:
		return binary.AppendUvarint(b, uint64(o.High-o.Key))
	case OpAdd:
		b = binary.AppendUvarint(b, uint64(o.Version))
		b = binary.AppendVarint(b, o.Delta)
		return binary.LittleEndian.AppendUint64(b, o.Sum)
	}
	b = binary.AppendUvarint(b, uint64(o.Version))
	if o.Kind == OpRead || o.Kind == OpWrite {
		b = binary.LittleEndian.AppendUint64(b, uint64(o.Digest))
	}
	return b
}

// decoder takes transactions off a block's payload. The first thing that makes no sense ends it.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.bad = true
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) uint64() uint64 {
	if len(d.rest) < 8 {
		d.bad = true
		return 0
	}
	v := binary.LittleEndian.Uint64(d.rest)
	d.rest = d.rest[8:]
	return v
}

// txn decodes the next transaction into r, whose Ops it reuses. ID.Worker and Node are the
// block's.
func (d *decoder) txn(prev *delta, r *Record) error {
	outcome := d.byte()
	r.Outcome, r.Kind, r.Name = Outcome(outcome&^named), Kind(d.byte()), 0
	if outcome&named != 0 {
		if r.Name = d.uint64(); r.Name == 0 {
			return errContent
		}
	}
	r.ID.Seq = prev.seq + uint64(d.varint())
	r.StartNs = prev.start + d.varint()
	r.EndNs = Never
	if r.Outcome.ended() {
		r.EndNs = r.StartNs + int64(d.uvarint())
	}
	prev.seq, prev.start = r.ID.Seq, r.StartNs
	n := d.uvarint()
	if d.bad || r.Outcome < Committed || r.Outcome >= OutcomeCount || r.Outcome.Decision() && r.Name == 0 || r.EndNs < r.StartNs ||
		n > MaxOps || n > uint64(len(d.rest)/minOpBytes) {
		return errContent
	}
	r.Ops = r.Ops[:0]
	for range n {
		o, ok := d.op()
		if !ok {
			return errContent
		}
		r.Ops = append(r.Ops, o)
	}
	return nil
}

func (d *decoder) op() (Op, bool) {
	o := Op{Kind: OpKind(d.byte())}
	table := d.uvarint()
	o.Table, o.Key = Table(table), Key(d.uvarint())
	switch o.Kind {
	case OpScan:
		o.High = o.Key + Key(d.uvarint())
		return o, !d.bad && table <= 0xffff && o.High >= o.Key
	case OpPiece:
		o.High = o.Key + Key(d.uvarint())
		return o, !d.bad && table == 0 && o.High > o.Key
	case OpAdd:
		o.Version, o.Delta, o.Sum = Version(d.uvarint()), d.varint(), d.uint64()
		o.Digest = DigestOfNumber(o.Sum)
	case OpRead, OpWrite:
		o.Version, o.Digest = Version(d.uvarint()), Digest(d.uint64())
	case OpReadAbsent, OpDelete:
		o.Version = Version(d.uvarint())
	default:
		return o, false
	}
	return o, !d.bad && table <= 0xffff && (o.Version != 0 || o.Kind == OpReadAbsent)
}
