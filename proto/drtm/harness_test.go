package drtm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tables of the tests: a value that leaves room in the entry's line, one that fills it, and
// one over several lines.
const (
	small proto.TableID = iota + 1
	full
	large
)

var sizes = []int{small: 8, full: 40, large: 200}

const (
	loaded   = 16 // keys of each node in each table at first, from 0
	capacity = 64 // of each node's tables
	initial  = 1000
)

// tables is a workload that loads tables and has no transactions. Key k lives on node k >> 32.
type tables struct{}

func keyOn(n proto.NodeID, k uint64) proto.Key { return proto.Key(uint64(n)<<32 | k) }

func (tables) Name() string { return "test" }
func (tables) Tables() (all []proto.TableSpec) {
	for id := small; id <= large; id++ {
		all = append(all, proto.TableSpec{ID: id, Name: "t", ValueBytes: sizes[id],
			Capacity: capacity})
	}
	return all
}
func (tables) Placement() proto.Placement                         { return placement{} }
func (tables) Kinds() []string                                    { return []string{"test"} }
func (tables) Sums() []string                                     { return nil }
func (tables) NewClient(proto.NodeID, *rand.Rand) workload.Client { return nil }
func (tables) Check(proto.NodeID, workload.Contents) (a,
	b workload.Quantities, err error) {
	return a, b, nil
}

func (tables) Load(n proto.NodeID, put func(proto.TableID, proto.Key, []byte) error) error {
	for id := small; id <= large; id++ {
		for k := range uint64(loaded) {
			if err := put(id, keyOn(n, k), value(id, initial)); err != nil {
				return err
			}
		}
	}
	return nil
}

type placement struct{}

func (placement) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> 32)}
}

// value is one of the table's size that says v in each word, so that a torn one shows.
func value(id proto.TableID, v uint64) []byte {
	b := make([]byte, sizes[id])
	for i := 0; i < len(b); i += 8 {
		binary.NativeEndian.PutUint64(b[i:], v)
	}
	return b
}

// number reads a value back; false if it is torn.
func number(b []byte) (uint64, bool) {
	v := binary.NativeEndian.Uint64(b)
	for i := 8; i < len(b); i += 8 {
		if binary.NativeEndian.Uint64(b[i:]) != v {
			return v, false
		}
	}
	return v, true
}

// host is where a cluster runs.
type host struct {
	name string
	make func(ctx context.Context, c node.Config) (*node.Cluster, error)
}

var (
	onShm = host{"shm", func(ctx context.Context, c node.Config) (*node.Cluster, error) {
		return node.NewLocal(ctx, node.LocalConfig{Config: c, Threads: min(2, c.Nodes*c.Workers)})
	}}
	onSim = host{"sim", func(ctx context.Context, c node.Config) (*node.Cluster, error) {
		return node.NewSimulated(ctx, node.SimulatedConfig{Config: c})
	}}
	hosts = []host{onShm, onSim}
	// onHCA is a device whose atomics do not exclude the CPU's, as RDMA hardware (design decision 3).
	onHCA = host{"sim without line words",
		func(ctx context.Context, c node.Config) (*node.Cluster, error) {
			return node.NewSimulated(ctx, node.SimulatedConfig{Config: c, WithoutLineWords: true})
		}}
)

// settings change what a test's engines are made from.
type settings struct {
	node func(*node.Config)
	drtm func(*drtm.Config)
}

// protocol makes drtm engines as the list of protocols does, with a last word for the test.
func protocol(t testing.TB, change func(*drtm.Config)) node.Protocol {
	t.Helper()
	p, err := node.FindProtocol("drtm")
	if err != nil {
		t.Fatal(err)
	}
	if change == nil {
		return p
	}
	p.New = func(e *node.Env) (proto.Engine, error) {
		cfg, err := drtm.ConfigOf(e)
		if err != nil {
			return nil, err
		}
		change(&cfg)
		return drtm.New(cfg)
	}
	return p
}

// cluster is a cluster under test.
type cluster struct {
	*node.Cluster
	t testing.TB
}

