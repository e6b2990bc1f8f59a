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
	ClockError time.Duration     // bound of the member's, see MemberConfig
	Shares     []ShareDescriptor // in the order of their shards
	Logs       LogsDescriptor
	Workers    []WorkerDescriptor
}

// ShareDescriptor is a replica of a shard on a member.
type ShareDescriptor struct {
	Shard  proto.ShardID
	Memory verbs.RemoteMR
	Tables []layout.Descriptor
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
	descriptorMagic = "dRn2"
	maxTables       = 256
	maxWorkers      = 256
	maxNodes        = 1024
	maxClockError   = time.Hour
	headBytes       = 4 + 2 + 2 + 2 + 2 + 4 + 8
	shareHeadBytes  = 2 + 2 + 4 + 8 + 8
)

var le = binary.LittleEndian

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MarshalBinary encodes the descriptor, little endian:
//
//	 0  magic "dRn2" 4 | node 2 | shares 2 | workers 2 | nodes 2 | rings 4 | clock error in ns 8
//	24  the shares, see ShareDescriptor.MarshalBinary
//	    the rings, see LogsDescriptor.append
//	    the workers, each nodes endpoints of 64 and an RPC address of 72
//	    CRC-32C of everything before 4
func (d Descriptor) MarshalBinary() ([]byte, error) {
	nodes := 0
	if len(d.Workers) > 0 {
		nodes = len(d.Workers[0].Endpoints)
	}
	b := []byte(descriptorMagic)
	b = le.AppendUint16(b, uint16(d.Node))
	b = le.AppendUint16(b, uint16(len(d.Shares)))
	b = le.AppendUint16(b, uint16(len(d.Workers)))
	b = le.AppendUint16(b, uint16(nodes))
	b = le.AppendUint32(b, uint32(len(d.Logs.Rings)))
	b = le.AppendUint64(b, uint64(d.ClockError))
	add := func(p []byte, err error) error {
		b = append(b, p...)
		return err
	}
	for _, x := range d.Shares {
		if err := add(x.MarshalBinary()); err != nil {
			return nil, err
		}
	}
	b = d.Logs.append(b)
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

// MarshalBinary encodes the share, little endian:
//
//	 0  shard 2 | tables 2 | rkey 4 | address 8 | length 8
//	24  the tables, each of layout.DescriptorBytes
func (d ShareDescriptor) MarshalBinary() ([]byte, error) {
	b := le.AppendUint16(nil, uint16(d.Shard))
	b = le.AppendUint16(b, uint16(len(d.Tables)))
	b = le.AppendUint32(b, d.Memory.RKey)
	b = le.AppendUint64(b, d.Memory.Addr)
	b = le.AppendUint64(b, d.Memory.Length)
	for _, t := range d.Tables {
		table, err := t.MarshalBinary()
		if err != nil {
			return nil, err
		}
		b = append(b, table...)
	}
	return b, nil
}

// UnmarshalBinary decodes and checks a share. Every failure is an ErrBadDescriptor; d is left alone then.
func (d *ShareDescriptor) UnmarshalBinary(b []byte) error {
	x, rest, err := decodeShare(b)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes behind a share", len(rest))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadDescriptor, err)
	}
	*d = x
	return nil
}

// decodeShare takes a share from the front of some bytes.
func decodeShare(b []byte) (d ShareDescriptor, rest []byte, err error) {
	if len(b) < shareHeadBytes {
		return d, b, errors.New("a share is cut short")
	}
	tables := int(le.Uint16(b[2:]))
	if tables > maxTables || len(b) < shareHeadBytes+tables*layout.DescriptorBytes {
		return d, b, fmt.Errorf("a share of %d tables in %d bytes", tables, len(b))
	}
	d.Shard = proto.ShardID(le.Uint16(b))
	if d.Shard >= maxNodes {
		return d, b, fmt.Errorf("shard %d", d.Shard)
	}
	d.Memory = verbs.RemoteMR{RKey: le.Uint32(b[4:]), Addr: le.Uint64(b[8:]), Length: le.Uint64(b[16:])}
	b = b[shareHeadBytes:]
	d.Tables = make([]layout.Descriptor, tables)
	for i := range d.Tables {
		if err := d.Tables[i].UnmarshalBinary(b[:layout.DescriptorBytes]); err != nil {
			return d, b, err
		}
		b = b[layout.DescriptorBytes:]
	}
	return d, b, nil
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
	if len(b) < headBytes+4 || string(b[:4]) != descriptorMagic {
		return d, errors.New("not a descriptor")
	}
	if end := len(b) - 4; le.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return d, errors.New("checksum does not match")
	}
	shares, workers, nodes := int(le.Uint16(b[6:])), int(le.Uint16(b[8:])), int(le.Uint16(b[10:]))
	rings := int(le.Uint32(b[12:]))
	if shares > maxNodes || workers > maxWorkers || nodes > maxNodes {
		return d, fmt.Errorf("%d shares, %d workers, %d nodes", shares, workers, nodes)
	}
	d.Node = proto.NodeID(le.Uint16(b[4:]))
	d.ClockError = time.Duration(le.Uint64(b[16:]))
	if d.ClockError < 0 || d.ClockError > maxClockError {
		return d, fmt.Errorf("a clock error of %d ns", le.Uint64(b[16:]))
	}
	b = b[headBytes : len(b)-4]
	for i := range shares {
		var x ShareDescriptor
		var err error
		if x, b, err = decodeShare(b); err != nil {
			return d, err
		}
		if i > 0 && x.Shard <= d.Shares[i-1].Shard {
			return d, fmt.Errorf("shard %d behind %d", x.Shard, d.Shares[i-1].Shard)
		}
		d.Shares = append(d.Shares, x)
	}
	var err error
	if d.Logs, b, err = decodeLogs(b, rings); err != nil {
		return d, err
	}
	if want := workers * (nodes*verbs.EndpointBytes + rpc.AddressBytes); len(b) != want {
		return d, fmt.Errorf("%d bytes of workers, want %d", len(b), want)
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
