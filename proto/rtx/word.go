package rtx

import "time"

// Ptr names an object for as long as the memory lasts. 0 is no object of a program.
//
//	63       44   43    42    36 35                   0
//	+----------+-------+--------+----------------------+
//	| 0        | index | node 7 | index of the object  |
//	+----------+-------+--------+----------------------+
//
// The bit "index" is set in references of records alone: see indexBit.
type Ptr uint64

const (
	ptrBits   = 44
	ptrMask   = 1<<ptrBits - 1
	slotBits  = 20
	nodeShift = 36
	indexMask = 1<<nodeShift - 1
)

// MaxNodes is how many memory nodes may be used together.
const MaxNodes = 64

func ptrTo(node, index int) Ptr { return Ptr(node)<<nodeShift | Ptr(index) }

func nodeOf(p Ptr) int  { return int(p >> nodeShift) }
func indexOf(p Ptr) int { return int(p & indexMask) }

// ref is what the header of a block and an entry of a log begin with: the object, and above it the slot that
// the block was taken from, counted through the tables of all owners.
func ref(slot int, p Ptr) uint64 { return uint64(slot)<<ptrBits | uint64(p) }

func refSlot(r uint64) int { return int(r >> ptrBits) }
func refPtr(r uint64) Ptr  { return Ptr(r & ptrMask) }

// A lock word (Figure 4, section 4.4):
//
//	63     62      48 47      46                  0
//	+------+---------+--------+--------------------+
//	| lock | owner 15| no log | lease 47           |
//	+------+---------+--------+--------------------+
//
// Unlocked, it is the lock word of whoever held it last, without the bit: a version.
const (
	lockBit   = 1 << 63
	noLogBit  = 1 << 47
	leaseBits = 47
	leaseMask = 1<<leaseBits - 1
	ownerBits = 15
	ownerMask = 1<<ownerBits - 1
)

// MaxOwners is how many owners the lock word tells apart.
const MaxOwners = 1 << ownerBits

func lockWord(owner int, noLog bool, lease uint64) uint64 {
	w := lockBit | uint64(owner)<<48 | lease&leaseMask
	if noLog {
		w |= noLogBit
	}
	return w
}

func locked(w uint64) bool     { return w&lockBit != 0 }
func ownerOf(w uint64) int     { return int(w >> 48 & ownerMask) }
func noLog(w uint64) bool      { return w&noLogBit != 0 }
func leaseOf(w uint64) uint64  { return w & leaseMask }
func unlocked(w uint64) uint64 { return w &^ lockBit }

// Leases count units from an epoch: 47 bits last until 2055.
const (
	leaseUnit  = 8 * time.Microsecond
	leaseEpoch = 1_577_836_800 * time.Second // 2020-01-01, since 1970
)

// units is a span in units of leases, rounded up.
func units(d time.Duration) uint64 { return uint64((d + leaseUnit - 1) / leaseUnit) }

// The header of a log (section 4.2): its state, the low bits of its transaction's lease, and the lease of who
// commits, if the state is DOING.
//
//	63    62 61     47 46                  0
//	+-------+---------+---------------------+
//	| state | tag 15  | lease 47            |
//	+-------+---------+---------------------+
const (
	stateDone  uint64 = iota // the log may be reused; memory that was never used says so
	stateInit                // execution and validation
	stateDoing               // committed; the updates are being installed
	stateAbort               // aborted, with locks that may be unreleased
)

const (
	stateShift = 62
	tagBits    = 15
	tagMask    = 1<<tagBits - 1
)

// header makes the header of the log of a transaction with a lock word.
func header(state, lock, lease uint64) uint64 {
	return state<<stateShift | (lock&tagMask)<<leaseBits | lease&leaseMask
}

func stateOf(h uint64) uint64 { return h >> stateShift }

// sameTag reports whether a header is of the transaction with a lock word, or of one 2^15 leases apart.
func sameTag(h, lock uint64) bool { return h>>leaseBits&tagMask == lock&tagMask }

// A data pointer (section 4.4). Blocks are multiples of 64 bytes, so that the offset leaves room for the use.
//
//	63         48 47     40 39           6 5    0
//	+------------+---------+--------------+------+
//	| version 16 | node 8  | offset / 64  | use 6|
//	+------------+---------+--------------+------+
//
// The use counts how often the block was replaced, and the version this and each renewal by a repair: a pointer with
// the same use names the block in the same place, whoever has renewed it.
//
// The offset with the node above it is a place.
const (
	offsetBits   = 40
	offsetMask   = 1<<offsetBits - 1
	useMask      = 1<<6 - 1
	pointerMask  = 1<<48 - 1
	versionShift = 48
)

// offsetOf is the place of the block.
func offsetOf(d uint64) uint64 { return d & pointerMask &^ useMask }

// Places are offsets in the memory of all nodes: that of a node, and its number above.

// PlaceAt is the place of an offset in the memory of a node.
func PlaceAt(node, off int) int { return node<<offsetBits | off }

// PlaceNode is the number of the memory node that a place is in.
func PlaceNode(place int) int { return place >> offsetBits }

// PlaceOffset is the offset of a place in its memory.
func PlaceOffset(place int) int { return place & offsetMask }

// isNil reports whether a data pointer names no block: of an object that was never written.
func isNil(d uint64) bool { return d&pointerMask&^useMask == 0 }

// renewed is the pointer to the same block in the same place, which nobody can swing from the one before.
func renewed(d uint64) uint64 { return d + 1<<versionShift }

// replaced is the pointer with which a block is used next.
func replaced(d uint64) uint64 { return renewed(d)&^useMask | (d+1)&useMask }

// sameUse reports whether two pointers name a block in the same place.
func sameUse(a, b uint64) bool { return (a^b)&pointerMask == 0 }
