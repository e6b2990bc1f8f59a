package scenario

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// MachineConfig of Env.AddMachine.
type MachineConfig struct {
	Workers int // each on a core of its own; 0 = 1
	Depth   int // fiber.WorkerConfig
	Conns   int
	Extra   int
	// Bare leaves PD, workers and links to Boot, which makes workers on Context with NewWorker.
	// Workers says how many there will be.
	Bare bool
	// Boot starts the machine's programs, at the beginning and after each restart. It sets up
	// memory and calls Machine.Go; it must not wait, and not touch other machines.
	Boot func(m *Machine) error
}

// Machine is a node with its workers, through crashes and restarts.
type Machine struct {
	Env     *Env
	Node    *sim.Node
	Context *verbs.Context  // of the present life, as all that follows
	PD      *verbs.PD       // nil on a bare machine
	Workers []*fiber.Worker // in the order of their making

	cfg    MachineConfig
	cq     *verbs.CQ // of the passive ends of links
	lives  []*life
	booted bool    // the present life has come up
	links  []*Link // of the present life
}

// life is what ends with a crash.
type life struct {
	cores   []*fiber.Core
	workers []*fiber.Worker
}

// kill ends the life's coroutines. One that stopped at the marked step where its node crashed
// could not be ended then; a second call does it.
func (l *life) kill() {
	for _, c := range l.cores {
		c.Kill()
	}
}

// AddMachine adds a machine and boots it.
func (e *Env) AddMachine(cfg MachineConfig) (*Machine, error) {
	cfg.Workers = max(cfg.Workers, 1)
	n, err := e.World.AddNode(sim.NodeConfig{})
	if err != nil {
		return nil, err
	}
	m := &Machine{Env: e, Node: n, cfg: cfg}
	e.machines = append(e.machines, m)
	n.OnCrash(func() {
		m.booted = false
		m.lives[len(m.lives)-1].kill()
	})
	n.OnRestart(func() {
		for _, l := range m.links {
			if err := l.closePeer(); err != nil {
				e.Fail(CheckInvariant, "%s: the former life's link to %s: %v", n.Name(),
					l.to.Node.Name(), err)
			}
		}
		m.reboot()
	})
	return m, m.boot()
}

// reboot boots, and tries again later when memory is short: a fault that passes.
func (m *Machine) reboot() {
	life := m.Node.Incarnation()
	err := m.boot()
	switch {
	case errors.Is(err, syscall.ENOMEM):
		m.lives[len(m.lives)-1].kill()
		m.Env.World.After(sim.Of(retryInterval), func() {
			if m.Node.Up() && m.Node.Incarnation() == life {
				m.reboot()
			}
		})
	case err != nil:
		m.Env.Fail(CheckProgram, "%s does not boot: %v", m.Node.Name(), err)
	}
}

// boot begins a life.
func (m *Machine) boot() (err error) {
	l := &life{}
	m.lives, m.links = append(m.lives, l), nil
	ctx, err := m.Node.Open()
	if err != nil {
		return err
	}
	defer func() {
		if m.booted = err == nil; !m.booted {
			_ = ctx.Close() // the first error is the one to tell
		}
	}()
	m.Context, m.Workers = ctx, nil
	if m.cfg.Bare {
		return m.cfg.Boot(m)
	}
	if m.PD, err = ctx.AllocPD(); err != nil {
		return err
	}
	if m.cq, err = ctx.CreateCQ(verbs.CQConfig{Depth: passiveCQ, SingleThreaded: true}); err != nil {
		return err
	}
	for i := range m.cfg.Workers {
		_, err := m.NewWorker(i, fiber.WorkerConfig{Name: fmt.Sprintf("%s/%d", m.Node.Name(), i),
			PD: m.PD, Depth: m.cfg.Depth, Conns: m.cfg.Conns, Extra: m.cfg.Extra})
		if err != nil {
			return err
		}
	}
	return m.cfg.Boot(m)
}

// NewWorker makes the i-th worker of a bare machine, on a core of its own. It is for Boot.
func (m *Machine) NewWorker(i int, cfg fiber.WorkerConfig) (*fiber.Worker, error) {
	l := m.lives[len(m.lives)-1]
	core := fiber.NewCore(m.Node.Timeline(i))
	l.cores = append(l.cores, core)
	w, err := core.NewWorker(cfg)
	if err != nil {
		return nil, err
	}
	l.workers = append(l.workers, w)
	m.Workers = l.workers
	return w, nil
}

// Adopt has a core, such as one of the machine's NIC, end with the present life.
func (m *Machine) Adopt(c *fiber.Core) {
	l := m.lives[len(m.lives)-1]
	l.cores = append(l.cores, c)
}

// Go starts a fiber on a worker of the present life. An error that it returns fails the run,
// unless the run is over or ErrOver is what it is.
func (m *Machine) Go(worker int, name string, body func(*fiber.Fiber) error) {
	m.Workers[worker].Submit(name, body, func(err error) {
		m.Env.ended = m.Env.World.Now()
		if err != nil && err != ErrOver {
			m.Env.Fail(CheckProgram, "%s, fiber %q: %v", m.Node.Name(), name, err)
		}
	})
}

// Kept is memory that survives a crash of the machine, with every right.
func (m *Machine) Kept(name string, size int) (*verbs.MR, error) {
	return m.PD.AllocMR(size, verbs.AccessAll, verbs.MROptions{Keep: name})
}

// Memory is memory of the present life, with every right.
func (m *Machine) Memory(size int) (*verbs.MR, error) {
	return m.PD.AllocMR(size, verbs.AccessAll, verbs.MROptions{})
}

// Up reports whether the machine runs and can be connected to.
func (m *Machine) Up() bool { return m.Node.Up() && m.booted }

// Index counts machines from 0.
func (m *Machine) Index() int { return m.Node.Index() }

// checkIdle says that nothing of the machine waits for what cannot come any more.
func (m *Machine) checkIdle() {
	for _, w := range m.Workers {
		if err := w.Fenced(); err != nil {
			m.Env.Fail(CheckInvariant, "%v", err)
		}
		if n := w.Live(); n > 0 && m.Up() {
			m.Env.Fail(CheckEnded, "%d fibers of worker %s wait, and nothing more can happen", n,
				w.Name())
		}
	}
}

// word is the number at an aligned place in memory.
func word(mr *verbs.MR, at int) uint64 { return binary.NativeEndian.Uint64(mr.Bytes()[at:]) }

func setWord(mr *verbs.MR, at int, v uint64) { binary.NativeEndian.PutUint64(mr.Bytes()[at:], v) }

// nodeName is the name of the i-th machine.
func nodeName(i int) string { return fmt.Sprintf("n%d", i) }
