package fiber

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// Bounds of one pass of a worker, so that no source of work starves another.
const (
	pollBatch   = 64   // completions per poll
	resumeBatch = 1024 // fibers resumed per pass
	inboxBatch  = 256
)

// WorkerConfig of Thread.NewWorker and Core.NewWorker.
type WorkerConfig struct {
	Name  string // of node and worker, for messages and traces
	PD    *verbs.PD
	Depth int // requests outstanding per Conn; 0 = 64
	Conns int // most Conns that will be made; sizes the CQ; 0 = 16
	Extra int // further completions that may be outstanding: receives, UD sends (package rpc)
	// OnStep, if set, is told of each marked step in the simulator, before a fault may strike there. It must not call the
	// fiber, but for Now.
	OnStep func(f *Fiber, name string)
}

// Worker runs fibers of one node on one thread.
type Worker struct {
	Stats Stats

	cfg     WorkerConfig
	ctx     *verbs.Context
	clock   verbs.Clock
	channel *verbs.Channel // nil in virtual time
	cq      *verbs.CQ
	scratch []*verbs.MR // slabs of opSlab operations' results, 8 bytes each
	virtual *virtualWorker
	eager   bool // operations usually complete at post: poll before switching
	// hopeful: operations often complete at post, but take so long that a fiber which goes on at once keeps others waiting:
	// poll before switching if there are none, for mostHopes operations of a pass.
	hopeful bool
	hoped   int  // operations since the pass began after which a fiber went on at once
	shares  bool // the thread has other workers, too

	readyList fiberList
	resting   fiberList // run one in each pass: see Fiber.Rest
	current   *Fiber    // the one that runs
	idle      []*Fiber  // finished coroutines
	fibers    []*Fiber  // all coroutines
	live      int       // tasks that have not ended
	timers    timers
	words     []*wordWait
	watches   []*Watch // that are set
	looking   []*Watch // scratch of pollWatches
	conns     []*Conn
	dirty     []*Conn // have requests that were not rung in
	parts     []Part
	pollers   []Poller // those of the parts that are
	extra     int      // completions of WorkerConfig.Extra that parts have not claimed
	ops       []*Op
	freeOps   *Op
	wcs       [pollBatch]verbs.WC
	pollFull  bool          // the last poll took as many as it could
	now       time.Duration // Worker.Now; 0 = not read yet
	nextLook  time.Duration // at requests that make no progress
	arrived   uint64        // completions, and changes of memory that were waited for
	fenced    error
	stopCause error
	dead      bool   // no coroutine of it runs any more
	region    uint32 // see RegionFlag

	mu      sync.Mutex // guards inbox
	inbox   []func()
	wake    func()   // ends the thread's sleep; set once before the thread runs
	spare   []func() // the inbox's other half
	closing bool
}

func newWorker(cfg WorkerConfig, channel *verbs.Channel) (*Worker, error) {
	if cfg.Depth == 0 {
		cfg.Depth = 64
	}
	if cfg.Conns == 0 {
		cfg.Conns = 16
	}
	ctx := cfg.PD.Context()
	w := &Worker{cfg: cfg, ctx: ctx, clock: ctx.Clock(), channel: channel,
		eager: ctx.Attr().Caps.Immediate, hopeful: ctx.Attr().Caps.Loopback, wake: func() {}, extra: cfg.Extra}
	var err error
	w.cq, err = ctx.CreateCQ(verbs.CQConfig{Depth: cfg.Conns*(cfg.Depth+1) + cfg.Extra,
		Channel: channel, SingleThreaded: true})
	if err != nil {
		return nil, err
	}
	if err := w.growOps(); err != nil {
		return nil, errors.Join(err, w.cq.Close())
	}
	return w, nil
}

// Name of the worker.
func (w *Worker) Name() string { return w.cfg.Name }

// PD is the worker's protection domain.
func (w *Worker) PD() *verbs.PD { return w.cfg.PD }

// CQ is the queue that everything of the worker reports to.
func (w *Worker) CQ() *verbs.CQ { return w.cq }

// Clock is the node's clock.
func (w *Worker) Clock() verbs.Clock { return w.clock }

// Now is the time on the node's clock, read once per pass and again after each fiber that ran:
// for parts. A fiber that wants to measure asks Fiber.Now.
func (w *Worker) Now() time.Duration {
	if w.now == 0 {
		w.now = w.clock.Now()
	}
	return w.now
}

