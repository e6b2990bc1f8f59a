package lineword

import (
	"fmt"
	"sync/atomic"
)

const (
	lockBit     = 1
	ownerShift  = 1
	ownerBits   = 16
	versionStep = 1 << (ownerShift + ownerBits)

	// MaxOwner is the largest owner slot.
	MaxOwner = 1<<ownerBits - 1
	// LineBytes is the size of the line that a word stands for.
	LineBytes = 64
)

// Word is a value of a line word.
type Word uint64

// Locked reports whether somebody holds the line.
func (w Word) Locked() bool { return w&lockBit != 0 }

// Owner is the slot of the holder, 0 if unlocked.
func (w Word) Owner() uint16 { return uint16(w >> ownerShift) }

// Version counts the changes of the line.
func (w Word) Version() uint64 { return uint64(w) / versionStep }

// Next is the word that Unlock stores after w.
func (w Word) Next() Word { return w&^(versionStep-1) + versionStep }

func (w Word) String() string {
	if w.Locked() {
		return fmt.Sprintf("version %d locked by %d", w.Version(), w.Owner())
	}
	return fmt.Sprintf("version %d", w.Version())
}

// Load reads a word.
func Load(p *uint64) Word { return Word(atomic.LoadUint64(p)) }

// TryLock locks a line for an owner, 1 to MaxOwner, if its word is still w, which must be
// unlocked. It never waits.
func TryLock(p *uint64, w Word, owner uint16) bool { return TryLockAs(p, w, w.LockedBy(owner)) }

// TryLockAs is TryLock of who has made held of w by LockedBy.
func TryLockAs(p *uint64, w, held Word) bool {
	return !w.Locked() && atomic.CompareAndSwapUint64(p, uint64(w), uint64(held))
}

// TakeOver makes owner the holder of a line that a dead owner left locked at w. Of several who
// try, one succeeds.
func TakeOver(p *uint64, w Word, owner uint16) bool {
	return w.Locked() && atomic.CompareAndSwapUint64(p, uint64(w), uint64(w.LockedBy(owner)))
}

// LockedBy is the word of the same version, locked by an owner.
func (w Word) LockedBy(owner uint16) Word {
	return w&^(versionStep-1) | Word(owner)<<ownerShift | lockBit
}

// Unlock publishes what the caller stored to the line and raises its version. w is the word
// before or after the caller's TryLock. Only the holder may call it.
func Unlock(p *uint64, w Word) { storeRelease(p, uint64(w.Next())) }

// StoreUnlock stores a word of the line and is Unlock.
func StoreUnlock(dst *uint64, v uint64, p *uint64, w Word) {
	storeRelease2(dst, v, p, uint64(w.Next()))
}

// Restore gives the lock back without a change of version, if the caller stored nothing. w is as
// for Unlock.
func Restore(p *uint64, w Word) { storeRelease(p, uint64(w&^(versionStep-1))) }
