package twopl_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"go.uber.org/goleak"

	"drtmd/internal/invariant"
	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ibv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tables of the tests: a value within the entry's first line, one that fills it, and one over
// several lines.
const (
	small proto.TableID = iota + 1
	line
	large
)

var tableIDs = []proto.TableID{small, line, large}

var valueBytes = map[proto.TableID]int{small: 8, line: 40, large: 200}

const (
	loaded   = 16 // keys of each node in each table at the beginning, from 0
	capacity = 64 // of each node's tables
)

// tables is a workload without transactions of its own. Key k lives on node k >> 32.
type tables struct{}

func keyOn(n proto.NodeID, k uint64) proto.Key { return proto.Key(uint64(n)<<32 | k) }

func (tables) Name() string { return "test" }
func (tables) Tables() (all []proto.TableSpec) {
	for _, id := range tableIDs {
		all = append(all, proto.TableSpec{ID: id, Name: "t", ValueBytes: valueBytes[id],
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
	for _, id := range tableIDs {
		for k := range uint64(loaded) {
			if err := put(id, keyOn(n, k), value(valueBytes[id], initial)); err != nil {
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

// initial is the number in every loaded value.
const initial = 1000

// value is one of some size that says v in each word, so that a torn one shows.
func value(size int, v uint64) []byte {
	b := make([]byte, size)
	for i := 0; i < size; i += 8 {
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

// protocols under test.
var protocols = []struct {
	name string
	cpu  bool
}{{"twopl", false}, {"twopl-local", true}}

// protocol finds the protocol under test where programs do.
func protocol(t *testing.T, cpu bool) node.Protocol {
	t.Helper()
	name := "twopl"
	if cpu {
		name = "twopl-local"
	}
	p, err := node.FindProtocol(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// host is where a cluster runs.
type host struct {
	name string
	make func(ctx context.Context, c node.Config) (*node.Cluster, error)
}

var hosts = []host{
	{"shm", func(ctx context.Context, c node.Config) (*node.Cluster, error) {
		return node.NewLocal(ctx, node.LocalConfig{Config: c, Threads: min(2, c.Nodes*c.Workers)})
	}},
	{"sim", func(ctx context.Context, c node.Config) (*node.Cluster, error) {
		return node.NewSimulated(ctx, node.SimulatedConfig{Config: c})
	}},
	{"ibv", func(ctx context.Context, c node.Config) (*node.Cluster, error) {
		return node.NewLocal(ctx, node.LocalConfig{Config: c, Provider: ibv.New(),
			Threads: min(2, c.Nodes*c.Workers)})
	}},
}

// scale is how many of n repetitions a host does in a time that people wait: rxe in a virtual
// machine without acceleration takes milliseconds for a transaction, and the race detector slows
// the rest.
func (h host) scale(n int) int {
	switch {
	case h.name == "ibv":
		return max(n/10, 1)
	case invariant.Enabled:
		return max(n/4, 1)
	}
	return n
}

// simulated is the host in virtual time.
var simulated = hosts[1]

// needs skips a test on a host that the machine does not have.
func (h host) needs(t *testing.T) {
	t.Helper()
	if h.name != "ibv" {
		return
	}
	devices, err := ibv.New().Devices()
	if err == nil && len(devices) > 0 {
		return
	}
	if os.Getenv("DRTMD_REQUIRE") == "ibv" {
		t.Fatalf("DRTMD_REQUIRE=ibv, but: %d devices, %v", len(devices), err)
	}
	t.Skipf("no RDMA device: %d devices, %v", len(devices), err)
}

// cluster is a cluster under test.
type cluster struct {
	*node.Cluster
	t *testing.T
}

// start builds a cluster; it is closed, and its history checked, when the test ends.
func start(t *testing.T, h host, cpu bool, change ...func(*node.Config)) *cluster {
	t.Helper()
	if h.name == simulated.name {
		raceskip.Simulated(t)
	}
	cfg := node.Config{Protocol: protocol(t, cpu), Workload: tables{}, Nodes: 2, Workers: 1,
		Fibers: 4, Seed: 1, Record: &node.Recording{}}
	for _, f := range change {
		f(&cfg)
	}
	c, err := h.make(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	x := &cluster{c, t}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

// verify stops the cluster and checks what it leaves: no lock, no entry of an absent key, and a
// history that is strictly serializable.
func (c *cluster) verify() *check.Result {
	c.t.Helper()
	if err := c.Stop(); err != nil {
		c.t.Fatal(err)
	}
	c.unlocked()
	return c.serializable()
}

// serializable checks the history of a cluster that has stopped.
func (c *cluster) serializable() *check.Result {
	c.t.Helper()
	// What stays locked is owed: those who expect nothing to be call unlocked.
	h, err := c.HistoryOwing(func(uint64) bool { return true })
	if err != nil {
		c.t.Fatal(err)
	}
	defer h.Close()
	res, err := check.History(context.Background(), h, check.Options{UserAborts: true})
	if err != nil {
		c.t.Fatal(err)
	}
	if res.Verdict != check.Serializable {
		c.t.Errorf("history is %v, of %d transactions", res.Verdict, res.Checked)
		for _, v := range res.Violations {
			c.t.Error(v.Text)
		}
	}
	return res
}

// unlocked looks at every entry of a cluster that rests.
func (c *cluster) unlocked() {
	c.t.Helper()
	for _, m := range c.Members {
		for i, tab := range m.Workers[0].Tables {
			for k := range uint64(capacity) {
				off, ok := tab.Find(uint64(keyOn(m.ID, k)))
				if !ok {
					continue
				}
				memory, off := tab.At(off)
				b := memory.Bytes[off:]
				state := binary.NativeEndian.Uint64(b[layout.StateOffset:])
				v := layout.Version(binary.NativeEndian.Uint64(b[layout.VersionOffset:]))
				if state != 0 {
					c.t.Errorf("node %d table %d key %d: state word %#x", m.ID, i+1, k, state)
				}
				if !v.Live() {
					c.t.Errorf("node %d table %d key %d: absent entry %v was not given back", m.ID,
						i+1, k, v)
				}
			}
		}
	}
}

// on runs a fiber on the first worker of a node.
func (c *cluster) on(n proto.NodeID, body func(f *fiber.Fiber, e proto.Engine) error) {
	c.t.Helper()
	err := c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != n || w.Index != 0 {
			return nil
		}
		return body(f, w.Engine)
	}).Wait(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
}

// program is a function as a proto.Program.
type program func(tx proto.Txn) error

func (p program) Execute(tx proto.Txn) error { return p(tx) }

// do runs one attempt of a transaction.
func do(f *fiber.Fiber, e proto.Engine, d *proto.Decl, p program) error {
	tx, err := e.Begin(f, d, 0)
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

// each runs a test for every protocol on every host.
func each(t *testing.T, test func(t *testing.T, h host, cpu bool)) {
	t.Helper()
	for _, p := range protocols {
		for _, h := range hosts {
			t.Run(p.name+"/"+h.name, func(t *testing.T) {
				h.needs(t)
				test(t, h, p.cpu)
			})
		}
	}
}
