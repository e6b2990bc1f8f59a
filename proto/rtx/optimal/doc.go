// Package optimal is the baseline without failure tolerance that 003 compares rTX with (section 6, "Optimal"): an
// index keeps its own locks, and writes its nodes in place, as Sherman does (SIGMOD 2022).
//
// An object is one block at a fixed place, with a version at both ends, and a lock word in a table of its own. A
// reader READs the block, once: equal versions say that it is whole. A writer takes the lock by CAS with the READ
// of the block behind it in one doorbell, and writes back in another one: the version at the end, the
// payload, the version at the beginning, and the CAS that unlocks. These are the operations of Table 2, but for that
// CAS, which is a WRITE there.
//
//	0 version 8 | payload | version 8
//
// A WRITE becomes visible in ascending order of addresses, and a READ reads so, on shared memory and in the simulator,
// and, as Sherman assumes, on NICs. So whoever sees any byte of a new value sees the new version at the end, or had seen
// the old one at the beginning.
//
// # What it does not do
//
// A client that dies holds its locks for ever, and leaves what it was in the middle of. Blocks that it had taken
// are lost. Reads of several objects are not validated together: an operation on one key is linearizable, a scan over
// several nodes or a transaction of several operations is not serializable, as in the original.
//
// # Deviations
//
// Sherman unlocks by a WRITE behind the data; here it is a CAS, since a lock word is written by atomics alone (HCA
// scope). Its hierarchical locks of one client's threads, and locks in the NIC's memory, are not here. Sherman
// does not sort leaves, and writes back one entry unless it splits; here, and in Table 2 of 003, a node is written as
// a whole.
//
// RACE (package race) has operations of its own: direct.go has locks and blocks for it. While a subtable is split,
// operations on it wait, which those of the original do not.
//
// # Who may call what
//
// As in package rtx: a Client belongs to one fiber at a time, and what Tx returns is valid until the next Begin.
package optimal
