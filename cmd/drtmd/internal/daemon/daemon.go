package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/daemon/board"
	"drtmd/cmd/drtmd/internal/daemon/data"
	"drtmd/cmd/drtmd/internal/daemon/membership"
	"drtmd/cmd/drtmd/internal/daemon/planes"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/internal/durable"
	"drtmd/verbs"
)

// Options of New.
type Options struct {
	Log      *zap.Logger
	Level    zap.AtomicLevel
	Build    string
	Notifier *service.Notifier
	// Provider of the devices; nil is the one that the configuration names.
	Provider verbs.Provider
	// Stdout gets one line when the node is ready for the first time.
	Stdout io.Writer
	// EtcdCommand is a command line that calls etcdmember.RunChild: the embedded etcd is a process of its
	// own, so that what ends it is an error of Serve. Empty: it runs in this process.
	EtcdCommand []string
	// Reload reads the configuration again, for the log's level; nil: it cannot.
	Reload func() (*config.Config, error)

	test testOptions
}

// testOptions put something else in place of the machine's; nil and "" are the real thing.
type testOptions struct {
	clock        verbs.Clock // of the machine
	machine      string
	beforeAsk    func() error                  // of the leader's clock
	beforeAnswer func()                        // of another node that asks for this one's clock
	wrapClock    func(verbs.Clock) verbs.Clock // of planes
}

// Bounds.
const (
	// drainTimeout is what a run gets to end when the daemon is told to stop, and others who drain at
	// the same time to leave before the registry ends.
	drainTimeout = 20 * time.Second
	// closeTimeout bounds the end of everything after that.
	closeTimeout = 30 * time.Second
	// lastAnswers is what calls under way get to end when all else has.
	lastAnswers = 200 * time.Millisecond
)

// Daemon is a node: its rooms, and what they share. Fields without a guard are written by New and by
// Serve before another goroutine of the node runs.
type Daemon struct {
	cfg      *config.Config
	o        Options
	log      *zap.Logger
	sec      *control.Security
	machine  string // names the clock that its processes share
	stateDir string
	tempDir  string

	board   *board.Board
	members *membership.Membership
	planes  *planes.Planes
	report  *board.Report
	device  *device
	data    data.Store // the tables that the node keeps

	placed    atomic.Pointer[service.Placement] // of worker threads; nil before they were
	draining  chan struct{}                     // closed by Drain: the daemon is to stop
	drainOnce sync.Once                         // closes draining
	// powerFails is closed when the power is about to fail: everything ends at once.
	powerFails chan struct{}
	powerOnce  sync.Once // closes powerFails
	saving     atomic.Bool
	left       sync.Once // tells what kept memory had of an earlier life
}

// New makes a daemon of a checked configuration. Nothing runs before Serve.
func New(cfg *config.Config, o Options) (*Daemon, error) {
	d := &Daemon{cfg: cfg, o: o, log: o.Log, machine: o.test.machine, draining: make(chan struct{}),
		powerFails: make(chan struct{})}
	if d.machine == "" {
		d.machine = machineName()
	}
	clock := o.test.clock
	if clock == nil {
		clock = verbs.NewMonotonicClock()
	}
	provider := o.Provider
	var err error
	if provider == nil {
		provider, err = transport.New(cfg.Transport.Provider,
			transport.Options{RunDir: cfg.Transport.RunDir, KeepDir: cfg.Transport.KeepDir})
	}
	if err != nil {
		return nil, err
	}
	if d.sec, err = control.LoadSecurity(cfg.Control.CA, cfg.Control.Cert, cfg.Control.Key); err != nil {
		return nil, err
	}
	d.board = board.New(board.Options{Log: o.Log, Notifier: o.Notifier, Stdout: o.Stdout})
	d.members = membership.New(membership.Options{Log: o.Log, Config: cfg, Board: d.board,
		Security: d.sec, Clock: clock, Build: o.Build, EtcdCommand: o.EtcdCommand})
	d.planes = planes.New(planes.Options{Log: o.Log, Config: cfg, Board: d.board, Members: d.members,
		Clock: clock, Machine: d.machine, Open: d.openPlane, Threads: d.threads, Data: &d.data,
		BeforeAsk: o.test.beforeAsk, WrapClock: o.test.wrapClock})
	d.device = &device{log: o.Log, cfg: cfg.Transport, provider: provider, board: d.board,
		planes: d.planes, members: d.members}
	d.members.Guard(&guard{d.planes, d.device})
	d.report = board.NewReport(d.members, d.board, d.members, d.planes, d.device, describeHost{d})
	return d, nil
}

