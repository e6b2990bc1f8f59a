// Package htm is emulated restricted transactional memory (Intel RTM, DrTM §2.1): regions of code
// whose loads and stores of registered memory take effect all at one moment, or not at all.
//
// # What it gives
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
//   - does no I/O: to post a verb inside of it aborts it (Config.Flag);
//   - may abort for no visible reason (Config.Spurious), and never promises progress: callers
//     retry a bounded number of times and then run their fallback handler (DrTM §7.2).
//
// And beyond the hardware it is opaque by construction: what the loads of one region return has
// existed together at one moment, in a region that will abort too. The code inside needs no
// protection against impossible values. (Memory without line words is the exception, see below.)
//
// # How: line words
//
// shm and sim keep a word beside each 64-byte line: version, lock, owner (package lineword).
// The first touch of a line copies it into the region with the word that it had, and compares
// the words of all lines touched before: if they still have theirs, the copies are a snapshot of
// this moment. Loads and stores work on the copies. There is no global clock, because a remote
// operation would have to advance it; so a region of n lines costs n²/2 comparisons, which is
// nothing for a transaction (10 lines) and 1 ms for one of 2,000.
//
// # Commit, and why in this order
//
//  1. Lock the lines that were written, in ascending order, each only if its word is still the
//     one that was seen. A written line is a line that was read.
//  2. Confirm: the caller's hook looks whether its leases are valid, on the real clock.
//  3. Compare the words of the lines that were only read.
//  4. Note in the journal that the commit has happened, with the new lines.
//  5. Store the lines and unlock each.
//
// Real RTM aborts a thread that loses its processor; a thread here may sleep for a second
// between any two instructions. "Confirm, then XEND", as DrTM's Figure 9 has it, would let the
// lease end in such a sleep, others write the record and, as nothing is locked yet, read what
// this region is about to overwrite (design decision 6). With the write set locked first, nobody
// can read or write these lines between the confirmation and the publication, however long that
// takes: the transaction takes place at the confirmation. Reads are compared after it, so they
// were unchanged at that moment too.
//
// # Death
//
// Locked lines name their owner. Before the first lock the journal, which lies beside the memory
// and outlives the process, lists the lines; before the first store it says "committed" and has
// their new contents. So whoever finds a line locked by a dead process finishes or undoes the
// whole commit (the providers do; see lineword.Journal). Only process death is judged so, never a
// timeout.
//
// # Memory without line words
//
// On devices whose atomics exclude each other only (ATOMIC_HCA: Soft-RoCE and most NICs) there are
// no line words, and Memory.Words is nil. Loads then read memory as it is at that moment, stores
// are buffered, and the commit is the caller's RecordCommitter around the publication: lock the
// records by NIC atomics, confirm, validate every record read, publish, unlock (design decision
// 3). A record is then copied between two looks at its state and version by the caller, and
// records read may not fit together until Validate has said so: code in the region must tolerate
// that (bounded loops, checked indexes). There is no journal there.
//
// # Ownership and concurrency
//
// A Region belongs to one fiber and is used again and again without allocating. A Memory belongs
// to one worker, because the owner slot and the journal in it serve one commit at a time. All
// regions of a worker that write, write to one Memory each; reads may mix. Different workers need
// no further synchronization. The package starts no goroutine and knows no clock; on real
// transports it must not be interrupted by another fiber of the same worker between Begin and
// the end of Commit (package fiber sees to it), the Lock, Confirm, Validate and Unlock of a
// RecordCommitter excepted.
//
// # What it does not do
//
// No nesting (Begin inside a region aborts it with Nested), no writes to two memories in one
// region, no eviction of written lines by reads, no fault or interrupt other than the injected.
// Plain CPU stores to lines that regions use are not seen: use regions for all of them.
package htm
