package fiber

import (
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"time"

	"drtmd/internal/invariant"
)

// Fiber is a coroutine of a worker. Its methods are called from inside it only.
type Fiber struct {
	w       *Worker
	virtual *virtualWorker // the worker's: Charge and Step, of which a transaction has many, look at it
	resume  func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool

	task *Task
	next *Fiber // in the ready list or a wait list
	list *fiberList

	word wordWait

	timer    timer
	expired  bool // the timer ended the wait
	signaled bool // a Cond ended the wait
	cleaning bool // running cleanups: not cancelled
}

// Task is a fiber's run from its start to its end.
type Task struct {
	name     string
	body     func(*Fiber) error
	cleanups []func(*Fiber)
	fiber    *Fiber
	scope    *Scope
	joiners  fiberList
	done     bool
	err      error
	onDone   func(error)
}

// PanicError is the error of a fiber whose code panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// errKilled unwinds a coroutine whose worker is gone. It never reaches a caller.
var errKilled = errors.New("fiber killed")

// newFiber makes a coroutine. It must be created under the same OS-thread-lock state that it is
// resumed in, so this is only ever called from the worker's loop. The coroutine is reused for
// one task after another.
func newFiber(w *Worker) *Fiber {
	f := &Fiber{w: w, virtual: w.virtual}
	w.fibers = append(w.fibers, f)
	f.timer.fire = func() {
		f.expired = true
		w.ready(f)
	}
	f.resume, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		f.yield = yield
		for {
			f.task.err = f.run(f.task)
			if f.task.err == errKilled {
				return
			}
			f.w.taskDone(f)
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return f
}

// run calls the body and its cleanups. A panic of the body fails the task; a failed invariant
// of ours goes on to the worker, which fences the node.
func (f *Fiber) run(t *Task) (err error) {
	err = f.protect(t.body)
	f.w.region = regionIdle // a body that panicked inside of a region leaves it so
	f.cleaning = true
	defer func() { f.cleaning = false }()
	for len(t.cleanups) > 0 && err != errKilled {
		last := len(t.cleanups) - 1
		c := t.cleanups[last]
		t.cleanups = t.cleanups[:last]
		cerr := f.protect(func(f *Fiber) error { c(f); return nil })
		if err == nil {
			err = cerr
		}
	}
	return err
}

func (f *Fiber) protect(body func(*Fiber) error) (err error) {
	defer func() {
		v := recover()
		if v == errKilled {
			err = errKilled
			return
		}
		switch v := v.(type) {
		case nil:
		case invariant.Violation:
			f.w.fence(v)
			err = v
		default:
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return body(f)
}

// Defer has c run when the fiber's task ends, also after a panic or a cancellation: last in,
// first out. It may await; it is not cancelled.
func (f *Fiber) Defer(c func(*Fiber)) { f.task.cleanups = append(f.task.cleanups, c) }

// Worker is the fiber's worker.
func (f *Fiber) Worker() *Worker { return f.w }

// Now is the time on the node's clock.
func (f *Fiber) Now() time.Duration { return f.w.clock.Now() }

// park switches to the worker until someone calls ready. The caller has seen to it that someone
// will: it has put the fiber on a list or set a timer.
func (f *Fiber) park() {
	f.w.flushAll()
	f.w.Stats.Switches++
	if !f.yield(struct{}{}) {
		panic(errKilled)
	}
}

// wait parks with a deadline (zero: none) and says whether the deadline ended it.
func (f *Fiber) wait(deadline time.Duration) error {
	f.w.notInRegion()
	if err := f.cancelled(); err != nil {
		f.list.remove(f)
		return err
	}
	f.expired = false
	if deadline > 0 {
		f.w.timers.set(&f.timer, deadline)
	}
	f.park()
	f.w.timers.drop(&f.timer)
	if err := f.cancelled(); err != nil {
		return err
	}
	if f.expired {
		return ErrDeadline
	}
	return nil
}

// Rest lets everything go first that can go on: what has arrived, whoever waited for it, and every
// fiber that yields. Of the fibers that rest one runs in each pass of the worker, in turn. Fibers
// with work that never waits rest now and then, so that those which wait for a peer need not wait
// for all of them too.
func (f *Fiber) Rest() error {
	f.w.notInRegion()
	f.w.resting.push(f)
	f.park()
	return f.cancelled()
}

// Yield lets the other fibers of the worker run.
func (f *Fiber) Yield() error {
	f.w.notInRegion()
	f.w.ready(f)
	f.park()
	return f.cancelled()
}

// Sleep waits for a time on the node's clock.
func (f *Fiber) Sleep(d time.Duration) error {
	if d <= 0 {
		return f.Yield()
	}
	if err := f.wait(f.w.clock.Now() + d); err != nil && err != ErrDeadline {
		return err
	}
	return nil
}

// Charge spends CPU time of the simulator's core, in picoseconds; on real transports it is free.
// In the simulator everything else may happen meanwhile, the worker's other fibers excepted.
func (f *Fiber) Charge(ps int64) {
	if v := f.virtual; v != nil && ps > 0 {
		v.charge(f, ps)
	}
}

// Step marks a named step of a protocol for the simulator's nemesis, as in
// "drtm: after lock". Free on real transports; in the simulator a crash may end the node here.
func (f *Fiber) Step(name string) {
	if v := f.virtual; v != nil {
		v.step(f, name)
	}
}