// guard is what membership tells: the planes, and the device before a node joins again.
type guard struct {
	*planes.Planes
	device *device
}

// Rest implements membership.Guard.
func (g *guard) Rest(ctx context.Context) {
	g.Planes.Rest(ctx)
	g.device.await(ctx)
}

// Serve is the daemon's life: until ctx ends or Drain is called, which drains it, or something without
// which it cannot be fails. It returns when nothing of it runs any more.
func (d *Daemon) Serve(ctx context.Context) (err error) {
	undo := &cleanup{}
	defer func() { err = errors.Join(err, undo.within(closeTimeout, d.saving.Load)) }()
	// The control port is the last thing to go: whoever asks there until nobody answers knows that all
	// else has ended.
	stopServer := func() {}
	undo.add(func() error { stopServer(); return nil })
	if err := d.open(undo); err != nil {
		return err
	}
	undo.add(d.saveTables) // when all that uses them is closed
	l, err := control.Listen(d.cfg.Control.Listen, d.sec, d.cfg.Control.Insecure)
	if err != nil {
		return fmt.Errorf("control plane: %w; set control.listen to another address", err)
	}
	address := advertised(d.cfg, l)
	d.board.SetControl(address)
	d.members.SetPlace(d.stateDir, address)
	d.planes.SetPlace(address, d.tempDir)
	if d.sec == nil && d.cfg.Control.Insecure {
		d.log.Warn("the control plane listens without TLS: whoever reaches it owns the cluster",
			zap.String("address", address))
	}
	life, end := context.WithCancelCause(context.Background())
	var wg sync.WaitGroup
	undo.add(func() error { end(nil); wg.Wait(); d.planes.Wait(); return nil })
	stopServer = d.serveControl(life, end, l)
	if err := d.openAdmin(undo, &wg, end); err != nil {
		return err
	}
	undo.add(d.members.Close)
	joining, joined := d.untilPowerFails(ctx)
	defer joined()
	if err := d.members.Open(joining, end); err != nil {
		if d.toldToStop(joining) {
			_ = d.o.Notifier.Stopping() // systemd may be gone
			d.board.Event(status.Info, "stopped before it joined")
			return nil
		}
		return err
	}
	undo.add(d.members.CloseClients)
	undo.add(d.planes.Close)
	wg.Go(func() { d.planes.Steward(life) })
	wg.Go(func() { d.members.WatchLease(life) })
	wg.Go(func() { d.device.watch(life) })
	wg.Go(func() { d.planes.WatchOrphans(life) })
	wg.Go(func() { d.o.Notifier.Watch(life, d.Alive) })
	left := make(chan struct{})
	wg.Go(func() {
		defer close(left)
		if err := d.members.Belong(life); err != nil {
			end(err)
		}
	})
	d.board.Event(status.Info, "started, control plane at "+address)
	select {
	case <-ctx.Done():
	case <-d.draining:
	case <-d.powerFails:
		d.board.Event(status.Warn, errPower.Error())
		d.planes.Drain()
		d.planes.Fence(errPower)
		return nil
	case <-life.Done():
		return context.Cause(life)
	}
	d.stop(left)
	return nil
}

