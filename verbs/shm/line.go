//go:build linux && amd64

package shm

import (
	"sync/atomic"
	"time"
	"unsafe"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// outcome of an operation or a step of one: a verbs.WCStatus, with a reason above it, or a wait,
// which means to try again later.
type outcome uint32

const success = outcome(verbs.WCSuccess)

// Reasons to wait.
const (
	waitLine  outcome = 1<<8 + iota // a line is locked by somebody
	waitPeer                        // the peer's QP is not ready to receive yet
	waitRecv                        // the peer has no receive posted (RNR)
	waitFetch                       // memory of the peer is being imported
)

// Vendor errors: why exactly an operation ended with RETRY_EXC_ERR. Those up to VendorFetch are
// waits that took longer than the QP's retry time; VendorFetch, than two seconds at least.
const (
	VendorLine  uint32 = iota + 1 // a line stayed locked by a process that is stopped
	VendorPeer                    // the peer's QP did not get ready to receive
	VendorRecv                    // (RNR_RETRY_EXC_ERR) no receive was posted
	VendorFetch                   // the peer's process did not hand out its memory
	VendorDead                    // the peer's process is dead, or its context closed
	VendorGone                    // the peer's QP was closed, is in error, or is another's
)

const reasonShift = 16

func retryExceeded(vendor uint32) outcome {
	return outcome(verbs.WCRetryExcErr) | outcome(vendor)<<reasonShift
}

// waits reports whether the operation may be tried again.
func (o outcome) waits() bool { return o&waitLine != 0 }

// status is the status of an outcome that is not a wait.
func (o outcome) status() verbs.WCStatus { return verbs.WCStatus(o & 0xff) }

// vendor is the reason that goes with the status.
func (o outcome) vendor() uint32 { return uint32(o >> reasonShift) }

// expired is how an operation ends whose time to wait is over.
func (o outcome) expired() outcome {
	vendor := uint32(o-waitLine) + VendorLine
	if o == waitRecv {
		return outcome(verbs.WCRNRRetryExcErr) | outcome(vendor)<<reasonShift
	}
	return retryExceeded(vendor)
}

const (
	// lockSpins bounds the tries on a line that somebody holds before the operation becomes
	// pending: about as long as a holder that runs needs.
	lockSpins = 200
	// rescueEvery is how often a lane that waits for a line asks whether the holder is alive.
	rescueEvery = 200 * time.Microsecond
)

// tryLock takes the line of a word for the view's owner if it is free. The line number is noted
// before, so that it is known where a dead owner may have stopped.
func (v *view) tryLock(p *uint64, line uint64) (lineword.Word, bool) {
	if raceEnabled {
		atomic.StoreUint64(&v.e.intent, line+1)
	} else {
		v.e.intent = line + 1 // the compare and swap keeps it in front of the lock
	}
	w := lineword.Load(p)
	return w, lineword.TryLock(p, w, v.slot)
}

// lockBusy is tryLock again, some times, on a line that was not free; it looks after the holder.
func (l *lane) lockBusy(h *view, p *uint64, line uint64) (lineword.Word, bool) {
	var w lineword.Word
	for range lockSpins {
		lineword.Pause()
		var ok bool
		if w, ok = h.tryLock(p, line); ok {
			return w, true
		}
	}
	l.rescue(h.r, line, w)
	return w, false
}

// rescue looks after a line that stays locked at w: if its owner is dead the line is recovered.
// Asking costs system calls, so it is done now and then only.
func (l *lane) rescue(r *region, line uint64, w lineword.Word) {
	now := nanotime()
	if now-l.rescued < int64(rescueEvery) {
		return
	}
	l.rescued = now
	l.dev.rescue(r, line, w)
}

// read copies a line of r to image, all of it at one moment.
func (l *lane) read(v *view, line uint64, image *[lineBytes]byte) outcome {
	if raceEnabled {
		return l.readLocked(v, line, image)
	}
	r := v.r
	p, src := r.word(line), r.line(line)
	if _, ok := lineword.Read(image, src, p); ok {
		return success
	}
	for range lockSpins {
		if _, ok := lineword.Read(image, src, p); ok {
			return success
		}
		lineword.Pause()
	}
	l.rescue(r, line, lineword.Load(p))
	return waitLine
}

func (l *lane) readLocked(h *view, line uint64, image *[lineBytes]byte) outcome {
	if !l.hold(h) {
		return waitLine
	}
	r := h.r
	p := r.word(line)
	w, ok := h.tryLock(p, line)
	if !ok {
		if w, ok = l.lockBusy(h, p, line); !ok {
			return waitLine
		}
	}
	lineword.CopyLine(image, r.line(line))
	lineword.Restore(p, w)
	return success
}

// store puts the bytes [off, off+n) of image to the same place of a line.
func (l *lane) store(h *view, line, off, n uint64, image *[lineBytes]byte) outcome {
	r := h.r
	if r.private {
		if !l.fit(r) {
			return l.unfit(r)
		}
		copy(r.line(line)[off:off+n], image[off:off+n])
		return success
	}
	if !l.hold(h) {
		return waitLine
	}
	p := r.word(line)
	w, ok := h.tryLock(p, line)
	if !ok {
		if w, ok = l.lockBusy(h, p, line); !ok {
			return waitLine
		}
	}
	if !l.fit(r) {
		lineword.Restore(p, w)
		return l.unfit(r)
	}
	dst := r.line(line)
	switch {
	case n == lineBytes:
		h.e.stage(line, off, n, w, image)
		lineword.CopyLine(dst, &h.e.data) // image may be the user's and change
	case n == 8 && off%8 == 0:
		// One store: it happens or not.
		lineword.StoreUnlock((*uint64)(unsafe.Pointer(&dst[off])),
			*(*uint64)(unsafe.Pointer(&image[off])), p, w)
		return success
	default:
		h.e.stage(line, off, n, w, image)
		copy(dst[off:off+n], image[off:off+n])
	}
	lineword.Unlock(p, w)
	return success
}

// storeWord is store for an aligned word. One store happens or does not, so it needs no record.
func (l *lane) storeWord(h *view, off, value uint64) outcome {
	r, line := h.r, off/lineBytes
	if r.private {
		if !l.fit(r) {
			return l.unfit(r)
		}
		*(*uint64)(r.at(off)) = value
		return success
	}
	if !l.hold(h) {
		return waitLine
	}
	p := r.word(line)
	w, ok := h.tryLock(p, line)
	if !ok {
		if w, ok = l.lockBusy(h, p, line); !ok {
			return waitLine
		}
	}
	if !l.fit(r) {
		lineword.Restore(p, w)
		return l.unfit(r)
	}
	lineword.StoreUnlock((*uint64)(r.at(off)), value, p, w)
	return success
}

// unfit says why fit failed.
func (l *lane) unfit(r *region) outcome {
	switch s := l.state.Load(); {
	case l.good>>s&1 == 0:
		return outcome(verbs.WCWRFlushErr)
	case l.target != nil && !l.targetUp():
		return retryExceeded(VendorGone)
	}
	return outcome(verbs.WCRemAccessErr)
}

// atomic does a compare and swap or fetch and add on the word at off, and gives the old value.
func (l *lane) atomic(h *view, off uint64, wr *verbs.WR) (uint64, outcome) {
	if !l.hold(h) {
		return 0, waitLine
	}
	r := h.r
	line := off / lineBytes
	p := r.word(line)
	w, ok := h.tryLock(p, line)
	if !ok {
		if w, ok = l.lockBusy(h, p, line); !ok {
			return 0, waitLine
		}
	}
	if !l.fit(r) {
		lineword.Restore(p, w)
		return 0, l.unfit(r)
	}
	word := (*uint64)(r.at(off))
	var old uint64
	if wr.Op == verbs.OpFAA {
		old = atomic.AddUint64(word, wr.CompareAdd) - wr.CompareAdd
	} else if atomic.CompareAndSwapUint64(word, wr.CompareAdd, wr.Swap) {
		old = wr.CompareAdd
	} else if old, ok = compareFailed(word, wr); !ok {
		lineword.Restore(p, w)
		return 0, waitLine
	} else if old != wr.CompareAdd {
		lineword.Restore(p, w) // nothing has changed: who has read the line is not disturbed
		return old, success
	}
	lineword.Unlock(p, w)
	return old, success
}

// compareFailed gives the value that a compare and swap found. CPUs may change the word without
// the line's lock, so it looks until the value is not the one compared with or the swap works;
// false if neither happens for long.
func compareFailed(word *uint64, wr *verbs.WR) (uint64, bool) {
	for range lockSpins {
		if old := atomic.LoadUint64(word); old != wr.CompareAdd {
			return old, true
		}
		if atomic.CompareAndSwapUint64(word, wr.CompareAdd, wr.Swap) {
			return wr.CompareAdd, true
		}
	}
	return 0, false
}

// origin is where nanotime counts from; only differences matter.
var origin = time.Now()

// nanotime is the monotonic clock in nanoseconds.
func nanotime() int64 { return int64(time.Since(origin)) }
