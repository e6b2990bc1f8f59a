// Package load runs a workload on a cluster for a given time and measures it, for drtmd bench.
//
// A run starts a cluster (package node) with one client per fiber. The clients run through the warm-up into
// the measurement. At its beginning and its end, and from time to time for progress, the run takes a Snapshot
// of every worker on the worker's thread, between two steps of its fibers. The result is the difference of
// two snapshots. The path of a transaction counts only in plain integers of its worker, and reads the clock
// only for the sampled latencies.
//
// At the end the transactions in progress finish, the threads stop, the workload checks its tables, and the
// history is checked if one was recorded.
//
// # Parts and peers
//
// A site is a cluster in this process, or several peers, each with a Part of it. RunPeers drives parts step
// by step (open, connect, go, start, look, end, finish, quit), over sockets from a parent process or over the
// control plane from another daemon. It polls the peers while clients run; a peer that does not answer delays
// no other, and counts with its last answer. A part that only serves stays at go. Any goroutine may fence or
// disconnect a part, which ends every wait.
//
// # Time
//
// The same Run drives real and virtual time: all waiting is Cluster.Sleep.
package load
