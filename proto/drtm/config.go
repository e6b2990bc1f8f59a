package drtm

import (
	"errors"
	"fmt"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
)

// Config of New: what one worker of one machine has. Table t is element t-1 wherever there is one
// for each table.
type Config struct {
	Node   proto.NodeID
	Index  int // of the worker on its machine
	Worker *fiber.Worker
	Port   *rpc.Port // nil if there is no other machine
	Peers  []Peer    // by node; that of the own node leads back to itself
	Fibers int       // that run transactions at the same time; 0 = 1: more only grow buffers

	Specs  []proto.TableSpec
	Tables []*store.Table // the machine's share, through Memory
	Memory *htm.Memory
	Cache  *remote.Cache // of the locations at peers, shared by the machine's workers; nil: none

	Placement proto.Placement
	// Clock counts from the cluster's epoch, and Delta bounds its error: two clocks may be 2 Delta
	// apart (design decision 10). A BoundedClock tells its error itself. WorstDelta is the largest
	// Delta of all machines, by which lengths of leases are chosen; 0: Delta.
	Clock      verbs.Clock
	Delta      time.Duration
	WorstDelta time.Duration
	// Lease and LeaseReadOnly are what leases last from START on; 0: the longer of the paper's
	// and the multiple of RoundTrip, and WorstDelta on top, as Leases says.
	Lease         time.Duration
	LeaseReadOnly time.Duration
	RoundTrip     time.Duration // of a small READ of a peer

	Scope verbs.AtomicScope
	// Region is the template of the regions' configuration: geometry, and what simulations and
	// tests inject. Flag and Step are the engine's to set.
	Region htm.Config
	// Simulated has the engine show the marked steps of commits to the simulator.
	Simulated bool

	// RegionAborts is how many regions of a transaction may abort before its next attempt takes
	// the fallback handler (§7.2); 0 = DefaultRegionAborts. One abort for capacity is enough;
	// those in favour of another's lock or lease do not count.
	RegionAborts int
	// Attempts of any outcome after which a transaction takes the fallback handler, so that it
	// cannot starve; 0 = DefaultAttempts.
	Attempts int
	// LockWait bounds how long the fallback handler waits for one lock; 0 = DefaultLockWait.
	LockWait time.Duration
	// OrphanAfter is how long one and the same lock must have been met again and again until it
	// is called orphaned, if its holder does not live; 0 = proto.DefaultOrphanAfter.
	OrphanAfter time.Duration
	// HolderLives reports whether a machine that holds a lock lives; nil: that is unknown, and
	// time alone decides. It is called on the worker's thread, and must not wait or allocate.
	HolderLives func(owner proto.NodeID) bool
	// LogAhead, if not nil, is given every update of the fallback handler before the first of
	// them is made, with all locks held and leases confirmed (§7.2). An error aborts.
	LogAhead func(f *fiber.Fiber, u Update) error

	// Recorder takes the history; nil is off and costs nothing. Its times come from
	// RecorderClock; nil is Clock.
	Recorder      *history.Recorder
	RecorderClock verbs.Clock

	Mutation Mutation
}

// Peer is how a worker reaches a machine.
type Peer = proto.Peer

// Update is what the fallback handler is about to do to a record.
type Update struct {
	Node    proto.NodeID
	Table   proto.TableID
	Key     proto.Key
	Version proto.Version // after it; absent for a deletion
	Value   []byte        // valid during the call
}

// Defaults of Config.
const (
	DefaultRegionAborts = 4
	DefaultAttempts     = 24
	DefaultLockWait     = 20 * time.Millisecond
)

// ErrConfig: the configuration cannot work.
var ErrConfig = errors.New("drtm configuration")

// defaults fills in what was left 0.
func (c *Config) defaults() {
	c.WorstDelta = max(c.WorstDelta, c.Delta)
	lease, readOnly := Leases(c.RoundTrip, c.WorstDelta)
	setDefault(&c.Lease, lease)
	setDefault(&c.LeaseReadOnly, readOnly)
	setDefault(&c.RegionAborts, DefaultRegionAborts)
	setDefault(&c.Attempts, DefaultAttempts)
	setDefault(&c.LockWait, DefaultLockWait)
	setDefault(&c.OrphanAfter, proto.DefaultOrphanAfter)
	if c.RecorderClock == nil {
		c.RecorderClock = c.Clock
	}
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// tooShort refuses the length of a lease that was asked for.
func tooShort(name string, lease, delta time.Duration) error {
	return fmt.Errorf("%w: %s %s: the clocks of this cluster may be wrong by %s each, and a read "+
		"lease of at most twice that is never of use: make it longer than %s, or leave it out: leases "+
		"then follow the clocks' error", ErrConfig, name, lease, delta, 2*delta)
}

// check reports what cannot work.
func (c *Config) check() error {
	switch {
	case len(c.Peers) > MaxNodes:
		return fmt.Errorf("%w: %d machines, and the owner's 8 bits of a state word name %d: "+
			"use fewer machines with more workers", ErrConfig, len(c.Peers), MaxNodes)
	case int(c.Node) >= len(c.Peers):
		return fmt.Errorf("%w: node %d of %d", ErrConfig, c.Node, len(c.Peers))
	case c.Index < 0 || c.Index >= MaxWorkers:
		return fmt.Errorf("%w: worker %d of a machine, and tickets tell %d apart", ErrConfig,
			c.Index, MaxWorkers)
	case len(c.Tables) != len(c.Specs):
		return fmt.Errorf("%w: %d tables and %d specifications of tables", ErrConfig,
			len(c.Tables), len(c.Specs))
	case c.Delta < 0:
		return fmt.Errorf("%w: a clock error of %s", ErrConfig, c.Delta)
	case c.Lease <= 2*c.WorstDelta:
		return tooShort("lease", c.Lease, c.WorstDelta)
	case c.LeaseReadOnly <= 2*c.WorstDelta:
		return tooShort("lease-read-only", c.LeaseReadOnly, c.WorstDelta)
	case c.Scope == verbs.AtomicNone:
		return fmt.Errorf("%w: the device has no atomics: choose another", ErrConfig)
	}
	return nil
}
