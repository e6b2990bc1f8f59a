package tatp

import (
	"encoding/binary"
	"errors"
	"fmt"
	mathbits "math/bits"

	"drtmd/proto"
)

// Rows of a subscriber.
const (
	types  = 4 // of access and of facilities, 1 to 4 in the schema
	starts = 3 // of call forwarding: at 0, 8 and 16 o'clock
)

// profile is what a subscriber has in the beginning: bit i of a set is row i.
type profile struct {
	access     uint8
	facilities uint8
	active     uint8        // of the facilities, 85 %
	forwarding [types]uint8 // of each facility
}

// profileOf draws a subscriber's rows from its number: one to four kinds of access and as many
// facilities, none to three call forwardings for each, all numbers equally likely (specification,
// 2.2).
func profileOf(subscriber int) (p profile) {
	x := mixer(subscriber)
	p.access = subset(&x, types, 1+x.below(types))
	p.facilities = subset(&x, types, 1+x.below(types))
	for f := range types {
		if x.below(100) < 85 {
			p.active |= 1 << f
		}
		p.forwarding[f] = subset(&x, starts, x.below(starts+1))
	}
	return p
}

// subset draws n of the first of bits.
func subset(x *mixer, of, n int) (set uint8) {
	for bits(set) < n {
		set |= 1 << x.below(of)
	}
	return set
}

func bits(set uint8) int { return mathbits.OnesCount8(set) }

// mixer is SplitMix64.
type mixer uint64

func (m *mixer) next() uint64 {
	*m += 0x9e3779b97f4a7c15
	x := uint64(*m)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (m *mixer) below(n int) int {
	hi, _ := mathbits.Mul64(m.next(), uint64(n))
	return int(hi)
}

// Columns, by their offset in a value. What no transaction looks at follows from the key.
const (
	subscriberBits     = 0  // bit_1 to bit_10
	subscriberLocation = 32 // vlr_location, 4 bytes
	facilityActive     = 0
	facilityData       = 2 // data_a
	forwardingEnd      = 0 // end_time, in hours
	forwardingKey      = 8 // numberx, which follows from the key
)

// ErrCorrupt: a value is not what was ever written for its key.
var ErrCorrupt = errors.New("tatp: value was never written for its key")

// fill gives a value the bytes that its key determines.
func fill(v []byte, t proto.TableID, k proto.Key) {
	x := mixer(uint64(k)<<3 ^ uint64(t))
	for i := range v {
		v[i] = byte(x.next())
	}
}

// putForwarding makes a call-forwarding row.
func putForwarding(v []byte, k proto.Key, end int) {
	clear(v)
	v[forwardingEnd] = byte(end)
	binary.LittleEndian.PutUint64(v[forwardingKey:], uint64(k))
}

func checkForwarding(k proto.Key, v []byte) error {
	end := int(v[forwardingEnd])
	if binary.LittleEndian.Uint64(v[forwardingKey:]) != uint64(k) || end < 1 || end > 24 {
		return fmt.Errorf("%w: call forwarding %#x is %x", ErrCorrupt, k, v)
	}
	return nil
}

// Load gives a node its subscribers' rows.
func (w *TATP) Load(node proto.NodeID,
	put func(t proto.TableID, k proto.Key, value []byte) error) error {
	var buffers [CallForwarding + 1][]byte
	for t := Subscriber; t <= CallForwarding; t++ {
		buffers[t] = make([]byte, w.bytes(t))
	}
	row := func(t proto.TableID, k proto.Key, change func(v []byte)) error {
		v := buffers[t]
		fill(v, t, k)
		change(v)
		return put(t, k, v)
	}
	nothing := func([]byte) {}
	for s := range w.o.Subscribers {
		p := profileOf(s)
		k := keyOf(node, s, 0)
		if err := row(Subscriber, k, nothing); err != nil {
			return err
		}
		if err := row(Number, k, func(v []byte) {
			binary.LittleEndian.PutUint64(v, uint64(k))
		}); err != nil {
			return err
		}
		for i := range types {
			if err := w.loadType(node, s, i, &p, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadType puts the rows of one type of access and of one facility.
func (w *TATP) loadType(node proto.NodeID, s, i int, p *profile,
	row func(t proto.TableID, k proto.Key, change func(v []byte)) error) error {
	k := keyOf(node, s, i)
	if p.access>>i&1 != 0 {
		if err := row(AccessInfo, k, func([]byte) {}); err != nil {
			return err
		}
	}
	if p.facilities>>i&1 == 0 {
		return nil
	}
	if err := row(SpecialFacility, k, func(v []byte) {
		v[facilityActive] = p.active >> i & 1
	}); err != nil {
		return err
	}
	for start := range starts {
		if p.forwarding[i]>>start&1 == 0 {
			continue
		}
		k := keyOf(node, s, forwardingRow(i, start))
		x := mixer(uint64(k) + 1)
		if err := row(CallForwarding, k, func(v []byte) {
			putForwarding(v, k, start*8+1+x.below(8))
		}); err != nil {
			return err
		}
	}
	return nil
}
