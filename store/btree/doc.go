// Package btree is the ordered table: a B+ tree for regions (package htm) on its host, as DBX has it, which
// DrTM takes its ordered store from (§7.5). Peers reach it by RPC: nothing of it is looked up by one-sided
// READs. What the index promises is package protocol's OrderedIndex. Errors are those of package store, and
// ErrNodesFull. Package store/layout has the bytes of nodes and records.
//
// # The table
//
// A table occupies one stretch of a registered memory region, the same for all workers of its node: a head,
// nodes, entries. An inner node has up to 16 children, a leaf up to 14 keys with the places of their entries;
// a node is four lines, and a pair of key and place is never in two. So the way to a key reads two or three
// lines of each node, and an insertion writes the lines of one leaf from its pair on. Leaves are linked in both
// directions. Entries do not move, and have the layouts and the header of the hash table's.
//
// A full leaf is split behind the key that is added, with a third at least on each side: keys that arrive in order, at
// the end of all or in the middle of others, fill leaves to two thirds at least. A node that gets below a third is merged with the one beside it,
// if both together fill at most two thirds of one, and shares with it otherwise. Inner nodes likewise. Entries
// and nodes come from pools (package pool). A tree that For has sized does not run out of nodes before it runs
// out of entries.
//
// In a region, the way to a key is not taken again while keys of the same leaf follow (finger): the lines of the order
// that a transaction inserts are neighbours.
//
// # What a region sees
//
// All accesses to nodes are the region's, so its read set finds conflicts: FindIn reads the nodes from the
// root to the leaf, whether the key is there or not. Scan reads every leaf that may have a key of its range,
// up to where it ends. A key that comes into this range or leaves it changes the head of one of these leaves.
// So scans have no phantoms, and what comes behind the end of a scan with a limit is no conflict, unless a
// node is split or merged on the way from the root.
//
// Absent entries are in the tree like live ones, and scans give them: a deletion changes the entry's version
// only, and a scan that has read the version conflicts with it. Whoever runs a scan reads the version of every
// entry.
//
// Versions and what callers have to check of an entry are those of package store.
//
// # Memory without line words
//
// There EnsureIn and ReclaimIn act at once, under a lock of the table that only CPUs use, and readers run into
// the middle of it. FindIn proves nothing then. Nodes and entries are type-stable, every offset, level and
// count from memory is checked, and loops are bounded, so that a reader ends: with a false, or with its
// region aborted (words.AbortCorrupt). The tree counts its changes: a Scan whose count was the same before and
// after has seen the keys of one moment. At the commit, under its locks, a protocol compares Changes and the
// versions of all entries that the scan gave, absent ones included. A death in the middle of a change leaves
// the count odd, and the tree, if its memory is kept, must be loaded anew.
//
// # Growth
//
// A Table never grows: EnsureIn fails with store.ErrEntriesFull or ErrNodesFull and changes nothing. A Growing
// consists of several Tables, each in a memory region of its own (package extent), and Grow adds one, up to the
// bound that its setting names. Each extent has a tree, because a region writes to one memory: a key is in one
// of them, and a scan merges them.
//
// # Concurrency and memory
//
// A Table is a worker's view, because its htm.Memory is; the bytes are shared. Find and regions run at the
// same time on any number of workers. Load is for a table that nobody else uses yet. The package allocates
// only in Format and Attach, starts no goroutine and waits for nothing but, shortly, the lock of a table
// without line words.
package btree
