// Package farm is FaRM as HADES and Xenic describe it (HADES §II and §III, Xenic §2.2.2): records with a version
// per line inside of hopscotch tables (package store/hopscotch), so that one READ of a neighbourhood finds a
// record and fetches it; VALIDATE by READ; the records of LOCK and COMMIT written into rings that the other node
// polls (package verbs/ring), and answered in the same way. It is a declaration; package occ does the work.
//
// # Messages
//
// Of a transaction that reads r records and writes w, each of one line with a value of v bytes, on n other
// nodes, of which k have records that are written. A request and its answer or completion are two messages.
// Records of the own node take none.
//
//	phase     requests   trips   bytes of requests and answers
//	EXECUTE   r + w      1       512 (r + w)
//	LOCK      k          1       48 k + 40 w
//	VALIDATE  r          1       24 r; nothing if the transaction is one read
//	LOG       h          1       log record, for each of h holders
//	COMMIT    k          1       48 k + (24 + v) w
//
// Without backups there are no holders. With backups and without await-unlock nobody waits for COMMIT, which takes
// no trip then. A log record takes whole lines of 64 bytes: 56, and 24 w and the values that the holder has a
// replica of. It is one WRITE, or two where the log wraps, and its completion is the acknowledgement: the CPU of
// the holder has no part in it.
//
// A record that overflows takes another READ and trip, of 128 bytes; one of l lines takes as many times more
// bytes. A key that has no record takes two trips in EXECUTE, with one READ and four, and two in VALIDATE, with three and
// one: an absence is proved (package store/remote), and dated by its table's counter. On devices without line words records have a seal in place
// of the versions of their lines, and VALIDATE takes 8 r bytes. A record whose seal is not there is READ again in its
// place, by four READs in a second trip (package occ, Reads).
//
// # The optimisations of HADES §III
//
// Each has an option. All but (3) are on by default, as in the optimised implementation that HADES measures: with
// (3) a record is still locked for a moment after the program was told, and a worker takes further memory for
// transactions that have not ended.
//
//	batch-locks    (1) LOCK and COMMIT have one message for each node, not for each record: k is w without it
//	serial-unlock  (2) the update and what unlocks it travel together; with it COMMIT takes two trips
//	await-unlock   (3) without it a transaction whose update is in the logs of all backups has ended when COMMIT is
//	               sent. Without backups COMMIT is what tells that the update was made, and an attempt that aborts
//	               would meet its own locks in the next one: both are waited for
//	lock-reads     (4) what is only read is compared, not locked; with it LOCK is about r + w records, and VALIDATE
//	               has nothing to do
//
// # Differs
//
// Messages are served by the worker of the same index. A record that has moved
// between EXECUTE and VALIDATE ends the attempt. What is decided travels in later log records, or, when there
// are none, in a message by RPC. LOCK carries no values, so the lock is no vote in a recovery (package recovery).
package farm
