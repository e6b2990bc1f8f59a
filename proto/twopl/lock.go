package twopl

import (
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/proto"
)

// lockWord is a value of a record's state word: 0 is unlocked, anything else names the
// transaction that holds the record.
//
//	63         45 44              29 28       17 16         1  0
//	+------------+------------------+-----------+------------+--+
//	|  life (19) | transaction (16) | worker 12 |  node (16) |L |
//	+------------+------------------+-----------+------------+--+
//
// L is 1. The transaction is the number of the worker's transaction object; life tells the
// engines apart that a worker has had, so that what a crash left locked is nobody's who lives.
// Since no two transactions that run have the same word, a compare-and-swap from the own word
// to 0 gives a lock back, or does nothing if it was never taken: that is how a transaction ends
// that does not know whether its lock requests were carried out.
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
	MaxWorkers = 1 << workerBits // per node
	MaxLives   = 1 << lifeBits   // of a worker, after which they repeat
	maxTxs     = 1 << txBits     // of a worker
)

// makeLockWord is the word of a transaction. All parts are within their bits.
func makeLockWord(n proto.NodeID, worker, tx, life uint32) lockWord {
	invariant.Assert(worker < MaxWorkers && tx < maxTxs && life < MaxLives,
		"lock word of a worker, transaction or life out of range")
	return lockedBit | lockWord(n)<<nodeShift | lockWord(worker)<<workerShift |
		lockWord(tx)<<txShift | lockWord(life)<<lifeShift
}

// lifeOf spreads the incarnation of a port, which no two lives of a worker share, over the bits of
// a life (Fibonacci hashing).
func lifeOf(incarnation uint64) uint32 {
	return uint32(incarnation * 0x9e3779b97f4a7c15 >> (64 - lifeBits))
}

// Node is the node of the holder.
func (w lockWord) Node() proto.NodeID { return proto.NodeID(w >> nodeShift) }

// Worker is the holder's worker within its node.
func (w lockWord) Worker() uint32 { return uint32(w>>workerShift) & (MaxWorkers - 1) }

// tx is the number of the holder's transaction object.
func (w lockWord) tx() uint32 { return uint32(w>>txShift) & (maxTxs - 1) }

// life is the life of the holder's engine.
func (w lockWord) life() uint32 { return uint32(w >> lifeShift) }

func (w lockWord) String() string {
	if w == unlocked {
		return "unlocked"
	}
	return fmt.Sprintf("locked by node %d worker %d transaction %d life %d",
		w.Node(), w.Worker(), w.tx(), w.life())
}
