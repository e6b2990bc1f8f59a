package store

import "errors"

// What EnsureIn, ReclaimIn and Load end with. Values are preallocated; nothing was changed.
var (
	// ErrFull: one of the two errors that follow.
	ErrFull = errors.New("table is full")
	// ErrEntriesFull: every entry is in use. Give absent ones back, or make the table larger.
	ErrEntriesFull error = &fullError{"table is full: no free entry; " +
		"make the table with more entries"}
	// ErrIndirectFull: a chain needs one more indirect bucket and there is none.
	ErrIndirectFull error = &fullError{"table is full: no free indirect bucket; " +
		"make the table with more main or indirect buckets"}
	// ErrSpent: the 32 bits of the table's incarnations are used up. Dump and load the table.
	ErrSpent = errors.New("incarnations of the table are used up; dump and reload the table")
	// ErrKey: the key is layout.NoKey.
	ErrKey = errors.New("key 2^64-1 is reserved: use another")
	// ErrLive: the entry to be given back has a value.
	ErrLive = errors.New("entry has a value")
	// ErrState: the entry to be given back is in use: its state is not the one that was named.
	ErrState = errors.New("entry has another state")
	// ErrNoEntry: there is no entry of this key.
	ErrNoEntry = errors.New("no entry of this key")
	// ErrExists: Load met the key before.
	ErrExists = errors.New("key was loaded before")
	// ErrValueSize: a value does not have the table's size.
	ErrValueSize = errors.New("value does not have the size of the table")
	// ErrCorrupt: an offset or counter in memory is not one that the table can have.
	ErrCorrupt = errors.New("table is corrupt")
)

type fullError struct{ text string }

func (e *fullError) Error() string { return e.text }

// Is matches ErrFull.
func (e *fullError) Is(target error) bool { return target == ErrFull }
