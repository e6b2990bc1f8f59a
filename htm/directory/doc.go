// Package directory models the caches of a node of HADES, the directory at their last level, and what HADES
// adds to them (Figure 5, modules 1 to 3, and Figure 7).
//
// # What it is
//
// A Directory has private L1 and L2 caches for each core, and an inclusive last-level cache (LLC) that all
// cores share. It keeps no data: it says for each access whether it may go on, and how many cycles it takes.
// A transaction begins on a core and takes one of its pairs of Bloom filters; the number of the pair is its number, TX.
//
//   - Module 1: the filter bits Recorded RD and Recorded WR of private lines. An access whose bit is set goes
//     no further. A context switch clears them, and so does the end of a transaction (§VI).
//   - Module 2: the tag WrTX_ID of each line of the LLC, with a valid bit: ceil(log2(mC)) bits have no code
//     for "no writer" if mC is a power of two.
//   - Module 3: the pairs of filters. A line is inserted before it is read.
//   - Locking Buffers (Buffers): filters of transactions that commit. An access that they deny has to be
//     tried again; the directory does not say when, only that a buffer was given back (Hooks.Unlocked).
//
// Conflicts between local transactions are found at the second access, and squash the transaction that makes
// it: a read of a line with another's tag, a write of such a line or of one in another's read filter
// (Table II). The lines of a transaction are found by its write filter (Find, Figure 8).
//
// A line in the LLC that a transaction has written is not evicted while its set has another one. If all are
// written, the least recently used one goes, and its writer is squashed (§V-A, §VIII-C).
//
// Software accesses (Software, Reread) are those of HADES-H: they take the time of the caches and know no transaction.
//
// # What HADES does not say
//
//   - Whether cores share the pairs of filters. Here each has m of its own: "if a core runs out" (§VI).
//   - A dirty line is written back to memory before the first write of a transaction to it, so that memory has
//     what a remote READ must get. It costs the writer nothing (Stats.WriteBacks counts).
//   - The LLC is inclusive. A remote access takes the LLC's latency, or the memory's on a miss, and brings no line
//     into the cache; an update changes the LLC's copy and drops private ones.
//   - There are as many Locking Buffers as pairs of filters, if Config.Buffers does not say otherwise. A
//     transaction for which none is free is squashed: if two waited in two nodes, each for the other's, they
//     would wait for ever.
//   - A buffer for an atomic read of several lines is denied while another buffer's write filter has one of
//     them: a reader that held it and waited would wait for the writer, and the writer for it. A commit that
//     writes a line of such a read has to try again, and is not squashed for it.
//   - Find takes 80 cycles and 8 for each line, at most 120: the paper says "80 to 120 typical" and "around
//     five" lines.
//
// # Ownership
//
// A Directory belongs to one node of the simulator and to one goroutine. It starts none, reads no clock, draws
// nothing at random, and allocates nothing after New, unless a transaction reads more than 128 lines. Costs are
// cycles of the core; the caller makes time of them. The NIC's part, and what a squash means to a transaction, are the
// caller's (Hooks).
package directory
