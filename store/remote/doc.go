// Package remote looks keys up in the tables of other nodes by one-sided READs, without their
// CPU (DrTM §6.2, §6.3).
//
// # A look-up
//
// One READ fetches a bucket of eight slots; most keys are in their main bucket, the others one or
// more links away. What a look-up gives is a place, not a record: the caller READs the entry and
// checks it with layout.Match, because the place may be out of date by then; if it is Stale, it
// calls Invalidate and looks the key up again.
//
// A READ of a bucket is no snapshot: hosts and NICs make 8 bytes atomic, no more (on shm and sim
// a line). A slot word that does not belong to the key word beside it leads to an entry that says
// so. That a key has no entry is believed only if the whole chain was read from memory, and its
// links were still the same afterwards, so that no bucket can have left the chain while it was
// read. The absence is of that time; nothing protects it.
//
// # Tables that grow
//
// Such a table consists of extents in memory regions of their own (layout.Extent). A Table knows those
// that were there when its directory was last read; a look-up that finds a key in none of them reads
// the directory, and goes on in the extents that have come since.
//
// # The location cache
//
// A Cache holds copies of buckets, main ones in sets of a few frames, and behind them the indirect
// ones that were read, linked by slots of type Cached (§6.3). All workers of a node share it, for
// all tables of all peers. Hosts know nothing of it: a copy may be old, and what it says is
// checked like every place. Only what it says positively counts: a key that a cached chain does
// not have is looked up in memory.
//
// # Ownership and concurrency
//
// A Table may be shared: nothing of it changes but the list of extents that are known, which only gets
// longer. A Client belongs to a worker, with the registered
// buffers that its READs fill; a Batch belongs to one fiber of it. A Cache is safe for everyone;
// it never waits: whoever finds a part of it in use does without. The hot path does not allocate.
package remote
