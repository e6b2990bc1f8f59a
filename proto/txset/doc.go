// Package txset is the set of records of one attempt of a transaction: what the program touches, what
// it has made of it so far, and the operations of proto.Txn on that, with their errors. A protocol
// embeds a Set in its transaction and adds how records are found, protected and written back.
//
// # A record's way through an attempt
//
//	Add       the record has a home, and room for a copy of its value
//	load      the protocol has found and protected it: Accept says which version there is, or none
//	access    the program reads, writes, inserts or deletes it: in the copy, so that it sees its own
//	          writes
//	Changes   the commit asks what is to be written, and Next which version it gets
//
// A record has two forms: Image, as it lies in tables, and Value, as the program sees it. Where the
// layout has the value in one piece, Value is a part of Image; otherwise Accept takes it out, and Seal
// puts it back with its version.
//
// Records come from the declaration (Declare) or are discovered when the program touches them, where
// Config.Declared does not forbid that. Either way the first access has the protocol load those that
// are not loaded yet. After a load that failed every operation repeats its error.
//
// # The history
//
// A transaction's reads are the records that its program saw, which includes the record that an
// Insert, a Delete or a Write found or missed; its own writes are not among them. Each attempt is a
// transaction of its own there: one that the protocol aborted has only the writes that it would have
// made, which nobody may ever read.
//
// # Ownership
//
// A Set belongs to the fiber that runs the attempt. The copies belong to its Buffers, until Close; in
// steady state nothing is allocated.
package txset
