// Package hopscotch is FaRM's hash table: hopscotch hashing with the records inside the slots. One READ of a
// neighbourhood finds a record and fetches it (HADES §II, Xenic §2.2.2 and §4.1.4, H = 8). Package store/layout
// defines the bytes, package store/remote the one-sided look-up, and protocol.PointIndex what the index
// promises. Errors are those of package store.
//
// # The table
//
// A table is one stretch of a registered memory region: a head, slots, overflow blocks. The record of a key is
// in one of the 8 slots that begin with its home, or in an overflow block of its home's chain. To insert a key
// whose neighbourhood is full, the table looks for a free slot at most 64 slots away and brings it nearer: it
// moves a record on the way into the free slot, if that slot is in the record's own neighbourhood, so that the
// record's old slot becomes free. If no such moves lead to the neighbourhood, the record goes to the chain. A
// block of a chain holds two records; all blocks come from one pool. A table never grows: if it has neither a
// slot, nor a place in the chain, nor a block, EnsureIn fails with ErrFull and changes nothing.
//
// Records move; those of package store do not. A moment after a place was found it may hold another key,
// although nobody has given the record back. So every reader and locker of a place checks layout.Match, as
// with package store, and repeats the look-up if the answer is Stale. A locked record does not move. Records
// move only away from their homes, and a new record gets a version above all that its slot had before. So if
// key and version of a slot are the same at two looks, it held the same record in between.
//
// # Proof of absence
//
// If FindIn finds nothing inside a region, the region protects that: the hop word and all records of the home
// are in its read set. Readers on other nodes, and CPUs outside of regions, can miss a record that moves: they
// look at its new slot before it arrives and at its old slot after it has left. Therefore the hop word of the
// home counts moves. A reader believes an absence only if the hop word was the same before and after all its
// looks, and the count is even (package store/remote).
//
// # Memory without line words
//
// Without line words the CPU changes the table directly, under a lock of the table. It moves a record in steps
// that remote readers and reading CPUs tolerate: it locks the record in its slot; makes the count of the hop
// word odd; writes everything but the version to the new slot; clears the key of the old slot; writes the
// version to the new slot; unlocks both. So the mover must lock records by the CPU. Only protocols all of
// whose locks are taken by CPUs allow that (Config.CPULocks). For other protocols the state words belong to
// the NIC (design decision 3): there records do not move, and full neighbourhoods overflow. Two assumptions
// make this safe: readers read the words of a record in ascending order, as Soft-RoCE does, and writers store
// the version before the value.
//
// # Concurrency and memory
//
// A Table is one worker's view; the bytes are shared. Any number of workers may call Find and use regions at
// the same time. Load is for a table that nobody else uses yet. The package allocates only in Format and
// Attach, and starts no goroutine. It waits only for the lock of a table without line words, which is held
// shortly.
//
// # Differences from the papers
//
// FaRM's own table has buckets of several slots, and chains of blocks for each bucket; this one has single
// slots, as Xenic describes it. When a slot of the neighbourhood becomes free, FaRM looks an object of the
// chain up and brings it back; here a record stays in its chain until it is given back.
package hopscotch
