// Package onesided is the common part of protocols over one-sided verbs (DrTM §5 and §6 for the first of
// them): it locates records, locks them and writes them back by another machine's NIC, and keeps debts
// where a machine does not answer. A protocol adds its lock words, the judgement of the old word (Locks),
// and the order of the steps.
//
//	Locate     locate.go     look-ups at peers, all in flight at once; a key without an entry has one
//	                         made by its host, so that there is something to lock
//	Round      acquire.go    a CAS on the state word and the READ of the entry behind it on the same
//	                         queue pair, for all records at once
//	Back       writeback.go  version and value by WRITE, then the CAS that unlocks
//	Peek       peek.go       one record as it was at one moment, outside of any transaction
//	Ensure, Reclaim  host.go the host's side: entries that are made and given back
//
// An engine embeds Base, and its transactions embed Tx, whose records are those of package txset.
//
// # Words
//
// A record's header and all requests to hosts are little endian. The state word of an unlocked record is 0,
// or a word that the protocol leaves there; bit 0 is the lock. Only atomics change it: on most NICs a WRITE
// and a CAS do not exclude each other (design decision 3).
//
// # Failures
//
// A queue pair executes its requests in order, so the success of the last one implies that of all before it.
// After a request that could not be posted, none is posted. A failed request may have been executed: a lock
// that was requested is given back like one that is held. If that fails, the lock is owed, and given back
// when the machine is connected again (Finish). Errors of verbs and calls become aborts with
// proto.ReasonUnreachable that keep their cause.
//
// # Deliberate bugs
//
// Base.Skip names a safety step that is left out, for tests of checks; a protocol has a mutation for
// each that it relies on.
//
// # Ownership
//
// A Base belongs to its worker's thread, a Tx to the fiber that runs the attempt. The registered memory
// is freed by Base.Close; in steady state nothing is allocated.
package onesided
