// Package keyvalue is the common part of workloads of plain gets and puts (retwis, opmix, ycsb): one table
// of records with keys of 8 bytes, spread over all nodes, and transactions that get records, put records,
// or both.
//
// # Keys and values
//
//	key     node 16 bits | number on the node 48 bits
//	value   the first 8 bytes: how often the record was put; then bytes computed from these and the
//	        key, so that a reader detects a torn value and one of another key
//
// Tables have keys of 8 bytes. If a benchmark has longer keys (Space.KeyBytes), the rest of a key is
// stored behind its value: it is transferred with the record, and the reader compares it.
//
// Record r of all records lives on node r mod nodes, so popular records are spread over the nodes.
//
// # Checks
//
// A put of a record that was read before increments its count; the counts add up to the committed puts.
// A blind put starts the count again, so a workload with blind puts has no sum. Of insertions, the records
// beyond the loaded ones are as many as the committed insertions.
package keyvalue

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/proto/workload/zipf"
)

// Table is the only one.
const Table proto.TableID = 1

// ErrCorrupt: a value is not what was ever written for its key.
var ErrCorrupt = errors.New("value was never written for its key")

// Space is the records of a cluster. It is immutable and may be shared.
type Space struct {
	Nodes, Keys int // Keys on each node in the beginning
	Room        int // for further keys on each node
	ValueBytes  int
	KeyBytes    int        // 0 = MinKeyBytes
	Ordered     bool       // the table is, for scans
	Store       Store      // finds the records that are loaded
	zipf        *zipf.Zipf // nil: uniform
	index       *index     // of Store; nil: there is none
}

// Limits.
const (
	MinValueBytes = 8
	MinKeyBytes   = 8
	// MaxValueBytes and MaxKeyBytes bound what command lines may ask for.
	MaxValueBytes = 1 << 15
	MaxKeyBytes   = 1 << 10
	maxKeys       = 1 << 32 // per node
	maxNodes      = 1 << 16
	nodeShift     = 48
)

// NewSpace completes and checks a space. theta is Zipf's, of ranks that are scrambled over the keys as
// YCSB does; 0 is uniform.
func NewSpace(s Space, theta float64) (Space, error) {
	if s.KeyBytes == 0 {
		s.KeyBytes = MinKeyBytes
	}
	switch {
	case s.Nodes < 1 || s.Nodes > maxNodes:
		return s, fmt.Errorf("%d nodes are not in 1..%d", s.Nodes, maxNodes)
	case s.Keys < 1 || s.Keys > maxKeys:
		return s, fmt.Errorf("%d keys per node are not in 1..%d", s.Keys, maxKeys)
	case s.Room < 0 || s.Room > maxKeys:
		return s, fmt.Errorf("room for %d further keys per node is not in 0..%d", s.Room, maxKeys)
	case s.ValueBytes < MinValueBytes:
		return s, fmt.Errorf("values of %d bytes: take %d or more", s.ValueBytes, MinValueBytes)
	case s.KeyBytes < MinKeyBytes:
		return s, fmt.Errorf("keys of %d bytes: take %d or more", s.KeyBytes, MinKeyBytes)
	case s.Store >= storeEnd:
		return s, fmt.Errorf("%v is none of %v", s.Store, StoreNames())
	case s.Store != NoStore && s.Room > 0:
		return s, fmt.Errorf("store %v has what was loaded, and nothing is inserted: take store %v", s.Store, NoStore)
	case s.Store != NoStore && s.Records() > maxStored:
		return s, fmt.Errorf("store %v of %d records on all nodes: take at most %d", s.Store, s.Records(), maxStored)
	}
	if s.Store != NoStore {
		s.index = newIndex(s.Store, s.Records())
	}
	if theta != 0 {
		var err error
		if s.zipf, err = zipf.New(uint64(s.Records()), theta); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Records in the beginning, on all nodes.
func (s *Space) Records() int { return s.Nodes * s.Keys }

// Key of record r of all.
func (s *Space) Key(r int) proto.Key {
	return proto.Key(r%s.Nodes)<<nodeShift | proto.Key(r/s.Nodes)
}

// scrambleSeed makes popular keys the same in every run.
const scrambleSeed = 0

// Draw draws a record of all: with equal probability, or by Zipf.
func (s *Space) Draw(r *rand.Rand) proto.Key {
	if s.zipf == nil {
		return s.Key(r.IntN(s.Records()))
	}
	return s.Key(int(zipf.Scramble(s.zipf.Rank(r), scrambleSeed, uint64(s.Records()))))
}

// Rank draws a rank by Zipf, of those that there are records; 0 is the most popular.
func (s *Space) Rank(r *rand.Rand) int {
	if s.zipf == nil {
		return r.IntN(s.Records())
	}
	return int(s.zipf.Rank(r))
}

// Tables is the one.
func (s *Space) Tables() []proto.TableSpec {
	return []proto.TableSpec{{ID: Table, Name: "records", ValueBytes: s.recordBytes(),
		Capacity: s.Keys + s.Room, Ordered: s.Ordered}}
}

// recordBytes is what a record has beside the 8 bytes of its table's key.
func (s *Space) recordBytes() int { return s.ValueBytes + s.KeyBytes - MinKeyBytes }

// set makes the record of a key that was put n times.
func (s *Space) set(v []byte, k proto.Key, n uint64) {
	Set(v[:s.ValueBytes], k, n)
	for i := s.ValueBytes; i < len(v); i++ {
		v[i] = keyByte(k, i-s.ValueBytes)
	}
}

// get reads how often a key was put, and checks every byte of the record.
func (s *Space) get(v []byte, k proto.Key) (n uint64, err error) {
	for i := s.ValueBytes; i < len(v); i++ {
		if v[i] != keyByte(k, i-s.ValueBytes) {
			return 0, fmt.Errorf("%w: it has another key than %#x", ErrCorrupt, k)
		}
	}
	return Get(v[:s.ValueBytes], k)
}

// keyByte is one of those of a longer key.
func keyByte(k proto.Key, i int) byte { return byte(seed(k, uint64(i)) >> 24) }

// Placement reads the node off the key.
func (s *Space) Placement() proto.Placement { return placement{} }

type placement struct{}

func (placement) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> nodeShift)}
}

