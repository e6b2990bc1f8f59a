// Package log keeps records in a ring of memory that outlives the process: the one log of every system
// that replicates (FaRM's and DrTM+H's backup logs, Dandelion's, Xenic's, rTX's).
//
// A Log is the ring as its host sees it: it formats the memory, reads records, truncates, and scans after a
// crash. A Writer is the one that appends: it keeps account of the room, and turns a record into bytes and
// the places where they go. What carries them is the caller's choice:
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
// on tmpfs, hugetlbfs or DAX on ibv (ibv.Options.KeepDir), and part of the node on sim. It outlives the process,
// and the machine only where the file system does; the CPU's caches are assumed to be within the domain
// that is kept, as battery-backed memory has it (FaRM, DrTM+R): nothing is flushed.
//
// # Room
//
// Room is reserved before it is needed, for everything that a commit will append, its truncation record
// included: Writer.Reserve. Append and Encode take from the reservation and cannot fail for want of room.
// A writer that finds the log full waits, in order of arrival, until the host has truncated and Released
// says so. So a full log slows its writers down. It cannot deadlock them: who holds a reservation never
// waits for another of the same log, and everything that truncation waits for is reserved already. A commit
// that logs at several nodes reserves in their logs in one order, the same for all, as it would take locks.
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
// # What a reader believes
//
// A record counts if its position is the expected one, all its marks are there, and the checksum, which
// binds generation and position, is right. A scan gives the records from the head on, in order, and ends at
// the first that does not count; Scan.Why says in words what is there: nothing, a record that was cut in the
// middle, a wrong checksum, an unknown format, a length that cannot be, or an epoch that falls or is above
// the present one. Such a record is never given out, nor anything behind it. The head is written to the two
// places in turn, so that a crash in the middle leaves the other.
//
// Recover makes a log fit to be appended to after a crash: it wipes everything behind the last complete
// record. Otherwise a later, shorter record could be followed by an old one that was never given out.
//
// # Who may call what
//
// A Writer belongs to its fiber.Worker's thread, a Log to its host's. A record that Next gives is valid until
// the next call. Nothing allocates but the first use of longer records.
package log
