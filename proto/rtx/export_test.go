package rtx

import "encoding/binary"

// LastLease is the lease of the last lock of an object.
func LastLease(memory []byte, p Ptr) (uint64, error) {
	l, err := decode(memory[:headerBytes], len(memory))
	if err != nil {
		return 0, err
	}
	return leaseOf(binary.LittleEndian.Uint64(memory[PlaceOffset(l.metaAt(p)):])), nil
}
