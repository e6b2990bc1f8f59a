package drtm

import (
	"errors"
	"fmt"
	"time"

	"drtmd/proto/protocol"
	"drtmd/verbs"
)

// Config of New: what one worker of one machine has, and the protocol's options. The errors of the
// clocks are ClockError and WorstClockError: two clocks may be twice that apart (design decision 10).
type Config struct {
	protocol.Env
	// Lease and LeaseReadOnly are what leases last from START on; 0: the longer of the paper's
	// and the multiple of RoundTrip, and WorstClockError on top, as Leases says.
	Lease         time.Duration
	LeaseReadOnly time.Duration
	// RegionAborts is how many regions of a transaction may abort before its next attempt takes
	// the fallback handler (§7.2). One abort for capacity is enough; those in favour of another's lock
	// or lease do not count.
	RegionAborts int
	// RegionWrites is how many lines a transaction's region may write, whichever sets of the cache they fall into (§2.1,
	// Figure 2(b)); 0: what the cache holds. Other regions, that change tables for other machines, have no such bound.
	RegionWrites int
	// Attempts of any outcome after which a transaction takes the fallback handler, so that it
	// cannot starve.
	Attempts int
	// LockWait bounds how long the fallback handler waits for one lock.
	LockWait time.Duration
	// OrphanAfter is how long one and the same lock must have been met again and again until it
	// is called orphaned, if its holder does not live.
	OrphanAfter time.Duration
	// Chopped runs transactions in the pieces that their workload has for them (§4); else each runs as a whole.
	Chopped bool
	// PublishEvery is how long an epoch lasts, at whose end deferred pieces run (§4.2).
	PublishEvery time.Duration
	// LockReads has records of other machines locked that are only read, where others lease them: DrTM without
	// read leases (§8.5). Read-only transactions need leases.
	LockReads bool
	// Durable has transactions logged, and those of an earlier life recovered (§5.6).
	Durable bool

	Mutation Mutation
}

// Defaults of Config.
const (
	DefaultRegionAborts = 4
	DefaultAttempts     = 24
	DefaultLockWait     = 20 * time.Millisecond
	DefaultPublishEvery = 20 * time.Millisecond
)

// ErrConfig: the configuration cannot work.
var ErrConfig = errors.New("drtm configuration")

// defaults fills in what was left 0.
func (c *Config) defaults() {
	c.WorstClockError = max(c.WorstClockError, c.ClockError)
	lease, readOnly := Leases(c.RoundTrip, c.WorstClockError)
	if c.Lease == 0 {
		c.Lease = lease
	}
	if c.LeaseReadOnly == 0 {
		c.LeaseReadOnly = readOnly
	}
	if c.Chains == nil {
		c.Chains = &protocol.Chains{}
	}
	if c.Barrier == nil {
		c.Barrier = &protocol.Barrier{}
	}
	if c.PublishEvery == 0 {
		c.PublishEvery = DefaultPublishEvery
	}
}

// tooShort is the error of a lease that no clock could find valid.
func tooShort(name string, lease, delta time.Duration) error {
	return fmt.Errorf("%w: %s %s: a read lease must last longer than %s, twice the clock error of %s; "+
		"without this option, leases follow the clock error", ErrConfig, name, lease, 2*delta, delta)
}

// check refuses a configuration that cannot work.
func (c *Config) check() error {
	switch {
	case len(c.Peers) > MaxNodes:
		return fmt.Errorf("%w: %d machines: the owner bits of a state word can name %d; "+
			"use fewer machines with more workers", ErrConfig, len(c.Peers), MaxNodes)
	case int(c.Node) >= len(c.Peers):
		return fmt.Errorf("%w: node %d of %d", ErrConfig, c.Node, len(c.Peers))
	case c.Index < 0 || c.Index >= MaxWorkers:
		return fmt.Errorf("%w: worker %d: tickets can name %d workers of a machine", ErrConfig,
			c.Index, MaxWorkers)
	case c.ClockError < 0:
		return fmt.Errorf("%w: a clock error of %s", ErrConfig, c.ClockError)
	case c.Lease <= 2*c.WorstClockError:
		return tooShort("lease", c.Lease, c.WorstClockError)
	case c.LeaseReadOnly <= 2*c.WorstClockError:
		return tooShort("lease-read-only", c.LeaseReadOnly, c.WorstClockError)
	case c.Scope == verbs.AtomicNone:
		return fmt.Errorf("%w: the device has no atomics: choose another", ErrConfig)
	}
	return nil
}
