// Package store is the hash table of DrTM (§6): cluster chaining, for regions (package htm) on its host
// and for one-sided READs of other nodes (package store/remote). Package store/layout defines the bytes and
// the layouts of records. The table writes the headers of records, and knows nothing else of them.
//
// # The table
//
// A table occupies one stretch of a registered memory region, the same for all workers of its
// node: a head, main buckets, indirect buckets, entries. A key's main bucket is given by its
// hash. A bucket has eight slots; when all are taken, the last one turns into a link to an
// indirect bucket, which receives the entry that stood there and the new one (§6.2, Figure 12).
// All chains take their indirect buckets from one pool, and give them back when they are empty.
//
// Entries are found, made absent, made live, deleted and given back in this way:
//
//   - EnsureIn finds the entry of a key or makes an absent one;
//   - the protocol, local or remote, inserts by storing the value and the version
//     layout.Version.Inserted, writes with Written, and deletes with Deleted, which leaves a
//     tombstone: absent, with its place kept;
//   - ReclaimIn gives an absent, unlocked entry back, and what chain it leaves empty.
//
// Nothing but EnsureIn and ReclaimIn changes buckets, and only on the host.
//
// # Versions
//
// A key's version grows with every write, insertion and deletion, also over ReclaimIn: the table
// has a counter that is raised to the incarnation of each entry that is given back, and a new
// entry starts from the counter. An absent entry that was just made has a version that nobody
// wrote; layout.Version.Trace says what an absent version proves.
//
// # What callers have to check
//
// An offset from Find, or an address from a remote look-up, may be out of date when it is used: the
// entry may have been given back, and belong to another key. Entries are type-stable, so a reader
// checks layout.Match of the key and version words, in the region or in the copy from which it takes
// the value. Stale means that the key has to be looked up again. A false from Find proves nothing,
// because it reads a bucket while others may change it. A false from FindIn proves the absence if the
// region commits, because all lines of the chain are in its read set: absence is protected like a value.
//
// # Memory without line words
//
// On devices whose atomics exclude each other only, regions neither conflict nor are opaque (package
// htm). There EnsureIn and ReclaimIn act at once, under a lock of the table that only CPUs use, in an
// order that remote readers tolerate: an entry before the slot that names it, a bucket before the link
// to it, and layout.NoKey in an entry that is given back before it is bound to another key, so that a
// transaction that locks it by an out-of-date address notices. State words belong to the NIC (design
// decision 3): a new entry is absent and keeps its state word, unlocked; a transaction locks it by CAS
// and reads it again. A record that FindIn does not find may exist; a protocol that reads an absence
// ensures an entry and locks or leases that.
//
// Where there are line words, EnsureIn stores the state word of an entry that it makes: a CPU store
// and a remote CAS exclude each other. A remote CAS with an out-of-date address may lock an entry
// that is bound to no key, for a moment: EnsureIn passes over such an entry.
//
// # Concurrency and memory
//
// A Table is a worker's view, because its htm.Memory is; the bytes are shared. Find and regions
// run at the same time on any number of workers. Load is for a table that nobody else uses yet.
// Entries and indirect buckets are pooled in stripes, each worker beginning with its own, so that
// insertions of different workers seldom meet. The package allocates only in Format and Attach,
// starts no goroutine and waits for nothing but, shortly, the lock of a table without line words.
//
// # Limits
//
// Keys have 64 bits, values one size per table of at most layout.MaxValueBytes, since an entry is
// a line or a few in a region and one READ. Config.Check refuses what exceeds them by name. A
// Table never grows: EnsureIn fails with ErrEntriesFull or ErrIndirectFull and changes nothing. A
// Growing consists of several Tables, each in a memory region of its own, and Grow adds one.
package store
