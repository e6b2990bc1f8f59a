package occ

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/onesided"
	"drtmd/proto/placement"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// kit is the engine of node 0 of three, which nothing is connected to. Its shard has its second replica on node 1,
// and it has the second one of shard 2. A log of node 1 and one of node 2 are kept here.
type kit struct {
	*Engine
	t       *testing.T
	writers []*log.Writer // by node; nil: none
	rooms   []log.Reservation
	logs    [][]byte // by node, their memory
	world   *sim.World
	core    *fiber.Core
	pd      *verbs.PD
}

const (
	kitNodes  = 3
	kitValue  = 100 // bytes: two lines
	kitTable  = 1
	kitLog    = 4 << 10
	kitEpoch  = 4
	ofNode1   = recovery.Name(1<<56 | 1<<32)
	deadsWord = 1<<32 | 1<<1 | 1 // a lock of node 1
)

type homes struct{}

func (homes) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k % kitNodes)}
}

func newKit(t *testing.T) *kit {
	t.Helper()
	return newKitOf(t, ByRPC())
}

func newKitOf(t *testing.T, strategy Strategy) *kit {
	t.Helper()
	world, err := sim.New(sim.Config{Seed: 1})
	must(t, err)
	node, err := world.AddNode(sim.NodeConfig{})
	must(t, err)
	context, err := node.Open()
	must(t, err)
	pd, err := context.AllocPD()
	must(t, err)
	core := fiber.NewCore(node.Timeline(0))
	worker, err := core.NewWorker(fiber.WorkerConfig{Name: "node 0", PD: pd})
	must(t, err)
	specs := []proto.TableSpec{{ID: kitTable, Name: "records", ValueBytes: kitValue, Capacity: 64}}
	m := placement.Initial(kitNodes, 2)
	m.Epoch = kitEpoch
	env := &protocol.Env{Worker: worker, Peers: make([]proto.Peer, kitNodes), Fibers: 1, Specs: specs,
		Shares: make([]*protocol.Share, kitNodes), Serving: protocol.NewServing(kitNodes, 1),
		Placed: placement.Place(homes{}, specs, 0, m), Clock: node.Clock(), Scope: verbs.AtomicGlob}
	env.Placement = env.Placed
	env.Options, err = Instance{Strategy: strategy}.Protocol().Options.Values(nil)
	must(t, err)
	for _, shard := range m.Held(0) {
		env.Shares[shard] = newShare(t)
	}
	env.Memory, env.Tables = env.Shares[0].Memory, env.Shares[0].Tables
	x := &kit{t: t, world: world, core: core, pd: pd, logs: make([][]byte, kitNodes), writers: make([]*log.Writer, kitNodes), rooms: make([]log.Reservation, kitNodes)}
	x.open(env, strategy)
	for n := 1; n < kitNodes; n++ {
		x.logs[n] = make([]byte, log.Bytes(kitLog))
		l, err := log.Format(x.logs[n], log.Config{Generation: 1})
		must(t, err)
		x.hosts[n] = &hosted{Log: &protocol.Log{Log: l}, e: x.Engine, from: proto.NodeID(n)}
		x.writers[n], err = log.NewWriter(log.WriterConfig{Capacity: kitLog, Generation: 1})
		must(t, err)
		x.writers[n].SetEpoch(kitEpoch)
	}
	t.Cleanup(func() {
		must(t, x.Close())
		must(t, core.Close())
		must(t, context.Close())
	})
	return x
}

// open makes the engine, without a log of its own at other nodes.
func (x *kit) open(env *protocol.Env, strategy Strategy) {
	x.t.Helper()
	var err error
	x.Engine, err = New(env, strategy)
	must(x.t, err)
	x.backups = &backups{e: x.Engine, at: make([]*backup, kitNodes)}
	x.newView()
	x.view.epoch, x.applier = kitEpoch, x.words.Applier()
	x.hosts = make([]*hosted, kitNodes)
}

