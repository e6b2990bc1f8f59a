package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"drtmd/cmd/drtmd/internal/config"
	"drtmd/cmd/drtmd/internal/control"
	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/service"
	"drtmd/cmd/drtmd/internal/status"
	"drtmd/cmd/drtmd/internal/transport"
	"drtmd/internal/durable"
	"drtmd/proto/member"
	"drtmd/proto/member/etcdmember"
	"drtmd/proto/node"
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
}

// Bounds.
const (
	// silence of a run's leader after which clients end by themselves.
	silence = 30 * time.Second
	// drainTimeout is what a run gets to end when the daemon is told to stop, and others who drain at
	// the same time to leave before the registry ends.
	drainTimeout = 20 * time.Second
	// closeTimeout bounds the end of everything after that.
	closeTimeout = 30 * time.Second
	// joinTimeout is how long a daemon tries to join for the first time.
	joinTimeout = 2 * time.Minute
	// lastAnswers is what calls under way get to end when all else has.
	lastAnswers = 200 * time.Millisecond
	// leaseLook is how often the own lease is looked at.
	leaseLook = 50 * time.Millisecond
	// retryWait is between two attempts at what failed.
	retryWait = 500 * time.Millisecond
	// longestAsk is between two questions to the members of cluster.join, and longestWarning between two
	// warnings that nobody answers.
	longestAsk     = 2 * time.Second
	longestWarning = 30 * time.Second
	// longestWait is between two attempts at what has failed often.
	longestWait = 10 * time.Second
	// longestPause is between two attempts to build a plane, unless an attempt itself takes longer: see
	// buildWait.
	longestPause = 2 * time.Second
)

// Daemon is a node.
type Daemon struct {
	cfg      *config.Config
	o        Options
	log      *zap.Logger
	sec      *control.Security
	provider verbs.Provider
	placed   service.Placement // of worker threads
	machine  string            // names the clock that its processes share
	clock    verbs.Clock
	started  time.Time
	stateDir string
	tempDir  string
	spill    string // history of the last run
	control  string // address of the control plane
	admin    string // address of the admin port; "" is none
	events   *events
	part     *load.Part
	registry *etcdmember.Registry
	etcdURLs []string

	changed chan struct{}   // something that the steward reacts to; holds one
	named   []member.Member // the steward's own: removed by the pending view, and an event has said so
	turned  atomic.Int64    // when the steward last looked, on clock
	leaseNs atomic.Int64    // membership lease: the configuration's, or the cluster's that it joins
	told    chan struct{}   // closed by Drain: the daemon is to stop
	tell    sync.Once       // closes told
	drain   chan struct{}   // closed when runs have ended: the cluster is to be left
	anew    chan error      // the node has to join again, for this cause; holds one
	calls   sync.WaitGroup
	// ask is askTime; tests put themselves between.
	ask func(*control.Client) (node.ClockSample, string, error)

	mu       sync.Mutex // guards what follows
	session  member.Session
	state    member.State
	phase    status.Phase
	reason   string
	wait     status.Wait // of phase connecting; "": something is wrong
	version  member.ShardVersion
	shards   member.ShardMap     // of version
	run      *run                // led by this daemon
	rebuild  bool                // the plane is used up, or was never built
	claimed  member.ShardVersion // the last one that this node wrote as the leader
	building bool                // or waits to try again
	failures int                 // to build, one after the other
	failed   string              // why a step of a plane failed, until one serves or is wanted anew
	unbuilt  repeats             // paces what is said of planes that were not built
	undone   repeats             // and of steps that failed
	served   bool                // READY was said
	draining bool
	embeds   bool         // etcd
	etcd     embeddedEtcd // nil: this node embeds none
	degraded []string
	orphans  *status.Orphans // as of the last look
	slowDisk string          // in words, of the embedded etcd; "" while it is fast
	device   status.Device
	portDown string         // what is wrong with the port; "" is nothing
	missing  error          // the device is gone
	port     *verbs.Context // to look at the device; nil while it is gone
	watched  []*gone
	peers    map[string]*control.Client
	seen     statusCache
	sync     *clockSync // of the plane
	// clockFaults are how often the clock was wrong of late, clockFault when it was last.
	clockFaults int
	clockFault  time.Duration
}

