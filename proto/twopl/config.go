package twopl

import (
	"errors"
	"fmt"
	"sync"
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

// Peer is a node as the worker reaches it.
type Peer = proto.Peer

// Config of New. The engine owns none of it.
type Config struct {
	Node   proto.NodeID
	Worker uint32 // within its node, less than MaxWorkers
	// Life tells the engines apart that this worker has had on memory that is kept: at least the
	// last few must differ. Less than MaxLives; 0 = made from the port's incarnation, if there is
	// a port.
	Life uint32

	Fibers *fiber.Worker
	Port   *rpc.Port // nil: the engine serves nobody
	Peers  []Peer    // by node

	Tables    []proto.TableSpec
	Local     []*store.Table // the own node's, in the order of Tables
	Memory    *htm.Memory    // what Local lies in, as this worker's
	Cache     *remote.Cache  // of the node; nil: none
	Placement proto.Placement
	Region    htm.Config // of the regions in which Local is changed; Step is left out
	// Structure excludes the node's workers from each other while one changes where entries are.
	// Needed where memory has no line words.
	Structure *sync.Mutex

	// Scope is that of the device's atomics.
	Scope verbs.AtomicScope
	// CPULocks makes this twopl-local.
	CPULocks bool

	// OrphanAfter is how long one and the same lock must have been met again and again until it
	// is called orphaned, if its holder does not live; 0 = proto.DefaultOrphanAfter.
	OrphanAfter time.Duration
	// HolderLives reports whether a node that holds a lock lives; nil: that is unknown, and time
	// alone decides. It is called on the worker's thread, and must not wait or allocate.
	HolderLives func(owner proto.NodeID) bool
	// Time is the clock of orphans; nil: the worker's own.
	Time verbs.Clock

	// Recorder takes the history down, on Clock; nil: nobody does.
	Recorder *history.Recorder
	Clock    verbs.Clock

	// Mutation leaves a safety step out; 0 is none. For tests of checks.
	Mutation Mutation
}

// ErrConfig is wrapped by everything that New refuses.
var ErrConfig = errors.New("twopl: bad configuration")

func (c *Config) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	switch {
	case int(c.Node) >= len(c.Peers):
		return bad("node %d is none of the %d peers: give every node, itself too", c.Node,
			len(c.Peers))
	case c.Worker >= MaxWorkers:
		return bad("worker %d: a lock word names workers below %d", c.Worker, MaxWorkers)
	case c.Life >= MaxLives:
		return bad("life %d: a lock word names lives below %d", c.Life, MaxLives)
	case c.Fibers == nil || c.Memory == nil || c.Placement == nil:
		return bad("worker, memory and placement are needed")
	case c.Memory.Words == nil && c.Structure == nil:
		return bad("memory without line words needs Config.Structure")
	case len(c.Local) != len(c.Tables):
		return bad("%d local tables for %d tables", len(c.Local), len(c.Tables))
	case c.Scope != verbs.AtomicHCA && c.Scope != verbs.AtomicGlob:
		return bad("the device has no atomics: choose another device")
	case c.OrphanAfter < 0:
		return bad("orphans after %v: the time is negative", c.OrphanAfter)
	case c.Recorder != nil && c.Clock == nil:
		return bad("a recorder needs a clock")
	}
	for i, p := range c.Peers {
		switch own := proto.NodeID(i) == c.Node; {
		case p.Conn == nil:
			return bad("no queue pair to node %d", i)
		case !own && p.Session == nil:
			return bad("no session with node %d", i)
		case !own && len(p.Tables) != len(c.Tables):
			return bad("node %d has %d tables, not %d", i, len(p.Tables), len(c.Tables))
		}
	}
	for i, s := range c.Tables {
		if s.ID == 0 {
			return bad("table %q has id 0: they count from 1", s.Name)
		}
		for _, o := range c.Tables[:i] {
			if o.ID == s.ID {
				return bad("tables %q and %q have the same id", o.Name, s.Name)
			}
		}
	}
	return nil
}
