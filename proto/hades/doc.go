// Package hades runs the transactions of HADES (ISCA 2024) and HADES-H on the model of their hardware: package
// hardware, which has the caches, Locking Buffers and NICs of a node as a state machine.
//
// # What it is
//
// A member has one Chip: the model of its node, on the NIC that the simulator gives it. Each worker is a core of that
// node and each of its fibers a transaction; with more fibers than a core has pairs of filters, Begin waits until a
// transaction of the core has ended (§VI). An engine turns the accesses of a program into those of lines. It waits where the model
// denies an access or fetches lines, and spends the cycles that the model says. Package txset keeps the copies of records
// and the history; hardware would have no such set, so it costs nothing.
//
// # Records
//
// A record is what a table of package store has: a header of 24 bytes and the value, from the beginning of a line. The
// lines of the model are those of the member's memory. HADES has no versions (Table I). The version in the header is the
// checker's: it travels with the first line, and the model of HADES neither compares it nor spends time on it. Software
// of HADES-H validates it (§V-D).
//
// # Fields
//
// An access to a part of a value (proto.ReadAt, proto.WriteAt) is one to the lines of these bytes, and to the header's
// line, which stands for the place and the version of the record. So fields of one record conflict, where in HADES those of
// different lines do not. A write fetches the lines that are written in part, and not the others. An insertion fetches the
// header's line. HADES-H accesses records of its own node as a whole (§V-D).
//
// The checker compares whole values. So the lines of a record that are not accessed come along (shadows): no filter, cache
// or buffer has them, and 64 bytes on the wire are all that they cost.
//
// # Indexes
//
// HADES does not say how keys lead to records. Here every node knows the places of all records, as FaRM's caches of
// locations do: a look-up is an instruction cost and no access. What an absent key has instead of a record is a line of
// its bucket, behind the lines of memory. Who finds no record reads it; who inserts a record writes it, too. The same
// holds for pages of ordered tables: a page is a range of keys, fixed when the table is loaded. A scan reads the lines
// of its pages. A place is looked up again when its lines have arrived: it may have been given to another key.
//
// # Replicas
//
// HADES outlines them (§V-A): nodes with replicas persist what a transaction writes at its Intend-to-commit, and move it to
// its place at the Validation. Here they do so after the Acks, in a round of its own (Persist), because a record has to
// prove that all nodes have locked, and that no Squash is on its way. So a record decides as in package recovery: a
// transaction of a node that is gone is committed if every shard that it writes has its record. A change of the members
// ends all transactions that have not begun to persist, and none runs until the dead have nothing left: see recover.go. The
// records are durable in memory; a node that comes back has nothing.
//
// # What it does not do
//
// It runs in the simulator alone: the model has no threads. A range of keys that is scanned lies on one node.
//
// # Ownership
//
// A Chip belongs to the event loop of the simulator, as do the engines of all workers. Hooks of the model wake fibers and
// call nothing else.
package hades