// New makes a daemon of a checked configuration. Nothing runs before Serve.
func New(cfg *config.Config, o Options) (*Daemon, error) {
	d := &Daemon{cfg: cfg, o: o, log: o.Log, clock: verbs.NewMonotonicClock(), started: time.Now(),
		machine: machineName(), events: newEvents(), changed: make(chan struct{}, 1),
		told: make(chan struct{}), drain: make(chan struct{}), phase: status.Starting,
		reason: "opens its folders, its device and its ports",
		anew:   make(chan error, 1),
		peers:  map[string]*control.Client{}, rebuild: true}
	d.leaseNs.Store(int64(cfg.Cluster.Lease))
	d.ask = d.askTime
	d.part = load.NewPart(load.PartConfig{Open: d.openPlane, Clock: d.planeClock, Silence: silence})
	var err error
	if d.provider = o.Provider; d.provider == nil {
		d.provider, err = transport.New(cfg.Transport.Provider,
			transport.Options{RunDir: cfg.Transport.RunDir})
	}
	if err != nil {
		return nil, err
	}
	d.sec, err = control.LoadSecurity(cfg.Control.CA, cfg.Control.Cert, cfg.Control.Key)
	return d, err
}

// Serve is the daemon's life: until ctx ends or Drain is called, which drains it, or something without
// which it cannot be fails. It returns when nothing of it runs any more.
func (d *Daemon) Serve(ctx context.Context) (err error) {
	undo := &cleanup{}
	defer func() { err = errors.Join(err, undo.within(closeTimeout)) }()
	// The control port is the last thing to go: whoever asks there until nobody answers knows that all
	// else has ended.
	stopServer := func() {}
	undo.add(func() error { stopServer(); return nil })
	if err := d.open(undo); err != nil {
		return err
	}
	l, err := control.Listen(d.cfg.Control.Listen, d.sec, d.cfg.Control.Insecure)
	if err != nil {
		return fmt.Errorf("control plane: %w; set control.listen to another address", err)
	}
	d.control = d.advertised(l)
	if d.sec == nil && d.cfg.Control.Insecure {
		d.log.Warn("the control plane listens without TLS: whoever reaches it owns the cluster",
			zap.String("address", d.control))
	}
	limits := d.cfg.Control
	server := control.NewServer(control.Options{Backend: d, Security: d.sec, Build: d.o.Build,
		Log: d.log, Limits: control.Limits{MaxConnections: limits.MaxConnections,
			MaxMessage: int(limits.MaxMessage), RatePerPeer: limits.RatePerPeer}})
	life, end := context.WithCancelCause(context.Background())
	var wg sync.WaitGroup
	undo.add(func() error { end(nil); wg.Wait(); d.calls.Wait(); return nil })
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(l); err != nil && life.Err() == nil {
			end(fmt.Errorf("control plane: %w", err))
		}
	}()
	stopServer = func() {
		late, cancel := context.WithTimeout(context.Background(), lastAnswers)
		defer cancel()
		server.Stop(late)
		<-served
	}
	if err := d.openAdmin(undo, &wg, end); err != nil {
		return err
	}
	if err := d.openRegistry(ctx, undo, end); err != nil {
		if d.toldToStop(ctx) {
			_ = d.o.Notifier.Stopping() // systemd may be gone
			d.event(status.Info, "told to stop before it had joined")
			return nil
		}
		return err
	}
	undo.add(d.closePeers)
	undo.add(func() error { d.stopClock(); return nil })
	undo.add(d.part.Close)
	wg.Go(func() { d.steward(life) })
	wg.Go(func() { d.watchLease(life) })
	wg.Go(func() { d.watchDevice(life) })
	wg.Go(func() { d.watchOrphans(life) })
	wg.Go(func() { d.o.Notifier.Watch(life, d.Alive) })
	left := make(chan struct{})
	wg.Go(func() { defer close(left); d.belong(life, end) })
	d.event(status.Info, "started, control plane at "+d.control)
	select {
	case <-ctx.Done():
	case <-d.told:
	case <-life.Done():
		return context.Cause(life)
	}
	d.stop(left)
	return nil
}