// start builds a cluster that is closed when the test ends.
func start(t testing.TB, h host, s settings) *cluster {
	t.Helper()
	if h.name != onShm.name {
		raceskip.Simulated(t)
	}
	cfg := node.Config{Protocol: protocol(t, s.drtm), Workload: tables{}, Nodes: 2, Workers: 1,
		Fibers: 4, Seed: 1, Record: &node.Recording{}}
	cfg.Connect.RTS.Timeout = 18 // a second: a machine that is busy with other tests stops threads
	if s.node != nil {
		s.node(&cfg)
	}
	c, err := h.make(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &cluster{c, t}
}

// verify stops the cluster and checks what it leaves: no lock, and a history that is strictly
// serializable.
func (c *cluster) verify() *check.Result {
	c.t.Helper()
	if err := c.Stop(); err != nil {
		c.t.Fatal(err)
	}
	c.unlocked()
	res := c.judge()
	if res.Verdict != check.Serializable {
		c.t.Errorf("history is %v, of %d transactions", res.Verdict, res.Checked)
		for _, v := range res.Violations {
			c.t.Error(v.Text)
		}
	}
	return res
}

// judge checks the history of a cluster that has stopped.
func (c *cluster) judge() *check.Result {
	c.t.Helper()
	h, err := c.History()
	if err != nil {
		c.t.Fatal(err)
	}
	defer h.Close()
	res, err := check.History(context.Background(), h, check.Options{UserAborts: true})
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// unlocked looks at every entry of a cluster that rests.
func (c *cluster) unlocked() {
	c.t.Helper()
	for _, m := range c.Members {
		for id := small; id <= large; id++ {
			for k := range uint64(capacity) {
				if s, _, ok := c.entry(id, keyOn(m.ID, k)); ok && s.Locked() {
					c.t.Errorf("node %d table %d key %d is %v", m.ID, id, k, s)
				}
			}
		}
	}
}

// entry reads the state and the version of a record where it lives.
func (c *cluster) entry(id proto.TableID, k proto.Key) (drtm.State, layout.Version, bool) {
	tab := c.Members[k>>32].Workers[0].Tables[id-1]
	off, ok := tab.Find(uint64(k))
	if !ok {
		return 0, 0, false
	}
	m, off := tab.At(off)
	b := m.Bytes[off:]
	return drtm.State(binary.NativeEndian.Uint64(b[layout.StateOffset:])),
		layout.Version(binary.NativeEndian.Uint64(b[layout.VersionOffset:])), true
}

// on runs a fiber on the first worker of a node.
func (c *cluster) on(n proto.NodeID, body func(f *fiber.Fiber, e *drtm.Engine) error) {
	c.t.Helper()
	err := c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != n || w.Index != 0 {
			return nil
		}
		return body(f, w.Engine.(*drtm.Engine))
	}).Wait(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
}

// program is a function as a proto.Program.
type program func(tx proto.Txn) error

func (p program) Execute(tx proto.Txn) error { return p(tx) }

// attempt runs one attempt of a transaction.
func attempt(f *fiber.Fiber, e proto.Engine, d *proto.Decl, n int, p program) error {
	tx, err := e.Begin(f, d, n)
	if err != nil {
		return err
	}
	switch err := p(tx); {
	case err == nil:
		return tx.Commit()
	case errors.Is(err, proto.ErrRollback):
		return errors.Join(err, tx.Rollback())
	default:
		tx.Abort(err)
		return err
	}
}

// do runs a transaction until it has an outcome.
func do(f *fiber.Fiber, e proto.Engine, d *proto.Decl, p program) error {
	r := proto.Runner{Engine: e, Rand: rand.New(rand.NewPCG(1, 2))}
	_, err := r.Run(f, d, p)
	return err
}

// declare makes a declaration.
func declare(a ...proto.Access) *proto.Decl {
	d := &proto.Decl{Kind: 1, ReadOnly: true, Accesses: a}
	for _, x := range a {
		d.ReadOnly = d.ReadOnly && x.Mode == proto.ModeRead
	}
	return d
}

func reading(id proto.TableID, k proto.Key) proto.Access {
	return proto.Access{Table: id, Mode: proto.ModeRead, Key: k}
}

func writing(id proto.TableID, k proto.Key) proto.Access {
	return proto.Access{Table: id, Mode: proto.ModeWrite, Key: k}
}

func inserting(id proto.TableID, k proto.Key) proto.Access {
	return proto.Access{Table: id, Mode: proto.ModeInsert, Key: k}
}

func deleting(id proto.TableID, k proto.Key) proto.Access {
	return proto.Access{Table: id, Mode: proto.ModeDelete, Key: k}
}

// peek reads a record in a transaction of its own; 0 if there is none.
func peek(f *fiber.Fiber, e proto.Engine, id proto.TableID, k proto.Key) (v uint64, err error) {
	b := value(id, 0)
	err = do(f, e, declare(reading(id, k)), func(tx proto.Txn) error {
		v = 0
		err := tx.Read(id, k, b)
		if err == nil {
			v, _ = number(b)
		}
		return missing(err)
	})
	return v, err
}

// missing takes the errors that say whether there is a record for success.
func missing(err error) error {
	if errors.Is(err, proto.ErrNotFound) || errors.Is(err, proto.ErrExists) {
		return nil
	}
	return err
}

// each runs a test on every host.
func each(t *testing.T, test func(t *testing.T, h host)) {
	t.Helper()
	for _, h := range hosts {
		t.Run(h.name, func(t *testing.T) { test(t, h) })
	}
}

const us = time.Microsecond
