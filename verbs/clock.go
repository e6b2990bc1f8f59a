package verbs

import "time"

// Clock tells the time. Real transports use the monotonic clock, the simulator its own.
type Clock interface {
	// Now is the time since the clock's own origin.
	Now() time.Duration
}

// MonotonicError bounds how far two readings of the monotonic clock on two CPUs of one machine can be
// out of order: the kernel keeps them apart by less than a cache miss takes; assumed. It is the error
// of the clock for whoever compares readings of several threads: leases and histories alike.
const MonotonicError = 100 * time.Nanosecond

// MonotonicClock is the wall's monotonic clock, counted from its creation.
type MonotonicClock struct{ origin time.Time }

// NewMonotonicClock starts a clock at zero.
func NewMonotonicClock() *MonotonicClock { return &MonotonicClock{origin: time.Now()} }

// Now is safe for concurrent use and costs about 65 ns.
func (c *MonotonicClock) Now() time.Duration { return time.Since(c.origin) }
