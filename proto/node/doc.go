// Package node builds a cluster from a configuration: providers, registered memory, tables,
// connections, RPC, clocks, recorders, and an engine of the chosen protocol on each worker. It lists
// the protocols. Programs that embed a cluster use Open.
//
// # Members and clusters
//
// A Member is one machine: a device context, shares, and workers. A share is a replica of a shard, with
// all tables, in a memory region of its own; a member has that of its own shard, and with replicas those of
// some other shards (package placement). Members learn of each other by Descriptors, which travel between
// processes as bytes. A Cluster is a set of members in this process, on OS threads (NewLocal) or on the
// cores of a simulated world (NewSimulated); both are driven by the same calls.
//
// # Connections
//
// Worker i of a member has one RC queue pair to worker i of every other member, used in both
// directions, a pair of queue pairs to itself for loopback, and one RPC session to worker i of
// every other member. All members have the same number of workers.
//
// # Ownership and the order of closing
//
// A cluster owns its members, threads and recorders. Close stops the threads, which close the
// workers with their queue pairs; then the recorders end; then the contexts close with their
// memory. Between the end of the threads and Close the tables may be read (Cluster.Read).
//
// # Who may call what
//
// A Worker belongs to its thread; Cluster.Inspect and Cluster.Start run functions there. A Cluster
// belongs to the goroutine that made it. Any goroutine may use a DB (Open).
package node
