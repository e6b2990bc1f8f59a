package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"drtmd/proto"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/rpc"
)

// Descriptor is what other members must know of one.
type Descriptor struct {
	Node       proto.NodeID
	Memory     verbs.RemoteMR
	ClockError time.Duration // bound of the member's, see MemberConfig
	Tables     []layout.Descriptor
	Workers    []WorkerDescriptor
}

// WorkerDescriptor is how a member's worker is reached.
type WorkerDescriptor struct {
	// Endpoints are of the queue pairs to each node; that to the own node is not for others.
	Endpoints []verbs.Endpoint
	Port      rpc.Address // the zero value in a cluster of one
}

// ErrBadDescriptor: the bytes are no descriptor of this version.
var ErrBadDescriptor = errors.New("bad member descriptor")

// Limits of what is decoded.
const (
	descriptorMagic = "dRnd"
	maxTables       = 256
	maxWorkers      = 256
	maxNodes        = 1024
	maxClockError   = time.Hour
	headBytes       = 4 + 2 + 2 + 2 + 2 + 4 + 8 + 8 + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MarshalBinary encodes the descriptor, little endian:
//
//	 0  magic "dRnd" 4 | node 2 | tables 2 | workers 2 | nodes 2 | rkey 4
//	16  address 8 | length 8 | clock error in ns 8
//	40  the tables, each of layout.DescriptorBytes
//	    the workers, each nodes endpoints of 64 and an RPC address of 72
//	    CRC-32C of everything before 4
func (d Descriptor) MarshalBinary() ([]byte, error) {
	nodes := 0
	if len(d.Workers) > 0 {
		nodes = len(d.Workers[0].Endpoints)
	}
	b := []byte(descriptorMagic)
	le := binary.LittleEndian
	b = le.AppendUint16(b, uint16(d.Node))
	b = le.AppendUint16(b, uint16(len(d.Tables)))
	b = le.AppendUint16(b, uint16(len(d.Workers)))
	b = le.AppendUint16(b, uint16(nodes))
	b = le.AppendUint32(b, d.Memory.RKey)
	b = le.AppendUint64(b, d.Memory.Addr)
	b = le.AppendUint64(b, d.Memory.Length)
	b = le.AppendUint64(b, uint64(d.ClockError))
	add := func(p []byte, err error) error {
		b = append(b, p...)
		return err
	}
	for _, t := range d.Tables {
		if err := add(t.MarshalBinary()); err != nil {
			return nil, err
		}
	}
	for _, w := range d.Workers {
		for _, e := range w.Endpoints {
			if err := add(e.MarshalBinary()); err != nil {
				return nil, err
			}
		}
		if nodes == 1 {
			b = append(b, make([]byte, rpc.AddressBytes)...)
		} else if err := add(w.Port.MarshalBinary()); err != nil {
			return nil, err
		}
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// UnmarshalBinary decodes and checks a descriptor. Every failure is an ErrBadDescriptor; d is left
// alone then.
func (d *Descriptor) UnmarshalBinary(b []byte) error {
	x, err := decode(b)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadDescriptor, err)
	}
	*d = x
	return nil
}

func decode(b []byte) (Descriptor, error) {
	var d Descriptor
	le := binary.LittleEndian
	if len(b) < headBytes+4 || string(b[:4]) != descriptorMagic {
		return d, errors.New("not a descriptor")
	}
	tables, workers, nodes := int(le.Uint16(b[6:])), int(le.Uint16(b[8:])), int(le.Uint16(b[10:]))
	if tables > maxTables || workers > maxWorkers || nodes > maxNodes {
		return d, fmt.Errorf("%d tables, %d workers, %d nodes", tables, workers, nodes)
	}
	want := headBytes + tables*layout.DescriptorBytes +
		workers*(nodes*verbs.EndpointBytes+rpc.AddressBytes) + 4
	if len(b) != want {
		return d, fmt.Errorf("%d bytes, want %d", len(b), want)
	}
	if le.Uint32(b[want-4:]) != crc32.Checksum(b[:want-4], castagnoli) {
		return d, errors.New("checksum does not match")
	}
	d.Node = proto.NodeID(le.Uint16(b[4:]))
	d.Memory = verbs.RemoteMR{RKey: le.Uint32(b[12:]), Addr: le.Uint64(b[16:]),
		Length: le.Uint64(b[24:])}
	d.ClockError = time.Duration(le.Uint64(b[32:]))
	if d.ClockError < 0 || d.ClockError > maxClockError {
		return d, fmt.Errorf("a clock error of %d ns", le.Uint64(b[32:]))
	}
	b = b[headBytes:]
	d.Tables = make([]layout.Descriptor, tables)
	for i := range d.Tables {
		if err := d.Tables[i].UnmarshalBinary(b[:layout.DescriptorBytes]); err != nil {
			return d, err
		}
		b = b[layout.DescriptorBytes:]
	}
	d.Workers = make([]WorkerDescriptor, workers)
	for i := range d.Workers {
		w := &d.Workers[i]
		w.Endpoints = make([]verbs.Endpoint, nodes)
		for j := range w.Endpoints {
			if err := w.Endpoints[j].UnmarshalBinary(b[:verbs.EndpointBytes]); err != nil {
				return d, err
			}
			b = b[verbs.EndpointBytes:]
		}
		if nodes > 1 {
			if err := w.Port.UnmarshalBinary(b[:rpc.AddressBytes]); err != nil {
				return d, err
			}
		}
		b = b[rpc.AddressBytes:]
	}
	return d, nil
}
