package rtx

import (
	"encoding/binary"
	"time"
)

// SpoilLog has the log of an owner say that a transaction is under way, and nothing that makes sense.
func SpoilLog(memory []byte, owner int) error {
	l, err := decode(memory[:headerBytes], len(memory))
	if err == nil {
		binary.LittleEndian.PutUint64(memory[PlaceOffset(l.ownerAt(owner)):], stateInit<<stateShift|5)
	}
	return err
}

// LastLease is the lease of the last lock of an object.
func LastLease(memory []byte, p Ptr) (uint64, error) {
	l, err := decode(memory[:headerBytes], len(memory))
	if err != nil {
		return 0, err
	}
	return leaseOf(binary.LittleEndian.Uint64(memory[PlaceOffset(l.metaAt(p)):])), nil
}

// LeaseTime is when a lease ends, since 1970.
func LeaseTime(lease uint64) time.Duration { return leaseEpoch + time.Duration(lease)*leaseUnit }

// LockRoot has an object locked without a log, by its last owner, under a lease that is over. It returns the word.
func LockRoot(memory []byte, p Ptr) (uint64, error) {
	l, err := decode(memory[:headerBytes], len(memory))
	if err != nil {
		return 0, err
	}
	word := lockWord(0, true, 1)
	binary.LittleEndian.PutUint64(memory[PlaceOffset(l.metaAt(p)):], word)
	return word, nil
}

// BlockNode is the memory node that an object's block is on; -1: it has none. nodes are the memories by number.
func BlockNode(nodes [][]byte, p Ptr) (int, error) {
	l, err := decode(nodes[0][:headerBytes], len(nodes[0]))
	if err != nil {
		return 0, err
	}
	at := l.metaAt(p)
	d := binary.LittleEndian.Uint64(nodes[PlaceNode(at)][PlaceOffset(at)+8:])
	if isNil(d) {
		return -1, nil
	}
	return PlaceNode(int(offsetOf(d))), nil
}
