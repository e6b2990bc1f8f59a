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
//	LOG       log         the update is at all backups: there is one copy of each record, and no backup
//	COMMIT    release     value, version, then unlock
//	TRUNCATE  truncate    backups drop what they have applied: none
//
// Every phase ends before the next begins. A phase reaches all nodes at once, with one request for each
// (more if its records do not fit into 8 KiB), and the records of the own node by the CPU, without
// messages. The transaction takes place between LOCK and VALIDATE, when all its locks are held.
//
// # Rules
//
//   - No-wait: a record that another has locked ends the attempt, in every phase, EXECUTE included.
//   - A record that is read and written is locked, not validated. The late LOCK compares its version.
//   - A transaction of one record that writes nothing is not validated: it was read at one moment.
//   - Rollback validates before it is told: the program has decided on what it saw.
//   - An absent record has a version, too: that of its tombstone. It is validated like others. An
//     absence that no tombstone marks is the same as any other such absence.
//   - Who locks an absent record has an entry made for it. Whoever unlocks a record that ends absent
//     gives the entry back; the table keeps the count from which versions go on (package store).
//
// # Who locks
//
// All locking of a record is done by the CPUs of its own node: those of its workers, for transactions
// of their own and for requests of others. NICs write nothing, so what their atomics exclude does not
// matter. With line words the CPU takes the line's, as a remote operation does, so that READs of other
// nodes and regions see whole lines; without, it compares and swaps, and the table's structure is
// changed under the node's lock (protocol.Env.Structure). A record is copied without its lock between
// two looks at its header: writers hold the lock while they write, and change the version.
//
// # Failures
//
// A request to lock that was not answered may have been carried out: its records are unlocked like those
// that are locked. What cannot be unlocked is owed (proto.Debt), with its update if the transaction has
// got to COMMIT, whose outcome then is unknown. The session is closed, so that nothing on it is carried
// out later; Finish sends the same request on a new one. It names the lock by a word that no attempt
// has again, so a request that comes twice does nothing. Locks of a node that died stay, and are named
// (proto.Orphan), until there is recovery.
//
// # Ownership
//
// An Engine belongs to its worker's thread, a transaction to the fiber that began it. Requests and
// answers lie in buffers of the transaction object; in steady state nothing is allocated.
//
// What it does not do yet: replication, recovery, one-sided carriers.
package occ
