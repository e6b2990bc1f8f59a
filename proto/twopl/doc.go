// Package twopl is plain two-phase locking over one-sided verbs, without waiting: the baseline
// that DrTM is measured against, and a second implementation of the transactions to compare
// results with. The records are locked as DrTM locks remote ones (§5.2) and as its fallback
// handler locks all (§7.2): by RDMA CAS on the state word, those of the own node through a
// loopback queue pair, because on most NICs an RDMA CAS and a CPU CAS do not exclude each other
// (§7.3).
//
// The records of an attempt are those of package txset; look-ups, CAS with READ, write-back, peeks and
// debts are those of package onesided. This package has the order of the steps: acquire.go and commit.go,
// and cpu.go for locks by the CPU.
//
// # A transaction
//
//  1. Begin locks every declared record: a CAS on the state word and a READ of the entry behind
//     it on the same queue pair, for all records at once and in flight together. A record that
//     the declaration does not have is locked the same way when it is touched; ReadMany locks
//     its records together.
//  2. A lock of another transaction ends the attempt (no-wait), so there are no deadlocks. All its
//     locks are given back.
//  3. The program works on the copies.
//  4. Commit bumps versions and writes back: a WRITE of the version, a WRITE of the value, and
//     the CAS that unlocks, for all records in flight together. A queue pair carries them out in
//     order, so a record is unlocked when its new value is there. No lock is taken after the first
//     was given back, and all are held when Commit begins: the transaction takes place at that
//     moment, so the order is strict.
//
// # Locks are exclusive
//
// There are no shared locks: two readers of a record exclude each other. A count of readers would allow
// sharing, but a reader that dies would leave a count that names nobody, and a reader whose request failed
// could not find out whether it was counted. A lock word names its holder (node, worker, transaction,
// life), and giving it back is harmless if it was never taken. Workloads that mostly read hot records are
// therefore at a disadvantage. State this in every comparison with DrTM's leases.
//
// # Absent records
//
// A lookup that finds no entry has the record's host make an absent one (Store.EnsureIn, by RPC).
// It is locked like any other: an absent read holds the lock of what it did not find, so there
// are no phantoms on keys. An insert makes it live by its write-back, a delete leaves a tombstone. A
// transaction that leaves an entry absent asks the host to reclaim it just before it gives the lock
// back; the host does so if the entry is still absent and locked by the caller. If an attempt ends
// before it has locked an entry that was made for it, the entry is reclaimed if it is unlocked and the
// device's atomics exclude the CPU; otherwise the next transaction that locks it has it reclaimed. An
// entry shows whether it belongs to a key (layout.Match), so a transaction detects a stale location
// under the lock, gives the lock back, and looks the key up again.
//
// # Scans
//
// The records of a range, absent ones included, are locked like others, and the commit checks that the range has
// no others, when all locks are held (package onesided). A rollback does so too.
//
// # twopl-local
//
// In the variant twopl-local, records of the own node are locked, read, written and unlocked by the CPU,
// where the device's atomics exclude it (ATOMIC_GLOB: shm, sim): under the line word of the
// entry's header, as the device itself does it, so that a remote CAS and a local one exclude each
// other and remote READs see whole lines. On other devices, and for a line that stays locked for a
// bounded number of looks, the loopback queue pair is used. A record of one line costs two short line
// locks, which may be faster than emulated HTM: BenchmarkTransfer and make bench print both.
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
// What it does not do: leases, clocks, shared locks, waiting, deadlock detection,
// replication, recovery.
package twopl
