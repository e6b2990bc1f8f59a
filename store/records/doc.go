// Package records is a table whose records DLHT leads to (Dandelion §6; package dlht): the records lie in registered
// memory, at places that never change, and the index lies in the memory of the process. It stands behind the same
// seam as the other tables (protocol.PointIndex), for protocols that reach other nodes by RPC alone: nothing of the
// index is registered, so peers look nothing up by READs (remote.ErrHosted).
//
//	registered    head, 128 bytes | record 0 | record 1 | ...
//	process       DLHT: key -> place | free places
//
// # What is exact
//
// A key is in the index if and only if a record is bound to it, and Find takes no lock. Making a record and giving it
// back exclude each other per key (Index.stripes), because a new record takes its version from a counter that must
// not be older than what the key had before. A record is bound before the index leads to it, and unbound after the
// index has let go of it.
//
// # Regions
//
// EnsureIn and ReclaimIn take effect at once, whatever becomes of the region, and FindIn puts nothing into its read
// set: as in all tables on memory without line words. So the table serves protocols that lock records by CPU and
// validate what they have read, absences by AbsentIn (package occ), and not those that commit in regions.
//
// # Growth
//
// The records have a fixed room in registered memory (store.ErrFull beyond). The index begins with Config.Keys and
// grows without stopping anybody (package dlht), up to what records can need.
//
// # Restart
//
// Attach finds the bound records in memory that was kept, and makes the index anew. A process that was killed in the
// middle of EnsureIn or ReclaimIn may have left two records of one key: the one with the higher version stays, the
// other was never written, or given back.
//
// # Concurrency
//
// A Table belongs to its worker. View gives further workers of the same process theirs; they share the index. Nothing
// allocates but Format, Attach, View, growth of the index, and the first uses of the lists of free places.
package records
