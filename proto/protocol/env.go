package protocol

import (
	"math/rand/v2"
	"sync"
	"time"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/option"
	"drtmd/proto/placement"
	"drtmd/store/log"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lines"
	"drtmd/verbs/rpc"
)

// Env is what an engine is made from: everything that one worker of one member has.
type Env struct {
	Node  proto.NodeID
	Index int // of the worker on its member
	Roles Roles
	// Worker runs the engine. Port is its RPC port; nil in a cluster of one.
	Worker *fiber.Worker
	Port   *rpc.Port
	// Connect gives the session with a worker of a node, or opens it: of another node or the own, the
	// worker itself included. It is of the present life of the node. Deadline 0 leaves the port's
	// timeouts. nil unless the protocol needs AnyWorker.
	Connect func(f *fiber.Fiber, n proto.NodeID, worker int, deadline time.Duration) (*rpc.Session, error)
	Peers   []proto.Peer // by node; that of the own node is the way back to itself
	Fibers  int          // that run transactions at the same time

	Specs []proto.TableSpec // by id, from 1: table t is Specs[t-1]
	// Shares are the replicas that the member holds, by shard; nil: none of that shard. A share may come
	// while transactions run.
	Shares []*Share
	// Tables are those of the member's own shard, through this worker's Memory: table t is Tables[t-1].
	// They, Memory and MR are that share's.
	Tables []PointIndex
	// All are the tables of every node through this worker's thread, for protocols that are
	// OneThread; nil otherwise.
	All    [][]PointIndex
	Memory *htm.Memory
	MR     *verbs.MR
	// Functions are those that the workload declares, for protocols that ship them.
	Functions []Function
	// Chips are those of each node, for protocols that need some; nil otherwise.
	Chips []any
	// Growth bounds that of the member's tables.
	Growth Growth
	// Logs are the rings that this worker keeps for those of the same index on the other nodes, by node; the
	// own node has none. nil unless the protocol needs logs, and there are backups.
	Logs []*Log
	// Log is the worker's part of Memory for a log of its own transactions, if the protocol has one
	// (Needs.OwnLog).
	Log LogArea
	// Cache is the member's location cache of a peer's tables, shared by its workers.
	Cache *remote.Cache

	Placement proto.Placement
	// Placed says where all replicas are; it is Placement for protocols that replicate. It changes between
	// Pause and Recover (proto.Recoverer).
	Placed *placement.Placed
	// Serving is what the member's workers know together of the shards that it serves.
	Serving *Serving
	// Chains are those of all workers of the member.
	Chains *Chains
	// Barrier is that of all workers of the member.
	Barrier *Barrier
	// PeerLife is the incarnation of the RPC port of the worker of this index on a peer: it tells the
	// peer's lives apart. 0: it was never met.
	PeerLife func(n proto.NodeID) uint64
	// Lease reports whether the member may serve: it holds its lease, so that nobody can serve in its place
	// yet. nil: always.
	Lease func() bool
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
	// Options are the values of Protocol.Options.
	Options option.Values
}

// Function is a transaction that may be executed elsewhere than at its client (workload.Function).
type Function struct {
	Number uint16
	New    func() proto.Shipped // for one fiber
}

// Share is a replica of a shard on the own member, through one worker's memory.
type Share struct {
	Memory *htm.Memory
	MR     *verbs.MR
	Tables []PointIndex // table t is Tables[t-1]
}

// LogArea is a part of a worker's Memory.
type LogArea struct {
	At, Bytes int  // whole lines; 0 bytes: there is none
	Kept      bool // it was left by an earlier life of the worker, with the tables; else it is zero
}

// Log is a ring of the own member, which a worker of another node appends to.
type Log struct {
	*log.Log
	MR *verbs.MR
	// Memory is that of MR, while others use it.
	Memory lines.Memory
	Line   int // of MR at which the log's memory begins
	// Tail is where the writer began. Who gives the log to another life of the writer sets it.
	Tail uint64
}

// MayServe reports whether nobody can serve in the place of the member yet: see Lease.
func (e *Env) MayServe() bool { return e.Lease == nil || e.Lease() }
