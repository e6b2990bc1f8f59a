package fiber

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"drtmd/verbs"
)

// lineWords is the number of 8-byte words in a line.
const lineWords = verbs.LineBytes / 8

// Line is what a line of memory holds, as words in the byte order of the machine.
type Line [lineWords]uint64

// watch is a fiber's wait for a change of up to a line of registered memory. Each fiber has one,
// so that waiting allocates nothing.
type watch struct {
	f      *Fiber
	first  unsafe.Pointer // of the words; nil = nothing is waited for
	words  int
	seen   Line // the first words of it count
	queued bool // in Worker.lines, perhaps with nothing to wait for any more
}

// AwaitWord waits until the 8-byte word at offset of a local region, an aligned one, differs
// from seen, and returns what it holds: how a ring that a peer's WRITE fills is polled. On real
// transports the worker looks in every pass and sleeps at most memoryPoll between two while such
// waits exist; in the simulator the change is an event. Deadline 0 is none.
func (f *Fiber) AwaitWord(mr *verbs.MR, offset int, seen uint64,
	deadline time.Duration) (uint64, error) {
	if offset < 0 || offset%8 != 0 || offset+8 > mr.Len() {
		return 0, fmt.Errorf("await word at offset %d of %d bytes: not an aligned word of it",
			offset, mr.Len())
	}
	f.watch.seen[0] = seen
	err := f.awaitChange(mr, offset, 1, deadline)
	return f.watch.seen[0], err
}

// AwaitLine waits until line number line of a local region, 64 bytes, differs from *seen, and
// stores what it holds there, also after an error. Otherwise it is AwaitWord. The words are read
// one by one, in ascending order: while a WRITE arrives some may be old, which a mark in the last
// word tells where lines become visible in ascending order.
func (f *Fiber) AwaitLine(mr *verbs.MR, line int, seen *Line, deadline time.Duration) error {
	if line < 0 || (line+1)*verbs.LineBytes > mr.Len() {
		return fmt.Errorf("await line %d of %d bytes: not a whole line of it", line, mr.Len())
	}
	f.watch.seen = *seen
	err := f.awaitChange(mr, line*verbs.LineBytes, lineWords, deadline)
	*seen = f.watch.seen
	return err
}

// awaitChange waits until words at offset differ from the watch's, and puts there what they hold.
func (f *Fiber) awaitChange(mr *verbs.MR, offset, words int, deadline time.Duration) error {
	t := &f.watch
	t.f, t.words = f, words
	first := unsafe.Pointer(unsafe.SliceData(mr.Bytes()[offset:]))
	for {
		t.first = first
		changed := t.changed()
		if changed {
			t.take()
			return nil
		}
		if err := f.awaitMemory(mr, offset/verbs.LineBytes, deadline); err != nil {
			t.first = first
			if changed = t.changed(); changed {
				err = nil
			}
			t.take()
			return err
		}
	}
}

// awaitMemory waits until the watched words may have changed.
func (f *Fiber) awaitMemory(mr *verbs.MR, line int, deadline time.Duration) error {
	w := f.w
	if w.virtual != nil {
		now := atomic.LoadUint64(&mr.Lines()[line])
		cancel, err := mr.OnLineChange(line, now, func() { w.ready(f); w.virtual.kick() })
		if err != nil {
			return err
		}
		defer cancel()
		return f.wait(deadline)
	}
	if !f.watch.queued {
		f.watch.queued = true
		w.lines = append(w.lines, &f.watch)
	}
	return f.wait(deadline)
}

func (t *watch) word(i int) uint64 {
	return atomic.LoadUint64((*uint64)(unsafe.Add(t.first, 8*i)))
}

func (t *watch) changed() bool {
	for i := range t.words {
		if t.word(i) != t.seen[i] {
			return true
		}
	}
	return false
}

// take notes what the words hold, and ends the watch.
func (t *watch) take() {
	for i := range t.words {
		t.seen[i] = t.word(i)
	}
	t.first = nil
}

// pollLines readies the fibers whose memory has changed and forgets the waits that ended.
func (w *Worker) pollLines() bool {
	hit := false
	kept := w.lines[:0]
	for _, t := range w.lines {
		if t.first != nil && !t.changed() {
			kept = append(kept, t)
			continue
		}
		t.queued = false
		if t.first != nil {
			t.first, hit = nil, true
			w.arrived++
			w.ready(t.f)
		}
	}
	clear(w.lines[len(kept):])
	w.lines = kept
	return hit
}