// Go starts a fiber; scope may be nil. Call it on the worker's thread: from a fiber, or from a
// function given to Submit.
func (w *Worker) Go(name string, scope *Scope, body func(*Fiber) error) *Task {
	t := &Task{name: name, body: body, scope: scope}
	w.start(t)
	return t
}

// Restart starts a task again, which has ended and has no scope. Unlike Go it allocates nothing.
func (w *Worker) Restart(t *Task) {
	invariant.Assert(t.done && t.scope == nil, "fiber: a task is restarted that runs, or has a scope")
	t.done, t.err = false, nil
	w.start(t)
}

func (w *Worker) start(t *Task) {
	var f *Fiber
	if n := len(w.idle); n > 0 {
		f, w.idle = w.idle[n-1], w.idle[:n-1]
	} else {
		f = newFiber(w)
	}
	f.task, t.fiber = t, f
	if t.scope != nil {
		t.scope.add(t)
	}
	w.live++
	w.Stats.Tasks++
	w.ready(f)
}

// taskDone runs inside the coroutine when its task has ended.
func (w *Worker) taskDone(f *Fiber) {
	t := f.task
	t.done, t.fiber = true, nil
	if t.scope != nil {
		t.scope.drop(t)
	}
	for !t.joiners.empty() {
		w.ready(t.joiners.pop())
	}
	w.live--
	if t.onDone != nil {
		t.onDone(t.err)
	}
	f.task = nil
	w.idle = append(w.idle, f)
}

// Join waits for a task of the same worker and returns its error; deadline 0 is none.
func (f *Fiber) Join(t *Task, deadline time.Duration) error {
	for !t.done {
		t.joiners.push(f)
		if err := f.wait(deadline); err != nil {
			return err
		}
	}
	return t.err
}

// ready moves a waiting fiber to the ready list. A fiber that is there already, or that runs,
// stays.
func (w *Worker) ready(f *Fiber) {
	if f.list == &w.readyList {
		return
	}
	f.list.remove(f)
	w.readyList.push(f)
}

// Kick has the worker make a pass: for who wakes fibers of it (Cond) from an event of the simulator, and not from a
// fiber or a callback of the worker.
func (w *Worker) Kick() { w.wake() }

// Submit starts a fiber from any goroutine; onDone, which may be nil, is called on the worker
// with its error, or with ErrStopped if the worker is closed.
func (w *Worker) Submit(name string, body func(*Fiber) error, onDone func(error)) {
	ok := w.post(func() {
		t := &Task{name: name, body: body, onDone: onDone}
		w.start(t)
	})
	if !ok && onDone != nil {
		onDone(ErrStopped)
	}
}

// post has f called on the worker, from any goroutine; false if the worker is closed.
func (w *Worker) post(f func()) bool {
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		return false
	}
	w.inbox = append(w.inbox, f)
	w.mu.Unlock()
	w.wake()
	return true
}

func (w *Worker) takeInbox() bool {
	w.mu.Lock()
	w.inbox, w.spare = w.spare[:0], w.inbox
	w.mu.Unlock()
	for i, f := range w.spare {
		f()
		w.spare[i] = nil
	}
	return len(w.spare) > 0
}

// step makes one pass: completions, timers, memory, inbox, then every fiber that is ready, then
// what they posted and what the parts have gathered. It says whether there was anything to do. A
// glance ends where neither completions nor memory have brought anything.
func (w *Worker) step(glance bool) bool {
	w.now, w.hoped = 0, 0
	busy := w.poll()
	if len(w.words) > 0 {
		busy = w.pollWords() || busy
	}
	if len(w.watches) > 0 {
		busy = w.pollWatches() || busy
	}
	for _, p := range w.pollers {
		busy = p.Poll() || busy
	}
	if glance && !busy && w.readyList.empty() && w.resting.empty() {
		return false
	}
	if len(w.timers.heap) > 0 {
		busy = w.timers.fire(w.Now()) > 0 || busy
	}
	if w.virtual == nil { // simulated devices keep to the contract
		w.giveUpStuck()
	}
	busy = w.takeInbox() || busy
	for range resumeBatch {
		f := w.readyList.pop()
		if f == nil {
			break
		}
		busy = true
		w.run(f)
		if w.virtual != nil && w.virtual.held() {
			return true // the core is spending time: nothing else of it runs
		}
	}
	if f := w.resting.pop(); f != nil {
		busy = true
		w.run(f)
		if w.virtual != nil && w.virtual.held() {
			return true
		}
	}
	w.flushAll()
	for _, p := range w.parts {
		p.Flush()
	}
	return busy
}

