// Package remote looks keys up in the tables of other nodes by one-sided READs, without their
// CPU (DrTM §6.2, §6.3).
//
// # A look-up
//
// One READ fetches a bucket of eight slots. Most keys are in their main bucket, the others one or more
// links away. A look-up returns a place, not a record: the caller READs the entry and checks it with
// layout.Match, because the place may be out of date by then. If it is Stale, the caller calls Invalidate
// and looks the key up again.
//
// A READ of a bucket is no snapshot: hosts and NICs access 8 bytes atomically, not more (on shm and sim, a
// line). If a slot word does not belong to the key word beside it, the entry that it leads to shows the
// mismatch. A look-up reports that a key has no entry only if it read the whole chain from memory and the
// links were the same afterwards, so that no bucket can have left the chain meanwhile. The absence holds
// for that time; nothing protects it.
//
// # Tables that grow
//
// Such a table consists of extents, each in a memory region of its own (layout.Extent). A Table knows the
// extents that the directory listed when it was last read. A look-up that finds a key in none of them reads
// the directory again, and continues in the new extents.
//
// # The location cache
//
// A Cache holds copies of buckets, main ones in sets of a few frames, and behind them the indirect
// ones that were read, linked by slots of type Cached (§6.3). All workers of a node share it, for all
// tables of all peers. Hosts do not know of it: a copy may be old, and a place from the cache is checked
// like any other. A key that a cached chain lacks is looked up in memory.
//
// # Ownership and concurrency
//
// A Table may be shared: only its list of known extents changes, and only by growing. A Client belongs to a
// worker, with the registered buffers of its READs; a Batch belongs to one fiber of it. Any goroutine may use
// a Cache, and it never waits: a worker that finds a part of it in use continues without. The hot path does
// not allocate.
package remote
