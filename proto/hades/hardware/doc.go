// Package hardware models a node of HADES: its directory (package htm/directory) and its NIC with the modules
// (4a) and (4b) of Figure 5. Together they run the steps of §V-A and Table II.
//
// # What it is
//
// A Node is a state machine without time. Cores call it (Begin, Read, Write, Fetch, Update, Commit, Abort),
// messages reach it by Receive, and what it has to do a little later by Run. It hands out messages and later steps
// by its Hooks, each with the cycles until then. Whoever drives it decides when they arrive: the simulator by a
// model of the network, the test by trying every order.
//
//   - Module (4a): a pair of filters for each remote transaction that has accessed lines of this node.
//   - Module (4b): for each local transaction, the lines of other nodes that it has written, with their values,
//     and the nodes that it has read or written.
//
// The operations are Read, WriteFetch (of lines that are written in part), IntendToCommit, Ack, Validation with the
// updates, Squash and Abort, and Fetched, the answer to the first two.
//
// # What the safety of a commit rests on
//
//   - Lines are inserted into a filter before they are read.
//   - An IntendToCommit locks the directory and compares its lines with all filters in one step. A later
//     committer's reads are not compared with locks that are held (§V-B); the earlier one's Squash alone
//     saves it. So nothing may come between the lock and the comparison.
//   - Messages from one node to another arrive in the order in which they were sent. So the Squash for a
//     transaction precedes the Ack that the same node gives it later.
//   - The lines of an IntendToCommit join the write filter before the lock takes a copy of it. Lines that are
//     written as a whole are in no filter before (Table II), and a lock without them would let a reader in between the
//     comparison and the update.
//
// TestEveryOrderIsStrictlySerializable tries every order of messages and steps for pairs of small transactions;
// without one of these rules two of them commit that each read what the other one writes.
//
// # HADES-H
//
// With Config.Hybrid a node is one of HADES-H (§V-D). Cores have no filters and caches no tags. A transaction reads
// local records as a whole with their version, and buffers its writes (ReadRecord, WriteRecord). Its commit locks
// their lines, as the NIC is told them. After the Acks software validates every local record that was read or written
// (Validate): its version has not changed. Two things that the paper does not say have to hold:
//
//   - Who writes a record of another node writes its header line, too, with the next version (Advance). Otherwise local
//     software does not notice.
//   - The validation reads versions from the directory, where a Locking Buffer says that an update is on its way, and not
//     from a private cache. Private lines have no filter bits here that would tell. The small world with a third node
//     shows two transactions that both commit otherwise. A validation that meets such a buffer squashes its transaction:
//     if it waited, two that have read at home what the other one writes from afar would wait for each other.
//
// # The rule against livelock
//
// A transaction that was squashed often locks all that its last attempts have accessed, then executes (§VI, Reserve).
// It locks nodes in ascending order and waits where a commit is in the way. An access outside of what it has locked, which
// another one of its kind denies, squashes it. Here, unlike at a commit, what it will read
// is compared with the locks of others, too: two transactions that reserve what the other one reads would otherwise wait
// for each other. A commit of HADES-H that has read a line which is reserved to be written is squashed.
// TestWhoHasLockedEverythingCommits: in every order it then commits.
//
// # What HADES does not say
//
//   - A squashed transaction sends Abort to every node that it has accessed. Table II does not list this message,
//     but without it lines stay locked at nodes that have acknowledged (§V-A says "the notification of it to all").
//   - The update of a committer is not stopped by Locking Buffers: its lines were compared with the older ones, and
//     who locked later and has read them is being squashed.
//   - A request for which no pair of filters is free squashes its transaction.
//   - A transaction whose local writes do not fit into the sets of the LLC never commits in HADES.
//   - A message twice in a row has the effect of one: requests of an attempt are numbered, and an attempt has a
//     number in its node. A lost message has to be sent again before later ones, as reliable connections do.
//   - The lines of one Read are read at one moment, as a Locking Buffer of readers would have it.
//
// # Over a network
//
// Carry puts a node on a smartnic.NIC: messages become bytes, and cycles become time. The simulator has such NICs.
//
// # Ownership
//
// A Node and its Pool of messages belong to one goroutine. A message belongs to whoever has it: a Node gives it to
// Hooks.Send, and Receive takes it. The package reads no clock, draws nothing at random and starts no goroutine.
package hardware