// more reports whether a pass left something to do that nothing announces: in virtual time, where
// whatever comes later is an event, no other pass is needed.
func (w *Worker) more() bool {
	if w.pollFull || !w.readyList.empty() || !w.resting.empty() {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.inbox) > 0
}

const (
	// mostHopes bounds the operations that fibers wait for without a switch in one pass: timers, the inbox, and what the
	// parts have gathered, such as answers to peers, wait for its end.
	mostHopes = 16
	// fewHopes is that bound where messages of peers may wait, too: in memory that is watched, or for another worker of
	// the thread.
	fewHopes = 4
)

// hopes reports whether to poll before the fiber that runs parks: operations may have completed at post, and nobody else
// is kept waiting for long. No fiber is ready or waits for a word of memory, and the pass has not lasted for many operations.
func (w *Worker) hopes() bool {
	most := mostHopes
	if w.shares || len(w.watches) > 0 {
		most = fewHopes
	}
	if !w.hopeful || w.hoped >= most || !w.readyList.empty() || !w.resting.empty() || len(w.words)+len(w.pollers) > 0 {
		return false
	}
	w.hoped++
	w.now = 0 // an operation takes long
	return true
}

// run resumes a fiber.
func (w *Worker) run(f *Fiber) {
	w.Stats.Resumes++
	w.current = f
	f.resume()
	w.current = nil
	w.now = 0
}

// poll takes completions.
func (w *Worker) poll() bool {
	n, err := w.cq.Poll(w.wcs[:])
	if err != nil && w.fenced == nil {
		w.fence(invariant.Violation{What: "worker's CQ: " + err.Error()})
	}
	w.pollFull = n == len(w.wcs)
	if n > 0 && w.virtual != nil {
		w.virtual.polled(n)
	}
	w.Stats.Polls++
	if n == 0 {
		w.Stats.EmptyPolls++
	}
	for i := range n {
		wc := &w.wcs[i]
		w.Stats.Statuses[min(wc.Status, statuses-1)]++
		if s := wc.ID >> partShift; s > 0 {
			w.parts[s-1].Completed(wc)
		} else {
			w.complete(wc)
		}
	}
	w.Stats.Completed += uint64(n)
	w.arrived += uint64(n)
	return n > 0
}

// fence takes the node out after a bug of ours was noticed: its QPs go to error, those of its
// other workers and those by which peers reach its memory too; every wait of this worker ends with
// the violation, and the thread stops.
func (w *Worker) fence(v invariant.Violation) {
	if w.fenced != nil {
		return
	}
	w.fenced = fmt.Errorf("worker %s fenced: %w", w.cfg.Name, v)
	_ = w.ctx.Fence() // the node is going down; the first error is the one to tell
	for _, p := range w.parts {
		p.Fence(w.fenced)
	}
	w.readyAll()
}

// readyAll resumes every live fiber, so that it sees why it should end.
func (w *Worker) readyAll() {
	for _, f := range w.fibers {
		if f.task != nil && !f.cleaning && f != w.current {
			w.ready(f)
		}
	}
}

// cancelAll cancels every live fiber.
func (w *Worker) cancelAll(cause error) {
	w.stopCause = errors.Join(ErrCancelled, cause)
	w.readyAll()
}

// stopCoroutines frees them; live ones unwind without cleanups.
func (w *Worker) stopCoroutines() {
	w.dead = true
	for _, f := range w.fibers {
		if f != w.current { // a fiber at a marked step may be what kills its own node
			f.stop()
		}
	}
	w.idle = nil
}

// Fenced is why the worker was fenced; nil if it was not.
func (w *Worker) Fenced() error { return w.fenced }

// Live is the number of fibers whose task has not ended.
func (w *Worker) Live() int { return w.live }

// Close destroys what the worker made. No fiber may be live any more; operations in flight are
// flushed first, so that no device writes into memory that the caller frees next.
func (w *Worker) Close() error {
	w.mu.Lock()
	closed := w.closing
	w.closing = true
	w.mu.Unlock()
	if closed {
		return nil
	}
	w.stopCoroutines()
	var errs []error
	for _, p := range w.parts {
		errs = append(errs, p.Close())
	}
	for _, c := range w.conns {
		errs = append(errs, c.qp.Close())
	}
	errs = append(errs, w.cq.Close())
	for _, mr := range w.scratch {
		errs = append(errs, mr.Close())
	}
	return errors.Join(errs...)
}
