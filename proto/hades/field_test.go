package hades_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/hades"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// Few records of four lines, of which transactions access fields.
const (
	rowBytes  = 200
	farField  = 150 // in the third line
	fewRows   = 6   // per node
	rows      = proto.TableID(1)
	placeBits = 32
)

// rowsLoad is their workload: every transaction adds to fields of two records, and reads fields of a third.
type rowsLoad struct{ nodes int }

func (w *rowsLoad) Name() string    { return "rows" }
func (w *rowsLoad) Kinds() []string { return []string{"add"} }

func (w *rowsLoad) Tables() []proto.TableSpec {
	return []proto.TableSpec{{ID: rows, Name: "rows", ValueBytes: rowBytes, Capacity: fewRows}}
}

func (w *rowsLoad) Sums() []string { return nil }

func (w *rowsLoad) NewClient(proto.NodeID, *rand.Rand) workload.Client { return nil }

func (w *rowsLoad) Check(proto.NodeID, workload.Contents) (first, last workload.Quantities, err error) {
	return first, last, nil
}

func (w *rowsLoad) Placement() proto.Placement { return w }

func (w *rowsLoad) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> placeBits)}
}

func (w *rowsLoad) Load(n proto.NodeID, put func(proto.TableID, proto.Key, []byte) error) error {
	for i := range fewRows {
		if err := put(rows, rowKey(int(n), i), make([]byte, rowBytes)); err != nil {
			return err
		}
	}
	return nil
}

func rowKey(node, i int) proto.Key { return proto.Key(node)<<placeBits | proto.Key(i) }

// fields is one of their transactions.
type fields struct {
	keys     [3]proto.Key
	declared bool
	decl     proto.Decl
	accesses [3]proto.Access

	row, spare [rowBytes]byte
}

func (x *fields) draw(nodes int, r *rand.Rand) {
	for i := range x.keys {
		for again := true; again; {
			x.keys[i] = rowKey(r.IntN(nodes), r.IntN(fewRows))
			again = false
			for _, k := range x.keys[:i] {
				again = again || k == x.keys[i]
			}
		}
	}
	x.decl = proto.Decl{}
	if x.declared = r.IntN(2) == 0; !x.declared {
		return
	}
	near, far := proto.Field{Bytes: 8, Write: true}, proto.Field{Offset: farField, Bytes: 8}
	x.accesses = [3]proto.Access{{Table: rows, Mode: proto.ModeWrite, Key: x.keys[0], Fields: [2]proto.Field{near, far}},
		{Table: rows, Mode: proto.ModeWrite, Key: x.keys[1], Fields: [2]proto.Field{{Offset: farField, Bytes: 8, Write: true}}},
		{Table: rows, Mode: proto.ModeRead, Key: x.keys[2], Fields: [2]proto.Field{far}}}
	x.decl.Accesses = x.accesses[:]
}

func (x *fields) Execute(tx proto.Txn) error {
	if err := x.add(tx, x.keys[0], 0); err != nil {
		return err
	}
	if err := x.read(tx, x.keys[0], farField); err != nil {
		return err
	}
	if err := x.add(tx, x.keys[1], farField); err != nil {
		return err
	}
	return x.read(tx, x.keys[2], farField)
}

func (x *fields) read(tx proto.Txn, k proto.Key, at int) error {
	return proto.ReadAt(tx, rows, k, at, x.row[at:at+8], x.row[:])
}

func (x *fields) add(tx proto.Txn, k proto.Key, at int) error {
	if err := x.read(tx, k, at); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(x.row[at:], binary.LittleEndian.Uint64(x.row[at:])+1)
	return proto.WriteAt(tx, rows, k, at, x.row[at:at+8], x.spare[:])
}

// TestFieldsAreSerializable: transactions that access fields of the same few records, declared or not, are strictly
// serializable, and no addition is lost.
func TestFieldsAreSerializable(t *testing.T) {
	raceskip.Simulated(t)
	for _, p := range []node.Protocol{hades.Protocol(), hades.Hybrid()} {
		t.Run(p.Name, func(t *testing.T) {
			const nodes, each = 3, 40
			cost, err := sim.Preset(p.Preset)
			if err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			c, err := node.NewSimulated(ctx, node.SimulatedConfig{Cost: cost, Config: node.Config{Protocol: p,
				Workload: &rowsLoad{nodes}, Nodes: nodes, Workers: 2, Fibers: 2, Record: &node.Recording{}}})
			if err != nil {
				t.Fatal(err)
			}
			err = c.Start("client", 2, func(f *fiber.Fiber, w *node.Worker, i int) error {
				r := rand.New(rand.NewPCG(uint64(w.Node), uint64(2*w.Index+i)))
				run := proto.Runner{Engine: w.Engine, Rand: r}
				var x fields
				for range each {
					x.draw(nodes, r)
					if res, err := run.Run(f, &x.decl, &x); err != nil || res.Outcome != proto.Committed {
						return errors.Join(err, errors.New(res.Outcome.String()))
					}
				}
				return nil
			}).Wait(ctx)
			_, late := c.Settle(ctx)
			if err := errors.Join(err, late, c.Stop()); err != nil {
				t.Fatal(err)
			}
			sum := uint64(0)
			for n := range nodes {
				for i := range fewRows {
					var row [rowBytes]byte
					if err := c.Read(rows, rowKey(n, i), row[:]); err != nil {
						t.Fatal(err)
					}
					sum += binary.LittleEndian.Uint64(row[:]) + binary.LittleEndian.Uint64(row[farField:])
				}
			}
			if want := uint64(2 * nodes * 2 * 2 * each); sum != want {
				t.Errorf("the fields add up to %d, want %d", sum, want)
			}
			h, err := c.History()
			if err != nil {
				t.Fatal(err)
			}
			if res, err := check.History(ctx, h, check.Options{}); err != nil || res.Verdict != check.Serializable {
				t.Errorf("%v, %v", res, err)
			}
			if err := errors.Join(h.Close(), c.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