// toldToStop reports whether the daemon is to stop, by a signal or an order.
func (d *Daemon) toldToStop(ctx context.Context) bool {
	select {
	case <-d.told:
		return true
	default:
		return ctx.Err() != nil
	}
}

// stop drains, once: the run under way ends, the cluster is left.
func (d *Daemon) stop(left <-chan struct{}) {
	_ = d.o.Notifier.Stopping() // systemd may be gone
	d.setPhase(status.Draining, "told to stop")
	d.event(status.Info, "draining")
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	d.endRuns(ctx)
	d.mu.Lock()
	embeds := d.embeds
	d.mu.Unlock()
	if embeds {
		d.letOthersLeave(ctx)
	}
	close(d.drain)
	<-left
}

// endRuns has the run that this node takes part in end in order, until ctx ends.
func (d *Daemon) endRuns(ctx context.Context) {
	d.mu.Lock()
	r, led := d.run, d.state.Shards
	d.mu.Unlock()
	var err error
	switch i := d.part.Info(); {
	case r != nil:
		r.stop(errors.New("the daemon that leads the run drains"))
		select {
		case <-r.ended:
		case <-ctx.Done():
			err = ctx.Err()
		}
	case i != nil && i.Running && i.Fenced == nil:
		d.event(status.Info, fmt.Sprintf("asks %v to end run %s", led.Leader, led.Run))
		if _, err = d.Stop(ctx); err == nil {
			err = d.awaitEnd(ctx)
		}
	}
	if err != nil {
		d.log.Warn("the run did not end in order", zap.Duration("bound", drainTimeout), zap.Error(err))
	}
}

// awaitEnd waits until this node's clients have ended and were counted.
func (d *Daemon) awaitEnd(ctx context.Context) error {
	tick := time.NewTicker(leaseLook)
	defer tick.Stop()
	for {
		if i := d.part.Info(); i == nil || !i.Running || i.Fenced != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
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
	undo.add(d.closeDevice)
	if err := d.openTempDir(); err != nil {
		return err
	}
	d.spill = filepath.Join(d.tempDir, "run.hist")
	if err := d.openDevice(); err != nil {
		return err
	}
	if err := d.placeThreads(); err != nil {
		return err
	}
	return d.lookAtMemory()
}

// queueBytes is room for what a worker locks beside the tables, its queues and buffers of messages:
// with the usual window and datagrams of 4 KiB it has 48 KiB for each peer.
const queueBytes = 8 << 20

// lookAtMemory says which limits are in the way of the tables, and what would make them faster.
func (d *Daemon) lookAtMemory() error {
	cfg, err := d.servingPlan(1).Make()
	if err != nil {
		return err
	}
	bytes, err := node.TableBytes(cfg.Workload)
	if err != nil {
		return err
	}
	need := bytes + d.cfg.Data.Workers*queueBytes
	for _, p := range service.LimitProblems(d.cfg.Transport.Provider, need) {
		d.log.Warn(p)
	}
	if d.cfg.Transport.Provider == transport.Default {
		bytes += bytes / 8 // a word for each line, see verbs/shm
	}
	if advice := service.HugePageAdvice(bytes); advice != "" {
		d.log.Info(advice)
	}
	return nil
}

// placeThreads chooses the CPUs of worker threads.
func (d *Daemon) placeThreads() error {
	asked, err := config.ParseCPUs(d.cfg.Node.CPUs)
	if err != nil {
		return fmt.Errorf("node.cpus: %w", err)
	}
	allowed, err := service.AllowedCPUs()
	if err != nil {
		return err
	}
	p, err := service.Place(asked, allowed, d.seenDevice().Name)
	if err != nil {
		return err
	}
	d.placed = *p
	d.log.Info("worker threads are placed", zap.String("cpus", service.CPUList(p.CPUs)),
		zap.String("why", p.Why))
	return nil
}

// threads is how many OS threads the workers of a plan run on: as it says, else as data.threads
// says, else one for each worker and CPU.
func (d *Daemon) threads(asked, workers int) int {
	if asked > 0 {
		return asked
	}
	data := d.cfg.Data
	data.Workers = workers
	n := min(data.ThreadCount(), workers)
	if data.Threads == 0 && len(d.placed.CPUs) > 0 {
		n = min(n, len(d.placed.CPUs))
	}
	return n
}

// gid is what queue pairs take.
func (d *Daemon) gid() verbs.GIDChoice {
	if d.cfg.Transport.GIDIndex < 0 {
		return verbs.GIDChoice{}
	}
	return verbs.GIDAt(d.cfg.Transport.GIDIndex)
}

// advertised is the address under which others reach the listener.
func (d *Daemon) advertised(l net.Listener) string {
	if a := d.cfg.Control.Advertise; a != "" {
		return a
	}
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	host, _, _ := net.SplitHostPort(d.cfg.Control.Listen) // it was listened on
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = d.cfg.Node.Hostname() // every address: the name says it
	}
	return net.JoinHostPort(host, port)
}

