// Package scenario runs protocols on simulated clusters under faults, and checks them.
//
// Every run has all checks: the history of all lives of all nodes is strictly serializable; the
// workload's sums add up; only nodes that have crashed leave records locked; nothing panics, and no
// fiber fails or waits forever. Package verbs/scenario defines what a Scenario is, and runs, searches,
// shrinks, and crashes at each marked step.
//
// # A crash
//
// A node that crashes keeps its memory, as if it had a battery, with the locks that it held, and
// restarts: it attaches to its tables and connects again. The journal completes or undoes the commit that
// the crash interrupted (package htm). Transactions of the last life have an unknown outcome: they count as
// committed exactly if one of their writes was seen. Their locks stay, because recovery is not part of this
// layer; transactions that need the records give up.
//
// # What may be lost
//
// A cluster with f + 1 replicas keeps what a client was told as long as f machines at most are away at once, from the
// first death until each shard has all its replicas again. If more are, this may be lost, and nothing else: a shard all
// of whose replicas were lost, whose transactions are refused from then on and whose content nobody compares; and a
// transaction whose coordinator died with so many, and of which the survivors have nothing of at least one update in a
// shard that they do have, neither in a whole replica nor in a record of their logs. Its
// outcome is taken for unknown: if anybody has seen it, it counts, and then before its client was told. A transaction of
// a coordinator that lived on, or died with fewer, and one whose updates the survivors have, must stay, whatever died. A
// reader is void in the same way if its coordinator died so and what it read is newer than all that is left. Of lost
// shards alone a transaction is void only if the survivors have revoked it, and a reader only of what they have revoked.
//
// # Members
//
// In the scenarios "members", machines are members of a registry in virtual time (proto/member/membersim),
// with leases: they hear of views late, fence whoever is gone before the next view is active, and end when
// their own lease has ended. Some sleep for longer than a lease, and some are cut off from the registry. In
// the others the machines know who lives.
//
// # Connections
//
// The scenario connects queue pairs directly, without the network, as soon as both ends are up.
package scenario
