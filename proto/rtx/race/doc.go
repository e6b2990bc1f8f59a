// Package race is RACE hashing on repairable transactions: section 5 of 003. Details of buckets and slots, which 003
// leaves out, are those of RACE as far as section 5 names it.
//
// # Memory
//
// A root object names the directory: pages of 64 entries, each of which names a subtable or a page of the next level.
// Each level takes 6 bits of a key's hash. A subtable is an object of package rtx; its block has groups of buckets:
//
//	block of a subtable: rtx's header 16 | zeros 48 | group 192 | group 192 | ...
//	group: main bucket 64 | overflow bucket 64, of both | main bucket 64
//	bucket: depth 8, suffix of the hash 32 | slot 8, 7 times
//
// A key may lie in two combined buckets, a main one and its overflow, in two groups. A slot names a record (layout.go),
// which is a block of its own that no object has. It is never changed in place: an update writes another
// block, and changes the slot by CAS.
//
// # Operations
//
// They are no transactions of rtx: section 5 delegates them to RACE's algorithm. Each is linearizable by itself. A
// look-up READs both combined buckets with the subtable's metadata behind them in one round trip, and the record in
// the next one. A change is a CAS on one slot, and the metadata is READ behind it: if the subtable is unlocked and
// has the same block, no rehash has missed the change. Else the client waits for the rehash, or repairs it, and looks
// what has become of its change.
//
// A rehash is one transaction of rtx: it locks the subtable, reads it, and swings it to a copy without the records
// that move to a new subtable, which the directory names from then on.
//
// # Insertions
//
// Two clients may insert one key into two slots at once. An insertion first makes a tentative slot, which no look-up
// sees, looks at both combined buckets again, and then confirms it by a second CAS. Whoever finds another's tentative
// slot with its key empties it, so that one cannot be confirmed. RACE has one CAS here and removes duplicates afterwards:
// then a look-up may have returned a value whose insertion fails.
//
// # Blocks without leaks
//
// A record's block comes from a slot of its client's reclamation table, and the block that it has replaced goes there,
// as in commits of rtx. The record's header names both. Who replaces a record whose owner has not done that yet does it
// first (settle). So the reclamation slot also tells a client whose change met a rehash whether the change was seen:
// replaced records had to be settled.
//
// # Deviations
//
//   - The directory is a tree of pages, not an array that is doubled, so that a rehash changes one page or two.
//   - Insertions take two CASes, see above.
//   - A deleted key keeps its slot and a block, as a record that says so, until it is inserted again: so versions
//     go on, and no insertion is ambiguous. RACE empties the slot.
//   - The version of a pointer has 16 bits of its 48, against blocks that are used again.
//
// # On other transactions
//
// The same table runs on the baseline of package dtx, whose transactions change objects in place and log values
// (OpenDistributed). Operations are the same: the metadata that they READ behind a change is the lock and the version of
// the subtable. A log of values is written before the lock, and slots change until then, so a rehash makes both halves
// new under the lock, and marks the buckets of the old one, which nobody names any more; its memory is lost. Blocks have
// no slots there: a record says by itself, in its settled word, that it was seen. Without transactions (OpenPlain) the
// table is RACE as it was.
//
// # Who may call what
//
// A Table belongs to one Client and its fiber, and uses the client's transaction, so none may be under way that was
// to be committed. What Find returns is valid until the next operation. Tables on one thread may share a Cache. Nothing
// is allocated in steady state but by a rehash.
package race
