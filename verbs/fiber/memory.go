package fiber

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"drtmd/verbs"
)

// wordWait is a fiber's wait for a change of a word of registered memory. Each fiber has one, so that
// waiting allocates nothing.
type wordWait struct {
	f      *Fiber
	at     *uint64 // nil: nothing is waited for
	seen   uint64
	queued bool // in Worker.words, perhaps with nothing to wait for any more
}

// AwaitWord waits until the 8-byte word at an aligned offset of a local region differs
// from seen, and returns its value: how a fiber polls memory that a peer WRITEs. On real
// transports the worker looks in every pass and sleeps at most memoryPoll between two while such
// waits exist; in the simulator the change is an event. Deadline 0 is none.
func (f *Fiber) AwaitWord(mr *verbs.MR, offset int, seen uint64,
	deadline time.Duration) (uint64, error) {
	if offset < 0 || offset%8 != 0 || offset+8 > mr.Len() {
		return 0, fmt.Errorf("await word at offset %d of %d bytes: not an aligned word of it",
			offset, mr.Len())
	}
	at := (*uint64)(unsafe.Pointer(unsafe.SliceData(mr.Bytes()[offset:])))
	t := &f.word
	t.f, t.seen = f, seen
	for {
		now := atomic.LoadUint64(at)
		if now != seen {
			return now, nil
		}
		t.at = at
		err := f.awaitMemory(mr, offset/verbs.LineBytes, deadline)
		t.at = nil
		if err != nil {
			if now = atomic.LoadUint64(at); now != seen {
				err = nil
			}
			return now, err
		}
	}
}

// awaitMemory waits until the word may have changed.
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
	if !f.word.queued {
		f.word.queued = true
		w.words = append(w.words, &f.word)
	}
	return f.wait(deadline)
}

// pollWords readies the fibers whose memory has changed and forgets the waits that ended.
func (w *Worker) pollWords() bool {
	hit := false
	kept := w.words[:0]
	for _, t := range w.words {
		if t.at != nil && atomic.LoadUint64(t.at) == t.seen {
			kept = append(kept, t)
			continue
		}
		t.queued = false
		if t.at != nil {
			t.at, hit = nil, true
			w.arrived++
			w.ready(t.f)
		}
	}
	clear(w.words[len(kept):])
	w.words = kept
	return hit
}
