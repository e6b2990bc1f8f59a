// Package fasst is FaSST as Xenic describes it (Xenic §2.2.2): optimistic concurrency control of which
// every phase is carried by RPC over datagrams. It is a declaration; package occ does the work.
//
// # Messages
//
// Of a transaction that reads r records and writes w, on n other nodes, of which m have records that are
// only read and k such as are written. A request and its answer are two messages. Records of the own node
// take none.
//
//	phase     requests   trips   bytes of requests and answers
//	EXECUTE   n          1       48 n + 40 (r + w) + values of all
//	LOCK      k or 0     1 or 0  48 k + 40 w, if option "lock" is "commit"
//	VALIDATE  m          1       48 m + 24 r; nothing if the transaction is one read
//	LOG       h          1       (40 + log record) h
//	COMMIT    k          1       48 k + 24 w + values written
//
// h are the holders of a log record; without backups there are none. A log record takes whole lines of 64
// bytes: 56, and 24 w and the values that the holder has a replica of. The transaction of Xenic's Figure 7(a)
// takes 12 messages, and its client may be told after 4 delays (TestReplicatedMessages).
//
// With "lock" at "execute", which is FaSST's way, one request of EXECUTE reads and locks. Values count
// in whole words. TestMessages holds the table, with three replicas and without backups.
//
// # Differs
//
// Look-ups inside a handler are not batched across its requests. A record that is locked ends EXECUTE,
// as in FaSST. Commit returns when COMMIT is confirmed, one trip after the client may be told.
package fasst
