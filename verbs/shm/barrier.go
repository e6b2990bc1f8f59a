//go:build linux && amd64

package shm

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Commands of membarrier(2).
const (
	membarrierPrivate         = 1 << 3 // PRIVATE_EXPEDITED
	membarrierRegisterPrivate = 1 << 4 // REGISTER_PRIVATE_EXPEDITED
)

// remoteFences reports whether fenceAll works: Linux 4.14 or later, and no filter in the way.
// Race builds do without, because the detector sees only atomics.
var remoteFences = sync.OnceValue(func() bool {
	return !raceEnabled && membarrier(membarrierRegisterPrivate)
})

// fenceAll makes every thread of the process that runs pass a full fence, so that what happens
// often needs none of its own (lane.enter) and what happens rarely pays (closing an MR).
func fenceAll() {
	if remoteFences() {
		membarrier(membarrierPrivate)
	}
}

func membarrier(command uintptr) bool {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, command, 0, 0)
	return errno == 0
}
