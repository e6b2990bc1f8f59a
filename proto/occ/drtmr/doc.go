// Package drtmr is DrTM+R as Xenic knows it. It is a declaration; package occ does the work.
//
// drtmr-verbs is what Xenic evaluates (Xenic §5.1): DrTM+H's commit with every phase over one-sided verbs. A
// number of it is one of that system, not of DrTM+R as its authors describe it.
//
// # Messages
//
// Of a transaction that reads r records and writes w, each of one line with a value of v bytes, all on other
// nodes. An operation and its completion are two messages. Records of the own node take none, on devices
// with line words; without, they are locked and written through the own NIC.
//
//	phase     requests   trips   bytes of requests and completions
//	EXECUTE   r + w      1       (24 + v) (r + w)
//	LOCK      2 w        1       48 w: a CAS, and the READ of the header behind it
//	VALIDATE  r          1       24 r; nothing if the transaction is one read
//	COMMIT    3 w        1       (32 + v) w: version, value, and the CAS that unlocks
//
// In the first transaction on a record a READ of its bucket comes before, 128 bytes and a trip. With option
// "lock" at "execute" the READ of EXECUTE comes behind the CAS, and LOCK has nothing to do:
//
//	EXECUTE   r + 2 w    1       (24 + v) r + (48 + v) w
//
// TestMessages holds the table. A record that ends absent, inserted or deleted, takes calls to its host, which
// makes its entry and takes it back.
//
// # Differs
//
// There is no replication yet.
package drtmr
