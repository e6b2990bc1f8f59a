package proto

import (
	"strings"
	"time"

	"drtmd/htm"
	"drtmd/verbs/fiber"
)

// Engine is a protocol as one worker runs it. What only some engines have is an interface of its own:
// see Offer.
type Engine interface {
	Peeker
	// Begin starts an attempt of the transaction that d declares, on a fiber of the engine's
	// worker. attempt counts from 0; the engine may choose another way after some. The error
	// is an Abort, or ErrUnknownTable, or of the transport. After an error nothing is held.
	// The engine may reuse the Tx once it has ended.
	Begin(f *fiber.Fiber, d *Decl, attempt int) (Tx, error)
	// Stats of the engine; its worker's thread writes them.
	Stats() *Stats
	// Close frees what the engine has registered. Its worker is closed, or nothing of the engine is
	// in flight. It may be called twice.
	Close() error
}

// Tx is a Txn with its end. One of Commit, Rollback and Abort ends it, whatever they return;
// then nothing of it is held.
type Tx interface {
	Txn
	// Commit makes the writes take effect, all at one point in time. An Abort means that
	// nothing happened; ErrUnknownOutcome that it cannot be told.
	Commit() error
	// Rollback ends the transaction without effect, and confirms that what it read was a
	// valid view: nil, or an Abort.
	Rollback() error
	// Abort ends the attempt without effect, because of cause.
	Abort(cause error)
}

// Offer is a set of interfaces that some engines have beside Engine. A protocol names those of its
// engines, so that one which is lost by a change of a method's signature is noticed.
type Offer uint16

// Offers. The methods of their interfaces are called on the worker's thread, between two steps of its
// fibers, or when the worker has stopped.
const (
	OfferDebts       Offer = 1 << iota // Debtor
	OfferOrphans                       // OrphanLister
	OfferRegions                       // RegionCounter
	OfferLeases                        // Leaser
	OfferRecovery                      // Recoverer
	OfferTruncations                   // Truncator
	OfferChains                        // Chainer
	OfferLogs                          // Logger
	offerEnd
)

// Debtor is an engine that can be left with work at a peer which was out of reach: updates to write
// and locks to give back.
type Debtor interface {
	// Finish does what is left to do at a peer, on a fiber of the engine's worker, after the peer
	// was connected again. What fails is left over again.
	Finish(f *fiber.Fiber, peer NodeID)
	// Debts is how much is left to do, at all peers together.
	Debts() int
	// DebtsAt is how much is left to do at one peer.
	DebtsAt(peer NodeID) int
}

// OrphanLister is an engine that can name its Orphans.
type OrphanLister interface {
	// Orphans appends what the engine knows of records that stay locked, own locks that are owed
	// included.
	Orphans(to []Orphan) []Orphan
}

// Troubled is an engine that goes on when another node does what no correct one does: sends bytes that make no
// sense, or gives away a lock that is held.
type Troubled interface {
	// Trouble is the first that happened; nil: nothing has.
	Trouble() error
}

// RegionCounter is an engine that runs regions of package htm in transactions.
type RegionCounter interface {
	// Regions are the statistics of all regions of the engine.
	Regions() htm.Stats
}

// Leaser is an engine whose transactions take read leases.
type Leaser interface {
	// Leases are how long they last as a rule, in transactions that write and in read-only ones.
	Leases() (lease, readOnly time.Duration)
}

