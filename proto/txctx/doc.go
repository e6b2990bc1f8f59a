// Package txctx is Dandelion's client side (§3): transactions that programs build up step by step, without saying
// beforehand which records they touch, beside proto.Txn. It stands on proto.Txn and proto.Engine, so every protocol
// has it that needs no declarations.
//
// # The TxCache and the reorder buffer
//
// A Ctx keeps what its transaction has asked for in a TxCache: an Entry for each record, with operation, state and
// value. Get is asynchronous: it returns an entry, which has its value after a Poll. Only Gets and the commit go through
// the reorder buffer, in the order in which they were asked for: when one is done, all before it are. Put, Insert and
// Delete stay in the cache until the commit; a Put to a record that was read fuses with its entry (OpGetPut), and
// overwrites the value there.
//
// The first Poll of a Get that is not done executes all Gets that wait, by one ReadMany: one batch for the tables of the
// own node, and one message for each other node. The cache has Height entries of Width bytes; more and larger ones are
// allocated on the spot, and kept.
//
// # Two ways to use it
//
//   - In a proto.Program: Init with the proto.Txn of Execute, and Flush at its end. proto.Runner commits and repeats.
//     A Poll has the fiber wait; the worker runs other fibers, each with a transaction.
//   - As a Client, which has up to N transactions of one fiber under way. A Poll of one executes what waits in all of
//     them, so that their reads and commits overlap. The caller repeats what was aborted.
//
// # What differs from the paper
//
//   - A Put to a record whose Get is not done yet polls it first: the value that was read is the program's to see.
//   - The reorder buffer needs no atomics: a context belongs to one worker.
//   - Blind changes of several records read them first, together, as package occ does for each.
//
// # Ownership
//
// A Ctx or Client belongs to one fiber. Entries and their values belong to the Ctx, and are valid until its next
// transaction. In steady state nothing is allocated.
package txctx
