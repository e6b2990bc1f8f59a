// Package load runs a workload on a cluster for a time and says what came of it: the measurement
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
// The same Run drives real and virtual time: all waiting is Cluster.Sleep.
package load
