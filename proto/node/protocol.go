package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
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

// Protocol is a way to run transactions.
type Protocol struct {
	Name string
	Doc  string // one line
	// Declared: a transaction names every record that it touches before it begins; an access that
	// was not declared is refused with proto.ErrUndeclared.
	Declared bool
	// OneThread protocols run only where every worker is on one thread of one process.
	OneThread bool
	// MaxNodes is how many members the protocol can tell apart; 0 is as many as there may be.
	MaxNodes  int
	Mutations []Mutation
	// Leases: Config.Lease and Config.LeaseReadOnly mean something to it.
	Leases bool
	// New makes the engine of a worker, on its thread, when all its peers are connected. No
	// transaction begins anywhere before every engine was made.
	New func(e *Env) (proto.Engine, error)
}

func (p Protocol) String() string { return p.Name }

// CheckNodes is nil or a *TooManyNodesError.
func (p Protocol) CheckNodes(nodes int) error {
	if p.MaxNodes > 0 && nodes > p.MaxNodes {
		return &TooManyNodesError{Protocol: p.Name, Nodes: nodes, Most: p.MaxNodes}
	}
	return nil
}

// TooManyNodesError is a cluster with more members than its protocol can name.
type TooManyNodesError struct {
	Protocol    string
	Nodes, Most int
}

func (e *TooManyNodesError) Error() string {
	return fmt.Sprintf("%d nodes: protocol %s names at most %d in a record's lock; "+
		"use fewer nodes with more workers", e.Nodes, e.Protocol, e.Most)
}

// Mutation is a deliberate bug of a protocol, for tests that show that checks find it: every safety
// step of a protocol has one that leaves it out.
type Mutation struct {
	Name string
	Doc  string // one line
	Of   string // the layer below the protocol whose step it is; "": the protocol's own
	// Equivalent says why no check can find it; "" is one that checks must find.
	Equivalent string
}

func (m Mutation) String() string { return m.Name }

// UnknownError is a name that stands for nothing.
type UnknownError struct {
	What  string // "protocol", "mutation"
	Name  string
	Known string // joined by commas
}

func (e *UnknownError) Error() string {
	if e.Known == "" {
		return fmt.Sprintf("unknown %s %q; there is none", e.What, e.Name)
	}
	return fmt.Sprintf("unknown %s %q; known: %s", e.What, e.Name, e.Known)
}

// FindProtocol finds a protocol by name, or fails with an *UnknownError.
func FindProtocol(name string) (Protocol, error) {
	list := Protocols()
	if i := slices.IndexFunc(list, func(p Protocol) bool { return p.Name == name }); i >= 0 {
		return list[i], nil
	}
	return Protocol{}, &UnknownError{What: "protocol", Name: name, Known: proto.Names(list)}
}

// Env is what an engine is made from: everything that one worker of one member has.
type Env struct {
	Node  proto.NodeID
	Index int // of the worker on its member
	// Worker runs the engine. Port is its RPC port; nil in a cluster of one.
	Worker *fiber.Worker
	Port   *rpc.Port
	Peers  []Peer // by node; that of the own node is the way back to itself
	Fibers int    // that run transactions at the same time

	Specs []proto.TableSpec // by id, from 1: table t is Specs[t-1]
	// Tables are the own member's share, through this worker's Memory: table t is Tables[t-1].
	Tables []*store.Table
	// All are the tables of every node through this worker's thread, for protocols that are
	// OneThread; nil otherwise.
	All    [][]*store.Table
	Memory *htm.Memory
	MR     *verbs.MR
	// Cache is the member's location cache of a peer's tables, shared by its workers.
	Cache *remote.Cache

	Placement proto.Placement
	// Clock is the time since the cluster's epoch as this member knows it, for leases; its error
	// is at most ClockError, or what its method Reading says if it has one. WorstClockError is the
	// largest ClockError of all members. RoundTrip is what a READ of a peer takes, measured or
	// modelled.
	Clock           verbs.Clock
	ClockError      time.Duration
	WorstClockError time.Duration
	RoundTrip       time.Duration
	// HolderLives reports whether a member that holds a lock lives: a lock of one that does is never
	// called orphaned. nil: that is unknown, and time alone decides. It is called on the worker's
	// thread, and must neither wait nor allocate.
	HolderLives func(owner proto.NodeID) bool
	// Recorder takes the history; nil is off. Its times are read from RecorderClock.
	Recorder      *history.Recorder
	RecorderClock verbs.Clock

	Scope verbs.AtomicScope
	// Region is the template of the configuration of regions.
	Region htm.Config
	// Structure excludes the member's workers from each other while one of them changes buckets,
	// where memory has no line words.
	Structure *sync.Mutex
	// Simulated: steps are to be shown to the simulator, and CPU time is charged.
	Simulated bool
	Life      uint32 // of the member on kept memory, from 0
	Rand      *rand.Rand
	Mutation  string // "" is none
	// Lease and LeaseReadOnly as in Config.
	Lease, LeaseReadOnly time.Duration
}

// Peer is how a worker reaches a member.
type Peer = proto.Peer
