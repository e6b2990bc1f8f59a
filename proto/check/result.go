package check

import (
	"errors"
	"fmt"

	"drtmd/proto/history"
)

// ErrTooLarge: the history exceeds what this package can number.
var ErrTooLarge = errors.New("check: history of more than 2^29 transactions or 2^32 operations; " +
	"record a shorter run")

// Verdict is what a check comes to.
type Verdict uint8

// Verdicts.
const (
	Serializable Verdict = iota + 1 // strictly
	Violated
	Undecided // what had to be guessed led to a violation, which may not be one
)

func (v Verdict) String() string {
	switch v {
	case Serializable:
		return "strictly serializable"
	case Violated:
		return "violated"
	case Undecided:
		return "undecided"
	}
	return fmt.Sprintf("verdict %d", uint8(v))
}

// MarshalText gives JSON the name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Anomaly is what a violation is called.
type Anomaly uint8

// Anomalies. The first five, and those from LostWrite on, are read off single keys or transactions, the others off
// cycles.
const (
	AbortedRead        Anomaly = iota + 1 // of a write of a transaction that aborted (G1a)
	DirtyRead                             // of a write that its own transaction overwrote (G1b)
	TornRead                              // of a value that nobody wrote with its version
	WrongAbsence                          // of a key that never was absent
	LostUpdate                            // an update of a version that was no longer the newest
	NonRepeatableRead                     // two versions of one key in one transaction
	FracturedRead                         // a part of what a transaction wrote
	ReadSkew                              // a cycle with one rw edge (G-single)
	WriteSkew                             // two transactions that each read what the other replaced
	Phantom                               // a cycle by way of a key that was not found
	WriteCycle                            // ww edges only (G0)
	InformationCycle                      // ww and wr edges only (G1c)
	SerializationCycle                    // several rw edges (G2)
	StaleRead                             // of what was replaced before the reader started
	FutureRead                            // of what was written after the reader ended
	RealTimeOrder                         // another cycle that needs an edge of real time
	LostWrite                             // a write that must have been there, and is not
	WrongContent                          // tables that hold in the end what nobody wrote
	ReplicasDiffer                        // copies of a shard that do not hold the same in the end
	BrokenPromise                         // survivors decided other than the client was told, or each other
	LostAddition                          // an addition to another number than the one that was there
	BrokenChain                           // a transaction that lacks a piece, or has them out of order
)

// anomalyNames are by Anomaly.
func (a Anomaly) String() string {
	names := [...]string{AbortedRead: "aborted read", DirtyRead: "dirty read",
		TornRead: "torn read", WrongAbsence: "wrong absence", LostUpdate: "lost update",
		NonRepeatableRead: "non-repeatable read", FracturedRead: "fractured read",
		ReadSkew: "read skew", WriteSkew: "write skew", Phantom: "phantom",
		WriteCycle: "write cycle", InformationCycle: "circular information flow",
		SerializationCycle: "serialization cycle", StaleRead: "stale read",
		FutureRead: "read from the future", RealTimeOrder: "order against real time",
		LostWrite: "lost write", WrongContent: "wrong content", ReplicasDiffer: "replicas differ",
		BrokenPromise: "broken promise", LostAddition: "lost addition", BrokenChain: "broken chain"}
	if a == 0 || int(a) >= len(names) {
		return fmt.Sprintf("anomaly %d", uint8(a))
	}
	return names[a]
}

// MarshalText gives JSON the name.
func (a Anomaly) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Relation is why one transaction comes before another.
type Relation uint8

// Relations, in the order in which an explanation prefers them.
const (
	WriteWrite Relation = iota + 1 // its write was replaced by the other
	WriteRead                      // the other read its write
	ReadWrite                      // what it read was replaced by the other
	RealTime                       // it had ended when the other started
)

func (r Relation) String() string {
	switch r {
	case WriteWrite:
		return "ww"
	case WriteRead:
		return "wr"
	case ReadWrite:
		return "rw"
	case RealTime:
		return "real time"
	}
	return fmt.Sprintf("relation %d", uint8(r))
}

// MarshalText gives JSON the name.
func (r Relation) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Txn is a transaction of a violation.
type Txn struct {
	ID      string `json:"id"` // worker.sequence
	Node    uint16 `json:"node"`
	Type    string `json:"type"`
	Outcome string `json:"outcome"`
	StartNs int64  `json:"start_ns"`
	EndNs   *int64 `json:"end_ns,omitempty"` // nil if the outcome is unknown
}

