package keyvalue

import (
	"encoding/binary"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// Bytes of a call: what draws the counts of blind puts, then one operation for each record. The result is how many
// records were put after they were read, and how many gets have found nothing.
const (
	blindBytes  = 8
	resultBytes = 4 + 4
)

// Function declares the transaction of a kind of a workload whose clients ship (Client.Ships). A call has an
// operation of each record. space is that of a workload.
func Function(kind uint8, name, doc string, space func(workload.Workload) *Space,
	records ...workload.FunctionRecords) workload.Function {
	f := workload.Function{Number: uint16(kind), Name: name, Doc: doc, Records: records, ArgumentBytes: blindBytes,
		ResultBytes: resultBytes, New: func(w workload.Workload) workload.Shipped {
			s := space(w)
			return &shipped{Client{Space: s, value: make([]byte, s.recordBytes())}}
		}}
	for _, r := range records {
		f.ArgumentBytes += r.Most
	}
	return f
}

// shipped executes calls.
type shipped struct{ c Client }

// Take implements workload.Shipped.
func (s *shipped) Take(records []proto.Access, argument []byte) error {
	if len(records) > MaxOps || len(argument) != blindBytes+len(records) {
		return workload.ErrCall
	}
	c := &s.c
	c.blind, c.n = binary.LittleEndian.Uint64(argument), len(records)
	for i, r := range records {
		o := operation{op: Op(argument[blindBytes+i]), key: r.Key}
		if o.op < OpGet || o.op > OpUpdate || (o.op == OpGet) != (r.Mode == proto.ModeRead) || r.Table != Table {
			return workload.ErrCall
		}
		c.ops[i] = o
	}
	return nil
}

// Execute implements workload.Shipped.
func (s *shipped) Execute(tx proto.Txn) error { return (*program)(&s.c).run(tx) }

// Result implements workload.Shipped.
func (s *shipped) Result(dst []byte) []byte { return (*program)(&s.c).Result(dst) }

// Call implements workload.Shippable.
func (p *program) Call(dst []byte) (uint16, []byte) {
	if !p.Ships {
		return 0, dst
	}
	p.drawBlind()
	dst = binary.LittleEndian.AppendUint64(dst, p.blind)
	for i := range p.ops[:p.n] {
		dst = append(dst, byte(p.ops[i].op))
	}
	return uint16(p.decl.Kind), dst
}

// Result implements workload.Shippable.
func (p *program) Result(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(p.delta))
	return binary.LittleEndian.AppendUint32(dst, p.lacking)
}

// Return implements workload.Shippable.
func (p *program) Return(result []byte) error {
	if len(result) != resultBytes {
		return workload.ErrCall
	}
	p.delta = int64(binary.LittleEndian.Uint32(result))
	p.lacking = binary.LittleEndian.Uint32(result[4:])
	p.missed += uint64(p.lacking)
	return nil
}
