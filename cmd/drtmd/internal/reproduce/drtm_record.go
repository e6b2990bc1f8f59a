package reproduce

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// The records of Tables III and IV: two of node 0, the second one only there to make transactions
// read-write. They fill no more than a line each.
const (
	recordTable proto.TableID = 1
	theRecord   proto.Key     = 1
	otherRecord proto.Key     = 2

	recordBytes         = 8
	loadedValue  uint64 = 1000
	writtenValue uint64 = 5
)

// records is a workload that loads one table and has no transactions of its own.
type records struct{}

func (records) Name() string                                       { return "records" }
func (records) Placement() proto.Placement                         { return onNode0{} }
func (records) Kinds() []string                                    { return []string{"access"} }
func (records) Sums() []string                                     { return nil }
func (records) NewClient(proto.NodeID, *rand.Rand) workload.Client { return nil }

func (records) Tables() []proto.TableSpec {
	return []proto.TableSpec{{ID: recordTable, Name: "records", ValueBytes: recordBytes, Capacity: 64}}
}

func (records) Load(n proto.NodeID, put func(proto.TableID, proto.Key, []byte) error) error {
	if n != 0 {
		return nil
	}
	return errors.Join(put(recordTable, theRecord, valueOf(loadedValue)),
		put(recordTable, otherRecord, valueOf(loadedValue)))
}

func (records) Check(proto.NodeID, workload.Contents) (a,
	b workload.Quantities, err error) {
	return a, b, nil
}

type onNode0 struct{}

func (onNode0) Locate(proto.TableID, proto.Key) proto.Location { return proto.Location{} }

func valueOf(v uint64) []byte {
	b := make([]byte, recordBytes)
	binary.NativeEndian.PutUint64(b, v)
	return b
}

// rig is a simulated cluster of two nodes with one worker each, and a look at the record.
type rig struct {
	*node.Cluster
	name string // of node 0; "": it is not known yet
	rkey uint32 // of its memory
	at   int    // of the record in it
	// remote are the accesses to the record that came by verbs.
	remote []sim.Access
}

// newRig starts the cluster.
func newRig(ctx context.Context, mutation string) (*rig, error) {
	p, err := node.FindProtocol(drtmName)
	if err != nil {
		return nil, err
	}
	g := &rig{}
	c, err := node.NewSimulated(ctx, node.SimulatedConfig{OnAccess: g.see, Config: node.Config{Protocol: p,
		Workload: records{}, Nodes: 2, Workers: 1, Fibers: 4, Seed: 1, Mutation: mutation}})
	if err != nil {
		return nil, err
	}
	w := c.Members[0].Workers[0]
	at, ok := w.Tables[recordTable-1].Find(uint64(theRecord))
	if !ok {
		return nil, errors.Join(errors.New("the record was not loaded"), c.Close())
	}
	g.Cluster, g.name, g.rkey, g.at = c, w.Worker.PD().Context().Attr().Name, w.MR.RKey(), at
	return g, nil
}

// see notes remote accesses to the record.
func (g *rig) see(a sim.Access) {
	if a.Node == g.name && a.RKey == g.rkey && a.Offset < g.at+layout.HeaderBytes+recordBytes && a.Offset+a.Length > g.at {
		g.remote = append(g.remote, a)
	}
}

// word is the one of the record at an offset of its layout.
func (g *rig) word(offset int) uint64 {
	w := g.Members[0].Workers[0]
	return binary.NativeEndian.Uint64(w.Memory.Bytes[g.at+offset:])
}

func (g *rig) state() uint64 { return g.word(layout.StateOffset) }
func (g *rig) value() uint64 { return g.word(layout.ValueOffset) }

// pair runs bodies on the nodes, at the same time.
func (g *rig) pair(ctx context.Context, body ...func(f *fiber.Fiber, e proto.Engine) error) error {
	return g.Start("reproduce", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if int(w.Node) >= len(body) || body[w.Node] == nil {
			return nil
		}
		return body[w.Node](f, w.Engine)
	}).Wait(ctx)
}

// Times of the rig, on its virtual clock.
const (
	opTime = 60 * time.Microsecond // more than a remote operation takes
	nudge  = 5 * time.Microsecond
)

// accesses declares a read-write transaction that touches the record so.
func accesses(mode proto.Mode) *proto.Decl {
	return &proto.Decl{Kind: 1, Accesses: []proto.Access{
		{Table: recordTable, Mode: mode, Key: theRecord},
		{Table: recordTable, Mode: proto.ModeWrite, Key: otherRecord}}}
}

// remotely declares one that touches the record alone.
func remotely(mode proto.Mode) *proto.Decl {
	return &proto.Decl{Kind: 1, ReadOnly: mode == proto.ModeRead, Accesses: []proto.Access{
		{Table: recordTable, Mode: mode, Key: theRecord}}}
}

// attempt runs one attempt of a transaction to its end.
func attempt(f *fiber.Fiber, e proto.Engine, d *proto.Decl, p func(tx proto.Txn) error) error {
	tx, err := e.Begin(f, d, 0)
	if err != nil {
		return err
	}
	if err := p(tx); err != nil {
		tx.Abort(err)
		return err
	}
	return tx.Commit()
}

// access reads the record, and writes it if that is its mode.
func access(tx proto.Txn, mode proto.Mode) (uint64, error) {
	b := make([]byte, recordBytes)
	if err := tx.Read(recordTable, theRecord, b); err != nil {
		return 0, err
	}
	if mode == proto.ModeWrite {
		if err := tx.Write(recordTable, theRecord, valueOf(writtenValue)); err != nil {
			return 0, err
		}
	}
	return binary.NativeEndian.Uint64(b), nil
}
