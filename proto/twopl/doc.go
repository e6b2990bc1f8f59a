// Package twopl is plain two-phase locking over one-sided verbs, without waiting: the baseline
// that DrTM is measured against, and a second implementation of the transactions to compare
// results with. The records are locked as DrTM locks remote ones (§5.2) and as its fallback
// handler locks all (§7.2): by RDMA CAS on the state word, those of the own node through a
// loopback queue pair, because on most NICs an RDMA CAS and a CPU CAS do not exclude each other
// (§7.3).
//
// The records of an attempt are those of package txset; look-ups, CAS with READ, write-back, peeks and
// debts are those of package onesided. What is here is when to do what: acquire.go and commit.go, and
// cpu.go for locks by the CPU.
//
// # A transaction
//
//  1. Begin locks every declared record: a CAS on the state word and a READ of the entry behind
//     it on the same queue pair, for all records at once and in flight together. A record that
//     the declaration does not have is locked the same way when it is touched; ReadMany locks
//     its records together.
//  2. A lock that somebody else has ends the attempt (no-wait): there is no deadlock to detect.
//     Everything that was locked is given back.
//  3. The program works on the copies.
//  4. Commit bumps versions and writes back: a WRITE of the version, a WRITE of the value, and
//     the CAS that unlocks, for all records in flight together. A queue pair carries them out in
//     order, so a record is unlocked when its new value is there. No lock is taken after the
//     first was given back, and all are held when Commit begins: that is the moment at which the
//     transaction takes place, and so the order is strict.
//
// # Locks are exclusive
//
// There are no shared locks: two readers of a record exclude each other. A count of readers would
// let them share, at the price that a reader that dies leaves a count that names nobody, and that
// a reader whose request failed on the way cannot find out whether it is counted. A lock word
// names its holder (node, worker, transaction, life), and taking it back is harmless if it was
// never taken. Workloads that mostly read hot records are therefore at a disadvantage here, which
// belongs to the comparison with DrTM's leases and has to be said beside it.
//
// # Absent records
//
// A lookup that finds no entry has the record's host make an absent one (Store.EnsureIn, by RPC).
// It is locked like any other: an absent read holds the lock of what it did not find, so there
// are no phantoms on keys. An insert makes it live by its write-back, a delete leaves a
// tombstone. Whoever gives back the lock of an entry that stays absent then asks the host to
// reclaim it, just before; the host does so if it is still absent and locked by the caller. A
// transaction that is refused before it has locked an entry that was made for it has it reclaimed
// too, if nobody has it locked and the device's atomics exclude the CPU; otherwise it stays, and
// goes with the next transaction that locks it. An entry says itself whether it
// belongs to a key (layout.Match), so a stale location is noticed under the lock, given back, and
// looked up again.
//
// # twopl-local
//
// In the variant twopl-local, records of the own node are locked, read, written and unlocked by the CPU,
// where the device's atomics exclude it (ATOMIC_GLOB: shm, sim): under the line word of the
// entry's header, as the device itself does it, so that a remote CAS and a local one exclude each
// other and remote READs see whole lines. On other devices, and for a line that somebody holds
// for longer than a bounded number of looks, the loopback way is taken. A record of one line costs
// two short line locks then, and this may well be faster than emulated HTM: BenchmarkTransfer
// prints both in one run, and so does drtmd bench.
//
// # Failures
//
// A peer that cannot be reached ends the attempt with ReasonUnreachable. If that happens while
// the locks are given back, those at the peer stay held: Engine.Orphans names them, and
// Engine.Finish gives them back, with the update if there was one, once the peer is connected
// again. If it happens during the write-back, the outcome of the transaction is unknown unless
// every write was confirmed. A cancellation of the fiber ends the attempt, but not between a
// request that changes something and its answer, nor in the middle of a commit or a release
// (Fiber.Shield); all of these waits end by themselves.
//
// A record that stays locked by a node that died ends every attempt: with ReasonLocked at first, and
// with ReasonOrphaned, which gives the transaction up, when the same lock was met for
// the option orphan-after and Env.HolderLives says that its holder is gone. Engine.Orphans names these
// records too. There is no lease that runs out.
//
// # Ownership and concurrency
//
// An Engine belongs to a worker, its transactions to the fibers that began them. Each transaction
// object has registered memory for the copies, made when it is first needed, used again, and
// freed by Engine.Close. In steady state a transaction allocates nothing.
//
// What it does not do: leases, clocks, shared locks, waiting, deadlock detection, scans,
// replication, recovery.
package twopl
