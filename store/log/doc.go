// Package log keeps records in a ring of memory that outlives the process. It is the log of every system
// that replicates (FaRM's and DrTM+H's backup logs, Dandelion's, Xenic's, rTX's).
//
// A Log is the host's side of the ring: it formats the memory, reads records, truncates, and scans after a
// crash. A Writer appends: it accounts for the free space, and encodes a record into bytes and their places
// in the ring. The caller chooses how the bytes get there:
//
//   - the CPU, at the host itself: Log.Append;
//   - WRITE, from another node: Writer.Encode into registered memory, then one WRITE, or two where the ring
//     wraps, on one queue pair;
//   - RPC: the same bytes as a message, which the host's handler hands to Log.Place.
//
// A log has one writer at a time, and a queue pair or session of its own from it, so that records become
// complete in the order of their positions. Several logs may lie in one MR.
//
// # Memory
//
// The memory is the caller's: an MR with verbs.MROptions.Keep, which is named shared memory on shm, a file
// on tmpfs, hugetlbfs or DAX on ibv (ibv.Options.KeepDir), and part of the node on sim. It outlives the
// process; it outlives the machine only if the file system does. CPU caches are assumed to be kept, too, as
// with battery-backed memory (FaRM, DrTM+R): the package flushes nothing.
//
// # Space
//
// A commit reserves space before it needs it, for everything that it will append, its truncation record
// included (Writer.Reserve). Append and Encode use the reservation and never fail for lack of space. If the
// log is full, writers wait in order of arrival until the host has truncated and calls Released. So a full log
// slows its writers down, but cannot deadlock them: a holder of a reservation never waits for another one of
// the same log, and everything that truncation waits for is reserved already. A commit that logs at several
// nodes reserves in the same order of logs as every other commit, like locks.
//
// # Bytes
//
// All numbers are little endian. Positions count bytes since the log was formatted and are never used
// again; position p is at byte 128 + p mod capacity of the memory.
//
//	  0  magic "dRlog\x00" 6 | version 2 | capacity 8 | generation 8 | marks 1, zero 7 | checksum 8
//	 40  zero
//	 64  head 8 | its checksum 8 | head 8 | its checksum 8 | zero 32     the higher valid one counts
//	128  the ring: lines of 64 bytes
//
// A record begins at a line. Where the device makes lines visible in any order, or by halves (no
// verbs.Caps.AscendingWrites: Soft-RoCE, most hardware), each line ends with a mark, and carries 56 bytes of
// the record; elsewhere it carries 64:
//
//	0  bytes of the record 56 | mark 8: the line's position, mixed with the generation
//
// The record, taken out of its lines:
//
//	 0  checksum 4 (CRC-32C of the generation and of everything that follows)
//	 4  length of the body 4
//	 8  position 8
//	16  epoch 4 | type 2 | format 2
//	24  ID 8, the writer's: a transaction
//	32  the body, zero padded to the line
//
// # Valid records
//
// A record is valid if it has the expected position, all marks, and the right checksum, which covers
// generation and position. A scan returns the records from the head on, in order, and ends at the first invalid
// one; it returns neither that record nor anything behind it. Scan.Why describes what is there: nothing, an
// incomplete record, a wrong checksum, an unknown format, an impossible length, or an epoch that falls or
// exceeds the present one. The head is written to its two places in turn, so a crash during a write leaves the
// other.
//
// After a crash, Recover wipes everything behind the last complete record, so that the log can be appended to.
// Otherwise an old record that was never returned could follow a later, shorter one.
//
// # Who may call what
//
// A Writer belongs to its fiber.Worker's thread, a Log to its host's. A record from Next is valid until the
// next call. Only the first use of longer records allocates.
package log
