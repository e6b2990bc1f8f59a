// Package rtx has repairable transactions on disaggregated memory (003: "Transactional Indexes on Disaggregated
// Memory with Repairable Transaction", sections 3 and 4).
//
// Clients share the memory of a passive node (package memnode) and nothing else. A transaction reads and writes
// objects by one-sided operations alone. A client that dies in the middle leaves locks with a lease and a log;
// whoever meets an expired lock finishes the transaction or undoes it, without a word to anybody:
//
//	err := c.Run(f, func(tx *rtx.Tx) error {
//		node, err := tx.Update(root)
//		...
//		return nil
//	})
//
// # Objects and locks (4.1, 4.2)
//
// An object is 16 bytes, a lock word and a data pointer, and a block elsewhere that the pointer names. An
// update writes a new block and swings the pointer by CAS. word.go has the bits of all words, layout.go the
// memory of the node.
//
// # Commit and repair (4.3)
//
// Figures 7 to 10 are tx.go, commit.go, trycommit.go and repair.go, with the slips of the printed code put right:
// the metadata is read by mptr; one lease is computed before the first lock; an object in both sets finds its
// own lock when it is validated; an abort sets the log to ABORT, then releases, then sets it to DONE; what the
// paper calls Recovery is Repair; the lease of a commit is computed anew before each try.
//
// # Deviations
//
//   - Leases count units of 8 us from 2020 on, not milliseconds: leases of one owner strictly increase, and with
//     milliseconds an owner could not commit more than 1,000 updates per second.
//   - An unlocked word holds the last lock word without its lock bit: a version that never comes again. The paper
//     keeps a version there and does not say where it survives while the word is locked.
//   - "No log" (4.5, Opt1) is a bit beside the owner, not an invalid owner: so lock words of two clients without
//     a log differ, and a late release cannot hit another one's lock.
//   - Who repairs an update without log, or aborts an own one, renews the version in the data pointer before the
//     lock is released. The paper has the repairer copy the value to a new block; the owner's abort needs it too,
//     because a repairer that took it for dead may be about to swing the pointer.
//   - The header of a log carries 15 bits of its transaction's lease, so that a late CAS on it misses the next
//     transaction; its entries are covered by a hash beside the checksum of the paper.
//   - The version in a data pointer counts the uses of its block and its renewals, not the updates of an object. A
//     commit with a log follows a pointer that was renewed: whoever repairs an update without log and is slow may renew
//     the pointer when that update has ended and another transaction has locked, validated and committed. In the
//     paper, where it installs a copy, the swing of that transaction would be lost. So locks are released in a round
//     trip of their own.
//   - Allocation: see below; the paper's bitmap would lose a batch with each crash until its client returns.
//
// # Fewer round trips and aborts (4.5)
//
// An update of one object has no log (Opt1). What is going to be updated can be locked when it is read (Opt2,
// Config.EarlyLocks): early.go has the rules. Config.Hints is ours: a client remembers the metadata of objects, and reads
// block and metadata together, in one round trip instead of two. The metadata comes behind the block, so a block that
// was replaced meanwhile is noticed, and read again. Config.Copies is ours, too: with a copy of the block, the metadata is
// all that is read.
//
// # Memory without leaks (4.4)
//
// Each owner has a reclamation table of slots in the node's memory; a free block is in one slot. An update takes
// the block of a slot and leaves the replaced block there, by a CAS between swing and release. The header of a
// block names the slot that it came from and the block that it replaced, so whoever repairs can do that CAS for
// a dead owner. Fresh blocks come in chunks from the allocation table. Objects are allocated by the transaction
// itself, from lists that are objects. So after any crash every block is current in one object, in one slot, or
// not given out yet. An owner keeps some blocks back for updates, which give one back each, so that memory that is
// full can still be changed. Audit checks that. Attach under a number that was used before repairs what the former life
// left: its log, its slots, its half-done refill. Package memnode has fenced that life before.
//
// # Several memory nodes
//
// The paper has one. Here pointers have the number of a node (PlaceNode), and all nodes have the same shape, so a place
// is an offset with a number above. An owner's log, slots and list of free objects are on the node that its number
// gives, and so are roots; it takes chunks and objects that were never used from all nodes. Queue pairs to different
// nodes keep no order, so every phase is awaited, and so is a check behind what it checks. The memory says which
// number its node has: clients that name the nodes in another order are refused.
//
// # Clocks
//
// Safety never depends on a clock: a lease only says when others may try to repair. Clocks that differ by more
// than Timing.Drift cause repairs of transactions that live, which abort them or do their work twice.
//
// # Who may call what
//
// A Client is one owner with one log. It belongs to one fiber at a time; a worker may have many. All buffers are
// the client's, registered once: views that Read, Update and Write return are valid until the attempt ends.
// In steady state nothing is allocated. After an error of the transport a client is broken: its last commit
// may have an unknown outcome, and a new client must be attached in its place. The loss of one of several memory nodes
// breaks only clients in the middle of a commit that needs it.
//
// A transaction's code may see a mixture of old and new objects, and must tolerate it (bounded loops, checked
// indexes); the commit refuses what it made of that.
//
// # What it does not do
//
// Nothing is replicated: in the paper memory nodes do not fail (section 3). Of several nodes one may be lost here: what
// needs it fails with a LostError, and the rest goes on (lost.go). No client can attach while a node is lost.
package rtx
