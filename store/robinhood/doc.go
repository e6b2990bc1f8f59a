// Package robinhood is Xenic's host table (§4.1.2): Robinhood hashing with a limit on displacement, overflow blocks,
// and records in an order of changes that a NIC may watch by DMA. Package store/layout draws the bytes, Probe is
// the look-up by DMA, and protocol.PointIndex says what the index promises. Errors are those of package store.
//
// # The table
//
// A table is one stretch of a registered memory region: a head, segment words, slots, overflow blocks, and for large
// values records. The hash of a key gives its home slot. An insertion walks up from the home. Where it meets a
// record that stands nearer to its home than the one in hand to its own, it takes the slot and has that record in
// hand. It ends at a free slot; or D_m slots beyond the home, and then the record in hand goes to the overflow chain
// of its own segment, and everything else stays where it has come to. To delete, the table moves a record of the
// chain into the slot, or if there is none shifts the records behind it back by one, at most D_m of them.
//
// The paper says that an insertion ends when "displacement reaches D_m". The limit here is on the slots that the
// whole insertion walks, because that alone gives the shares of overflow of Table 2 (7, 4 and 2 %). The paper leaves
// no tombstones, and a key need not be looked for beyond the first free slot; here look-ups rely on d of the
// segment word alone, which is exact, so a hole that a bounded shift leaves does no harm.
//
// Values above 256 bytes stand outside, in records that do not move; the slot leads there.
//
// # What a reader by DMA sees
//
// An insertion looks for all that it needs, and then moves records from the free end on: a record is copied before
// its slot is cleared, and always away from its home, so that whoever reads slots in ascending order, and then the
// chain, meets it at the old place or at the new one. Records that move the other way, in deletions, are counted
// in the segment word: an absence is believed if the word was the same before and after. A record of several lines
// proves itself by a version per line (layout.LineVersions). The paper relies on a DMA that aborts the hardware
// transaction which moves the record; emulated regions are not aborted by reads, so it is the reader that notices.
//
// Records move, unless they are locked. Whoever uses a place checks the key there (layout.Match), as in other
// tables. If FindIn finds nothing, the region protects that: the segment word, the slots and the chain are in its
// read set.
//
// # Memory without line words
//
// There the CPU changes the table directly, under a lock of the table, and must lock the records that it moves.
// Only protocols all of whose locks are taken by CPUs allow that (Config.CPULocks); for others records do not move.
// A deletion leaves a hole there, because the slot's state word is its caller's. So records move away from their
// homes only, and a reader that finds key and version of a slot unchanged knows that it held the same record.
//
// # Concurrency and memory
//
// A Table is one worker's view; the bytes are shared. Any number of workers may call Find and use regions at the
// same time. Load is for a table that nobody else uses yet. The package allocates only in Format and Attach, starts
// no goroutine, and waits only for the lock of a table without line words.
package robinhood
