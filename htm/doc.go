// Package htm emulates restricted transactional memory (Intel RTM, DrTM §2.1): regions of code
// whose loads and stores of registered memory all take effect at one moment, or not at all.
//
// # Semantics
//
// Begin, loads and stores, Abort (XABORT) and Commit (XEND), with the abort codes of RTM. As the
// hardware does, a region
//
//   - conflicts at the granularity of 64-byte lines, with other regions and, by strong atomicity,
//     with remote WRITE, CAS and FAA on the shm and sim providers (DrTM §2.1, §4.2). Two READs,
//     and a READ of a line that the region only reads, do not conflict; a remote READ sees what a
//     region writes only after its commit;
//   - has no effect at all if it aborts;
//   - has a capacity, that of a first-level cache with sets and ways for its writes (Geometry);
//   - does no I/O: a post inside of a region aborts it (Config.Flag);
//   - may abort spuriously (Config.Spurious), and guarantees no progress: callers retry a bounded
//     number of times and then run their fallback handler (DrTM §7.2).
//
// Unlike hardware, a region is opaque: the values that its loads return have existed together at one
// moment, even if the region will abort. The code inside needs no protection against inconsistent
// values. (Peek64, loads after Hurry, and memory without line words, are the exceptions, see below.)
//
// # Line words
//
// shm and sim keep a word beside each 64-byte line: version, lock, owner (package lineword).
// The first access to a line copies the line and its word into the region, and compares the words of
// all lines accessed before: if none has changed, the copies are a snapshot of this moment. Loads and
// stores work on the copies. There is no global clock, because a remote operation would have to
// advance it. So a region of n lines that are accessed one by one costs n²/2 comparisons: negligible for a
// transaction of 10 lines, 1 ms for one of 2,000. An access to several lines compares once, after the last.
// Peek64 does not compare: a search that checks what it finds ends with one Validate. After Hurry nothing is compared
// before the commit: for the stores of a transaction whose program has ended.
//
// # Commit, and why in this order
//
//  1. Lock the written lines in ascending order, each only if its word has not changed since the region
//     first accessed the line. A written line counts as read, too.
//  2. Confirm: the caller's hook checks by the real clock whether its leases are valid.
//  3. Compare the words of the lines that were only read.
//  4. Write the new lines to the journal, and that the commit has happened.
//  5. Store the lines and unlock each.
//
// Real RTM aborts a thread that loses its processor; a thread here may sleep for a second
// between any two instructions. "Confirm, then XEND", as in DrTM's Figure 9, would allow the lease to
// end during such a sleep; others could then write the record and, as nothing is locked yet, read the
// lines that this region is about to overwrite (design decision 6). With the write set locked first,
// nobody can read or write these lines between the confirmation and the publication, however long that
// takes: the transaction takes place at the confirmation. Reads are compared after it, so they
// were unchanged at that moment, too.
//
// # Death
//
// A locked line names its owner. The journal lies beside the memory and outlives the process. It lists
// the lines before the first lock; before the first store it has their new contents and says
// "committed". So a provider that finds a line locked by a dead process finishes or undoes the whole
// commit (see lineword.Journal). An owner is dead if its process is; a timeout never decides that.
//
// # Memory without line words
//
// On devices whose atomics exclude each other only (ATOMIC_HCA: Soft-RoCE and most NICs) there are
// no line words, and Memory.Words is nil. Loads then read memory as it is at that moment, stores
// are buffered, and the caller's RecordCommitter surrounds the publication: lock the records by NIC
// atomics, confirm, validate every record read, publish, unlock (design decision 3). The caller copies
// a record between two looks at its state and version. Records may be inconsistent with each other
// until Validate succeeds: code in the region must tolerate that (bounded loops, checked indexes).
// There is no journal.
//
// # Ownership and concurrency
//
// A Region belongs to one fiber, which reuses it without allocating. A Memory belongs to one worker,
// because its owner slot and its journal serve one commit at a time. A region writes to one Memory;
// it may read several. Different workers need no further synchronization. The package starts no
// goroutine and reads no clock. No other fiber of the same worker may run between Begin and the end of
// Commit, which package fiber ensures; the Lock, Confirm, Validate and Unlock of a RecordCommitter are
// the exception.
//
// # What it does not do
//
// No nesting (Begin inside a region aborts it with Nested), no writes to two memories in one
// region, no eviction of written lines by reads, no fault or interrupt except injected ones.
// Regions do not notice plain CPU stores: use regions for all accesses to their lines.
package htm