// Step is an edge of a cycle: why Txns[From] comes before Txns[To].
type Step struct {
	From     int       `json:"from"`
	To       int       `json:"to"`
	Relation Relation  `json:"relation"`
	On       *Conflict `json:"on,omitempty"` // nil for real time
	Text     string    `json:"text"`
}

// Conflict is what two transactions did to a key. Versions are printed as incarnation.version.
type Conflict struct {
	Table string `json:"table"`
	Key   uint64 `json:"key"`
	// Read is the version that the reader of wr and rw found, empty for ww and for an absence
	// without a version.
	Read string `json:"read,omitempty"`
	// Wrote is the version of the writer; that of the second one of ww.
	Wrote string `json:"wrote"`
}

// Violation is one proof that the history is not strictly serializable.
type Violation struct {
	Anomaly Anomaly `json:"anomaly"`
	Txns    []Txn   `json:"transactions"`
	Steps   []Step  `json:"steps,omitempty"` // of a cycle
	// Text says it in lines of words.
	Text string `json:"text"`
}

// Tally counts the violations of a kind.
type Tally struct {
	Anomaly Anomaly `json:"anomaly"`
	Count   uint64  `json:"count"`
}

// Result is what a check found.
type Result struct {
	Verdict Verdict `json:"verdict"`
	// Checked counts the transactions that the verdict speaks of: committed, unknown ones that
	// count as committed, and user-aborted ones if asked for.
	Checked     uint64 `json:"checked"`
	Committed   uint64 `json:"committed"`
	UserAborted uint64 `json:"user_aborted"`
	Aborted     uint64 `json:"aborted"`
	Unknown     uint64 `json:"unknown"`
	// UnknownCommitted of the unknown ones count as committed: one of their writes was read.
	UnknownCommitted uint64 `json:"unknown_committed"`
	// Recovered of the transactions were committed by survivors of their coordinator, which had told
	// nobody; they are among neither Committed nor Unknown. Revoked ones are among Aborted.
	Recovered  uint64 `json:"recovered,omitempty"`
	Revoked    uint64 `json:"revoked,omitempty"`
	Operations uint64 `json:"operations"`
	Keys       uint64 `json:"keys"` // that transactions name
	// CountedVersions: no version of a key may be missing. InitialKeys and FinalKeys are how many
	// keys the tables held before and after; nil: not recorded, so that it was not compared.
	CountedVersions bool    `json:"counted_versions"`
	InitialKeys     *uint64 `json:"initial_keys,omitempty"`
	FinalKeys       *uint64 `json:"final_keys,omitempty"`
	// Replicas are the copies of shards that were compared in the end.
	Replicas int    `json:"replicas,omitempty"`
	Edges    uint64 `json:"edges"` // of the graph, those of real time not counted
	// Absences that had to be placed by the order that was found, and those without a place yet.
	PlacedAbsences   uint64 `json:"placed_absences"`
	UnplacedAbsences uint64 `json:"unplaced_absences"`
	// Violations are a few, the first of each kind before further ones; Tallies counts all that
	// are read off single operations, and 1 for a cycle.
	Violations []Violation `json:"violations,omitempty"`
	Tallies    []Tally     `json:"tallies,omitempty"`

	// Observed are the unknown transactions that count as committed, by worker and sequence.
	Observed []history.TxnID `json:"-"`
}

// Phase is a part of a check, for progress.
type Phase uint8

// Phases, in their order.
const (
	Reading Phase = iota + 1
	Contents
	Sorting
	Resolving
	Linking
	Ordering
)

func (p Phase) String() string {
	switch p {
	case Reading:
		return "read"
	case Contents:
		return "read tables"
	case Sorting:
		return "sort"
	case Resolving:
		return "resolve"
	case Linking:
		return "link"
	case Ordering:
		return "order"
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// Options of a check.
type Options struct {
	// UserAborts takes what user-aborted transactions read into the check.
	UserAborts bool
	// Void, if not nil, says of which committed or user-aborted transactions the promise is void, because as many nodes died with
	// the coordinator as there are replicas: such a transaction need not have taken place. If it has, then before the
	// client was told. What a void roll-back has read does not count. The record may not be kept.
	Void func(*history.Record) bool
	// Progress, if not nil, is called now and then on the caller's goroutine.
	Progress func(p Phase, done, total uint64)
}
