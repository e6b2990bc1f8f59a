// Package dandelion is the transactional protocols of Dandelion (§4): Table 4's ways to fill in one skeleton, which is
// that of package occ. It is declarations; package occ does the work, its undo.go what is only Dandelion's.
//
//	       LOCK               VALIDATE  LOG (replication)        COMMIT (unlocking)  trips
//	dnl4   primaries, writes  reads     backups, writes          primaries, writes   4
//	dnl2   primaries, all     -         all replicas, writes     primaries, all      2
//	dnl1   all replicas, all  -         with LOCK                all replicas, all   1
//
// Every phase is carried by RPC. Trips are those from the commit to the moment when the client is told: Dnl-4 tells it
// after the unlock messages are acknowledged, the others after they are sent; option "told" has both ways. A transaction
// that changes nothing locks nothing, and validates (Dnl-RO); one of one read does not even that (GetOne). With Dnl-4
// it reads at the primary if it is declared, and else validates there what it has read at a backup.
//
// # Undo logs and Readable
//
// A backup applies an update in LOG, keeps what it has replaced, and lowers the record's Readable flag. A commit raises
// the flag; the host learns of it by what later messages of the coordinator say, or by TRUNCATE if none comes. Recovery
// puts the old value back if it aborts the transaction. Dnl-2's primaries apply the update in LOG, too, under the
// transaction's lock. Log records also have the new values, which recovery gives to replicas that lack them.
//
// # Locks in the log
//
// With Dnl-1 the log record is the request to lock. It names all records of the transaction, with the versions that were
// read. Each replica locks them, all or none, and applies the update with an undo log; a backup's lock is the lowered
// Readable flag. When all have done so the transaction is committed. Otherwise it is aborted, and all replicas have put
// back the old values when the client hears of it. One message for each replica says how the transaction ended. A record
// stays in the logs until all replicas have confirmed that: a survivor without a record knows that nothing was locked.
// Recovery commits a transaction of a dead coordinator if a replica knows that it was committed, or if each replica that
// lives has its record. Updates that are applied and not decided say nothing.
//
// # Reads at backups
//
// EXECUTE reads a record at the own machine if that has a complete replica (§4.3). VALIDATE, or LOCK with Dnl-2, compares
// the version at the primary. The record is read at the primary instead while its Readable flag is lowered, if the
// backup has no value of the key, while the node knows of transactions that recovery has not decided, and, with Dnl-4,
// if it is all that is declared.
//
// # Messages
//
// Of a transaction that reads r records and writes w, on n other nodes, without local replicas. A request and its answer
// are two messages.
//
//	phase     requests  trips
//	EXECUTE   n         1
//	LOCK      n         1
//	VALIDATE  n         1; dnl2: only if w is 0
//	LOG       h         1
//	COMMIT    n         1; dnl2: nobody waits
//
// h are the backups, with Dnl-2 the primaries, too. Dnl-1 has EXECUTE as above, no LOCK, and LOG and COMMIT with all h
// replicas. TestTable4 holds the table.
//
// Messages are compact (§5; package occ, compact.go), and travel on the flows of their phase (package rpc): EXECUTE on
// the first, LOCK to COMMIT on the second, what recovery sends on the third. Without the 26 bytes of a datagram, and of
// one record, a request and its answer take 3 and 2 bytes of header and
//
//	EXECUTE   3 + key + version       1 + version + place + value
//	LOCK      3 + key + version       1 + version + place
//	VALIDATE  3 + key + version       1
//	LOG       8 to 14 + 2 + key + version + value       2 to 5
//	COMMIT    3 + key + version + value       1
//
// A key has up to 6 bytes where nodes have 67 million records, a version up to 4 where each was written 134 million
// times, a place up to 5. So a request to lock takes 16 bytes at most (TestALockRequestTakesSixteenBytes). The exact
// bytes of some transactions are in testdata/bytes.txt.
//
// # Differs
//
//   - With Dnl-4, a transaction that is declared as one read reads at the primary, in one request; one that was not, and
//     has read one record at a backup, validates it there, which is one request, too. The paper's GetOne takes none, and
//     is not strictly serializable: T1 reads A and writes B; it has validated A, and its LOG has not reached the backup of
//     B; T2 changes A, and its client is told; T3 begins, and finds the B of before there. T1 comes before T2, T2 before
//     T3, and T3 before T1. Dnl-2 and Dnl-1 lock A until the LOG is everywhere.
//   - Where the coordinator is itself a backup of what it writes, Dnl-4 logs at the primary, too: otherwise no record
//     could survive the death of the coordinator and the other backups (package recovery). In return the client could
//     be told after LOG.
//   - A record that is locked ends EXECUTE at once; the paper returns its value and has the commit fail. A read of a
//     record whose Readable flag is lowered is not repeated, but goes to the primary.
//   - A blind write reads its record before.
//   - Answers to COMMIT are messages of their own. The paper's model counts none.
//   - Versions have 64 bits. Lock, Readable and the version are words
//     of the record beside each other (package store/layout), not parts of one of 32 bits.
//   - A log record of more than 8 KiB is refused.
//   - Dnl-1 does not scan ordered tables, as the paper's protocols: it would look at a range again when it has already
//     written. The others do.
//   - Dnl-1 applies the update when it locks, and not when it unlocks: the message that unlocks has no values.
//   - Datagrams of a flow have requests and answers. In the paper each batch of requests results in a batch of responses
//     (§5.3), since the layer that batches lies on eRPC, whose packets are of one request or of its answer. The model of
//     the paper's figures has answers apart (rpc.Config.AnswersApart).
//   - A machine that died is replaced: see package occ.
package dandelion
