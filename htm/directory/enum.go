package directory

import "drtmd/internal/mutation"

// Verdict is what becomes of an access or of a lock.
type Verdict uint8

const (
	Granted  Verdict = iota + 1
	Denied           // a Locking Buffer is in the way: try again
	Conflict         // with another transaction: the one that asked is squashed
)

func (v Verdict) String() string { return [...]string{"?", "granted", "denied", "conflict"}[v] }

// Level is what served an access.
type Level uint8

const (
	InL1 Level = iota + 1
	InL2
	InLLC
	InMemory
)

func (l Level) String() string { return [...]string{"?", "L1", "L2", "LLC", "memory"}[l] }

// Reason of a squash.
type Reason uint8

const (
	WrittenByAnother Reason = iota + 1 // a local access to a line with another's tag
	ReadByAnother                      // a local write to a line in another's read filter
	Evicted                            // a written line left the LLC
	Asked                              // by Squash: a remote transaction, or the transaction itself
	reasonEnd
)

func (r Reason) String() string {
	return [...]string{"?", "written by another", "read by another", "evicted", "asked"}[r]
}

// Mutation is a deliberate bug, for tests that show that the checks find it. The zero value is none.
type Mutation uint8

// Mutations, by the names of HADES' steps.
const (
	EvictionWithoutSquash Mutation = iota + 1
	BitsKeptOverSwitch
	LockCoversReadsOnly
	mutationEnd
)

var mutations = [mutationEnd]mutation.Mutation{
	{Name: "none", Doc: "a correct directory"},
	EvictionWithoutSquash: {Name: "eviction-without-squash",
		Doc: "a written line leaves the LLC, and its writer goes on"},
	BitsKeptOverSwitch: {Name: "filter-bits-kept-over-switch",
		Doc: "a context switch leaves the bits Recorded RD and WR of the private caches as they are"},
	LockCoversReadsOnly: {Name: "lock-covers-reads-only",
		Doc: "Locking Buffers deny writes of lines that were read, and nothing of lines that were written"},
}

func (m Mutation) String() string { return Mutations().Name(m) }

// Mutations returns the table of the deliberate bugs.
func Mutations() mutation.Table[Mutation] { return mutations[:] }
