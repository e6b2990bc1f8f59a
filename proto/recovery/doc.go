// Package recovery decides what becomes of transactions whose coordinator died, or lost replicas in the
// middle of a commit. It is the decision alone, as pure functions, and the form of records in logs and of
// the names of transactions: package occ asks the replicas, and does what was decided.
//
// # The commit that it decides about
//
// A coordinator locks what it writes at the primaries, validates what it read, and then logs: each
// written shard gets a record at the nodes of Holders, with the names and versions of everything that is
// written, and with the values of the shards that the node has a replica of. When all of them have
// acknowledged, the client may be told. The coordinator then commits at the primaries, and, when these
// have acknowledged, truncates at the holders: they apply the record to their replica and drop it. An
// abort after the first record drops all records before it gives the first lock back.
//
// # Who holds a record
//
// The backups do. But a coordinator that is itself a backup of a written shard has the record where it
// dies with it: with two replicas the record of a shard whose backup is the coordinator would be nowhere
// when that one node has died, and the client was told. So the shard's primary holds a record, too, if
// the coordinator is a backup. To commit at the primaries before the client is told is not enough:
// with two such shards one primary may have committed, and the other have nothing but its lock.
//
// # The vote
//
// Every replica that lives says of each written shard what it has Seen. The decision is FaRM's (SOSP
// 2015), for locks that come without values and for such that bring them:
//
//   - commit if a replica of any written shard has applied the update: logging was complete;
//   - else commit if every written shard that is not lost has the record at some replica, or, where
//     locks bring values, the lock, and one has the record: validation is over when the first is logged;
//   - else abort.
//
// A shard is lost when no complete replica of it lives. Its part of the transaction is gone with it,
// whatever is decided, and does not speak against what a client may have been told.
//
// A replica has applied the update if its version of a written record is that of the update, or newer.
// This takes that nobody else writes the record as long as a record of the transaction is left anywhere:
// a primary keeps its lock until then, and a backup that is promoted takes the locks of all records that
// name its shard, wherever they are, before it serves.
//
// # What follows from a decision
//
// Recovery goes on as the coordinator would: of a commit with LOG, COMMIT and TRUNCATE, of an abort with
// DROP and UNLOCK, each at all nodes before the next. Nothing less is enough when another node dies in the
// middle:
//
//   - A commit that is carried out before every replica has the record leaves an update at one replica,
//     and nobody who knows the rest: if the only holder dies next, the transaction is half done.
//   - A promoted backup that has taken the locks of a record keeps in mind what the record names: if its
//     holders truncate or die, it is the last to know that there is something to decide.
//   - It forgets that with DROP. If it still knew after UNLOCK, the next recovery would take what another
//     transaction has written since for the update.
//
// A coordinator that lives through the change of the view decides itself. It commits if every holder that
// lives has acknowledged the record, and otherwise aborts; only one that has not begun to log, and has no
// lock at a dead primary, goes on. A lock of a dead node that no record names is given back: its transaction
// had not begun to log, or had been aborted.
//
// # How sure that is
//
// The test explores every state that a commit and an abort can come to, on one and two shards, with two and
// three replicas: all orders of messages and acknowledgements, every loss, and up to f deaths at any points
// of commit and recovery. It finds each bug of the list in recovery_test.go.
package recovery
