package smartnic_test

import (
	"testing"

	"go.uber.org/goleak"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
	"drtmd/verbs/smartnic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ smartnic.Board = (*sim.Board)(nil)
	_ fiber.Poller   = (*smartnic.Core)(nil)
	_ fiber.Poller   = (*smartnic.Port)(nil)
	_ fiber.Timeline = (*sim.Timeline)(nil)
)

// kinds of messages in these tests.
const (
	ask uint8 = iota + 1
	answer
	note
)

// machine is a node with some cores of its NIC, and a thread of its host.
type machine struct {
	node   *sim.Node
	board  *sim.Board
	cores  []*smartnic.Core
	port   *smartnic.Port
	memory *verbs.MR
	runs   []*fiber.Core
	hosts  *fiber.Worker
}

// rig is a cluster of them.
type rig struct {
	t        *testing.T
	world    *sim.World
	machines []*machine
}

type rigConfig struct {
	nodes, cores int
	batching     smartnic.Batching
}

func newRig(t *testing.T, c rigConfig) *rig {
	t.Helper()
	cost, err := sim.Preset("liquidio3")
	must(t, err)
	world, err := sim.New(sim.Config{Seed: 1, Cost: cost, EventLimit: 20_000_000})
	must(t, err)
	r := &rig{t: t, world: world}
	for range c.nodes {
		n, err := world.AddNode(sim.NodeConfig{})
		must(t, err)
		m := &machine{node: n}
		r.machines = append(r.machines, m)
		r.boot(m, c)
		t.Cleanup(func() { m.stop(t) })
	}
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// boot starts the cores of a machine and a thread of its host, in its present life.
func (r *rig) boot(m *machine, c rigConfig) {
	ctx, err := m.node.Open()
	must(r.t, err)
	pd, err := ctx.AllocPD()
	must(r.t, err)
	m.memory, err = pd.AllocMR(1<<16, verbs.AccessLocalWrite, verbs.MROptions{})
	must(r.t, err)
	m.board, err = m.node.AttachBoard()
	must(r.t, err)
	m.cores, m.runs = nil, nil
	worker := func(name string, tl *sim.Timeline) *fiber.Worker {
		run := fiber.NewCore(tl)
		m.runs = append(m.runs, run)
		w, err := run.NewWorker(fiber.WorkerConfig{Name: name, PD: pd})
		must(r.t, err)
		return w
	}
	for i := range c.cores {
		core, err := smartnic.NewCore(worker("nic", m.board.Timeline(i)), m.board,
			smartnic.CoreConfig{Node: m.node.Index(), Index: i, Batching: c.batching})
		must(r.t, err)
		m.cores = append(m.cores, core)
	}
	m.hosts = worker("host", m.node.Timeline(0))
	m.port, err = smartnic.NewPort(m.hosts, m.board, 0, c.batching)
	must(r.t, err)
}

// die ends the machine's workers, as a crash of its node does.
func (m *machine) die() {
	for _, run := range m.runs {
		run.Kill()
	}
}

func (m *machine) stop(t *testing.T) {
	for _, run := range m.runs {
		run.Kill()
		must(t, run.Close())
	}
}

// run runs the world until nothing is left to do, and fails if a worker was fenced.
func (r *rig) run() {
	r.t.Helper()
	must(r.t, r.world.Run())
	for _, m := range r.machines {
		for _, c := range m.cores {
			must(r.t, c.Worker().Fenced())
		}
	}
}

// on starts a fiber on a core.
func (m *machine) on(core int, body func(f *fiber.Fiber, c *smartnic.Core) error, errs *[]error) {
	c := m.cores[core]
	c.Worker().Submit("test", func(f *fiber.Fiber) error { return body(f, c) }, func(err error) {
		*errs = append(*errs, err)
	})
}
