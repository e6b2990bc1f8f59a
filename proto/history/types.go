package history

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Table names a table of keys.
type Table uint16

// Key is a key within a table.
type Key uint64

// Version is the incarnation of a key's record in the high 32 bits and its version in the low
// ones. Those of one key only grow. 0 is no version: nothing was ever there, or nothing is known.
type Version uint64

// NewVersion joins an incarnation and a version within it.
func NewVersion(incarnation, version uint32) Version {
	return Version(incarnation)<<32 | Version(version)
}

// String is incarnation.version.
func (v Version) String() string { return fmt.Sprintf("%d.%d", uint32(v>>32), uint32(v)) }

// Digest stands for a value: equal values have equal digests, and different ones almost surely
// different ones. Only the recording side computes digests; the format takes them as they are.
type Digest uint64

// Succession says what follows from a version about the one before it.
type Succession string

// Successions.
const (
	// Growing versions only grow: any number may be left out.
	Growing Succession = ""
	// Counting versions leave none out (those of package store/layout): a key is there while the
	// incarnation is odd. A write over version i.n is i.n+1, or i+2.0 if n is the greatest 32-bit
	// number; a delete over i.n is i+1.0; an insertion is i.0, with i odd and above the incarnation
	// of the absence that it ends.
	Counting Succession = "counting"
)

// NodeID names a node of the cluster.
type NodeID uint16

// WorkerID names a worker; unique in the whole history, restarted workers included.
type WorkerID uint32

// Kind is the type of a transaction, as the workload numbers them.
type Kind uint8

// TxnID names a transaction of a history.
type TxnID struct {
	Worker WorkerID
	Seq    uint64 // counts the transactions of the worker, from 1
}

// String is worker.sequence.
func (id TxnID) String() string { return fmt.Sprintf("%d.%d", id.Worker, id.Seq) }

// Outcome is how a transaction ended.
type Outcome uint8

// Outcomes.
const (
	Committed   Outcome = iota + 1
	UserAborted         // by the rules of the workload
	Aborted             // by the protocol
	Unknown             // its coordinator died before it told
	// Recovered and Revoked are not how a coordinator's own record ends: they are what the survivors of a
	// coordinator have decided, under the transaction's Name. Recovered: it was committed. Several
	// survivors may say so, each with the writes; they say the same.
	Recovered
	Revoked // it was aborted
)

// OutcomeCount bounds arrays that are indexed by Outcome.
const OutcomeCount = Revoked + 1

// Decision reports whether the outcome is one that survivors have decided.
func (o Outcome) Decision() bool { return o == Recovered || o == Revoked }

// ended reports whether the end of such a transaction is known.
func (o Outcome) ended() bool { return o != Unknown && !o.Decision() }

func (o Outcome) String() string {
	switch o {
	case Committed:
		return "committed"
	case UserAborted:
		return "user-aborted"
	case Aborted:
		return "aborted"
	case Unknown:
		return "unknown"
	case Recovered:
		return "recovered"
	case Revoked:
		return "revoked"
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// Never is the end of a transaction that nobody was told of, in ns; Ever is the start of one of which only
// survivors know.
const (
	Never int64 = math.MaxInt64
	Ever  int64 = math.MinInt64
)

// OpKind says what an Op did.
type OpKind uint8

// Operations.
const (
	OpRead       OpKind = iota + 1 // found Version with Digest
	OpReadAbsent                   // found nothing; Version is the tombstone's, 0 if there was none
	OpWrite                        // installs Version with Digest: update or insert
	OpDelete                       // installs the absence that Version numbers
	OpScan                         // looked at every key from Key to High, both included
	OpAdd                          // installs Version with Digest, by adding Delta to what was there, which makes Sum
	OpPiece                        // begins piece Key of High pieces, from 0: what follows belongs to it
)

func (k OpKind) String() string {
	switch k {
	case OpRead:
		return "read"
	case OpReadAbsent:
		return "absent read"
	case OpWrite:
		return "write"
	case OpDelete:
		return "delete"
	case OpScan:
		return "scan"
	case OpAdd:
		return "addition"
	case OpPiece:
		return "piece"
	}
	return fmt.Sprintf("operation %d", uint8(k))
}

// Op is one operation of a transaction. Fields that its kind does not have are 0.
type Op struct {
	Kind    OpKind
	Table   Table
	Key     Key
	High    Key // last key of a scan; how many pieces there are
	Version Version
	Digest  Digest
	// Of an addition: the value is a number of eight bytes, little endian, and was Sum less Delta.
	Delta int64
	Sum   uint64
}

// DigestOfNumber is the digest of a value of eight bytes that is a number.
func DigestOfNumber(n uint64) Digest { return Digest(mix(mix(8) ^ n)) }

// Record is a recorded transaction.
type Record struct {
	ID      TxnID
	Node    NodeID
	Kind    Kind
	Outcome Outcome
	// Name is that of the transaction among the nodes, by which survivors decide about it; 0: none.
	Name    uint64
	StartNs int64 // on the node's clock
	EndNs   int64 // when the client was told; Never if the outcome is Unknown, Recovered or Revoked
	Ops     []Op
}

// Continues reports whether the record is of the rest of a chain: the pieces that a later life of a node has run, under
// the chain's name. The others are in a record of the life before, which does not know that they have committed.
func (r *Record) Continues() bool {
	return r.Name != 0 && len(r.Ops) > 0 && r.Ops[0].Kind == OpPiece && r.Ops[0].Key > 0
}

// decides reports whether the record says something about a transaction of another one.
func (r *Record) decides() bool { return r.Outcome.Decision() || r.Continues() }

// Clock is what a node's times are read from. Times of clocks with different names say nothing
// about each other. The simulator records true time, with error 0.
//
// ErrorNs bounds how far a reading is from the time that it stands for. Which of two readings of
// different clocks came first is known if they are further apart than the errors of both.
//
// ResolutionNs bounds how much greater, of two readings of the same clock, the one that was taken
// first can be: what CPUs read apart, and nothing of how far the clock is from others. A clock whose
// readings never go back, whoever takes them, has 0; it may jump ahead or stand still.
//
// Source names the clock: nodes of one Name with one Source read the same. "" is a clock of the
// node's own, which its workers share.
type Clock struct {
	Name         string `json:"clock"`
	ErrorNs      int64  `json:"error_ns"`
	ResolutionNs int64  `json:"resolution_ns"`
	Source       string `json:"source,omitempty"`
}

// Node is a node and its clock.
type Node struct {
	ID NodeID `json:"node"`
	Clock
}

// DigestOf digests a value. Each word enters by a bijection of the state, so values of equal
// length that differ in one word only never share a digest.
func DigestOf(value []byte) Digest {
	h := mix(uint64(len(value)))
	for len(value) >= 8 {
		h = mix(h ^ binary.LittleEndian.Uint64(value))
		value = value[8:]
	}
	if len(value) > 0 {
		var last uint64
		for i, b := range value {
			last |= uint64(b) << (8 * i)
		}
		h = mix(h ^ last)
	}
	return Digest(h)
}

// mix is a step of Weyl's sequence, so that 0 is not its own image, and the 64-bit finalizer of
// MurmurHash3. One multiplication would not do: a flip of the top bit stays one.
func mix(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
