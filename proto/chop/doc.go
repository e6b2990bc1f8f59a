// Package chop decides how transactions may be chopped into pieces that commit one by one, and says why (DrTM §4).
//
// # What it is
//
// A workload declares the operations of its transactions: tables and columns, reads, writes and additions, user
// aborts, and which operation needs the result of which. Analyse builds the SC-graph of two instances of each
// transaction (§4.1). Operations of one transaction are connected by S-edges, conflicting operations of different
// transactions by C-edges. Operations that lie on an SC-cycle become one piece. The result is the finest chopping
// that has no SC-cycle, with the cycle behind each merge.
//
//	declaration -> conflicts -> (optimised: searches, deferral, two rounds) -> merges -> order of the pieces
//
// The default chopping has the steps of §4.1: commutative operations, reordering, and user aborts in the first
// piece. The optimised one adds:
//
//   - §4.3: the search of an index that no transaction inserts into or deletes from is a piece outside of regions.
//   - §4.2: an operation that only adds is deferred to a barrier, and those who read its result subscribe to it.
//   - §4.4: read-only transactions run in two rounds, and are not in the graph.
//
// # Rules that are stricter than the paper's
//
//   - §4.2 asks that no path of C-edges connects publisher and subscriber. A path with S-edges breaks the scheme as
//     well: what the publisher shows reaches the subscriber by way of two pieces of a third transaction. Analyse
//     looks for both. A read-only transaction that sees anything of the publisher waits for its deferred piece too.
//   - A search is split off only if its table is stationary in the whole workload.
//
// # Records that belong to others
//
// Conflicts are those of columns of tables, not of records. Access.Owner adds what a workload knows of its records:
// an order's lines can be reached only with the order's new-order record, which one transaction inserts last and
// one deletes first. Then the conflict on the owner decides the order of both, and the one on the lines adds
// nothing.
//
// # What it does not do
//
// It executes nothing. It believes the declaration: tests of the workload compare it with what the transactions do.
// A chopped transaction has its conflicts by columns; who records its history by records sees more conflicts.
//
// Everything here is a value without state; the same declaration gives the same result.
package chop
