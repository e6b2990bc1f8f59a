package fiber

import (
	"fmt"
	"math"
)

// Timeline is the simulator's event loop, as far as fibers need it. Times are picoseconds.
type Timeline interface {
	NowPs() int64
	// AtPs has f called once at time t, which is not before now.
	AtPs(t int64, f func())
	// Step tells the nemesis that a node reached a named step of a protocol.
	Step(node, name string)
	// PostCostPs is the CPU time of one doorbell with n requests; PassCostPs that of one look
	// at the queues, and PollCostPs that of n completions found there.
	PostCostPs(n int) int64
	PassCostPs() int64
	PollCostPs(n int) int64
	// RPCCostPs is the CPU time that an RPC layer takes for messages that it sends and datagrams
	// that it receives.
	RPCCostPs(messages, datagrams int) int64
	// MissCostPs is the time of n lines of memory that no cache has and that are loaded together. ThreadPs is the
	// time of CPU work that takes ps where a thread has its core alone; waiting for memory is no such work.
	MissCostPs(n int) int64
	ThreadPs(ps int64) int64
}

// Core is a thread of the simulator: one core that runs workers in virtual time. While a fiber
// spends time (Charge), nothing else on the core runs. Everything happens inside the event loop.
type Core struct {
	tl        Timeline
	workers   []*Worker
	holder    *Fiber // the fiber that spends time, or stopped at a marked step
	busyUntil int64
	due       int64   // when the next pass is due; never = none
	pending   []int64 // times of the calls that are to come, the earliest last
	fired     func()  // c.fire, bound once
	dead      bool
}

// never is later than every time.
const never = math.MaxInt64

// NewCore makes a core.
func NewCore(tl Timeline) *Core {
	c := &Core{tl: tl, due: never}
	c.fired = c.fire
	return c
}

// NewWorker makes a worker of the core.
func (c *Core) NewWorker(cfg WorkerConfig) (*Worker, error) {
	w, err := newWorker(cfg, nil)
	if err != nil {
		return nil, err
	}
	w.virtual = &virtualWorker{core: c, w: w}
	w.wake = c.kick
	if err := w.cq.OnArrival(c.kick); err != nil {
		return nil, fmt.Errorf("worker %s: %w", cfg.Name, err)
	}
	c.workers = append(c.workers, w)
	return w, nil
}

// Kill ends the core at once, as a crash of its node does: no fiber of it runs again, and no
// cleanup. Its coroutines are freed.
func (c *Core) Kill() {
	c.dead = true
	for _, w := range c.workers {
		w.dead = true
		w.stopCoroutines()
	}
}

// kick has the core make a pass as soon as it is free.
func (c *Core) kick() { c.schedule(c.tl.NowPs()) }

// schedule has a pass made at a time, unless one is due before.
func (c *Core) schedule(at int64) {
	at = max(at, c.busyUntil, c.tl.NowPs())
	if c.dead || c.due <= at {
		return
	}
	c.due = at
	c.call()
}

// call sees to it that there is a call when the next pass is due, or before: one that was
// scheduled for something that was due later and is not any more, or not yet.
func (c *Core) call() {
	if n := len(c.pending); n > 0 && c.pending[n-1] <= c.due {
		return
	}
	c.pending = append(c.pending, c.due)
	c.tl.AtPs(c.due, c.fired)
}

// fire is a call: calls come in the order of their times.
func (c *Core) fire() {
	c.pending = c.pending[:len(c.pending)-1]
	if c.due <= c.tl.NowPs() {
		c.due = never
		c.run()
	} else if c.due < never {
		c.call()
	}
}

// run goes on with the fiber that holds the core, and makes a pass over the workers when none does.
// Only the pass costs the time of a look at the queues.
func (c *Core) run() {
	if c.dead {
		return
	}
	if f := c.holder; f != nil {
		c.holder = nil
		f.w.run(f)
	}
	again := false
	if c.holder == nil {
		c.spend(c.workers[0], c.tl.ThreadPs(c.tl.PassCostPs()))
	}
	for _, w := range c.workers {
		if c.holder != nil || c.dead {
			break
		}
		w.step(false)
		again = again || w.more()
	}
	if c.dead {
		return
	}
	if again || c.holder != nil {
		c.schedule(c.busyUntil)
		return
	}
	for _, w := range c.workers {
		if at, ok := w.timers.next(); ok {
			// The timer's time is on the node's clock, which may run differently.
			wait := int64(max(at-w.clock.Now(), 0))
			c.schedule(c.tl.NowPs() + wait*psPerNs)
		}
	}
}

// spend has the core be busy for a time, which a worker accounts for.
func (c *Core) spend(w *Worker, ps int64) {
	c.busyUntil = max(c.busyUntil, c.tl.NowPs()) + ps
	w.Stats.BusyPs += uint64(ps)
}

const psPerNs = 1000

// virtualWorker is a worker's side of its core.
type virtualWorker struct {
	core *Core
	w    *Worker
}

func (v *virtualWorker) kick()      { v.core.kick() }
func (v *virtualWorker) held() bool { return v.core.holder != nil || v.core.dead }

// charge holds the core for a time.
func (v *virtualWorker) charge(f *Fiber, ps int64) {
	v.spent(ps)
	v.hold(f)
}

// step lets other events run at a marked step; the nemesis may crash the node here.
func (v *virtualWorker) step(f *Fiber, name string) {
	if on := v.w.cfg.OnStep; on != nil {
		on(f, name)
	}
	v.core.tl.Step(v.w.cfg.Name, name)
	v.hold(f)
}

func (v *virtualWorker) hold(f *Fiber) {
	v.core.holder = f
	f.park()
}

// spent accounts for CPU time: what the pass at hand did takes effect at its time, and the core is
// busy until the sum is over.
func (v *virtualWorker) spent(ps int64) { v.core.spend(v.w, v.core.tl.ThreadPs(ps)) }

// missed accounts for lines that are loaded together.
func (v *virtualWorker) missed(n int) { v.core.spend(v.w, v.core.tl.MissCostPs(n)) }

// posted accounts for the CPU time of a doorbell, polled for that of completions.
func (v *virtualWorker) posted(n int) { v.spent(v.core.tl.PostCostPs(n)) }
func (v *virtualWorker) polled(n int) { v.spent(v.core.tl.PollCostPs(n)) }

// looked accounts for the CPU time of a look at n watches, each of which costs what a look at a queue does.
func (v *virtualWorker) looked(n int) { v.spent(int64(n) * v.core.tl.PassCostPs()) }

// Close closes the core's workers. No fiber may be live, unless the core was killed.
func (c *Core) Close() error {
	c.dead = true
	var first error
	for _, w := range c.workers {
		if err := w.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
