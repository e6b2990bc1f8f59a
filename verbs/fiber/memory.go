package fiber

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"drtmd/verbs"
)

// lineWait is a fiber that waits for a word of registered memory to change.
type lineWait struct {
	f    *Fiber
	word *uint64
	seen uint64
	gone bool
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
	word := (*uint64)(unsafe.Pointer(unsafe.SliceData(mr.Bytes()[offset:])))
	for {
		if v := atomic.LoadUint64(word); v != seen {
			return v, nil
		}
		if err := f.awaitChange(mr, offset, word, seen, deadline); err != nil {
			if v := atomic.LoadUint64(word); v != seen {
				return v, nil
			}
			return seen, err
		}
	}
}

func (f *Fiber) awaitChange(mr *verbs.MR, offset int, word *uint64, seen uint64,
	deadline time.Duration) error {
	w := f.w
	if w.virtual != nil {
		line := offset / verbs.LineBytes
		now := atomic.LoadUint64(&mr.Lines()[line])
		cancel, err := mr.OnLineChange(line, now, func() { w.ready(f); w.virtual.kick() })
		if err != nil {
			return err
		}
		defer cancel()
		return f.wait(deadline)
	}
	l := &lineWait{f: f, word: word, seen: seen}
	w.lines = append(w.lines, l)
	err := f.wait(deadline)
	l.gone = true
	return err
}

// pollLines readies the fibers whose word has changed and forgets the waits that ended.
func (w *Worker) pollLines() bool {
	hit := false
	kept := w.lines[:0]
	for _, l := range w.lines {
		if l.gone {
			continue
		}
		if atomic.LoadUint64(l.word) != l.seen {
			l.gone, hit = true, true
			w.arrived++
			w.ready(l.f)
			continue
		}
		kept = append(kept, l)
	}
	clear(w.lines[len(kept):])
	w.lines = kept
	return hit
}
