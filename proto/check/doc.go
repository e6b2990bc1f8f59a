// Package check decides whether a recorded history is strictly serializable, and says in words
// where it is not.
//
// # Method
//
// Versions give the order of each key's writes, so the direct serialization graph of Adya is
// known: an edge ww to whom replaced a version, wr to whom read it, rw from whom read it to whom
// replaced it. To these come edges of real time, from a transaction that ended to every one that
// started later: sorted ends form a chain, so these edges are as many as transactions. Between two
// times of one clock an edge of real time is drawn if end + resolution < start, between those of two
// clocks of one name only if end + error < start - error, with the bounds of both. The history is strictly serializable if
// and only if every read is of something that was installed and the graph has no cycle. Time and
// memory are linear in the history but for sorting.
//
// Digests tell what versions hide: a read whose value is not the one that its version's writer
// wrote, or was written by a transaction that aborted, or was overwritten by its own writer
// before it committed.
//
// If versions leave none out (history.Counting), a gap is a lost write. What the tables held in the
// beginning takes the place of a guess at initial versions, and what they hold in the end must be what
// the last writes left.
//
// # What counts
//
// Committed and recovered transactions, and unknown ones that must have taken effect: a counted transaction read a
// write of them, or wrote over one where no version is left out, or the tables hold it in the end. An
// unknown one that nobody saw is left out, which is always possible: its end is infinite. If one of
// several unknown ones must have made a write, one is taken; should that not fit, the verdict is
// Undecided. What aborted transactions read is not looked at, and what user-aborted ones
// read only if Options.UserAborts says so: a user abort is an answer too, but not every protocol
// promises that it rests on a consistent view.
//
// What the survivors of a coordinator have decided (history.Recovered, Revoked) takes the place of its
// outcome. A decision that contradicts what the client was told, or another survivor, is a violation.
//
// Replicas of a shard must hold the same keys, versions and values in the end; what they hold is compared
// with the last writes as above.
//
// # Absence
//
// An absent read with a version names the delete that it saw. Without one, and for keys that a
// scan did not find, the absence is worked out: from the reader's own write, from real time, and
// at last by looking whether the order that was found puts the reader where the key was absent.
// What cannot be told apart then is tried; if no attempt fits, the verdict is Undecided, with the
// violations that the last attempt led to. There are no phantoms but on keys that the history
// names.
//
// # Bounds
//
// Up to 2^29 transactions and 2^32 operations. Memory is about 32 bytes for a transaction, 48 for
// an operation while they are sorted, 4 for an edge, of which an operation makes about two, and
// about 110 for a key that tables held: see Need.
// Everything runs on the caller's goroutine; nothing depends on time, chance or the order of a map.
package check
