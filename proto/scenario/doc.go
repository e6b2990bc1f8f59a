// Package scenario runs protocols on simulated clusters under faults, and checks them.
//
// Every run has all checks: the history of all lives of all nodes is strictly serializable; the
// workload's sums add up; no record stays locked but by a node that has crashed; nothing panics,
// no fiber fails or waits for ever. Package verbs/scenario runs, searches, shrinks and crashes at
// each marked step; it says what a Scenario is.
//
// # A crash
//
// A node that crashes keeps its memory, as if it had a battery, with the locks that it held, and
// restarts: it attaches to its tables and connects anew. The commit that it was in the middle of
// is carried out or undone by its journal (package htm). Transactions of its last life are of
// unknown outcome: they count as committed exactly if one of their writes was seen. Their locks
// stay until recovery, which is not this layer's; transactions that need the records give up.
//
// # Connections
//
// Here the simulated nodes' managers know everything and connect queue pairs without the network,
// as soon as both ends are up.
package scenario
