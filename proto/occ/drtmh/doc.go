// Package drtmh is DrTM+H as Xenic describes it (Xenic §2.2.2, §5.1): EXECUTE and VALIDATE by READ, LOG by
// WRITE, locks and COMMIT by RPC; and NC, the same without the cache of addresses. It is a declaration;
// package occ does the work.
//
// # Messages
//
// Of a transaction that reads r records and writes w, each of one line with a value of v bytes, on n other
// nodes, of which k have records that are written. A request and its answer or completion are two messages.
// Records of the own node take none.
//
//	phase     requests   trips   bytes of requests and answers
//	EXECUTE   r + w      1       (24 + v) (r + w)
//	LOCK      k          1       48 k + 40 w
//	VALIDATE  r          1       24 r; nothing if the transaction is one read
//	LOG       h          1       log record, for each of h holders
//	COMMIT    k          1       48 k + (24 + v) w
//
// Without backups there are no holders. A log record takes whole lines of 64 bytes: 56, and 24 w and the
// values that the holder has a replica of. It is one WRITE, or two where the log wraps.
//
// In the first transaction on a record a READ of its bucket comes before, 128 bytes and a trip; with NC in
// each. With option "lock" at "execute" one request of EXECUTE reads and locks what is written, as FaSST's
// does, and LOCK has nothing to do:
//
//	EXECUTE   r + k      1       (24 + v) r + 48 k + (40 + v) w
//
// Values count in whole words in requests and answers of RPC. TestMessages holds the table, with three
// replicas and without backups; TestReplicatedMessages has the 12 messages and 4 delays of Xenic's Figure 7(a).
// A READ of a record of several lines takes another READ. On devices without line words records have a seal of 8 bytes
// behind the value: the READ of a record is 8 bytes longer, of whatever lines, and VALIDATE takes r READs of 8 bytes. A
// record whose seal is not there takes four READs more (package occ, Reads).
//
// # Differs
//
// The cache of addresses is the location cache of package store/remote, which holds copies of buckets. Commit
// returns when COMMIT is confirmed, one trip after the client may be told.
package drtmh
