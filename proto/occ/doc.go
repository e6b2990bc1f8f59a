// Package occ is optimistic concurrency control for distributed transactions, written once for all systems
// whose phases differ only in how they reach other nodes (Xenic §2.2, HADES §II, DrTM §8.6). A system is an
// Instance: a name and a Strategy, in a package of its own below this one.
//
// # The phases
//
//	EXECUTE   Load        reads what the program touches, with versions, and locks what it writes, if
//	                      option "lock" is "execute"
//	LOCK      lockWrites  locks what is written and is not locked yet, at the version that was read
//	VALIDATE  validate    checks what was read and is not locked: same version, no lock
//	LOG       log         gives the update to the logs of all holders; does nothing without backups
//	COMMIT    release     writes the value, then the version, then unlocks
//	TRUNCATE  truncate    lets backups apply the update and free its room in the log
//
// Every phase ends before the next begins, but for COMMIT of strategies that do not wait for it. A phase
// reaches all nodes at once. For the records of its own node it uses the CPU and no messages. The
// transaction takes place between LOCK and VALIDATE, when it holds all its locks.
//
// # Carriers
//
// A Strategy names a carrier for each phase.
//
//	RPC       one request for each node (more if its records do not fit into 8 KiB), which the node's
//	          CPU serves: call.go here, host.go there
//	OneSided  READs, CAS and WRITEs, which the node's NIC carries out: verbs.go, and back.go for the end
//
// LOCK and COMMIT have the same carrier. With early locks EXECUTE reads and locks the write set by the carrier
// of LOCK. Both kinds of requests may be in flight together. They use queue pairs without a common order, so a
// phase awaits both kinds before it ends.
//
// To add a carrier of messages, such as rings that hosts poll, write: a constant of Carrier; a messenger,
// which takes requests to hosts and brings answers back (call.go); and at the host a call of serveItems for
// each request (host.go). Nothing else knows how messages travel.
//
// # Replication
//
// Each worker has a log at every other node (package log; protocol.Env.Logs there, proto.PeerLog here). The
// worker appends to the log, and the worker of its index at that node reads it. Before LOCK a transaction
// reserves room in all logs that it will use, in the order of nodes, and waits while one is full. This cannot
// deadlock: the answers to commits under way free room, and they never wait for a lock. LOG appends one record
// to the log of each holder (recovery.Holders: the backups of what is written; the primary, too, where the
// coordinator is a backup). The record names all that the transaction writes, and has the values of the shards
// that the holder has a replica of:
//
//	OneSided  WRITEs: their completion is the acknowledgement
//	RPC       TypeLog: the host's CPU puts the record in its place, and answers when all before it are there
//
// Both send a record of more than 8 KiB by WRITEs. When all holders have the record, the transaction is
// committed: the client may be told, and backups on the coordinator's own machine get the update.
//
// A record is decided when all primaries have confirmed COMMIT. Every record says up to which position of its
// log all transactions are decided. The host applies these records to its replicas, each write whose version is
// newer than the replica's, and frees their room. So backups follow in the background, TRUNCATE costs no
// message, and updates of one record by different coordinators may come in any order. A host that gets no
// record for a while, or whose log is full, is told by TypeTruncate; its answer says where the log begins now.
// A deleted record keeps its tombstone in a backup as long as a log of that machine has an older update of it.
//
// A log is read in order, so a record counts only if all before it are there. If one does not arrive, the log
// is stuck: the coordinator sends nothing more to it until the keeper has reached the host again and Finish has
// sent what is missing. Transactions whose record did not arrive have an unknown outcome. They keep their locks
// and continue after Finish.
//
// # Rules
//
//   - No-wait: a record that another transaction has locked ends the attempt, in every phase, EXECUTE included.
//   - A record that is read and written is locked, not validated. A late LOCK compares its version.
//   - A transaction of one record that writes nothing is not validated: it read the record at one moment.
//   - Rollback validates before it returns, because the program has decided on what it saw.
//   - An absent record has a version, too: that of its tombstone. It is validated like others. Without a
//     tombstone an absence has the version of the table's counter, which grows when a key was inserted,
//     deleted and given back. Otherwise a transaction could see two absences that never were at the same time.
//   - To lock an absent record, a transaction has its host make an entry. Whoever unlocks a record that ends
//     absent gives the entry back; the table keeps the count from which versions go on (package store).
//
// # Who locks
//
// The CPUs of a record's own node lock it, both for their own transactions and for requests of others; if LOCK
// is OneSided, NICs lock it.
//
//   - With line words the CPU locks records of the own node in both cases. It takes the line's word, as a
//     remote operation does. So it excludes NICs, and READs of other nodes and regions see whole lines.
//   - Without line words the atomics of CPUs and NICs do not exclude each other. Then only CPUs lock, or only
//     NICs do, records of the own node by loopback, also what recovery unlocks (nicwords.go). The table's structure changes under the node's lock
//     (protocol.Env.Structure).
//
// # Reads
//
// A record is read without its lock while others may write it. A CPU writes under its lock, the value before
// the version; a NIC writes the version before the value. Readers prove that a copy is of one moment:
//
//   - With line words a line is read at one moment, so one READ proves a record of one line. For several
//     lines the header is READ again after the copy: it must be unlocked and have the same version both times.
//   - Without line words each word may be of another moment, and the order within a READ is unknown. But the
//     READs of one queue pair are carried out in order. So there are four: key and version; the record; the
//     state; key and version again. If the state is unlocked, a writer who began before the copy ended has
//     changed the version before the last READ. A CPU writes the version last, so the first READ shows whether
//     it was done before the copy began. Where NICs write the version first, a READ of the state after the
//     first one shows that. Where the look-up has READ the entry, too (FaRM), that was the first READ.
//   - Without line words, and where only CPUs lock and write, records have a seal (layout.Sealed, seal.go; option
//     "seals"): a hash of key, version and value, which is there while the record is unlocked. A copy with its seal
//     is proved by one READ, or by that of the look-up, and VALIDATE is one READ of the seal. A copy without takes the
//     READs above: the record is locked, or absent, or just being written.
//   - VALIDATE reads the state, then the version: if the state is unlocked and the version is the old one,
//     both held when the state was read. In the other order a writer could come between.
//
// A CPU reads its own node's memory in the same order.
//
// A place from the location cache may be out of date. The entry says which key it has; if it is another one,
// the place is dropped and the attempt begins again. An absent record without an entry is looked up in
// memory, in VALIDATE once more.
//
// # Failures
//
// A request to lock that was not answered may have been carried out, so its records are unlocked like locked
// ones. What cannot be unlocked is owed (proto.Debt). If the transaction has got to COMMIT, the debt has its
// update, and its outcome is unknown. The session is closed, so that nothing on it is carried out later;
// Finish sends the same request on a new session, or its operations where NICs lock. The request names the
// lock by a word that no other attempt has, so a request that arrives twice does nothing. Locks of a node that
// died stay, and are named (proto.Orphan), unless records have backups.
//
// # Ownership
//
// An Engine belongs to its worker's thread, a transaction to the fiber that began it. Requests, answers and
// the words that READs prove are in buffers of the transaction object; in steady state nothing is allocated.
//
// # Scans
//
// The records of a range, deleted ones included, are read like others. Between LOCK and VALIDATE the hosts look
// whether the range has an entry for the same keys (scan.go, package onesided). A transaction with scans has no region
// at its commit.
//
// # Recovery
//
// With backups the members may change (proto.Recoverer). Pause lets no phase begin and waits for those under way;
// when all nodes have come so far, and who is gone is fenced, Recover takes the next placement into use:
//
//   - Each worker scans the logs that it hosts (known.go). Shards whose primary stays are served at once.
//   - A promoted backup locks the records of every undecided transaction that writes to its shard, with that
//     one's lock word: of those that it has a record of itself, and of those that any other node knows whose
//     coordinator is dead, or says that it has not decided them. Then it serves the shard.
//   - A live coordinator decides about its own transactions: commit if every holder that lives has acknowledged
//     the record, else abort. Locks that went with a dead primary are forgotten.
//   - The lowest node that lives collects what all others know of the transactions of the dead, and decides by
//     recovery.Rule. A replica also votes that it has freed its record: then the transaction was committed.
//   - A decision is carried out on all nodes, stage by stage (run.settle), by the worker of the index of the
//     coordinator's. A second change begins it anew.
//   - Then locks of the dead that belong to nothing are given back, and their logs are emptied.
//
// Attempts of the old view abort (proto.ReasonMoved), in LOG and before; a shard without a replica refuses them
// (proto.ReasonLost). Fill copies a shard record by record from its primary, which serves it meanwhile; what is
// written is logged to the new backup from the moment on in which all nodes know of it. A backup keeps the
// tombstones of deleted records while it is filled, and while anything is undecided.
//
// A node that is back runs no transaction before the placement has it again. No instance has the values of an
// update in its messages of LOCK, so a lock is no vote (package recovery).
package occ
