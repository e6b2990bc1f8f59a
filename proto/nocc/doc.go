// Package nocc runs transactions without concurrency control, on one thread. It is the upper bound for
// protocols: the cost of the workload and the store alone.
//
// # What it does
//
// A transaction copies the entries that it touches, works on the copies (package txset), and stores its
// writes when it commits. It also copies entries of other nodes, whose memory it must share. It never
// waits, so transactions on one thread run one after the other, and their history is serializable.
// Versions grow as in the other protocols. Insertions and deletions change buckets inside a region, as in
// the other protocols.
//
// # What it does not do
//
// It does not run on several threads or processes, or over a network: package node refuses such
// configurations. It is not durable.
package nocc
