package onesided

import (
	"encoding/binary"

	"drtmd/proto/txset"
	"drtmd/store/layout"
)

// Hold is what a transaction has of a record by verbs.
type Hold uint8

// Holds. 0 is nothing.
const (
	Nothing Hold = iota
	Asked        // for a lock; what became of the request is not known
	Locked
	Leased // a lease, its own or one that it joined: it ends by itself
)

func (h Hold) String() string {
	return [...]string{"nothing", "asked", "locked", "leased"}[min(h, Leased)]
}

// Part is what this package keeps of a record.
type Part struct {
	Off   uint64 // of the entry in its machine's memory, if Found
	Word  uint64 // of its state: what the next CAS expects; of what is held or asked for: that word
	want  uint64 // what the CAS puts there
	Op    int    // of its last request in the batch; negative: none
	Hold  Hold
	Found bool
	// Elsewhere: it was read in another replica than the primary, where its place is not known.
	Elsewhere bool
	// Fetched: the look-up that has found the entry has READ it, too, into the record's image: its lines are
	// of moments of their own.
	Fetched bool
	// Sealed: the seal in the image has proved it. Unsealed: a seal did not, so that the header has to.
	Sealed, Unsealed bool
	// Local records are left alone: the protocol reaches them by the CPU.
	Local bool
	// Free: it was read without lock or lease (ReadFound).
	Free bool
	// Ask has the host say where the entry is, without a look-up before.
	Ask bool
	// Stale: the entry that was found is not the key's, or not to be judged.
	Stale bool
	// Ensured: the host has made the entry, or found it, for this transaction, which has not locked it.
	Ensured bool
	// Made: the own machine has found or made it, absent.
	Made bool
	// InRegion: the region of the transaction has its copy of the lines in the record's image, the first of them at position
	// Line (htm.Region.LoadLines).
	InRegion bool
	Line     int32
	Stored   bool // an update is known to be in memory
	unlocks  bool // the last request is the unlocking CAS
	unsent   bool // the last request for a lock was posted on a queue pair that had failed before
}

// Record is a record of a transaction.
type Record = txset.Record[Part]

// Header reads the header of a record's image.
func Header(r *Record) (key uint64, v layout.Version, state uint64) { return header(r.Image) }

func header(image []byte) (key uint64, v layout.Version, state uint64) {
	_ = image[layout.HeaderBytes-1]
	return binary.LittleEndian.Uint64(image[layout.KeyOffset:]),
		layout.Version(binary.LittleEndian.Uint64(image[layout.VersionOffset:])),
		binary.LittleEndian.Uint64(image[layout.StateOffset:])
}

// SetVersion puts a version into the header of a record's image, whatever its value: Record.Seal puts
// both.
func SetVersion(r *Record, v layout.Version) {
	binary.LittleEndian.PutUint64(r.Image[layout.VersionOffset:], uint64(v))
}

// SetState puts a state word into a record's image.
func SetState(r *Record, word uint64) {
	binary.LittleEndian.PutUint64(r.Image[layout.StateOffset:], word)
}

// Presence says whose the entry in a record's image is.
func Presence(r *Record) layout.Presence {
	key, v, _ := Header(r)
	return layout.Match(uint64(r.Key), key, v)
}
