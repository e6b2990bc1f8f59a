// Package dlht is the hash table of Dandelion (§6), DLHT: closed addressing, bounded chains of cache lines,
// operations without locks, deletions that free their slot at once, batches that overlap the latencies of
// memory, and resizing by all threads. It is a table of its process: it needs no registered memory, and knows
// nothing of transactions. Package records has tables of the protocols with it as their index.
//
// Table holds 64-bit keys and values in its slots. Map holds keys and values of any size in one table; keys of
// up to 8 bytes and values of up to 7 lie in the slots, the others in blocks.
//
// # Bins
//
//	bin, 64 bytes           header | links | key, value | key, value | key, value
//	link bucket, 64 bytes   key, value | key, value | key, value | key, value
//	header                  version 32 | state 2 | slots 15 x 2
//	links                   number of a pair of link buckets 32 | of a link bucket 32
//
// A bin has 15 slots: three in its own line, four in a link bucket, eight in a pair of them. The header has a
// state of each slot: free, claimed by an insertion that is under way, or taken. It is the only word that
// operations compete for. Whoever changes which slots are taken does it by one compare-and-swap of the header,
// which also counts the version up. So
//
//   - key and value of a taken slot never change. A reader looks at the header, at slots, and at the header
//     again: if the version is the same, all that it saw was there at one moment;
//   - Insert claims a free slot, fills it, and takes it. If the version has changed in between, it looks for
//     the key again before;
//   - Delete frees the slot, which the next insertion may use at once;
//   - Put fills a free slot with the new value, and takes it and frees the old one in one step. The paper's
//     table changes the value in its place, by a compare-and-swap of 16 bytes, which Go does not have. This
//     costs one more compare-and-swap and a free slot, and gives exact old values.
//
// A stopped thread never stops others, but for the move of a bin (below).
//
// # Resizing
//
// When a key finds no slot, or no link bucket is left, an index with twice the bins is made, or with as many if
// most link buckets are in chains that have become short: a link bucket stays with its bin until then. Every
// thread that changes something moves bins there: the one of its key, and some more. A bin moves by one thread, in
// three steps: its header is frozen, its records are copied to one or two new bins, which nobody can reach yet, and
// its header says that it has moved. Get reads a frozen bin as any other and never waits; who wants to change
// it waits for the copying of at most 15 slots. The memory of the old bins is left to the garbage collector
// when all have moved. "Practically non-blocking" is what the paper says of the same property.
//
// A table does not grow beyond Config.MaxBytes, nor beyond the memory that the host has available, and not for one
// crowded bin while it is nearly empty, which is what more than 15 values of one key lead to: ErrBound, ErrMemory and
// ErrCrowded change nothing.
//
// # Batches
//
// Batch looks at the bins of all its requests before it executes the first. The loads do not depend on each
// other, so the processor overlaps them, as the paper does by prefetching.
//
// # Blocks
//
// A reader of a Map may look at a block that a writer has just replaced. So a replaced block is used again only
// when every Thread of the map has been outside of operations, or began one, since (epochs). A Thread that stays
// inside of an operation for ever keeps blocks from being used again and stops nobody.
//
// # Concurrency
//
// All methods of Table may be called by any number of goroutines. A Thread of a Map belongs to one at a time.
// Nothing allocates but New, growth, Map.Thread, and Map's first use of further memory for blocks.
package dlht
