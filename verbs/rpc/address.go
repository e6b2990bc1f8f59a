package rpc

import (
	"encoding/binary"
	"fmt"

	"drtmd/verbs"
)

// Address is how a port is reached. It is exchanged out of band.
type Address struct {
	verbs.Endpoint
	Incarnation uint64
}

// AddressBytes is the size of an encoded address.
const AddressBytes = verbs.EndpointBytes + 8

// String leaves out the high half of the incarnation, of which queue keys may be made, as it does the
// queue key.
func (a Address) String() string {
	return fmt.Sprintf("QP %d at %s (incarnation ...%08x)", a.QPN, a.GID, uint32(a.Incarnation))
}

// MarshalBinary encodes the address: the endpoint's 64 bytes | incarnation 8, little endian.
func (a Address) MarshalBinary() ([]byte, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	b, err := a.Endpoint.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return binary.LittleEndian.AppendUint64(b, a.Incarnation), nil
}

// UnmarshalBinary decodes and checks an address. Every failure is a verbs.ErrBadEndpoint; a is
// left alone then.
func (a *Address) UnmarshalBinary(b []byte) error {
	if len(b) != AddressBytes {
		return fmt.Errorf("%w: an address has %d bytes, not %d", verbs.ErrBadEndpoint,
			AddressBytes, len(b))
	}
	var d Address
	if err := d.Endpoint.UnmarshalBinary(b[:verbs.EndpointBytes]); err != nil {
		return err
	}
	d.Incarnation = binary.LittleEndian.Uint64(b[verbs.EndpointBytes:])
	if err := d.check(); err != nil {
		return err
	}
	*a = d
	return nil
}

// check is what an address needs beyond its endpoint.
func (a *Address) check() error {
	switch {
	case a.Type != verbs.UD:
		return fmt.Errorf("%w: %s, a port's queue pair is UD", verbs.ErrBadEndpoint, a.Type)
	case a.Incarnation == 0:
		return fmt.Errorf("%w: the incarnation is zero", verbs.ErrBadEndpoint)
	}
	return nil
}
