// Package toys is a workload that TestAToyProtocolAndAToyWorkloadNeedNoOtherEdit adds to the
// composition: children take toys from boxes and put them into others; no toy is ever lost.
package toys

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// full are the toys of a box in the beginning.
const (
	full  = 100
	table = proto.TableID(1)
)

// Toys is the workload.
type Toys struct {
	nodes   int
	perNode uint64 // boxes
}

// Spec describes it.
func Spec() workload.Spec {
	return workload.Spec{Name: "toys", Doc: "toys that are carried from box to box",
		Options:      option.List{option.Int("boxes", 64, 2, 4096, "`N` boxes per node")},
		Transactions: []workload.Transaction{{Name: "carry", Percent: 100, Doc: "carries a toy"}},
		Tables:       []workload.Table{{Name: "boxes", Doc: "toys in a box"}},
		Verify:       "no toy is lost",
		Words:        func(_ int, v option.Values) string { return fmt.Sprintf("%d boxes per node", v.Int("boxes")) },
		New: func(nodes int, v option.Values) (workload.Workload, error) {
			return &Toys{nodes, uint64(v.Int("boxes"))}, nil
		}}
}

func (*Toys) Name() string { return "toys" }

func (w *Toys) Tables() []proto.TableSpec {
	return []proto.TableSpec{{ID: table, Name: "boxes", ValueBytes: 8, Capacity: int(w.perNode)}}
}

func (w *Toys) Placement() proto.Placement { return w }

// Locate implements proto.Placement.
func (w *Toys) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(uint64(k) / w.perNode)}
}

func (*Toys) Kinds() []string { return []string{"carry"} }

func (w *Toys) Load(n proto.NodeID, put func(proto.TableID, proto.Key, []byte) error) error {
	for i := range w.perNode {
		if err := put(table, proto.Key(uint64(n)*w.perNode+i), number(full)); err != nil {
			return err
		}
	}
	return nil
}

func (w *Toys) NewClient(_ proto.NodeID, r *rand.Rand) workload.Client {
	c := &client{w: w, r: r, buffer: number(0)}
	c.decl = proto.Decl{Kind: 1, Accesses: make([]proto.Access, 2)}
	return c
}

func (*Toys) Sums() []string { return []string{"toys"} }

func (w *Toys) Check(n proto.NodeID, c workload.Contents) (initial, final workload.Quantities, err error) {
	b := number(0)
	for i := range w.perNode {
		if err := c.Read(table, proto.Key(uint64(n)*w.perNode+i), b); err != nil {
			return initial, final, err
		}
		final[0] += int64(binary.NativeEndian.Uint64(b))
	}
	initial[0] = int64(w.perNode) * full
	return initial, final, nil
}

func number(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }

// client draws two boxes.
type client struct {
	w      *Toys
	r      *rand.Rand
	decl   proto.Decl
	buffer []byte
	got    bool // a new toy comes into the second box in every third transaction
	open   bool
	ledger workload.Ledger
}

func (c *client) Next() (*proto.Decl, proto.Program) {
	boxes := uint64(c.w.nodes) * c.w.perNode
	from := c.r.Uint64N(boxes)
	to := (from + 1 + c.r.Uint64N(boxes-1)) % boxes
	for i, k := range []uint64{from, to} {
		c.decl.Accesses[i] = proto.Access{Table: table, Mode: proto.ModeWrite, Key: proto.Key(k)}
	}
	c.got, c.open = c.r.IntN(3) == 0, true
	return &c.decl, c
}

// Execute implements proto.Program.
func (c *client) Execute(tx proto.Txn) error {
	from, to := c.decl.Accesses[0].Key, c.decl.Accesses[1].Key
	if err := tx.GetForUpdate(table, from, c.buffer); err != nil {
		return err
	}
	left := binary.NativeEndian.Uint64(c.buffer)
	if left == 0 {
		return proto.ErrRollback
	}
	if err := tx.GetForUpdate(table, to, c.buffer); err != nil {
		return err
	}
	there := binary.NativeEndian.Uint64(c.buffer) + 1
	if c.got {
		there++
	}
	write := func(k proto.Key, v uint64) error {
		binary.NativeEndian.PutUint64(c.buffer, v)
		return tx.Write(table, k, c.buffer)
	}
	if err := write(from, left-1); err != nil {
		return err
	}
	return write(to, there)
}

func (c *client) did() (q workload.Quantities) {
	if c.got {
		q[0] = 1
	}
	return q
}

func (c *client) Done(o proto.Outcome) {
	c.open = false
	switch o {
	case proto.Committed:
		c.ledger.Committed = c.ledger.Committed.Plus(c.did())
	case proto.Unknown:
		c.ledger.AddUnknown(c.did())
	}
}

func (c *client) AddTo(l *workload.Ledger) {
	l.Add(&c.ledger)
	if c.open {
		l.AddUnknown(c.did())
	}
}
