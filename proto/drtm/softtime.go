package drtm

import "time"

// Lease durations of DrTM §5.2, and how they follow the network (design decision 10).
const (
	// DefaultLease is that of transactions which write.
	DefaultLease = 400 * time.Microsecond
	// DefaultLeaseReadOnly is that of read-only transactions.
	DefaultLeaseReadOnly = time.Millisecond

	// LeaseRoundTrips is the least length of a lease in round trips of the network: START takes
	// three in the common case, and the fibers of a worker share their queue pairs.
	LeaseRoundTrips = 32
	// LeaseReadOnlyRoundTrips keeps the paper's ratio of 2.5 between the two.
	LeaseReadOnlyRoundTrips = 80
)

// LeaseDeltas is how many times the bound of the clocks' errors a lease is longer for it. Whoever
// joins a lease may read a time that is two errors later than that of its holder, and takes one
// more off its end: three of them leave everybody the rest.
const LeaseDeltas = 3

// Leases gives the lease durations for a network with the given round trip of one small READ, and
// clocks of which each is wrong by delta at most: the paper's, or the stated multiple of the round
// trip where that is longer, and LeaseDeltas on top.
func Leases(roundTrip, delta time.Duration) (lease, readOnly time.Duration) {
	more := LeaseDeltas * delta
	return max(DefaultLease, LeaseRoundTrips*roundTrip) + more,
		max(DefaultLeaseReadOnly, LeaseReadOnlyRoundTrips*roundTrip) + more
}

// BoundedClock is a clock that knows its error, which changes: that of another machine, followed
// over a network. Its error takes the place of Env.ClockError at each reading, so that leases are
// judged by what is known then.
type BoundedClock interface {
	// Reading is the time since the cluster's epoch, and by how much it is wrong at most.
	Reading() (now, err time.Duration)
}

// longestExtension bounds how much leases grow with the error of a BoundedClock beyond
// Env.WorstClockError: a clock that is lost must not have others wait for long.
const longestExtension = 100 * time.Millisecond

// now is the time, and its error.
func (e *Engine) now() (now, delta time.Duration) {
	if e.bounded != nil {
		return e.bounded.Reading()
	}
	return e.cfg.Clock.Now(), e.cfg.ClockError
}

// lasts is how long leases last that are taken now: where their length was left to the engine, they
// grow with the error of its clock.
func (e *Engine) lasts(readOnly bool) time.Duration {
	lease, fixed := e.cfg.Lease, e.fixed.lease
	if readOnly {
		lease, fixed = e.cfg.LeaseReadOnly, e.fixed.readOnly
	}
	if fixed || e.softDelta <= e.cfg.WorstClockError {
		return lease
	}
	return lease + min(LeaseDeltas*(e.softDelta-e.cfg.WorstClockError), longestExtension)
}

// Leases are how long leases last that the engine takes, by a clock as good as it should be.
func (e *Engine) Leases() (lease, readOnly time.Duration) {
	return e.cfg.Lease, e.cfg.LeaseReadOnly
}
