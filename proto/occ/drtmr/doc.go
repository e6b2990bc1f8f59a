// Package drtmr is DrTM+R as Xenic knows it, in two readings. They are declarations; package occ does the
// work.
//
// drtmr is DrTM+R as Xenic describes it (Xenic §2.2.2): all records of other nodes are locked by CAS, those
// that are only read too, and none is validated; the records of the own node are compared and written in a
// region of emulated hardware transactional memory at the commit. Where there are no line words a region sees
// nothing of NICs, and the own node's records are locked by the own NIC like those of others; so they are in
// the attempts of a transaction whose regions keep aborting.
//
// drtmr-verbs is what Xenic evaluates (Xenic §5.1): DrTM+H's commit with every phase over one-sided verbs. A
// number of it is one of that system, not of DrTM+R as it is described.
//
// # Messages of drtmr
//
// Of a transaction that reads r records and writes w, each of one line with a value of v bytes, all on other
// nodes. An operation and its completion are two messages. Records of the own node take none, on devices
// with line words.
//
//	phase     requests   trips   bytes of requests and completions
//	EXECUTE   2 (r + w)  1       (48 + v) (r + w): a CAS, and the READ behind it
//	COMMIT    3 w + r    1       (32 + v) w + 24 r: version, value, and the CAS that unlocks
//
// With option "lock" at "commit" EXECUTE does not lock, and LOCK compares versions:
//
//	EXECUTE   r + w      1       (24 + v) (r + w)
//	LOCK      2 (r + w)  1       48 (r + w)
//
// # Messages of drtmr-verbs
//
//	phase     requests   trips   bytes of requests and completions
//	EXECUTE   r + w      1       (24 + v) (r + w)
//	LOCK      2 w        1       48 w: a CAS, and the READ of the header behind it
//	VALIDATE  r          1       24 r; nothing if the transaction is one read
//	COMMIT    3 w        1       (32 + v) w
//
// With option "lock" at "execute" the READ of EXECUTE comes behind the CAS, and LOCK has nothing to do:
//
//	EXECUTE   r + 2 w    1       (24 + v) r + (48 + v) w
//
// With backups, in both, LOG is a WRITE to each of the h holders of a log record (package drtmh):
//
//	LOG       h          1       log record, for each holder
//
// TestMessages holds the tables, with three replicas and without backups. In the first transaction on a record a READ of its bucket comes before, 128
// bytes and a trip. A record that ends absent, inserted or deleted, takes calls to its host, which makes its
// entry and takes it back.
//
// # Differs
//
// DrTM+R itself locks at the commit, and makes local updates in the region before they are replicated, with a
// version that says so; here the region locks, and the update is written when it is logged.
package drtmr
