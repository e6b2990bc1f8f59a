// Package check decides whether a recorded history is strictly serializable, and describes its
// violations.
//
// # Method
//
// Versions give the order of each key's writes, so Adya's direct serialization graph is known. It has an
// edge ww from the writer of a version to the transaction that replaced it, wr from the writer to a
// reader, and rw from a reader to the transaction that replaced the version. Edges of real time lead from
// a transaction that ended to every one that started later; as the sorted ends form a chain, there are only
// as many of these as transactions. For two times of one clock there is such an edge if end + resolution <
// start; for times of two clocks with one name, if end + error < start - error, with the bounds of both.
// The history is strictly serializable if and only if every read returned an installed version and the
// graph has no cycle. Time and memory are linear in the history, except for sorting.
//
// Digests reveal what versions hide: a read of a value that its version's writer did not write, that an
// aborted transaction wrote, or that its own writer overwrote before it committed.
//
// If versions leave none out (history.Counting), a gap is a lost write. If the initial content of the tables
// is recorded, initial versions need not be inferred from reads. The final content must be what the last
// writes left.
//
// # Transactions that count
//
// Committed and recovered transactions count, and unknown ones that must have taken effect: a counted
// transaction read one of their writes, or overwrote one where no version is left out, or the tables hold one
// at the end. An unknown transaction that nobody saw does not count, which is always valid, because its end
// is infinite. If one of several unknown transactions must have made a write, the checker chooses one; if the
// choice leads to a violation, the verdict is Undecided. Reads of aborted transactions do not count. Reads of
// user-aborted ones count only with Options.UserAborts: a user abort is an answer to a client, too, but not
// every protocol promises it a consistent view.
//
// What the survivors of a coordinator have decided (history.Recovered, Revoked) takes the place of its
// outcome. A decision that contradicts what the client was told, or another survivor, is a violation.
//
// Replicas of a shard must hold the same keys, versions and values in the end; what they hold is compared
// with the last writes as above.
//
// # Chains and additions
//
// A transaction in pieces is one: it counts with all of its operations, and a piece that is missing or out of order is a
// violation. Additions to a key between two of its reads and writes have no order among each other. They come after
// what was read or written of the versions before, and before what was of those behind; where that would be an edge from
// each of many to each of many, the edges lead through a node of its own. That each was made to the number which
// was there before is looked at by itself.
//
// # Absence
//
// An absent read with a version names the delete that it saw. For one without a version, and for keys that a
// scan did not find, the checker infers the absence: from the reader's own write, from real time, and finally
// from the order that it found, if that places the reader where the key was absent. It tries the remaining
// possibilities, for all absences of a reader together: a place in the order where all of its keys were
// absent. If none fits, the verdict is Undecided, with the violations of the last attempt. Phantoms
// are found only on keys that occur in the history.
//
// # Bounds
//
// Up to 2^29 transactions and 2^32 operations. Memory is about 32 bytes for a transaction, 48 for
// an operation while they are sorted, 4 for an edge, of which an operation makes about two, and
// about 110 for a key that tables held: see Need.
// Everything runs on the caller's goroutine; nothing depends on time, chance or the order of a map.
package check
