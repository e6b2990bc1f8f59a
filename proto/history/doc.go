// Package history records what the transactions of a run read and wrote, so that package check
// can prove the run strictly serializable (design decision 7).
//
// # What is recorded
//
// Per transaction: reads with the version and the digest of what was read, reads that found
// nothing, scanned ranges, writes and deletes with the version they install, the type of
// transaction, start and end on a named clock, and the outcome. Versions of a key are 64-bit
// numbers that only grow, over deletion and re-insertion too; their numeric order is the order
// of the key's writes. What a transaction reads of its own writes is not recorded.
//
// A transaction may have a name among the nodes, and end for its client before its coordinator is done with
// it (Txn.Told). Nodes that survive its coordinator take down what they decide, under that name.
//
// Of the whole run: what the tables held before and after it, as snapshots of each node or of each replica of a shard, and whether
// versions leave none out. Both may be missing: a key's initial version is then the one that is read
// or found absent and lies below everything that the history writes to that key.
//
// # Ownership and concurrency
//
// A Recorder belongs to one worker: no locks, and the fibers of the worker share it, each with a
// Txn of its own between Begin and End. In steady state recording allocates nothing. Recorded
// transactions stay encoded in memory, and beyond Options.MemoryBytes in a file with mode 0600:
// nothing is ever left out. Close hands the recording on as a Segment, New joins segments to a
// History, and that can be read, saved and closed; it owns the segments' files. All of this is
// for one goroutine at a time.
//
// # What it does not do
//
// It decides nothing: no order, no verdict. It reads no clock. The recording of a process that is
// killed dies with it, so another process has to record what survives of a run.
package history
