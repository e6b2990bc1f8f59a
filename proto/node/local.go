package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// LocalConfig of NewLocal.
type LocalConfig struct {
	Config
	// Provider of the devices; nil is shared memory. Each member opens a context of its own.
	Provider verbs.Provider
	Device   string // "" is the first one with an active port
	// GID is the entry of the device's GID table; the zero value is what verbs.ChooseGID takes.
	GID verbs.GIDChoice
	// Threads are the OS threads that the workers of all members are spread over; 0 = 1.
	Threads int
	Spin    time.Duration // fiber.ThreadConfig
	// WithoutLineWords is that of MemberConfig.
	WithoutLineWords bool
	// CPUs[i] are those that thread i may run on; where there are fewer entries than threads, they
	// go around. None: those of the process.
	CPUs [][]int
	// Keep names memory for the tables and logs of a member, which outlives the process: letters, digits, '-'
	// and '_'. nil: it does not. The device must be able to (verbs.Caps.KeptMRs), and a name is used by one
	// member at a time. What is there of an earlier life is deleted, unless Attach: see Cluster.Left.
	Keep func(proto.NodeID) string
	// Attach takes the tables and logs as they are in kept memory, instead of loading them. The cluster that
	// left them had the same configuration. With Part, protocols that read clocks need Part.Lasting.
	Attach bool
	// Part, if not nil, has only some of the members live in this process.
	Part *Part
}

// Part is a process's share of a cluster.
type Part struct {
	Members []proto.NodeID
	// Exchange tells the other processes of the own members, and gives all in their order.
	Exchange func(own []Descriptor) ([]Descriptor, error)
	// Connected is called when the own queue pairs are connected, and returns when all are.
	Connected func() error
	// Clock is the time since the cluster's epoch, wrong by at most ClockError: see MemberConfig.
	Clock      verbs.Clock
	ClockError time.Duration
	// Lasting: the clock goes on over the lives of kept memory, as LastingEpoch says.
	Lasting bool
	// Lease is Env.Lease of the members; nil: they hold it.
	Lease func() bool
}

