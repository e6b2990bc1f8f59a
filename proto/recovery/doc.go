// Package recovery decides which transactions commit after a failure: those whose coordinator died, and those
// that lost replicas in the middle of a commit. It has the decision, as pure functions, the form of records in
// logs, and the names of transactions. Package occ asks the replicas and carries the decision out.
//
// # The commit that it decides about
//
// A coordinator locks the records that it writes at their primaries and validates what it read. Then it logs:
// for each written shard the nodes of Holders get a record. The record names everything that the transaction
// writes, with versions, and has the values for the shards that the node has a replica of. When all holders
// have acknowledged, the coordinator may tell the client. Then it commits at the primaries. When these have
// acknowledged, it truncates at the holders: each applies the record to its replica and drops it. A
// transaction that aborts after its first log record drops all records before it releases the first lock.
//
// # Who holds a record
//
// The backups hold it. A coordinator that is itself a backup of a written shard loses that record when it
// dies. With two replicas no record of the shard would be left then, although the client was told. So if
// the coordinator is a backup of a shard, the shard's primary holds a record, too. It would not be enough to
// commit at the primaries before the client is told: with two such shards, one primary may have committed
// while the other has only the lock.
//
// # The vote
//
// Every live replica says what it has Seen of each written shard. The decision is FaRM's (SOSP 2015), both for
// locks without values and for locks that bring the values:
//
//   - Commit if a replica of any written shard has applied the update: then logging was complete.
//   - Otherwise commit if for every written shard that is not lost some replica has the record. Where locks
//     bring values, the lock is enough, provided that one shard has the record: validation ends before the
//     first record is logged.
//   - Otherwise abort.
//
// A shard is lost if no complete replica of it lives. Its part of the transaction is lost with it, whatever
// the decision is. So it does not vote against a commit that a client may have been told.
//
// A replica has applied the update if its version of a written record is that of the update or newer; or if it is the
// primary, was it when the transaction logged, and has the record no longer locked for it: a commit has unlocked it,
// as an abort drops all records first. The record may have been deleted and forgotten since. So a node also says
// yes that has committed the transaction for a recovery which another death has cut off. The first
// rule needs that no other transaction writes the record while a log record of this transaction exists
// anywhere. So a primary keeps its lock until then, and a backup that becomes the primary takes the locks of
// all log records that name its shard, wherever they are, before it serves.
//
// # What follows from a decision
//
// Recovery does what the coordinator would have done, each step at all nodes before the next: after a commit
// LOG, COMMIT and TRUNCATE, after an abort DROP and UNLOCK. No step can be left out, because another node may
// die in the middle:
//
//   - If recovery applied a commit before every replica had the record, the update could be at one replica
//     whose node is the only one that knows the rest. If that node died, the transaction would be half done.
//   - A backup that became the primary and took the locks of a record remembers what the record names. If its
//     holders truncate or die, this backup is the only one that knows of the undecided transaction.
//   - DROP makes it forget. If it still knew after UNLOCK, the next recovery could mistake a newer write of
//     another transaction for this update.
//
// A coordinator that survives the change of the view decides for itself. It commits if every live holder has
// acknowledged the record, and aborts otherwise. It continues normally if it has not begun to log and holds no
// lock at a dead primary. A lock of a dead node that no record names is released: its transaction had not
// begun to log, or was aborted.
//
// # How it is tested
//
// The test explores every state that a commit or an abort can reach, on one and two shards, with two and three
// replicas: all orders of messages and acknowledgements, every loss, and up to f deaths at any points of
// commit and recovery. It finds each bug of the list in recovery_test.go.
package recovery
