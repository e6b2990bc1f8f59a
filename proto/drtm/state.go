package drtm

import (
	"fmt"
	"time"

	"drtmd/proto"
)

// State is the word that stands in each record for its locks (DrTM §5.2, Figure 9(b)):
//
//	 63                              9 8        1  0
//	+---------------------------------+----------+--+
//	|   lease end, us since the       |  owner   |L |
//	|   cluster's epoch (55 bits)     |          |  |
//	+---------------------------------+----------+--+
//
// L is the write lock, owner the machine that holds it. While L is set nobody has a lease, and
// the high bits hold the locker's Ticket instead, which the paper leaves 0: with it every lock
// differs from every other, so that whoever is not sure that it took a lock can release it
// without releasing another's, and whoever waits sees whether it is still the same lock.
// Everything that the paper reads from a locked word, bit and owner, stands where it says.
type State uint64

// Bits of a State.
const (
	ownerShift = 1
	leaseShift = 1 + 8
	ownerMask  = 0xff
	leaseMask  = 1<<(64-leaseShift) - 1

	// Init is the state of a record that was never locked or leased.
	Init State = 0
	// MaxNodes is how many machines the owner's bits can name.
	MaxNodes = ownerMask + 1
)

// Ticket names one lock among all that a machine ever takes; 55 bits. See tickets.
type Ticket uint64

// LockedBy is the state of a record that a machine has write-locked.
func LockedBy(owner proto.NodeID, t Ticket) State {
	return State(t&leaseMask)<<leaseShift | State(owner&ownerMask)<<ownerShift | 1
}

// LeasedUntil is the state of a record that is leased until end, since the cluster's epoch. It is
// rounded down to a microsecond.
func LeasedUntil(end time.Duration) State {
	return State(end/time.Microsecond) << leaseShift
}

// Locked reports whether the record is write-locked.
func (s State) Locked() bool { return s&1 == 1 }

// Owner is the machine that holds the write lock, if there is one.
func (s State) Owner() proto.NodeID { return proto.NodeID(s >> ownerShift & ownerMask) }

// End is the end of the lease of an unlocked record, since the cluster's epoch. 0 is always over.
func (s State) End() time.Duration {
	return time.Duration(s>>leaseShift) * time.Microsecond
}

func (s State) String() string {
	switch {
	case s.Locked():
		return fmt.Sprintf("locked by node %d, ticket %d", s.Owner(), uint64(s>>leaseShift))
	case s == Init:
		return "free"
	}
	return fmt.Sprintf("leased until %s", s.End())
}

// Expired reports whether at now nobody anywhere takes a lease that ends at end for valid
// (Figure 9(b), EXPIRED): delta bounds the error of this node's clock and of the lessee's. A
// stale now errs on the safe side.
func Expired(end, now, delta time.Duration) bool { return end == 0 || now > end+delta }

// Valid reports whether at now nobody anywhere takes a lease that ends at end for expired
// (Figure 9(b), VALID). now must be the real time: a stale one makes an expired lease valid.
func Valid(end, now, delta time.Duration) bool { return now < end-delta }

// tickets makes the tickets of a worker: its index in the high 10 bits, a count in the low 45.
// The count begins at the time in microseconds, so that a machine that restarts does not repeat
// the tickets under which its locks from before are still held.
type tickets struct {
	next Ticket
	same bool // the mutation SameTicket
}

// MaxWorkers is how many workers of a machine can have tickets of their own.
const MaxWorkers = 1 << (64 - leaseShift - ticketBits)

const ticketBits = 45

func newTickets(worker uint16, now time.Duration) tickets {
	count := Ticket(now/time.Microsecond) & (1<<ticketBits - 1)
	return tickets{next: Ticket(worker)<<ticketBits | count}
}

// take gives the next ticket. It is never 0, which stands for none.
func (t *tickets) take() Ticket {
	const count = 1<<ticketBits - 1
	k := t.next
	if t.same {
		return 1
	}
	if k&count == 0 {
		k++
	}
	t.next = k&^count | (k+1)&count
	return k
}