// serveControl serves the control plane until stop is called.
func (d *Daemon) serveControl(life context.Context, end func(error), l net.Listener) (stop func()) {
	limits := d.cfg.Control
	server := control.NewServer(control.Options{Backend: d, Security: d.sec, Build: d.o.Build,
		Log: d.log, Limits: control.Limits{MaxConnections: limits.MaxConnections,
			MaxMessage: int(limits.MaxMessage), RatePerPeer: limits.RatePerPeer}})
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(l); err != nil && life.Err() == nil {
			end(fmt.Errorf("control plane: %w", err))
		}
	}()
	return func() {
		late, cancel := context.WithTimeout(context.Background(), lastAnswers)
		defer cancel()
		server.Stop(late)
		<-served
	}
}

// toldToStop reports whether the daemon is to stop, by a signal or an order.
func (d *Daemon) toldToStop(ctx context.Context) bool {
	select {
	case <-d.draining:
		return true
	default:
		return ctx.Err() != nil
	}
}

// stop drains, once: the run under way ends, the cluster is left.
func (d *Daemon) stop(left <-chan struct{}) {
	_ = d.o.Notifier.Stopping() // systemd may be gone
	d.planes.Drain()
	d.board.Drain()
	d.board.Event(status.Info, "draining")
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := d.planes.EndRuns(ctx); err != nil {
		d.log.Warn("the run did not end in order", zap.Duration("bound", drainTimeout), zap.Error(err))
	}
	if d.members.EmbedsEtcd() {
		d.letOthersLeave(ctx)
	}
	d.members.Leave()
	<-left
}

// open takes the folders and looks at the device.
func (d *Daemon) open(undo *cleanup) error {
	d.stateDir = service.StateDir(d.cfg.Node.StateDir)
	if err := service.OpenDir(d.stateDir); err != nil {
		return fmt.Errorf("node.state_dir: %w", err)
	}
	unlock, err := service.Lock(d.stateDir)
	if err != nil {
		return err
	}
	undo.add(unlock)
	if err := durable.Clean(d.stateDir); err != nil {
		return err
	}
	undo.add(func() error { return os.RemoveAll(d.tempDir) })
	undo.add(d.device.close)
	if err := d.data.Load(d.stateDir); err != nil {
		return err
	}
	if err := d.openTempDir(); err != nil {
		return err
	}
	if err := d.device.open(); err != nil {
		return err
	}
	placed, err := placeThreads(d.cfg, d.device.seen().Name)
	if err != nil {
		return err
	}
	d.placed.Store(placed)
	d.log.Info("worker threads are placed", zap.String("cpus", service.CPUList(placed.CPUs)),
		zap.String("why", placed.Why))
	if err := d.restoreTables(); err != nil {
		return err
	}
	return d.lookAtMemory()
}

// advertised is the address under which others reach the listener.
func advertised(cfg *config.Config, l net.Listener) string {
	if a := cfg.Control.Advertise; a != "" {
		return a
	}
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	host, _, _ := net.SplitHostPort(cfg.Control.Listen) // it was listened on
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = cfg.Node.Hostname() // every address: the name says it
	}
	return net.JoinHostPort(host, port)
}

// cleanup undoes what was done, the last first.
type cleanup struct{ list []func() error }

func (c *cleanup) add(f func() error) { c.list = append(c.list, f) }

// within runs it, but does not wait for longer than a bound: the process has to end. While tables are saved, it waits.
func (c *cleanup) within(bound time.Duration, saving func() bool) error {
	done := make(chan error, 1)
	go func() { done <- c.run() }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(bound):
		}
		if saving() {
			continue
		}
		return fmt.Errorf("not everything was closed within %v: a worker thread or a disk may hang",
			bound)
	}
}

func (c *cleanup) run() error {
	var errs []error
	for i := len(c.list) - 1; i >= 0; i-- {
		errs = append(errs, c.list[i]())
	}
	return errors.Join(errs...)
}
