package onesided

import (
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/verbs/rpc"
)

// Word is a value of a record's state word, for protocols whose locks are exclusive: 0 is unlocked,
// anything else names the attempt that holds the record.
//
//	63         45 44              29 28       17 16         1  0
//	+------------+------------------+-----------+------------+--+
//	|  life (19) | transaction (16) | worker 12 |  node (16) |L |
//	+------------+------------------+-----------+------------+--+
//
// L is 1. The transaction is a number of its worker's; life tells the engines apart that a worker has
// had, so that what a crash left locked is nobody's who lives. Since no two attempts that run have
// the same word, a compare-and-swap from the own word to 0 gives a lock back, or does nothing if it
// was never taken: that is how an attempt ends that does not know whether its lock requests were
// carried out.
type Word uint64

// Unlocked is the word of a record that nobody holds, Moving that of one which its table moves (package
// store/hopscotch). No attempt has it: lives of engines that have peers are not 0.
const (
	Unlocked Word = 0
	Moving   Word = lockedBit
)

const (
	lockedBit Word = 1

	nodeBits   = 16
	workerBits = 12
	txBits     = 16
	lifeBits   = 19

	nodeShift   = 1
	workerShift = nodeShift + nodeBits
	txShift     = workerShift + workerBits
	lifeShift   = txShift + txBits
)

// Limits of what a word can name.
const (
	MaxWorkers = 1 << workerBits // per node
	MaxLives   = 1 << lifeBits   // of a worker, after which they repeat
	MaxTxs     = 1 << txBits     // numbers of a worker's transactions; 0 is Applier's
)

// MakeWord is the word of a transaction. All parts are within their bits.
func MakeWord(n proto.NodeID, worker, tx, life uint32) Word {
	invariant.Assert(worker < MaxWorkers && tx < MaxTxs && life < MaxLives,
		"lock word of a worker, transaction or life out of range")
	return lockedBit | Word(n)<<nodeShift | Word(worker)<<workerShift | Word(tx)<<txShift |
		Word(life)<<lifeShift
}

// lifeOf spreads the incarnation of a port, which no two lives of a worker share, over the bits of
// a life (Fibonacci hashing).
func lifeOf(incarnation uint64) uint32 {
	return max(1, uint32(incarnation*0x9e3779b97f4a7c15>>(64-lifeBits)))
}

// Locked reports whether somebody holds the record.
func (w Word) Locked() bool { return w&lockedBit != 0 }

// Node is the node of the holder.
func (w Word) Node() proto.NodeID { return proto.NodeID(w >> nodeShift) }

// Worker is the holder's worker within its node.
func (w Word) Worker() uint32 { return uint32(w>>workerShift) & (MaxWorkers - 1) }

// Tx is the number of the holder's transaction.
func (w Word) Tx() uint32 { return uint32(w>>txShift) & (MaxTxs - 1) }

// life is the life of the holder's engine.
func (w Word) life() uint32 { return uint32(w >> lifeShift) }

func (w Word) String() string {
	if w == Unlocked {
		return "unlocked"
	}
	return fmt.Sprintf("locked by node %d worker %d transaction %d life %d",
		w.Node(), w.Worker(), w.Tx(), w.life())
}

// OwnerOf is Rules.Owner, and HolderOf protocol.Protocol.Holder, where state words are Words.
func OwnerOf(state uint64) proto.NodeID { return Word(state).Node() }

// HolderOf reads a state word: see OwnerOf.
func HolderOf(state uint64) (owner proto.NodeID, locked bool) {
	return Word(state).Node(), Word(state).Locked()
}

// Words gives the attempts of one worker their words. It belongs to the worker's thread.
type Words struct {
	Life uint32 // of the engine; below MaxLives

	node   proto.NodeID
	worker uint32
	next   uint32
}

// NewWords makes the words of a worker's engine. A worker or life that no word can name is an error.
func NewWords(env *protocol.Env) (w Words, err error) {
	switch {
	case env.Index >= MaxWorkers:
		return w, fmt.Errorf("worker %d: a lock word names workers below %d", env.Index, MaxWorkers)
	case env.Life >= MaxLives:
		return w, fmt.Errorf("life %d: a lock word names lives below %d", env.Life, MaxLives)
	}
	w = Words{Life: env.Life, node: env.Node, worker: uint32(env.Index)}
	if w.Life == 0 && env.Port != nil {
		w.Life = lifeOf(env.Port.Address().Incarnation)
	}
	return w, nil
}

// Next is a word that none of the worker's last MaxTxs-2 had, and not Applier.
func (w *Words) Next() Word {
	word := MakeWord(w.node, w.worker, 1+w.next%(MaxTxs-1), w.Life)
	w.next++
	return word
}

// Of is the word of one of the worker's transactions, by its number.
func (w *Words) Of(tx uint32) Word { return MakeWord(w.node, w.worker, tx, w.Life) }

// WordOf is the word of a transaction of a caller, by its number, which has txBits. The caller's worker is below
// MaxWorkers.
func WordOf(c *rpc.Caller, tx uint32) Word {
	return MakeWord(proto.NodeID(c.Node), uint32(c.Worker), tx, LifeOf(c))
}

// LifeOf is the life of a caller's engine.
func LifeOf(c *rpc.Caller) uint32 {
	if c.Life == 0 {
		return lifeOf(c.Incarnation)
	}
	return c.Life % MaxLives
}

// Applier is the word with which the worker locks records of backups for a moment; no attempt has it.
func (w *Words) Applier() Word { return MakeWord(w.node, w.worker, 0, w.Life) }