// Load gives a node its records, never put.
func (s *Space) Load(node proto.NodeID,
	put func(t proto.TableID, k proto.Key, value []byte) error) error {
	v := make([]byte, s.recordBytes())
	for i := range s.Keys {
		k := proto.Key(node)<<nodeShift | proto.Key(i)
		s.set(v, k, 0)
		if err := put(Table, k, v); err != nil {
			return err
		}
	}
	return nil
}

// Held is what a node holds at rest.
type Held struct {
	Puts     int64 // of the loaded records
	Inserted int64 // records that were not loaded
}

// Check checks every value of a node: all loaded records are there, and those that were inserted are as they
// were inserted.
func (s *Space) Check(node proto.NodeID, c workload.Contents) (h Held, err error) {
	v := make([]byte, s.recordBytes())
	for i := range s.Keys {
		k := proto.Key(node)<<nodeShift | proto.Key(i)
		if err := c.Read(Table, k, v); err != nil {
			return h, fmt.Errorf("record %#x: %w", k, err)
		}
		n, err := s.get(v, k)
		if err != nil {
			return h, err
		}
		h.Puts += int64(n)
	}
	if s.Room == 0 {
		return h, nil
	}
	c.Each(Table, func(k proto.Key, row []byte) {
		if err != nil || s.loaded(k) {
			return
		}
		h.Inserted++
		err = s.checkInserted(node, c, k, row, v)
	})
	return h, err
}

// NumberOf numbers the records of a node.
func NumberOf(k proto.Key) uint64 { return uint64(k) & (1<<nodeShift - 1) }

// loaded reports whether a key was there in the beginning: nothing is deleted.
func (s *Space) loaded(k proto.Key) bool { return NumberOf(k) < uint64(s.Keys) }

// checkInserted checks a record that was inserted, and looks it up. v is a buffer.
func (s *Space) checkInserted(node proto.NodeID, c workload.Contents, k proto.Key, row, v []byte) error {
	n, err := s.get(row, k)
	switch {
	case k>>nodeShift != proto.Key(node):
		return fmt.Errorf("%w: node %d holds key %#x of another node", ErrCorrupt, node, k)
	case err != nil:
		return err
	case n != 0:
		return fmt.Errorf("%w: key %#x was inserted and then put %d times", ErrCorrupt, k, n)
	}
	if err := c.Read(Table, k, v); err != nil {
		return fmt.Errorf("record %#x, which the table has: %w", k, err)
	}
	if !bytes.Equal(row, v) {
		return fmt.Errorf("%w: a look-up of key %#x finds another value", ErrCorrupt, k)
	}
	return nil
}

// Set makes the value of a key that was put n times.
func Set(v []byte, k proto.Key, n uint64) {
	binary.LittleEndian.PutUint64(v, n)
	x := seed(k, n)
	for i := MinValueBytes; i < len(v); i += 8 {
		w := x + uint64(i)*0x9e3779b97f4a7c15
		if len(v)-i < 8 {
			for j := i; j < len(v); j++ {
				v[j] = byte(w >> (8 * (j - i)))
			}
			return
		}
		binary.LittleEndian.PutUint64(v[i:], w)
	}
}

// Get reads how often a key was put, and checks every byte of the value.
func Get(v []byte, k proto.Key) (n uint64, err error) {
	n = binary.LittleEndian.Uint64(v)
	x := seed(k, n)
	for i := MinValueBytes; i < len(v); i += 8 {
		w := x + uint64(i)*0x9e3779b97f4a7c15
		ok := true
		if len(v)-i < 8 {
			for j := i; j < len(v); j++ {
				ok = ok && v[j] == byte(w>>(8*(j-i)))
			}
		} else {
			ok = binary.LittleEndian.Uint64(v[i:]) == w
		}
		if !ok {
			return n, fmt.Errorf("%w: key %#x, byte %d", ErrCorrupt, k, i)
		}
	}
	return n, nil
}

func seed(k proto.Key, n uint64) uint64 {
	x := uint64(k)*0xbf58476d1ce4e5b9 ^ n*0x94d049bb133111eb
	return x ^ x>>31
}