// NewLocal builds a cluster whose members all live in this process, connects and starts it, and
// makes the engines.
func NewLocal(ctx context.Context, cfg LocalConfig) (*Cluster, error) {
	if err := cfg.Complete(); err != nil {
		return nil, err
	}
	if err := cfg.completePlace(); err != nil {
		return nil, err
	}
	if cfg.Protocol.OneThread && cfg.Part != nil {
		return nil, fmt.Errorf("protocol %s runs in one process only", cfg.Protocol.Name)
	}
	if cfg.Protocol.OneThread && cfg.Threads > 1 {
		return nil, fmt.Errorf("protocol %s runs on one thread only, not %d", cfg.Protocol.Name,
			cfg.Threads)
	}
	if cfg.Attach && cfg.Keep == nil {
		return nil, errors.New("LocalConfig.Attach without Keep: name the memory that the cluster has left")
	}
	if cfg.Attach && cfg.Part != nil && !cfg.Part.Lasting && cfg.Protocol.Clocks {
		return nil, fmt.Errorf("LocalConfig.Attach with Part: its clock begins anew, and kept memory of protocol %s has "+
			"leases and locks of the clock before: give the parts a clock that goes on, and say so with Part.Lasting",
			cfg.Protocol.Name)
	}
	c := &Cluster{Config: cfg.Config}
	t := &threads{}
	c.host = t
	if err := c.buildLocal(ctx, &cfg, t); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	t.run()
	if err := c.startWorkers(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.keepConnected()
	return c, nil
}

// completePlace fills in the defaults of where members live, and checks it.
func (c *LocalConfig) completePlace() error {
	if c.Threads == 0 {
		c.Threads = 1
	}
	most, of := len(c.members())*c.Workers, "workers"
	if playsNICs(&c.Protocol) {
		most, of = len(c.members()), "nodes, whose NICs are played by a worker on the thread of all others of the node"
	}
	if c.Threads < 1 || c.Threads > most {
		return fmt.Errorf("%d threads for %d %s: not in 1..%d", c.Threads, most, of, most)
	}
	if c.Provider == nil {
		c.Provider = shm.New(shm.Options{})
	}
	return nil
}

// open opens a device.
func (c *LocalConfig) open() (*verbs.Context, error) {
	dev, err := c.Provider.Open(c.Device)
	if err == nil {
		dev.PreferGID(c.GID)
	}
	return dev, err
}

func (c *Cluster) buildLocal(ctx context.Context, cfg *LocalConfig, t *threads) error {
	clockError, err := t.open(cfg)
	if err != nil {
		return err
	}
	for place, n := range cfg.members() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		dev, err := cfg.open()
		if err != nil {
			return fmt.Errorf("node %d: %w", n, err)
		}
		keep, err := c.keep(cfg, dev, n)
		if err != nil {
			return errors.Join(fmt.Errorf("node %d: %w", n, err), dev.Close())
		}
		m, err := NewMember(&c.Config, MemberConfig{ID: n, Context: dev,
			NewWorker: t.newWorker(place, &c.Config), PlaysNIC: cfg.Part == nil, WithoutLineWords: cfg.WithoutLineWords,
			Clock: t.clock, ClockError: clockError, RecorderClock: t.clock,
			Incarnation: randomIncarnation(), Recorder: cfg.recorderClock(clockError), Keep: keep, Attach: cfg.Attach})
		if err != nil {
			return err
		}
		if p := cfg.Part; p != nil && p.Lease != nil {
			for _, w := range m.Workers {
				w.Lease = p.Lease
			}
		}
		c.Members = append(c.Members, m)
	}
	if c.Config.Protocol.Chips != nil {
		ShareChips(c.Members)
	}
	if cfg.Part != nil {
		return c.connectPart(ctx, cfg.Part)
	}
	return c.connectAll(ctx)
}

// keep is the name of a member's memory, if it is kept.
func (c *Cluster) keep(cfg *LocalConfig, dev *verbs.Context, n proto.NodeID) (string, error) {
	if cfg.Keep == nil {
		return "", nil
	}
	name := cfg.Keep(n)
	if err := checkKept(dev); err != nil {
		return name, err
	}
	if cfg.Attach {
		return name, findKept(cfg.Provider, name)
	}
	left, err := giveUp(&c.Config, cfg.Provider, dev, name)
	if err == nil && left.Regions > 0 {
		c.Left = append(c.Left, left)
	}
	return name, err
}

// members are those that live in this process.
func (c *LocalConfig) members() []proto.NodeID {
	if c.Part != nil {
		return c.Part.Members
	}
	var all []proto.NodeID
	for n := range c.Nodes {
		all = append(all, proto.NodeID(n))
	}
	return all
}

// connectPart connects members that live here with those that do not.
func (c *Cluster) connectPart(ctx context.Context, p *Part) error {
	var own []Descriptor
	for _, m := range c.Members {
		own = append(own, m.Describe())
	}
	all, err := p.Exchange(own)
	if err != nil {
		return err
	}
	if err := c.connect(ctx, all); err != nil {
		return err
	}
	return p.Connected()
}

// connectAll connects members that all live here.
func (c *Cluster) connectAll(ctx context.Context) error {
	var all []Descriptor
	for _, m := range c.Members {
		all = append(all, m.Describe())
	}
	if err := c.connect(ctx, all); err != nil {
		return err
	}
	if c.Config.Protocol.OneThread {
		c.shareTables()
	}
	return nil
}

// connect connects the members that live here with all. Many members take a while: a cancellation
// ends it between two of them.
func (c *Cluster) connect(ctx context.Context, all []Descriptor) error {
	for _, m := range c.Members {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := m.Connect(all); err != nil {
			return err
		}
	}
	return nil
}

