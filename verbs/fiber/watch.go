package fiber

import (
	"fmt"
	"slices"
	"sync/atomic"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// Watch has a part look at a line of memory in the passes of a worker, outside any fiber: how a ring that a peer's
// WRITE fills is polled. On real transports it looks in every pass, and the worker sleeps at most memoryPoll
// between two while there is a watch; in the simulator it looks when the line has changed, and every pass costs
// a look at each watch.
type Watch struct {
	w      *Worker
	look   func() bool
	mr     *verbs.MR // nil: the watch is not set
	line   int
	due    bool   // in the simulator: the line has changed
	cancel func() // of the simulator's event; nil: there is none
}

// NewWatch makes a watch that is not set. look reports whether it has found anything; it may set and stop
// watches.
func (w *Worker) NewWatch(look func() bool) *Watch { return &Watch{w: w, look: look} }

// Set begins to look at a line of a local region, for changes from now on; an earlier setting is forgotten. The
// region stays until the watch is stopped.
func (x *Watch) Set(mr *verbs.MR, line int) error {
	if line < 0 || (line+1)*verbs.LineBytes > mr.Len() {
		return fmt.Errorf("watch of line %d of %d bytes: not a whole line of it", line, mr.Len())
	}
	if x.mr == nil {
		x.w.watches = append(x.w.watches, x)
	}
	x.disarm()
	x.mr, x.line, x.due = mr, line, false
	return x.arm()
}

// Stop ends the looking.
func (x *Watch) Stop() {
	if x.mr == nil {
		return
	}
	x.disarm()
	x.mr = nil
	i := slices.Index(x.w.watches, x)
	invariant.Assert(i >= 0, "a watch that is set is not among its worker's")
	x.w.watches = slices.Delete(x.w.watches, i, i+1) // their order is that of the looks, which the simulator shows
}

// arm has the simulator make a pass when the line changes.
func (x *Watch) arm() error {
	v := x.w.virtual
	if v == nil {
		return nil
	}
	cancel, err := x.mr.OnLineChange(x.line, atomic.LoadUint64(&x.mr.Lines()[x.line]), func() {
		x.cancel, x.due = nil, true
		v.kick()
	})
	x.cancel = cancel
	return err
}

func (x *Watch) disarm() {
	if x.cancel != nil {
		x.cancel()
		x.cancel = nil
	}
}

// pollWatches looks at the lines that are watched.
func (w *Worker) pollWatches() bool {
	if w.virtual != nil {
		w.virtual.looked(len(w.watches))
	}
	hit := false
	w.looking = append(w.looking[:0], w.watches...) // who looks may set and stop others
	for _, x := range w.looking {
		if x.mr == nil || w.virtual != nil && !x.due {
			continue // stopped meanwhile, or nothing has changed
		}
		x.due = false
		if x.look() {
			hit = true
			w.arrived++
		}
		if x.mr != nil && x.cancel == nil && !x.due {
			_ = x.arm() // a region that has gone makes no events
		}
	}
	return hit
}
