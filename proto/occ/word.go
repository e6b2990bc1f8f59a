package occ

import (
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/proto"
)

// lockWord is a value of a record's state word: 0 is unlocked, anything else names the attempt that
// holds the record.
//
//	63         45 44              29 28       17 16         1  0
//	+------------+------------------+-----------+------------+--+
//	|  life (19) | transaction (16) | worker 12 |  node (16) |L |
//	+------------+------------------+-----------+------------+--+
//
// L is 1. The transaction is the number of the worker's transaction object, and another one after
// each attempt that left something to be done: so whoever unlocks with a word finds the lock that was
// left, or none. life tells the engines apart that a worker has had.
type lockWord uint64

const (
	unlocked  lockWord = 0
	lockedBit lockWord = 1

	nodeBits   = 16
	workerBits = 12
	txBits     = 16
	lifeBits   = 19

	nodeShift   = 1
	workerShift = nodeShift + nodeBits
	txShift     = workerShift + workerBits
	lifeShift   = txShift + txBits
)

// Limits of what a lock word can name.
const (
	maxWorkers = 1 << workerBits // per node
	maxLives   = 1 << lifeBits   // of a worker, after which they repeat
	maxTxs     = 1 << txBits     // of a worker
)

func makeLockWord(n proto.NodeID, worker, tx, life uint32) lockWord {
	invariant.Assert(worker < maxWorkers && tx < maxTxs && life < maxLives,
		"lock word of a worker, transaction or life out of range")
	return lockedBit | lockWord(n)<<nodeShift | lockWord(worker)<<workerShift |
		lockWord(tx)<<txShift | lockWord(life)<<lifeShift
}

// lifeOf spreads the incarnation of a port, which no two lives of a worker share, over the bits of a
// life (Fibonacci hashing).
func lifeOf(incarnation uint64) uint32 {
	return uint32(incarnation * 0x9e3779b97f4a7c15 >> (64 - lifeBits))
}

// node is the node of the holder.
func (w lockWord) node() proto.NodeID { return proto.NodeID(w >> nodeShift) }

func (w lockWord) String() string {
	if w == unlocked {
		return "unlocked"
	}
	return fmt.Sprintf("locked by node %d worker %d transaction %d life %d", w.node(),
		uint32(w>>workerShift)&(maxWorkers-1), uint32(w>>txShift)&(maxTxs-1), uint32(w>>lifeShift))
}
