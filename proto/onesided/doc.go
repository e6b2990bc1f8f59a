// Package onesided is what protocols over one-sided verbs have in common (DrTM §5 and §6 for the
// first of them): where records are, how they are locked and written back by another machine's NIC,
// and what is left to do where a machine does not answer. A protocol adds which words its locks are,
// how the word that was there before is judged (Locks), and the order of things.
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
// A record's header and everything that hosts are asked is LittleEndian. The state word of an unlocked
// record is 0 or what the protocol leaves there; bit 0 is the lock. It is changed by atomics only: on
// most NICs a WRITE and a CAS do not exclude each other (design decision 3).
//
// # Failures
//
// A queue pair carries its requests out in order, so the last one's success is that of all before it;
// behind a request that could not be posted nothing is. A request that failed may have been carried
// out: a lock that was asked for is given back like one that is held. What cannot be given back is
// owed, and done when the machine is connected again (Finish). Errors of verbs and calls become aborts
// with proto.ReasonUnreachable that keep their cause.
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
