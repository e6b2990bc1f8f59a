package rtx

import "encoding/binary"

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
