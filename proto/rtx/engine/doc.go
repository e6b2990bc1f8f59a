// Package engine is proto.Engine on an index of repairable transactions: one table is one index, its records are
// the index's entries, and a transaction of a program is one of package rtx. So workloads, histories and checks run
// on it as they are.
//
// # Records
//
// A transaction keeps the records that it touches in a txset.Set, as those of other protocols do, and the index
// reads and changes them as parts of an rtx.Tx. What is written reaches the index at the commit. System rtx locks the
// leaves of a tree that are going to be updated when they are read (Options.LateLocks: at the commit); what else conflicts
// shows in the commit, as an Abort. A worker keeps copies of a tree's nodes (Options.Copies). Placements of workloads mean
// nothing here: all records lie on the memory node.
//
// # Systems
//
// An index is on the transactions of package rtx, or on those of a baseline with the same operations (System). The
// code of the index is the same.
//
// # Fibers
//
// An rtx.Client runs one transaction at a time, so the engine has one for each fiber of its worker, with an owner
// number of its own; Begin takes one that is free. They share the queue pair, and caches of indexes.
//
// # Versions
//
// If histories are recorded, entries carry versions, which count as those of other protocols' records
// (layout.Version). Whether they do is a property of the index in the memory, which its first client makes.
//
// # Errors
//
// An error of the transport breaks the client that met it: its transaction is of unknown outcome if it was to
// commit an update, and the next Begin says what broke. A client is not attached anew within a run.
package engine
