package verbs

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Endpoint is what a peer must know of a queue pair to reach it. It travels between processes
// as EndpointBytes bytes.
type Endpoint struct {
	Provider    string // "ibv", "shm", "sim"; at most 8 bytes of printable ASCII
	Type        QPType
	Link        LinkLayer
	ActiveMTU   int // of the port, bytes
	LID         uint16
	GID         GID
	QPN         uint32 // 24 bits
	PSN         uint32 // 24 bits: the first packet sequence number that it sends
	QKey        uint32 // UD
	MaxRdAtomic int    // READs and atomics that it takes as target, 0..255
}

// EndpointVersion is the version of the byte layout.
const EndpointVersion = 1

// EndpointBytes is the size of an encoded endpoint.
const EndpointBytes = 64

const endpointMagic = "DRTM"

// MarshalBinary encodes the endpoint (big endian):
//
//	 0  magic "DRTM" 4 | version 1 | type 1 | link 1 | max rd atomic 1
//	 8  provider 8, zero padded
//	16  GID 16
//	32  QPN 4 | PSN 4 | QKey 4 | MTU 2 | LID 2
//	48  zero 12 | CRC-32C of the first 60 bytes 4
func (e Endpoint) MarshalBinary() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	b := make([]byte, EndpointBytes)
	copy(b, endpointMagic)
	b[4], b[5], b[6], b[7] = EndpointVersion, byte(e.Type), byte(e.Link), byte(e.MaxRdAtomic)
	copy(b[8:16], e.Provider)
	copy(b[16:32], e.GID[:])
	be := binary.BigEndian
	be.PutUint32(b[32:], e.QPN)
	be.PutUint32(b[36:], e.PSN)
	be.PutUint32(b[40:], e.QKey)
	be.PutUint16(b[44:], uint16(e.ActiveMTU))
	be.PutUint16(b[46:], e.LID)
	be.PutUint32(b[60:], endpointSum(b))
	return b, nil
}

// UnmarshalBinary decodes and checks an endpoint. Every failure is an ErrBadEndpoint that says
// what is wrong; e is left alone then.
func (e *Endpoint) UnmarshalBinary(b []byte) error {
	if len(b) != EndpointBytes {
		return badEndpoint("%d bytes, not %d", len(b), EndpointBytes)
	}
	if string(b[:4]) != endpointMagic {
		return badEndpoint("it does not begin with %q: not a drtmd endpoint", endpointMagic)
	}
	if b[4] != EndpointVersion {
		return badEndpoint("version %d, this side speaks %d: run the same release on both sides",
			b[4], EndpointVersion)
	}
	be := binary.BigEndian
	if be.Uint32(b[60:]) != endpointSum(b) {
		return badEndpoint("checksum does not match")
	}
	for _, c := range b[48:60] {
		if c != 0 {
			return badEndpoint("reserved bytes are not zero")
		}
	}
	d := Endpoint{Type: QPType(b[5]), Link: LinkLayer(b[6]), MaxRdAtomic: int(b[7]),
		QPN: be.Uint32(b[32:]), PSN: be.Uint32(b[36:]), QKey: be.Uint32(b[40:]),
		ActiveMTU: int(be.Uint16(b[44:])), LID: be.Uint16(b[46:]), GID: GID(b[16:32])}
	n := 8
	for n > 0 && b[8+n-1] == 0 {
		n--
	}
	d.Provider = string(b[8 : 8+n])
	if err := d.check(); err != nil {
		return err
	}
	*e = d
	return nil
}

func (e *Endpoint) check() error {
	if len(e.Provider) == 0 || len(e.Provider) > 8 {
		return badEndpoint("provider %q is not 1 to 8 bytes", e.Provider)
	}
	for i := range len(e.Provider) {
		if c := e.Provider[i]; c <= ' ' || c > '~' {
			return badEndpoint("provider %q is not printable", e.Provider)
		}
	}
	switch {
	case e.Type != RC && e.Type != UD:
		return badEndpoint("%s", e.Type)
	case e.Link < LinkInfiniBand || e.Link > LinkMemory:
		return badEndpoint("%s", e.Link)
	case !validMTU(e.ActiveMTU):
		return badEndpoint("MTU %d", e.ActiveMTU)
	case e.QPN == 0 || e.QPN >= 1<<24:
		return badEndpoint("QPN %#x is not 24 bits", e.QPN)
	case e.PSN >= 1<<24:
		return badEndpoint("PSN %#x is not 24 bits", e.PSN)
	case e.MaxRdAtomic < 0 || e.MaxRdAtomic > 255:
		return badEndpoint("max rd atomic %d", e.MaxRdAtomic)
	}
	return nil
}

func badEndpoint(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBadEndpoint, fmt.Sprintf(format, args...))
}

func endpointSum(b []byte) uint32 {
	return crc32.Checksum(b[:60], crc32.MakeTable(crc32.Castagnoli))
}

// validMTU: the path MTUs of the specification, in bytes.
func validMTU(m int) bool {
	return m == 256 || m == 512 || m == 1024 || m == 2048 || m == 4096
}
