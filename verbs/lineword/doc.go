// Package lineword defines the word beside each 64-byte line of registered memory on the shm and sim
// providers: its format and the operations on it.
//
// # Purpose
//
// A remote WRITE, CAS or FAA, and the commit of an emulated hardware transaction, lock the words
// of the lines that they change, and increment their versions. A remote READ of a line reads the word,
// copies the line, and reads the word again. So each of these accesses a line atomically (design
// decision 6), and a transaction detects every remote change to a line that it has read. There is no
// global clock: a reader of several lines validates them again with each new one. A CPU store that does
// not use this package changes no word.
//
// # Format
//
//	63                                        17 16             1  0
//	+-------------------------------------------+----------------+--+
//	|             version (47 bits)             |   owner slot   |L |
//	+-------------------------------------------+----------------+--+
//
// L is the lock bit. The owner slot names who holds the lock: an index, from 1, into a table that
// the provider keeps beside the region, by which others find out whether the owner's process is
// still alive and what it was about to write. An unlocked word has owner slot 0. The version
// grows by one at each Unlock and is never reset: a line is changed at most once at a version, so
// a word never takes an old value again. 47 bits last four years at one change per microsecond; after
// that, only a process that has slept for all this time could mistake a version.
//
// # Who may do what
//
// Words lie in memory that other processes map, so a word may be damaged: the caller checks the bounds
// and the liveness of the owner slot. All operations are bounded; none waits.
//
// HTM uses TryLock for each line of its write set in address order, Load and a comparison to
// validate its read set, and Unlock to publish. With TakeOver, a process that finds a line locked by a
// dead owner rolls the owner's commit forward or back.
//
// # Memory order
//
// TryLock and TakeOver are full fences. Unlock is a release: on amd64 a plain store, which the
// processor keeps behind all earlier stores; Go's atomic store would add a full fence, which is not
// needed. Read is an acquire at both reads of the word. Builds with the race detector use sync/atomic
// throughout.
//
// The package imports nothing but the standard library.
package lineword
