package layout

import "fmt"

// Version is the version word of an entry: the incarnation in the high half, the number of writes
// since in the low half. It has the bits of a record's version in the protocols and grows with
// every committed write, deletion and insertion of the key (design decision 7).
//
// The incarnation is odd while the key has a value. An even one stands for absence, and the
// number then says of which kind:
//
//	number 0   the key was deleted at this version: a tombstone
//	number 1   the entry is bound to no key: it waits to be used again
//	number 2   the entry was bound to the key, and the key has had no value since
type Version uint64

const (
	numberDeleted uint32 = 0
	numberFree    uint32 = 1
	numberFresh   uint32 = 2

	maxNumber = 1<<32 - 1
	// maxIncarnation leaves room for what a transaction under way can add.
	maxIncarnation = 1<<32 - 64
)

// FirstVersion is that of a record which was loaded before the service began.
const FirstVersion Version = 1 << 32

// MakeVersion joins the halves.
func MakeVersion(incarnation, number uint32) Version {
	return Version(incarnation)<<32 | Version(number)
}

// Incarnation is the high half.
func (v Version) Incarnation() uint32 { return uint32(v >> 32) }

// Number is the low half.
func (v Version) Number() uint32 { return uint32(v) }

// Lossy is the lossy incarnation: the 14 low bits of the incarnation.
func (v Version) Lossy() Lossy { return Lossy(v>>32) & MaxLossy }

// Live reports whether the key has a value.
func (v Version) Live() bool { return v>>32&1 == 1 }

// Unbound reports whether the entry belongs to no key.
func (v Version) Unbound() bool { return !v.Live() && v.Number() == numberFree }

// Inserted is the version of an insertion over an absence v.
func (v Version) Inserted() Version { return MakeVersion(v.Incarnation()+1, 0) }

// Written is the version of a write over a live v. A number that would wrap takes the next odd
// incarnation.
func (v Version) Written() Version {
	if v.Number() == maxNumber {
		return MakeVersion(v.Incarnation()+2, 0)
	}
	return v + 1
}

// Deleted is the version of a deletion of a live v: a tombstone.
func (v Version) Deleted() Version { return MakeVersion(v.Incarnation()+1, numberDeleted) }

// Trace is the version that an absent v proves: that of the tombstone, or 0 if nothing is known
// but that the key is absent, because the entry that it had was given back or it never had one.
// This is what a history wants to know of an absent read.
func (v Version) Trace() Version {
	if v.Number() == numberDeleted {
		return v
	}
	return 0
}

// Unbind is the version of an absent entry that is given back.
func (v Version) Unbind() Version { return MakeVersion(v.Incarnation(), numberFree) }

// Fresh is the version of an entry that is bound to a key whose incarnation so far is at most the
// given one, which must be even.
func Fresh(incarnation uint32) Version { return MakeVersion(incarnation, numberFresh) }

// Spent reports whether the incarnations are used up: the key cannot be inserted again.
func (v Version) Spent() bool { return v.Incarnation() > maxIncarnation }

func (v Version) String() string {
	kind := ""
	switch {
	case v.Live():
	case v.Number() == numberDeleted:
		kind = " (deleted)"
	case v.Number() == numberFree:
		kind = " (unbound)"
	default:
		kind = " (absent)"
	}
	return fmt.Sprintf("%d.%d%s", v.Incarnation(), v.Number(), kind)
}

// NoKey is the key word of an entry that is bound to no key after it was bound to one; no key has
// this value. It goes there before the entry is given to another key, whose version comes after its
// key: whoever reads the words one after the other, as NICs do, and holds the entry's lock or lease
// does not see the old key with the new version.
const NoKey uint64 = 1<<64 - 1

// Presence is what an entry says of a key.
type Presence uint8

// What an entry says of a key.
const (
	Live   Presence = iota + 1 // it holds the key's value
	Absent                     // it is the key's, which has no value
	Stale                      // it is not the key's: look the key up again
)

var presenceNames = [...]string{Live: "live", Absent: "absent", Stale: "stale"}

func (p Presence) String() string {
	if p >= Live && p <= Stale {
		return presenceNames[p]
	}
	return fmt.Sprintf("presence(%d)", uint8(p))
}

// Match says what an entry that holds key word and version says of key. It is the check that
// every reader makes of an entry after it has found its place, by a look-up of whatever age.
func Match(key, keyWord uint64, v Version) Presence {
	switch {
	case keyWord != key || v.Unbound():
		return Stale
	case v.Live():
		return Live
	}
	return Absent
}

// Locked reports whether a state word holds a write lock.
func Locked(state uint64) bool { return state&1 == 1 }
