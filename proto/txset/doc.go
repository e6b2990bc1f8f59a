// Package txset is the set of records of one attempt of a transaction: the records that the program
// touches, their present copies, and the operations of proto.Txn on them with their errors. A protocol
// embeds a Set in its transaction, and adds how records are found, protected and written back.
//
// # The steps of a record
//
//	Add       the record gets a home node, and a buffer for a copy of its value
//	load      the protocol finds and protects the record: Accept sets its version, or that it is absent
//	access    the program reads, writes, inserts or deletes the copy, and so sees its own writes
//	Changes   the commit finds the records to write, and Next gives their new versions
//
// A record has two forms: Image, as in tables, and Value, as the program sees it. If the layout has the
// value in one piece, Value is a part of Image; otherwise Accept extracts it, and Seal puts it back with
// its version.
//
// Records come from the declaration (Declare), or are discovered when the program touches them, unless
// Config.Declared forbids that. In both cases the first access has the protocol load the records that are
// not loaded yet. After a failed load, every operation returns its error.
//
// A protocol may load records of several lines in part: Lines says which, and Complete brings others when the program
// accesses them, or all if a history is taken, which has digests of whole values.
//
// # The history
//
// A transaction's reads are the records that its program saw, including the record that an Insert, a
// Delete or a Write found or missed, but not its own writes. Each attempt is a separate transaction in the
// history. An attempt that the protocol aborted has only its intended writes, which nobody may ever read.
//
// # Ownership
//
// A Set belongs to the fiber that runs the attempt. The copies belong to its Buffers, until Close; in
// steady state nothing is allocated.
package txset
