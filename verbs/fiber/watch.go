package fiber

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"drtmd/internal/invariant"
	"drtmd/verbs"
)

// Watch calls a function on the worker, outside any fiber, in the first pass in which a word of memory differs
// from what it held: how a part polls a ring that a peer's WRITE fills. On real transports the worker looks in
// every pass, and sleeps at most memoryPoll between two while there is a watch; in the simulator the change is
// an event, and every pass costs a look at each watch.
type Watch struct {
	w      *Worker
	fire   func()
	mr     *verbs.MR
	word   *uint64
	seen   uint64
	line   int
	cancel func() // of the simulator's event; nil: there is none
}

// NewWatch makes a watch that is not set.
func (w *Worker) NewWatch(fire func()) *Watch { return &Watch{w: w, fire: fire} }

// Set has the watch fire once, when the aligned 8-byte word at offset of a local region differs from seen; an
// earlier setting is forgotten. The region stays until the watch has fired or was stopped.
func (x *Watch) Set(mr *verbs.MR, offset int, seen uint64) error {
	if offset < 0 || offset%8 != 0 || offset+8 > mr.Len() {
		return fmt.Errorf("watch of a word at offset %d of %d bytes: not an aligned word of it", offset,
			mr.Len())
	}
	if x.word == nil {
		x.w.watches = append(x.w.watches, x)
	}
	x.disarm()
	x.mr, x.line, x.seen = mr, offset/verbs.LineBytes, seen
	x.word = (*uint64)(unsafe.Pointer(&mr.Bytes()[offset : offset+8][0]))
	return x.arm()
}

// Stop keeps the watch from firing.
func (x *Watch) Stop() {
	if x.word == nil {
		return
	}
	x.disarm()
	x.word = nil
	i := slices.Index(x.w.watches, x)
	invariant.Assert(i >= 0, "a watch that is set is not among its worker's")
	// The order is that of the calls, which the simulator shows.
	x.w.watches = slices.Delete(x.w.watches, i, i+1)
}

// arm has the simulator make a pass when the line changes.
func (x *Watch) arm() error {
	v := x.w.virtual
	if v == nil {
		return nil
	}
	if x.changed() {
		v.kick()
		return nil
	}
	cancel, err := x.mr.OnLineChange(x.line, atomic.LoadUint64(&x.mr.Lines()[x.line]), func() {
		x.cancel = nil
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

func (x *Watch) changed() bool { return atomic.LoadUint64(x.word) != x.seen }

// pollWatches fires the watches whose words have changed.
func (w *Worker) pollWatches() bool {
	if w.virtual != nil {
		w.virtual.looked(len(w.watches))
	}
	hit := false
	w.firing = append(w.firing[:0], w.watches...) // who fires may set and stop others
	for _, x := range w.firing {
		switch {
		case x.word == nil: // stopped meanwhile
		case x.changed():
			x.Stop()
			hit = true
			w.arrived++
			x.fire()
		case w.virtual != nil && x.cancel == nil:
			// The line has changed, and not the word. A region that has gone makes no events.
			_ = x.arm()
		}
	}
	return hit
}
