// Package hopscotch is FaRM's hash table: hopscotch hashing with the records inside of its slots, so that
// one READ of a neighbourhood finds a record and fetches it (HADES §II, Xenic §2.2.2 and §4.1.4, H = 8).
// Package store/layout has the bytes and package store/remote the one-sided look-up; what the index promises
// is package protocol's PointIndex. Errors are those of package store.
//
// # The table
//
// A table occupies one stretch of a registered memory region: a head, slots, overflow blocks. A key's record
// stands in one of the 8 slots from its home on, or in an overflow block of its home's chain. To insert a
// key whose neighbourhood is full, the table looks for a free slot up to 64 slots away, and moves it nearer:
// a record on the way moves into it, if that is still within its own neighbourhood, and leaves its own slot
// free. If there is no such way, the record goes to the chain, whose blocks hold two records and come from
// one pool. A table never grows: without a slot, a place in the chain, and a block EnsureIn fails with
// ErrFull and changes nothing.
//
// Records differ from those of package store in one thing: they move. A place that was found may be another
// key's a moment later, although nobody has given the record back. Whoever reads or locks a record at a
// place checks layout.Match, as with package store, and looks the key up again if it is Stale. A record that
// is locked stays where it is. Records move only away from their homes, and a record that is made has a
// version above what its slot had before: so a slot whose key and version are the same at two looks held the
// same record in between.
//
// # Who finds nothing
//
// Inside a region what FindIn has not found is protected: the hop word and all records of the home are in
// the read set. A reader elsewhere, and a CPU outside of regions, may look at the slot that a record leaves
// after it has left it, and at its new slot before it has come. The hop word of the home counts such moves:
// an absence is believed if the hop word was the same before and after everything that was looked at, and
// its count is even (package store/remote).
//
// # Memory without line words
//
// There the CPU changes the table at once, under a lock of the table. A record moves in steps that remote
// readers and CPUs that read records tolerate: its slot is locked, the hop word's count is odd, the new slot
// has everything but the version, the old one has no key any more, then the version stands in the new slot
// and both are unlocked. That asks the mover to lock records by the CPU. Only protocols all of whose locks
// are the CPU's allow it (Config.CPULocks); for others the state words belong to the NIC there (design
// decision 3), records stay where they are, and full neighbourhoods overflow. Readers are assumed to read the
// words of a record in ascending order, as Soft-RoCE does; who writes one stores the version before the value.
//
// # Concurrency and memory
//
// A Table is a worker's view; the bytes are shared. Find and regions run at the same time on any number of
// workers. Load is for a table that nobody else uses yet. The package allocates only in Format and Attach,
// starts no goroutine and waits for nothing but, shortly, the lock of a table without line words.
//
// # Differs
//
// FaRM's own table has buckets of several slots and chains of blocks per bucket; here are single slots, as
// Xenic describes it. FaRM looks an object up again to bring it back from a chain when a slot of its
// neighbourhood becomes free; here a record stays in its chain until it is given back.
package hopscotch