// run runs a function on a fiber of the engine's worker.
func (x *kit) run(f func(f *fiber.Fiber) error) {
	x.t.Helper()
	err := errors.New("the fiber has not ended")
	x.Env.Worker.Submit("test", f, func(e error) { err = e })
	must(x.t, x.world.Run())
	must(x.t, err)
}

// newShare is memory with an empty table.
func newShare(t *testing.T) *protocol.Share {
	t.Helper()
	c := store.For(kitTable, "records", kitValue, 64)
	n := c.Bytes()
	b := make([]byte, n+layout.BucketBytes)
	b = b[-uintptr(unsafe.Pointer(unsafe.SliceData(b)))%layout.BucketBytes:][:n]
	m := htm.NewMemory(b, make([]uint64, n/layout.LineBytes), 1, nil)
	table, err := store.Format(c, m, 0)
	must(t, err)
	return &protocol.Share{Memory: m, Tables: []protocol.PointIndex{table}}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// value is a record's, of one byte.
func value(b byte) []byte { return bytes.Repeat([]byte{b}, kitValue) }

// version is the n-th of a key.
func version(n int) layout.Version {
	v := layout.Fresh(0).Inserted()
	for range n - 1 {
		v = v.Written()
	}
	return v
}

// load puts a record into a replica here, locked by a word.
func (x *kit) load(k proto.Key, v layout.Version, b byte, word onesided.Word) {
	x.t.Helper()
	s := x.Env.Shares[k%kitNodes]
	off, c := x.EnsureAt(s, kitTable, k)
	if c != onesided.Done {
		x.t.Fatalf("no entry for key %d: %v", k, c)
	}
	f := found{off: off}
	if c := x.lockRecord(s, &f, kitTable, k, x.applier); c != done {
		x.t.Fatalf("key %d: %v", k, c)
	}
	x.publish(nil, s, off, &item{table: kitTable, key: k, flags: flagKeep, version: v, value: value(b)})
	x.storeState(s, kitTable, off, word)
}

// holds fails the test unless a record of a replica is so; b 0: there is none.
func (x *kit) holds(k proto.Key, v layout.Version, b byte, word onesided.Word) {
	x.t.Helper()
	s := x.Env.Shares[k%kitNodes]
	off, there := s.Tables[0].Find(uint64(k))
	if !there || b == 0 {
		if there || b != 0 {
			x.t.Errorf("key %d is there: %t", k, there)
		}
		return
	}
	f, dst := found{off: uint64(off)}, make([]byte, kitValue)
	x.copyHeld(s, kitTable, &f, dst)
	h, _ := x.headNow(s, uint64(off))
	if h.Version != v || !bytes.Equal(dst, value(b)) || onesided.Word(h.State) != word {
		x.t.Errorf("key %d has version %v, a value of %d, state word %#x; want %v, %d, %#x", k, h.Version, dst[0],
			h.State, v, b, uint64(word))
	}
}

// append appends a record to the log of a node here, which says that all before decided is decided.
func (x *kit) append(n proto.NodeID, name recovery.Name, decided uint64, writes ...recovery.Write) {
	x.t.Helper()
	b := recovery.BeginBody(le.AppendUint64(nil, decided), deadsWord, len(writes))
	for i := range writes {
		b = recovery.AppendWrite(b, &writes[i])
	}
	x.appendBody(n, name, b)
}

func (x *kit) appendBody(n proto.NodeID, name recovery.Name, body []byte) {
	x.t.Helper()
	w, h := x.writers[n], x.hosts[n]
	if ok, err := w.TryReserve(&x.rooms[n], len(body)); !ok || err != nil {
		x.t.Fatalf("no room: %v", err)
	}
	must(x.t, h.Append(w, &x.rooms[n], &log.Record{Type: recordUpdate, ID: uint64(name), Body: body}))
	h.read()
}

// write is one of a transaction.
func write(k proto.Key, v layout.Version, b byte) recovery.Write {
	return recovery.Write{Shard: proto.ShardID(k % kitNodes), Table: kitTable, Key: k, Version: v, Value: value(b)}
}
