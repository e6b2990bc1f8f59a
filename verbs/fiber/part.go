package fiber

import (
	"fmt"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// Part is something that works on a worker beside its fibers, with queue pairs of its own that
// report to the worker's CQ: package rpc's port. All of it is called on the worker's thread.
type Part interface {
	// Completed takes the completion of a request whose ID has the base that AddPart gave. It
	// may run while a fiber is about to wait, and must not wait itself.
	Completed(wc *verbs.WC)
	// Flush sends what was gathered, once at the end of each pass of the worker.
	Flush()
	// Fence moves the part's queue pairs to the error state and fails what waits on it.
	Fence(cause error)
	// Close frees what the part made; Worker.Close calls it first. It may be called twice.
	Close() error
}

// Poller is a Part that has something to look at in each pass, before fibers run: packets that have arrived at a NIC
// core (package smartnic). Poll reports whether it found anything. Worker.Wake has a pass made when it has.
type Poller interface {
	Part
	Poll() bool
}

// partShift is where the number of the part stands in a request's ID.
const partShift = 48

// AddPart adds a part that has at most completions requests outstanding, out of
// WorkerConfig.Extra. base is or-ed into the IDs of its requests, which have 48 bits.
func (w *Worker) AddPart(p Part, completions int) (base uint64, err error) {
	if completions > w.extra {
		return 0, fmt.Errorf("worker %s: %d more completions may be outstanding and %d are "+
			"left: raise WorkerConfig.Extra", w.cfg.Name, completions, w.extra)
	}
	w.extra -= completions
	w.parts = append(w.parts, p)
	if x, ok := p.(Poller); ok {
		w.pollers = append(w.pollers, x)
	}
	invariant.Assert(len(w.parts) < 1<<(64-partShift), "too many parts")
	return uint64(len(w.parts)) << partShift, nil
}

// Rung accounts for a doorbell that a part rang, with the requests that were posted: it counts,
// and costs CPU time in the simulator.
func (w *Worker) Rung(posted []verbs.WR) {
	w.Stats.posted(posted)
	if w.virtual != nil {
		w.virtual.posted(len(posted))
	}
}

// Wake has a pass made soon. Call it where the worker's parts get their work: in the simulator from an event.
func (w *Worker) Wake() { w.wake() }

// Spend accounts for CPU time of a part in the simulator, in picoseconds.
func (w *Worker) Spend(ps int64) {
	if w.virtual != nil && ps > 0 {
		w.virtual.spent(ps)
	}
}

// Missed accounts for n lines of memory that no cache has and that are loaded together: it costs time in the simulator.
func (w *Worker) Missed(n int) {
	if w.virtual != nil && n > 0 {
		w.virtual.missed(n)
	}
}

// CountsMisses reports whether Missed costs anything.
func (w *Worker) CountsMisses() bool { return w.virtual != nil && w.virtual.core.tl.MissCostPs(1) > 0 }

// RPCWork accounts for messages that a part sends and datagrams that it receives: they cost CPU
// time in the simulator.
func (w *Worker) RPCWork(messages, datagrams int) {
	if w.virtual != nil {
		w.virtual.spent(w.virtual.core.tl.RPCCostPs(messages, datagrams))
	}
}

// Polled accounts for n messages that a part has found in memory: each costs what a completion does.
func (w *Worker) Polled(n int) {
	if w.virtual != nil {
		w.virtual.polled(n)
	}
}

// Fence takes the node out after a part noticed a bug of ours: see the package comment.
func (w *Worker) Fence(v invariant.Violation) { w.fence(v) }

// Timer calls a function on the worker, outside any fiber, at a time on the node's clock.
type Timer struct {
	w *Worker
	t timer
}

// NewTimer makes a timer that is not set.
func (w *Worker) NewTimer(fire func()) *Timer {
	return &Timer{w: w, t: timer{fire: fire}}
}

// Set has the timer fire once, at a time that must be in the future; an earlier setting is
// forgotten.
func (t *Timer) Set(at time.Duration) { t.w.timers.set(&t.t, at) }

// Stop keeps the timer from firing.
func (t *Timer) Stop() { t.w.timers.drop(&t.t) }
