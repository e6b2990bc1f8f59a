// Package load runs a workload on a cluster for a given time and measures it: it is the measurement
// behind drtmd bench.
//
// A run starts a cluster (package node), one client per fiber, and lets them go on through the
// warm-up into the measurement. At the beginning and at the end of the measurement, and now and
// then for progress, a Snapshot of every worker is taken on its own thread, between two of its
// fibers' steps; what is reported is the difference of two snapshots. Nothing is counted on the
// clients' way but in plain integers of their worker, and no clock is read but for the latency of
// one transaction in so many.
//
// Afterwards the transactions under way end, the threads stop, the workload adds up what is in the
// tables, and the history is checked if one was recorded.
//
// # Parts and peers
//
// A site is a cluster in this process, or several peers, each with a Part of it. RunPeers drives parts
// step by step (open, connect, go, start, look, end, finish, quit), over sockets from a parent process
// or over the control plane from another daemon. While clients run, peers are polled, and one that does
// not answer holds up nobody: it counts as it has last said. A part that only serves stays at go.
// Fencing and disconnecting come from any goroutine and end every wait.
//
// # Time
//
// The same Run drives real and virtual time: all waiting is Cluster.Sleep.
package load