// Recoverer is an engine whose transactions outlive nodes: records have replicas, and what a node was in the
// middle of is decided by the others. Whoever calls it changes the placement of all workers of a member
// between their Pause and their Recover, and knows that what is gone is fenced on every node by then.
type Recoverer interface {
	// Pause ends a Recover that runs, lets no transaction begin a phase, and returns when no request of the
	// engine is under way. To call it again changes nothing.
	Pause(f *fiber.Fiber) error
	// Recover begins to use the placement as it is now, of an epoch, on the nodes that live: transactions go
	// on, at once where a shard is served by the node that served it before. It returns when promoted
	// backups serve, every transaction of the dead is decided, and nothing of them is left on this worker;
	// or nil when Pause is called.
	Recover(f *fiber.Fiber, epoch uint64, lives func(NodeID) bool) error
	// Fill makes the own replica of a shard complete, or returns an error; nil means that it is complete.
	Fill(f *fiber.Fiber, shard ShardID) error
	// Recovery is how far that is.
	Recovery() Recovery
}

// Recovery is the progress of one worker.
type Recovery struct {
	Epoch              uint64
	Done               bool   // nothing of the dead is left
	Undecided          int    // transactions of the dead that are not decided yet
	Committed, Aborted uint64 // transactions of the dead that this worker has decided, of all epochs
	Locked             uint64 // records that it locked for undecided transactions when a backup was promoted
	Released           uint64 // locks of the dead that belonged to nothing
	Filled             uint64 // records that it copied into own replicas
}

// Truncator is an engine that keeps logs at backups.
type Truncator interface {
	// Untruncated is how many records there are in the engine's logs at other nodes, as far as it knows: the
	// backups are equal to the primaries when no engine has any.
	Untruncated() int
}

// Logger is an engine that keeps logs of its own transactions, from which its next life recovers.
type Logger interface {
	// LogStats is what its logs hold; all is 0 without them.
	LogStats() LogStats
}

// LogStats are the logs of one worker.
type LogStats struct {
	Bytes   uint64 // of memory
	Used    uint64 // of them
	Slots   int    // for transactions
	Taken   int    // by those under way, or that wait for a machine
	Records uint64 // written
	Waits   uint64 // transactions that have waited for a slot
	TooLong uint64 // attempts whose records did not fit into a slot

	// What the last recovery has found and done.
	Found      uint64 // records
	Torn       uint64 // records that were not whole, and not applied
	Completed  uint64 // transactions that had taken place
	Undone     uint64 // that had not
	Resumed    uint64 // chains of pieces whose rest was run
	Recovering int    // transactions and chains of which something is left to do
}

// Add adds the figures of another worker.
func (s *LogStats) Add(x *LogStats) {
	s.Bytes += x.Bytes
	s.Used += x.Used
	s.Slots += x.Slots
	s.Taken += x.Taken
	s.Records += x.Records
	s.Waits += x.Waits
	s.TooLong += x.TooLong
	s.Found += x.Found
	s.Torn += x.Torn
	s.Completed += x.Completed
	s.Undone += x.Undone
	s.Resumed += x.Resumed
	s.Recovering += x.Recovering
}

// Offered are the interfaces that an engine has.
func Offered(e Engine) (o Offer) {
	if _, ok := e.(Debtor); ok {
		o |= OfferDebts
	}
	if _, ok := e.(OrphanLister); ok {
		o |= OfferOrphans
	}
	if _, ok := e.(RegionCounter); ok {
		o |= OfferRegions
	}
	if _, ok := e.(Leaser); ok {
		o |= OfferLeases
	}
	if _, ok := e.(Recoverer); ok {
		o |= OfferRecovery
	}
	if _, ok := e.(Truncator); ok {
		o |= OfferTruncations
	}
	if _, ok := e.(Chainer); ok {
		o |= OfferChains
	}
	if _, ok := e.(Logger); ok {
		o |= OfferLogs
	}
	return o
}

// Has reports whether all of x are in the set.
func (o Offer) Has(x Offer) bool { return o&x == x }

func (o Offer) String() string {
	var names []string
	for x, n := Offer(1), 1; x < offerEnd; x, n = x<<1, n+1 {
		if o.Has(x) {
			names = append(names, name([]string{"?", "debts", "orphans", "regions", "leases", "recovery", "truncations",
				"chains", "logs"}, n))
		}
	}
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
