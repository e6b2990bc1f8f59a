package remote_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/htm"
	"drtmd/internal/testkit/raceskip"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
	"drtmd/verbs/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a worker with a conn to a passive node that has a table.
type host struct {
	t      testing.TB
	worker *fiber.Worker
	conn   *fiber.Conn
	mr     *verbs.MR // of the passive node
	pd     *verbs.PD // its
	table  *store.Table
	remote *remote.Table
	buffer *verbs.MR // the worker's, for one entry
	client *remote.Client
	drive  func() error
	stop   func()
}

// testOwners is the number of workers that may change the table from the host's side.
const testOwners = 4

// eachHost runs a test on shared memory and in the simulator.
func eachHost(t *testing.T, c store.Config, test func(*testing.T, *host)) {
	t.Helper()
	t.Run("shm", func(t *testing.T) { test(t, newShmHost(t, c)) })
	t.Run("sim", func(t *testing.T) { test(t, newSimHost(t, c)) })
}

func newShmHost(t testing.TB, c store.Config) *host {
	t.Helper()
	h := &host{t: t}
	p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")})
	thread, err := fiber.NewThread(fiber.ThreadConfig{Drain: 500 * time.Millisecond})
	h.must(err)
	active, passive := h.open(p.Open("")), h.open(p.Open(""))
	h.connect(active, passive, thread.NewWorker, c)
	h.drive = func() error { return fiber.Threads(t.Context(), thread) }
	h.stop = thread.Stop
	t.Cleanup(func() { h.close(thread.Close, active, passive) })
	return h
}

func newSimHost(t testing.TB, c store.Config) *host {
	t.Helper()
	raceskip.Simulated(t)
	h := &host{t: t}
	world, err := sim.New(sim.Config{Seed: 1, EventLimit: 100_000_000})
	h.must(err)
	var contexts []*verbs.Context
	var nodes []*sim.Node
	for range 2 {
		n, err := world.AddNode(sim.NodeConfig{})
		h.must(err)
		nodes, contexts = append(nodes, n), append(contexts, h.open(n.Open()))
	}
	core := fiber.NewCore(nodes[0].Timeline(0))
	h.connect(contexts[0], contexts[1], core.NewWorker, c)
	h.drive = func() error { return errors.Join(world.Run(), h.worker.Fenced()) }
	h.stop = func() {}
	t.Cleanup(func() { h.close(core.Close, contexts...) })
	return h
}

func (h *host) close(worker func() error, contexts ...*verbs.Context) {
	h.must(h.client.Close())
	h.must(worker())
	for _, c := range contexts {
		h.must(c.Close())
	}
}

func (h *host) open(c *verbs.Context, err error) *verbs.Context {
	h.t.Helper()
	h.must(err)
	return c
}

func (h *host) connect(active, passive *verbs.Context,
	newWorker func(fiber.WorkerConfig) (*fiber.Worker, error), c store.Config) {
	h.t.Helper()
	pd, err := active.AllocPD()
	h.must(err)
	h.worker, err = newWorker(fiber.WorkerConfig{Name: "node 0", PD: pd, Conns: 1})
	h.must(err)
	h.conn, err = h.worker.NewConn(0)
	h.must(err)
	h.buffer, err = pd.AllocMR(8192, verbs.AccessAll, verbs.MROptions{})
	h.must(err)
	h.client, err = remote.NewClient(h.worker, 4)
	h.must(err)

	pd, err = passive.AllocPD()
	h.must(err)
	h.pd = pd
	h.mr, err = pd.AllocMR(c.Bytes(), verbs.AccessAll, verbs.MROptions{LineOwners: testOwners})
	h.must(err)
	cq, err := passive.CreateCQ(verbs.CQConfig{Depth: 4})
	h.must(err)
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, SendDepth: 1,
		RecvDepth: 1, Access: verbs.AccessAll})
	h.must(err)
	peer := h.conn.Endpoint()
	h.must(qp.Connect(&peer, verbs.ConnectAttr{}))
	h.must(h.conn.Connect(qp.Endpoint(), verbs.ConnectAttr{}))

	h.table, err = store.Format(c, h.memory(), 0)
	h.must(err)
	h.remote = remote.Open(h.table.Describe(), h.mr.Remote())
}

// memory is the table's memory for one more worker of the passive node.
func (h *host) memory() *htm.Memory {
	h.t.Helper()
	m, err := view(h.mr)
	h.must(err)
	return m
}

// view is a worker's memory.
func view(mr *verbs.MR) (*htm.Memory, error) {
	o, err := mr.ClaimLineOwner()
	if err != nil {
		return nil, err
	}
	m := htm.NewMemory(mr.Bytes(), mr.Lines(), o.Slot, o.Journal)
	m.Rescue = o.Rescue
	return m, nil
}

// run runs a fiber of the active node to its end.
func (h *host) run(body func(*fiber.Fiber) error) {
	h.t.Helper()
	var ended error
	h.worker.Submit("test", body, func(err error) {
		ended = err
		h.stop()
	})
	if err := errors.Join(h.drive(), ended); err != nil {
		h.t.Fatal(err)
	}
}

// read reads the entry at e and says what it holds of key.
func (h *host) read(f *fiber.Fiber, e remote.Entry, key uint64) (layout.Presence, uint64, error) {
	n := h.remote.Record().Bytes
	if err := h.conn.Read(f, h.buffer.SGE(0, n), e.Addr, h.remote.RKey()); err != nil {
		return 0, 0, err
	}
	w := words(h.buffer.Bytes())
	return layout.Match(key, w[layout.KeyOffset/8], layout.Version(w[layout.VersionOffset/8])),
		w[layout.ValueOffset/8], nil
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}
