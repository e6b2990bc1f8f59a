// Package lineword is the format of the word that stands beside each 64-byte line of a registered
// memory region on the shm and sim providers, and the few operations on it.
//
// # What it is for
//
// A remote WRITE, CAS or FAA, and the commit of an emulated hardware transaction, lock the words
// of the lines they change and bump their versions. A remote READ of a line looks at the word,
// copies the line, and looks again. So every line is read and written atomically with respect to
// all of these (design decision 6), and a transaction sees every remote change to a line it has
// read. There is no global clock: whoever depends on several lines revalidates as it goes.
// A CPU store that does not go through this package changes no word.
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
// a word never takes an old value again. 47 bits last four years at one change a microsecond,
// after which a version could be mistaken only by someone who slept through all of these.
//
// # Who may do what
//
// Words lie in memory that other processes map. A word read from there proves nothing: bounds and
// liveness of the owner slot are the caller's to check. All operations are bounded; none waits.
//
// HTM uses TryLock for each line of its write set in address order, Load and a comparison to
// validate its read set, and Unlock to publish. A commit whose lines are locked by a dead owner
// is rolled forward or back by whoever meets it, with TakeOver.
//
// # Memory order
//
// TryLock and TakeOver are full fences. Unlock is a release: on amd64 a plain store, which the
// processor keeps behind all earlier stores; Go's atomic store would add a full fence, for which
// nothing here has a use. Read is an acquire at both looks. Builds with the race detector use
// sync/atomic throughout.
//
// The package imports nothing but the standard library.
package lineword
