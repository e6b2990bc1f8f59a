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

// Leases gives the lease durations for a network with the given round trip of one small READ: the
// paper's, or the stated multiple of the round trip where that is longer.
func Leases(roundTrip time.Duration) (lease, readOnly time.Duration) {
	return max(DefaultLease, LeaseRoundTrips*roundTrip),
		max(DefaultLeaseReadOnly, LeaseReadOnlyRoundTrips*roundTrip)
}
