package fiber

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"drtmd/verbs"
)

const (
	// memoryPoll bounds the sleep while a fiber waits for a word of memory.
	memoryPoll = 50 * time.Microsecond
	// drainTimeout bounds the wait for fibers after Stop.
	drainTimeout = 5 * time.Second
)

// ThreadConfig of NewThread.
type ThreadConfig struct {
	// Spin bounds busy polling after the last work, before the thread sleeps; negative = none.
	// 0 = 20 us, and up to 200 us while that is how soon work arrives. It ends by itself in a
	// short while and yields the CPU, so that threads that spin on all cores starve nobody.
	Spin time.Duration
	// Drain bounds the time that live fibers get after Stop before they are cancelled, and once
	// more after that; 0 = 5 s.
	Drain time.Duration
	// CPUs are those that the thread may run on while it runs; none: those of the process. Kept, not
	// copied. Run fails if the system refuses them.
	CPUs []int
}

// Thread is one OS thread that runs workers.
type Thread struct {
	cfg      ThreadConfig
	idle     idler
	workers  []*Worker
	channels []*verbs.Channel
	poller   *verbs.Poller
	asleep   atomic.Bool
	woken    atomic.Bool
	stop     atomic.Bool
	running  atomic.Bool
}

// NewThread makes a thread. Give it workers, then Run it; or Close it.
func NewThread(cfg ThreadConfig) (*Thread, error) {
	if cfg.Drain == 0 {
		cfg.Drain = drainTimeout
	}
	p, err := verbs.NewPoller()
	if err != nil {
		return nil, err
	}
	return &Thread{cfg: cfg, idle: newIdler(cfg.Spin), poller: p}, nil
}

// NewWorker makes a worker of the thread; before Run only.
func (t *Thread) NewWorker(cfg WorkerConfig) (*Worker, error) {
	if t.running.Load() {
		return nil, fmt.Errorf("worker %s: the thread is already running", cfg.Name)
	}
	ch, err := cfg.PD.Context().CreateChannel()
	if err != nil {
		return nil, err
	}
	w, err := newWorker(cfg, ch)
	if err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	if err := t.poller.Add(ch); err != nil {
		return nil, errors.Join(err, w.Close(), ch.Close())
	}
	w.wake = t.wake
	t.workers = append(t.workers, w)
	if len(t.workers) > 1 { // they take turns
		for _, x := range t.workers {
			x.shares = true
		}
	}
	t.channels = append(t.channels, ch)
	return w, nil
}

// wake ends the thread's sleep; from any goroutine.
func (t *Thread) wake() {
	t.woken.Store(true)
	if t.asleep.Load() {
		t.poller.Wake()
	}
}

// Stop asks the thread to end: live fibers get ThreadConfig.Drain to finish, are then cancelled,
// and Run returns. From any goroutine.
func (t *Thread) Stop() {
	t.stop.Store(true)
	t.wake()
}

// Run locks the calling goroutine to its OS thread and runs the workers until Stop, or until a
// worker is fenced. It closes the workers. The error is that of the fenced worker, or what closing
// met, or says which fibers did not end, or that the thread cannot have its CPUs: then nothing that
// was submitted has run, and nobody else is told.
func (t *Thread) Run() error {
	if t.running.Swap(true) {
		return errors.New("the thread is already running")
	}
	runtime.LockOSThread()
	restore, err := confine(t.cfg.CPUs)
	if err == nil {
		err = errors.Join(t.loop(), t.drain())
	}
	err = errors.Join(err, t.Close())
	if restore != nil {
		if back := restore(); back != nil { // the goroutine keeps the OS thread, which ends with it
			return errors.Join(err, back)
		}
	}
	runtime.UnlockOSThread()
	return err
}

// Close closes the workers of a thread that does not run. It may be called twice.
func (t *Thread) Close() error {
	var errs []error
	for i, w := range t.workers {
		errs = append(errs, w.Close(), t.channels[i].Close())
	}
	return errors.Join(append(errs, t.poller.Close())...)
}

