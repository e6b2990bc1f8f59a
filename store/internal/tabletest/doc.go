// Package tabletest has what the tests of packages store, hopscotch, robinhood and btree share. Model runs random
// operations on a table against a map; GrowingModel does so on a table that grows. LoadedKeysAreFound,
// ConfigIsRefused, AttachRefusesOthers and CountersGoOn are single tests. Items says which items of a pool are lost.
// Recorder and Past are for look-ups that a host tears.
//
// A test brings what differs: the Config, the walk over every word of its table, the errors of a full table,
// and the operations that only its table has, such as scans. The tests of package store import this package, so
// it cannot import package store; a test gives the errors of package store as Errors.
//
// Models belong to one goroutine and start none. Memory is on the Go heap, except that of extents, which a
// Ground takes from the device of a test.
package tabletest

import (
	"drtmd/htm"
	"drtmd/store/layout"
)

// Table is what tests ask of a table. Places are offsets, or those of layout.MakePlace.
type Table interface {
	Load(key uint64, value []byte) error
	Find(key uint64) (place int, ok bool)
	FindIn(r *htm.Region, key uint64) (place int, found, ok bool)
	EnsureIn(r *htm.Region, key, state uint64) (place int, v layout.Version, ok bool, err error)
	ReclaimIn(r *htm.Region, key, state uint64) (ok bool, err error)
	Each(f func(place int) bool)
	At(place int) (*htm.Memory, int)
	Record() *layout.Record
}

// Errors are those of package store.
type Errors struct {
	Full, Bound, Key, Exists, ValueSize error
	NoEntry, Live, State                error
}
