//go:build linux && amd64

package shm

import (
	"sync/atomic"
	"unsafe"

	"drtmd/verbs/lineword"
)

// word64 is the plain word of an atomic one, for StoreRelease.
func word64(p *atomic.Uint64) *uint64 { return (*uint64)(unsafe.Pointer(p)) }

// put64 stores without the fence of an atomic store; a release is all that the shared layouts
// need but where they say so.
func put64(p *atomic.Uint64, v uint64) { lineword.StoreRelease(word64(p), v) }

// put32 is for words that are written before the one that publishes them.
func put32(p *atomic.Uint32, v uint32) {
	if raceEnabled {
		p.Store(v)
	} else {
		*(*uint32)(unsafe.Pointer(p)) = v
	}
}
