//go:build !amd64 || race

package lineword

import "sync/atomic"

// storeRelease is an atomic store, which the race detector understands.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

func storeRelease2(p *uint64, v uint64, q *uint64, w uint64) {
	storeRelease(p, v)
	storeRelease(q, w)
}

// readLine is the reader's half of the seqlock. The race detector calls it a race, rightly in
// the terms of Go's memory model; race builds lock the line to read it (see shm).
func readLine(dst, src *[LineBytes]byte, p *uint64) (before, after uint64) {
	before = atomic.LoadUint64(p)
	CopyLine(dst, src)
	return before, atomic.LoadUint64(p)
}

// CopyLine copies a whole line. It is not atomic: hold the line's lock.
func CopyLine(dst, src *[LineBytes]byte) { *dst = *src }

// Pause tells the processor that the caller spins.
func Pause() {}

// PrefetchWrite asks for a line to be brought here for writing.
func PrefetchWrite(*uint64) {}

// Prefetch asks for a line to be brought here for reading.
func Prefetch(*uint64) {}

// Prefetch2 is Prefetch of two lines.
func Prefetch2(_, _ *uint64) {}