// setPhase says where the daemon is, and why.
func (d *Daemon) setPhase(p status.Phase, reason string) {
	d.mu.Lock()
	if d.draining && p != status.Draining {
		p = status.Draining
	}
	same := d.phase == p && d.reason == reason
	d.phase, d.reason, d.wait = p, reason, ""
	d.mu.Unlock()
	if !same {
		text := string(p)
		if reason != "" {
			text += ": " + reason
		}
		_ = d.o.Notifier.Status(text) // systemd may be gone
	}
}

// connecting says that the node does not serve yet, and waits for something that ends by itself. Tables
// that are loaded again after a run stay so until they are, and an attempt that follows a failed one
// keeps the reason of that.
func (d *Daemon) connecting(w status.Wait) {
	d.mu.Lock()
	if d.phase == status.Connecting && d.wait == status.Reloading && w == status.Loading {
		w = status.Reloading
	}
	run, failed := d.state.Shards.Run, d.failed
	if w != status.Loading {
		failed, d.failed = "", ""
	}
	d.mu.Unlock()
	if failed != "" { // tried again: what is in the way may still be
		d.setPhase(status.Connecting, failed)
		return
	}
	reason := "the tables are being loaded, and the nodes connected"
	switch w {
	case status.Reloading:
		reason = "the run has ended; the tables are being loaded again"
	case status.OtherRun:
		reason = "waits for the end of run " + run
	}
	d.setPhase(status.Connecting, reason)
	d.mu.Lock()
	if d.phase == status.Connecting && d.reason == reason {
		d.wait = w
	}
	d.mu.Unlock()
}

// poke has the steward look again.
func (d *Daemon) poke() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// event notes what happened, for status and for the log.
func (d *Daemon) event(l status.Level, text string) {
	d.events.add(l, text)
	switch l {
	case status.Info:
		d.log.Info(text)
	case status.Warn:
		d.log.Warn(text)
	default:
		d.log.Error(text)
	}
}

// cleanup undoes what was done, the last first.
type cleanup struct{ list []func() error }

func (c *cleanup) add(f func() error) { c.list = append(c.list, f) }

// within runs it, but does not wait for longer than a bound: the process has to end.
func (c *cleanup) within(bound time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- c.run() }()
	select {
	case err := <-done:
		return err
	case <-time.After(bound):
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
