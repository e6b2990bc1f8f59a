// Package xenic runs the transactions of Xenic (SOSP 2021) on NICs with cores: package nics has the protocol between
// them, and this package makes engines of it.
//
// # What it is
//
// A member has one Chip: the programs on the cores of its NIC, their logs in the host's memory, and the indexes in the
// NIC's, one for each table of the own shard. Each worker is a thread of the host. It is an application thread, which runs
// transactions, a Robinhood worker, which applies the logs of some cores to the member's tables (§4.2, step 7; package
// robinhood), or, by default, both (roles.go).
//
// An engine turns a transaction of package proto into the steps of §4.2. The records of the declaration are one EXECUTE
// round; a record that the program touches later takes another one (multi-shot). The program runs on the host (step 3),
// between EXECUTE and the commit. Package txset keeps the copies of records and the history.
//
// # Local transactions (§4.2.4)
//
// A transaction of which all records are of the own shard reads the host's tables. When it commits, its NIC locks what it
// writes, compares the versions of what it has read, and replicates. The paper tests locks only, and validates read-only
// transactions at the host. That is not strictly serializable: a commit is told when its LOGs are answered, and its COMMIT
// may be on its way to the NIC then, or wait in the host's log. So the NIC compares here, also what is only read; that
// takes a trip over PCIe and no message. Who meets an absent record leaves this way, because the NIC knows which version
// an insertion gets.
//
// # Functions (§4.2.2, §4.2.3)
//
// A transaction for which the workload declares a function (workload.Function) is executed by NICs: at the coordinator's,
// or with multi-hop at that of the only other primary. The execution sees the declared records as proto.Txn; when the
// outcome comes back, the engine replays reads and writes into its set, for the history. Transactions of the own shard are
// left to the host if that is on. A cluster gets its functions from node.Config.
//
// # Ordered tables
//
// A scan asks the primary's NIC for keys, reads their records like others, and has the range validated (package nics,
// ranges.go). So records of an ordered table are in a Robinhood table, too, and the NIC has the order of their keys, which
// tells what is absent: an insertion takes no DMA. The paper has local B+ trees on hosts (§5.2), which miss what waits in a
// host's logs.
//
// # What it does not do
//
// Outside of the simulator a worker plays the NIC of its node, on the thread of the node's other workers (package node);
// nothing recovers there. Off-path NICs (§3.1, §4.3.4) are not modelled. A NIC does not fail alone: one that loses its memory
// has lost the locks, which is the crash of its node (§4.2.1); one that only stops for a while is a pause.
//
// # Recovery (§4.2.1)
//
// NICs decide what nodes that died were in the middle of (package nics, recover.go). The hosts begin that when all threads
// of a member are paused, and fill new replicas: they ask the primary's host for its records by RPC, and what is written
// meanwhile is logged to the new replica.
//
// # Ownership
//
// A Chip belongs to the event loop of the simulator, as do the engines of all workers. It allocates for each transaction.
package xenic
