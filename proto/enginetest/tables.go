package enginetest

import (
	"encoding/binary"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/store"
	"drtmd/store/hopscotch"
	"drtmd/store/layout"
	"drtmd/store/records"
	"drtmd/store/robinhood"
)

// The tables of the cases: a value that leaves room in the entry's first line, one that fills it,
// and one over several lines.
const (
	small proto.TableID = iota + 1
	full
	large
)

var tableIDs = [...]proto.TableID{small, full, large}

var valueBytes = [...]int{small: 8, full: 40, large: 200}

const (
	loaded   = 16 // keys of each node in each table at first, from 0
	capacity = 64 // of each node's tables
	initial  = 1000
)

// tables is a workload that loads tables and has no transactions. Key k lives on node k >> 32.
type tables struct{}

func keyOn(n proto.NodeID, k uint64) proto.Key { return proto.Key(uint64(n)<<32 | k) }

func homeOf(k proto.Key) proto.NodeID { return proto.NodeID(k >> 32) }

func (tables) Name() string { return "enginetest" }

func (tables) Tables() (all []proto.TableSpec) {
	for _, id := range tableIDs {
		all = append(all, proto.TableSpec{ID: id, Name: tableNames[id],
			ValueBytes: valueBytes[id], Capacity: capacity})
	}
	return all
}

var tableNames = [...]string{small: "small", full: "full", large: "large"}

func (tables) Placement() proto.Placement                         { return placement{} }
func (tables) Kinds() []string                                    { return []string{"case"} }
func (tables) Sums() []string                                     { return nil }
func (tables) NewClient(proto.NodeID, *rand.Rand) workload.Client { return nil }
func (tables) Check(proto.NodeID, workload.Contents) (a,
	b workload.Quantities, err error) {
	return a, b, nil
}

func (tables) Load(n proto.NodeID, put func(proto.TableID, proto.Key, []byte) error) error {
	for _, id := range tableIDs {
		for k := range uint64(loaded) {
			if err := put(id, keyOn(n, k), value(id, initial)); err != nil {
				return err
			}
		}
	}
	return nil
}

type placement struct{}

func (placement) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: homeOf(k)}
}

// value is one of the table's size that says v in each word, so that a torn one shows.
func value(id proto.TableID, v uint64) []byte {
	b := make([]byte, valueBytes[id])
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], v)
	}
	return b
}

// number reads a value back; false if it is torn.
func number(b []byte) (v uint64, whole bool) {
	v = binary.LittleEndian.Uint64(b)
	for i := 8; i < len(b); i += 8 {
		if binary.LittleEndian.Uint64(b[i:]) != v {
			return v, false
		}
	}
	return v, true
}

// entries is how many records a table has room for.
func entries(t protocol.PointIndex) int {
	switch t := t.(type) {
	case *store.Table:
		return t.Config().Entries
	case *store.Growing:
		return t.Occupancy().Entries
	case *hopscotch.Table:
		o := t.Occupancy()
		return o.Slots + layout.BlockSlots*o.Blocks
	case *records.Table:
		return t.Config().Entries
	case *robinhood.Table:
		return t.Config().Homes
	}
	panic("a table of an unknown index")
}
