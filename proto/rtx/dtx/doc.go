// Package dtx is the baseline of distributed transactions that 003 compares rTX with (section 6, "DTX"): optimistic
// transactions in the manner of DrTM+H, on the memory of a passive node, without replicas.
//
// An object is one block at a fixed place, with its metadata before the data:
//
//	0 lock word 8 | version 8 | payload
//
// The execution READs blocks as a whole. The commit
//
//  1. WRITEs the log of the client: the new values of all objects that it updates;
//  2. locks them by CAS, and READs the 16 bytes of metadata of all that it has read, in one doorbell;
//  3. WRITEs into the log that the transaction has committed, WRITEs the values in place, and unlocks, in one doorbell.
//
// These are the operations of Table 2: 1 KB and 16 bytes READ, 2 KB and 8 bytes WRITTEN, a CAS for each object; and
// the CAS that unlocks, and the log's header.
//
// A WRITE becomes visible in ascending order of addresses, and a READ reads so (package inplace). So whoever has read any
// byte of a new value finds its version at the validation. A transaction's code may see a mixture of old and new
// values, as in package rtx.
//
// # Failures
//
// A log may be carried out by one client only, and only when its owner cannot write any more: a WRITE of a value that
// arrives late would undo a later one. So clients need a membership service, which says that an owner is dead when
// its queue pairs are fenced, and who repairs it (Members): the paper has Zookeeper, with leases of 8 ms. A client that
// comes back under its number repairs itself. Without a service, locks of a dead client stay until then.
//
// # Deviations
//
// DrTM+H's replicas and its RPCs are not here. Locks are released by CAS, since a lock word is written by atomics
// alone (HCA scope). Objects that nobody can reach yet are not logged.
//
// A subtable of RACE (package race) that is split is not changed in place: its slots change until it is locked, and the
// log is written before. Both halves are new objects, made under the lock (WhenLocked), and the memory of the old one is lost.
// Blocks of records that a dead client had are lost, too.
//
// # Who may call what
//
// As in package rtx: a Client belongs to one fiber at a time, and what Tx returns is valid until the next Begin.
package dtx
