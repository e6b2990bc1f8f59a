package recovery

import (
	"slices"

	"drtmd/proto"
)

// Seen is what a replica knows of a transaction that writes to its shard.
type Seen uint8

const (
	// SeenLock: the primary has the shard's locks of the transaction, and the values that came with them.
	// A lock without values says nothing.
	SeenLock Seen = 1 << iota
	// SeenRecord: a complete record of the transaction is in the node's logs.
	SeenRecord
	// SeenApplied: a record that the transaction writes has the version of that write, or a later one.
	SeenApplied
)

// Vote is what a replica says. Of a record, the shard's values have to be in it.
type Vote struct {
	Shard proto.ShardID
	Node  proto.NodeID
	Seen  Seen
}

// Decision about a transaction.
type Decision uint8

// Decisions.
const (
	Commit Decision = iota + 1
	Abort
)

func (d Decision) String() string { return [...]string{"?", "commit", "abort"}[min(d, Abort)] }

// Rule is how to decide. The zero value is right; the rest are deliberate bugs.
type Rule struct {
	AbortComplete bool // aborts though every shard has a record
	CommitPartial bool // commits though only one shard has a record
}

// Decide decides about a transaction that writes to shards, of which lost have no complete replica, by the
// votes of all replicas that live. Votes for other shards do not count.
func (r Rule) Decide(written, lost []proto.ShardID, votes []Vote) Decision {
	logged, complete, applied := false, true, false
	for _, s := range written {
		var seen Seen
		for _, v := range votes {
			if v.Shard == s {
				seen |= v.Seen
			}
		}
		applied = applied || seen&SeenApplied != 0
		logged = logged || seen&SeenRecord != 0
		complete = complete && (seen&(SeenRecord|SeenLock) != 0 || slices.Contains(lost, s))
	}
	if applied || logged && (complete && !r.AbortComplete || r.CommitPartial) {
		return Commit
	}
	return Abort
}

// Holders appends the nodes that have to hold a record of a shard that a coordinator writes to before the
// client is told: with the coordinator as many as there are replicas, so that one of them survives the
// death of all others.
func Holders(to []proto.NodeID, l proto.Location, coordinator proto.NodeID) []proto.NodeID {
	to = append(to, l.Backups()...)
	if slices.Contains(l.Backups(), coordinator) {
		to = append(to, l.Primary)
	}
	return to
}