// shareTables lets each worker see the tables of every member.
func (c *Cluster) shareTables() {
	for _, w := range c.Workers() {
		for _, m := range c.Members {
			w.All = append(w.All, m.Workers[w.Index].Tables)
		}
	}
}

// randomIncarnation is one that no other life of a port has.
func randomIncarnation() uint64 { return rand.Uint64()>>8<<8 | 1 }

// threads is a host of OS threads.
type threads struct {
	list   []*fiber.Thread
	clock  verbs.Clock
	cancel context.CancelFunc
	ended  chan struct{} // closed when all threads have ended
	err    error         // valid after that
}

// open makes the threads of a configuration and their clock. It says how far that may be off: one figure for leases
// and for histories, which read the same clock.
func (t *threads) open(cfg *LocalConfig) (clockError time.Duration, err error) {
	for i := range cfg.Threads {
		tc := fiber.ThreadConfig{Spin: cfg.Spin}
		if len(cfg.CPUs) > 0 {
			tc.CPUs = cfg.CPUs[i%len(cfg.CPUs)]
		}
		th, err := fiber.NewThread(tc)
		if err != nil {
			return 0, err
		}
		t.list = append(t.list, th)
	}
	switch p := cfg.Part; {
	case p != nil:
		t.clock = p.Clock
		return verbs.MonotonicError + p.ClockError, nil
	case cfg.Keep != nil:
		t.clock = newLastingClock()
	default:
		t.clock = verbs.NewMonotonicClock()
	}
	return verbs.MonotonicError, nil
}

// newWorker makes the workers of a member, which is one of several of the process, on the threads in turn; all on one
// thread if one of them plays a NIC.
func (t *threads) newWorker(place int, c *Config) func(int, fiber.WorkerConfig) (*fiber.Worker, error) {
	return func(i int, wc fiber.WorkerConfig) (*fiber.Worker, error) {
		n := place*c.Workers + i
		if playsNICs(&c.Protocol) {
			n = place
		}
		return t.list[n%len(t.list)].NewWorker(wc)
	}
}

// recorderClock describes the clock of histories.
func (c *LocalConfig) recorderClock(clockError time.Duration) history.Clock {
	return history.Clock{Name: "machine", ErrorNs: int64(clockError), ResolutionNs: int64(verbs.MonotonicError),
		Source: fmt.Sprintf("that of node %d", c.members()[0])} // of this process
}

// run starts the threads. They close their workers when they end.
func (t *threads) run() {
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel, t.ended = cancel, make(chan struct{})
	go func() {
		t.err = fiber.Threads(ctx, t.list...)
		close(t.ended)
	}()
}

// errThreadsEnded: the threads are gone without an error of their own.
var errThreadsEnded = errors.New("the cluster has stopped")

func (t *threads) wait(ctx context.Context, tasks *Tasks) error {
	select {
	case <-tasks.done:
		return tasks.err()
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ended:
		return errors.Join(tasks.err(), t.failure())
	}
}

func (t *threads) failure() error {
	if t.err != nil {
		return t.err
	}
	return errThreadsEnded
}

func (t *threads) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ended:
		return t.failure()
	}
}

func (t *threads) now() time.Duration { return t.clock.Now() }

// inspect has f called before it returns, or never: f writes into what the caller goes on with.
func (t *threads) inspect(ctx context.Context, w *Worker, f func()) error {
	var decided atomic.Bool // f is called, or will not be
	tasks := newTasks(t, 1)
	w.Worker.Submit("inspect", func(*fiber.Fiber) error {
		if decided.CompareAndSwap(false, true) {
			f()
		}
		return nil
	}, tasks.ended)
	err := tasks.Wait(ctx)
	if err == nil || decided.CompareAndSwap(false, true) {
		return err
	}
	return tasks.Wait(context.Background()) // f is called at this moment
}

func (t *threads) stop() error {
	if t.ended == nil { // never ran
		var errs []error
		for _, th := range t.list {
			errs = append(errs, th.Close())
		}
		return errors.Join(errs...)
	}
	t.cancel()
	<-t.ended
	return t.err
}
