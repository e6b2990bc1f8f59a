// Package nocc runs transactions with no concurrency control at all, on one thread: the limit that
// protocols are compared with. What it costs is the workload and the store alone.
//
// # What it does
//
// A transaction copies the entries that it touches, those of other nodes included, whose memory it must
// share, works on the copies (package txset), and stores what it has written when it commits. It never
// waits, so that on one thread transactions run one after the other, whole; that is also why their
// recorded history is serializable. Versions grow as in the other protocols. Insertions and deletions
// change buckets inside a region, as those of the others do, for nothing else knows how to.
//
// # What it does not do
//
// It does not run on more than one thread, on more than one process, or over a network, and it
// makes nothing durable: package node refuses what does not fit.
package nocc
