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
// A transaction may have a name among the nodes, and its client may be told the outcome before the coordinator
// has finished (Txn.Told). Nodes that survive the coordinator record their decision under that name.
//
// For the whole run: the content of the tables before and after it, as snapshots of each node or of each
// replica of a shard, and whether versions leave none out. Both may be missing. A key's initial version is then
// the one that was read, or found absent, below all versions that the history writes to that key.
//
// # Ownership and concurrency
//
// A Recorder belongs to one worker: no locks, and the fibers of the worker share it, each with a
// Txn of its own between Begin and End. In steady state recording allocates nothing. Recorded
// transactions stay encoded in memory, and beyond Options.MemoryBytes in a file with mode 0600; none
// is left out. Close returns the recording as a Segment, New joins segments to a History, and that can be
// read, saved and closed; it owns the segments' files. Only one goroutine at a time may use any of these.
//
// # What it does not do
//
// It gives no order and no verdict, and reads no clock. The recording of a killed process is
// lost, unless it was kept in a file (Options.Keep, Salvage).
package history
