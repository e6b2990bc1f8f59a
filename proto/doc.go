// Package proto is the vocabulary that workloads and protocols share: tables, placement, a
// transaction's declaration and its operations, outcomes and the reasons of aborts.
//
// # Programs and engines
//
// A workload is a set of Programs. A protocol is an Engine, one per worker: it begins a
// transaction, answers the program's reads and writes, and commits it. Run drives a program
// through an engine, again after each abort, until it is committed, rolled back by its own
// decision, or given up. Neither side knows the other; package node puts them together.
//
// A program that knows what it will touch says so in its Decl, as DrTM (§5.1) needs it; one that
// does not is a Dependent, whose Plan finds out by unprotected reads and whose Execute checks
// again (DrTM §7.4). Protocols that need no declaration ignore it.
//
// # Programs run again
//
// Execute may be called any number of times for one transaction, also on a view that is doomed
// to abort: it has no effect but through its Txn, its loops are bounded, and it returns the
// errors of its Txn unchanged and at once.
//
// # Keys, values, versions
//
// Keys are 64 bits, values have the fixed size of their table. Each committed write of a key has
// a version that grows with every write of that key, deletions and insertions included (design
// decision 7, layout.Version).
//
// # Concurrency
//
// An engine belongs to its worker's thread; its transactions to the fiber that began them. A
// worker's fibers may have one transaction each at the same time.
package proto
