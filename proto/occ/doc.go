// Package occ is optimistic concurrency control for distributed transactions, once for all systems that
// differ only in how their phases reach other nodes (Xenic §2.2, HADES §II, DrTM §8.6). A system is an
// Instance: a name and a Strategy, in a package of its own below this one.
//
// # The phases
//
//	EXECUTE   Load        reads what the program touches, with versions, and locks what it writes, if
//	                      option "lock" is "execute"
//	LOCK      lockWrites  locks what is written and is not locked yet, at the version that was read
//	VALIDATE  validate    what was read, and is not locked, has its version still, and no lock
//	LOG       log         the update is in a log of all who have to hold it; nothing without backups
//	COMMIT    release     value, version, then unlock
//	TRUNCATE  truncate    backups may apply the update, and free its room in the log
//
// Every phase ends before the next begins. A phase reaches all nodes at once, and the records of the own
// node by the CPU, without messages. The transaction takes place between LOCK and VALIDATE, when all its
// locks are held.
//
// # Carriers
//
// A Strategy names a carrier for each phase.
//
//	RPC       one request for each node (more if its records do not fit into 8 KiB), which the node's
//	          CPU serves: call.go here, host.go there
//	OneSided  READs, CAS and WRITEs, which the node's NIC carries out: verbs.go, and back.go for the end
//
// LOCK and COMMIT have the same one. With early locks, what is written is read and locked in EXECUTE by the
// carrier of LOCK. Requests of both kinds are in flight together, on queue pairs that know no order between
// each other: each kind is awaited before the phase ends.
//
// A carrier of messages, such as rings that hosts poll, is added so: a constant of Carrier; a messenger,
// which takes requests to hosts and brings answers back (call.go); at the host, serveItems for each request
// that comes (host.go). Nothing else knows how messages travel.
//
// # Replication
//
// Each worker has a log at every other node (package log; protocol.Env.Logs there, proto.PeerLog here). It
// appends to it, and the worker of its index there reads it. Before LOCK a transaction reserves room in all
// logs that it will use, in the order of nodes, and waits while one is full. What frees room, the answers to
// commits that are under way, never waits for a lock. LOG appends one record to the log of each holder
// (recovery.Holders: the backups of what is written; the primary, too, where the coordinator is a backup). It
// names all that the transaction writes, and has the values of the shards that the holder has a replica of:
//
//	OneSided  WRITEs: their completion is the acknowledgement
//	RPC       TypeLog: the host's CPU puts the record in its place, and answers when all before it are there
//
// A record of more than 8 KiB is written either way. When all holders have it, the transaction is committed
// and the client may be told; the backups on the coordinator's own machine get the update then.
//
// A record is decided when all primaries have confirmed COMMIT. Every record says up to which position of its
// log everything is decided. The host applies that to its replicas, each write whose version is newer than
// the replica's, and frees the room; so backups follow in the background, TRUNCATE costs no message, and
// updates of one record by different coordinators may come in any order. A host that gets no record for a
// while, or whose log has become full, is told by TypeTruncate, and answers where the log begins now. A
// deleted record keeps its tombstone in a backup as long as a log of that machine has an older update of it.
//
// A log is read in order, so a record counts only if all before it are there. If one does not arrive, the log
// is stuck: nothing is sent behind it until the keeper has the host reached again and what is missing was
// sent again (Finish). Transactions whose record did not arrive are of unknown outcome, keep their locks, and
// go on then.
//
// # Rules
//
//   - No-wait: a record that another has locked ends the attempt, in every phase, EXECUTE included.
//   - A record that is read and written is locked, not validated. The late LOCK compares its version.
//   - A transaction of one record that writes nothing is not validated: it was read at one moment.
//   - Rollback validates before it is told: the program has decided on what it saw.
//   - An absent record has a version, too: that of its tombstone. It is validated like others. An
//     absence without a tombstone has the table's counter instead, which grows when a key was inserted,
//     deleted and given back: otherwise two absences could be seen that never were at the same time.
//   - Who locks an absent record has an entry made for it, by its host. Whoever unlocks a record that ends
//     absent gives the entry back; the table keeps the count from which versions go on (package store).
//
// # Who locks
//
// A record is locked by the CPUs of its own node, for transactions of their own and for requests of others;
// or, if LOCK is OneSided, by NICs. With line words the own node's records are locked by the CPU all the
// same: it takes the line's, as a remote operation does, so that it excludes NICs, and READs of other nodes
// and regions see whole lines. Without, the atomics of CPUs and NICs do not exclude each other: then either
// CPUs alone lock, or NICs alone, records of the own node by loopback. The table's structure is changed under
// the node's lock (protocol.Env.Structure).
//
// # Reads
//
// A record is read without its lock, while others may write it: a CPU under its lock, the value before the
// version; or a NIC, the version before the value. What proves that a copy is of one moment:
//
//   - With line words a line is read at one moment, so one READ proves a record of one line. For several
//     lines the header is READ again behind the copy: unlocked and with the same version both times.
//   - Without, each word is of a moment of its own, and nothing is known of the order within a READ. READs
//     of one queue pair are carried out in order. So there are four: key and version, the record, the state,
//     and key and version again. If the state is unlocked, a writer who has begun before the copy ended has
//     changed the version before the last READ; and as it writes the version last, the first READ shows
//     whether it was done before the copy began. Where NICs write the version first, a READ of the state
//     behind the first one shows that it was done.
//   - VALIDATE reads the state, then the version: if it is unlocked and the version is the old one, the
//     record was both when its state was read. The other way round a writer could come between.
//
// A CPU reads its own node's memory in the same order.
//
// A place from the location cache may be out of date. The entry says whose it is; if it is not the key's,
// the place is dropped and the attempt begins again. An absent record without an entry is looked up in
// memory, again in VALIDATE.
//
// # Failures
//
// A request to lock that was not answered may have been carried out: its records are unlocked like those
// that are locked. What cannot be unlocked is owed (proto.Debt), with its update if the transaction has
// got to COMMIT, whose outcome then is unknown. The session is closed, so that nothing on it is carried
// out later; Finish sends the same request on a new one, or its operations where NICs lock. It names the
// lock by a word that no attempt has again, so a request that comes twice does nothing. Locks of a node that
// died stay, and are named (proto.Orphan), until there is recovery.
//
// # Ownership
//
// An Engine belongs to its worker's thread, a transaction to the fiber that began it. Requests, answers and
// what READs prove lie in buffers of the transaction object; in steady state nothing is allocated.
//
// What it does not do yet: recovery. Without it nobody decides about the transactions of a node that died.
package occ