func (t *Thread) loop() error {
	arrived := uint64(0)
	for !t.stop.Load() {
		busy := t.pass(t.idle.glance())
		if !busy && t.idle.sleeps() {
			var err error
			if busy, err = t.sleep(); err != nil {
				return err
			}
		}
		if busy {
			before := arrived
			arrived = t.arrived()
			t.idle.worked(arrived != before)
			if err := t.fenced(); err != nil {
				return err
			}
		}
	}
	return nil
}

// pass makes a pass over the workers. A glance looks at timers and at what other goroutines want
// only if something else calls for it.
func (t *Thread) pass(glance bool) bool {
	if glance = glance && !t.woken.Load(); !glance {
		t.woken.Store(false)
	}
	busy := false
	for _, w := range t.workers {
		busy = w.step(glance) || busy
	}
	return busy
}

// arrived counts what came from outside to any of the workers.
func (t *Thread) arrived() uint64 {
	n := uint64(0)
	for _, w := range t.workers {
		n += w.arrived
	}
	return n
}

func (t *Thread) fenced() error {
	for _, w := range t.workers {
		if w.fenced != nil {
			return w.fenced
		}
	}
	return nil
}

// sleep arms every CQ, looks once more, and waits for a completion, a timer or a wake-up. It says
// whether that look found work.
func (t *Thread) sleep() (bool, error) {
	t.asleep.Store(true)
	defer t.asleep.Store(false)
	for _, w := range t.workers {
		if err := w.cq.Arm(false); err != nil {
			return false, err
		}
	}
	if t.woken.Load() || t.stop.Load() {
		return false, nil
	}
	if t.pass(false) {
		return true, nil
	}
	if _, err := t.poller.Wait(t.until()); err != nil {
		return false, err
	}
	for _, ch := range t.channels {
		if err := ch.Consume(nil); err != nil {
			return false, err
		}
	}
	return false, nil
}

// until is how long the thread may sleep; negative is without end.
func (t *Thread) until() time.Duration {
	limit := time.Duration(-1)
	for _, w := range t.workers {
		if len(w.words)+len(w.watches) > 0 && (limit < 0 || memoryPoll < limit) {
			limit = memoryPoll
		}
		if w.inFlight() && (limit < 0 || stuckLook < limit) {
			limit = stuckLook
		}
		if at, ok := w.timers.next(); ok {
			if d := max(at-w.clock.Now(), 0); limit < 0 || d < limit {
				limit = d
			}
		}
	}
	return limit
}

// drain lets live fibers finish, then cancels them, then gives up on them.
func (t *Thread) drain() error {
	if t.run(t.cfg.Drain) {
		return nil
	}
	for _, w := range t.workers {
		w.cancelAll(ErrStopped)
	}
	if t.run(t.cfg.Drain) {
		return nil
	}
	var errs []error
	for _, w := range t.workers {
		if w.live > 0 {
			errs = append(errs, fmt.Errorf("worker %s: %d fibers did not end within %v: %s", w.cfg.Name,
				w.live, t.cfg.Drain, w.alive()))
		}
	}
	return errors.Join(errs...)
}

// alive names the fibers that have not ended, some of many.
func (w *Worker) alive() string {
	const most = 8
	var names []string
	for _, f := range w.fibers {
		if f.task != nil && len(names) < most {
			names = append(names, f.task.name)
		}
	}
	return strings.Join(names, ", ")
}

// run makes passes until no fiber lives, for at most d.
func (t *Thread) run(d time.Duration) bool {
	for end := time.Now().Add(d); ; {
		live := 0
		busy := t.pass(false)
		for _, w := range t.workers {
			live += w.live
		}
		if live == 0 {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		if !busy {
			time.Sleep(memoryPoll)
		}
	}
}

// Threads runs several threads until ctx is done or one of them fails, with enough GOMAXPROCS
// left for the other goroutines: the number of threads plus two (design decision 4).
func Threads(ctx context.Context, threads ...*Thread) error {
	if want := len(threads) + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
	errs := make(chan error, len(threads))
	for _, t := range threads {
		go func() { errs <- t.Run() }()
	}
	stopAll := func() {
		for _, t := range threads {
			t.Stop()
		}
	}
	unbind := context.AfterFunc(ctx, stopAll)
	defer unbind()
	var all []error
	for range threads {
		err := <-errs
		if err != nil {
			stopAll()
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}
