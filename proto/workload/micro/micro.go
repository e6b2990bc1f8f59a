// Package micro is a workload of small transactions on few records, for what SmallBank does not
// do: insertions, deletions, reads of absent records, reads of many, and transactions that learn
// only from what they read which records they need (DrTM §7.4). The records are few on purpose, so
// that transactions conflict.
//
// # Tables
//
//	counters   numbers that transactions raise
//	items      records that come and go; in the beginning every other one is there
//	pointers   each holds the key of a counter
//
// Keys are node 16 bits | number 48 bits, values 16 bytes: a number, and that number scrambled with
// the key, so that a value that is torn or another key's is noticed by whoever reads it.
//
// # Transactions, in percent of the mix
//
//	increment 15   raises one to three counters
//	insert 15      adds an item, or is rolled back because it is there
//	delete 10      removes one, or is rolled back because it is not
//	move 10        removes one item and adds another, or is rolled back
//	look 10        reads two items that are there or not
//	read-many 10   reads eight counters
//	follow 10      raises the counter that a pointer names
//	redirect 5     makes a pointer name another counter
//	depend 15      reads two counters and raises a third
//
// # What is checked
//
// The counters add up to the increments that were committed, and the number of items is that of
// the beginning and of committed insertions and deletions.
package micro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// Tables.
const (
	Counters proto.TableID = iota + 1
	Items
	Pointers
	tables = iota
)

// ValueBytes is the size of every value.
const ValueBytes = 16

// Kind is the type of a transaction: Decl.Kind.
type Kind uint8

// Kinds.
const (
	Increment Kind = iota + 1
	Insert
	Delete
	Move
	Look
	ReadMany
	Follow
	Redirect
	Depend
	kindEnd // one past the last
)

func (k Kind) String() string {
	return [...]string{"increment", "insert", "delete", "move", "look", "read-many", "follow",
		"redirect", "depend"}[k-1]
}

// shares of the kinds in percent, in their order.
var shares = [kindEnd - 1]int{15, 15, 10, 10, 10, 10, 10, 5, 15}

// Sums that Count gives.
const (
	sumIncrements = iota
	sumItems
)

// Options of New.
type Options struct {
	Nodes       int
	Keys        int     // of each table on each node
	Distributed float64 // probability that a record is on another node than its transaction
}

// Default gives the options for a cluster of a size.
func Default(nodes int) Options {
	o := Options{Nodes: nodes, Keys: 64, Distributed: 0.1}
	if nodes == 1 {
		o.Distributed = 0
	}
	return o
}

// Limits.
const (
	minKeys  = 2 * manyReads // that distinct ones can be drawn at random
	maxKeys  = 1 << 24
	maxNodes = 1 << 16
)

// ErrCorrupt: a value is not what was ever written for its key.
var ErrCorrupt = errors.New("micro: value was never written for its key")

// Micro is the workload.
type Micro struct {
	o   Options
	mix [100]Kind
	far uint32 // threshold of a 32-bit draw for Options.Distributed
}

// New checks the options and makes the workload.
func New(o Options) (*Micro, error) {
	switch {
	case o.Nodes < 1 || o.Nodes > maxNodes:
		return nil, fmt.Errorf("micro: %d nodes are not in 1..%d", o.Nodes, maxNodes)
	case o.Keys < minKeys || o.Keys > maxKeys:
		return nil, fmt.Errorf("micro: %d keys per node are not in %d..%d", o.Keys, minKeys, maxKeys)
	case !(o.Distributed >= 0 && o.Distributed <= 1):
		return nil, fmt.Errorf("micro: probability %v of records on other nodes is not in 0..1",
			o.Distributed)
	case o.Distributed > 0 && o.Nodes == 1:
		return nil, fmt.Errorf("micro: records on other nodes need two nodes; with one, the " +
			"probability must be 0")
	}
	m := &Micro{o: o, far: uint32(math.Round(o.Distributed * math.MaxUint32))}
	n := 0
	for i, share := range shares {
		for range share {
			m.mix[n] = Increment + Kind(i)
			n++
		}
	}
	return m, nil
}

// Name is "micro".
func (m *Micro) Name() string { return "micro" }

// Tables are the counters, items and pointers.
func (m *Micro) Tables() []proto.TableSpec {
	var specs []proto.TableSpec
	for i, name := range [tables]string{"counters", "items", "pointers"} {
		specs = append(specs, proto.TableSpec{ID: Counters + proto.TableID(i), Name: name,
			ValueBytes: ValueBytes, Capacity: m.o.Keys})
	}
	return specs
}

// Kinds names the transactions.
func (m *Micro) Kinds() []string {
	var names []string
	for k := Increment; k < kindEnd; k++ {
		names = append(names, k.String())
	}
	return names
}

// nodeShift is where the node stands in a key.
const nodeShift = 48

func keyOf(node proto.NodeID, i int) proto.Key {
	return proto.Key(node)<<nodeShift | proto.Key(i)
}

// Placement reads the node off the key.
func (m *Micro) Placement() proto.Placement { return placement{} }

type placement struct{}

func (placement) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> nodeShift)}
}

// Load gives a node its counters at 0, every other item, and pointers to its own counters.
func (m *Micro) Load(node proto.NodeID,
	put func(t proto.TableID, k proto.Key, value []byte) error) error {
	var v value
	for i := range m.o.Keys {
		k := keyOf(node, i)
		v.set(k, 0)
		if err := put(Counters, k, v[:]); err != nil {
			return err
		}
		if i%2 == 0 {
			if err := put(Items, k, v[:]); err != nil {
				return err
			}
		}
		v.set(k, uint64(keyOf(node, (i+1)%m.o.Keys)))
		if err := put(Pointers, k, v[:]); err != nil {
			return err
		}
	}
	return nil
}

// NewClient makes a client.
func (m *Micro) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	c := &client{micro: m, home: home, rand: r}
	c.tx.decl.Accesses = c.tx.accesses[:0]
	return c
}

// Sums names what Count adds up.
func (m *Micro) Sums() []string { return []string{"increments", "items"} }

// Count adds up the counters and counts the items of a node.
func (m *Micro) Count(node proto.NodeID,
	read func(t proto.TableID, k proto.Key, dst []byte) error) (first, last workload.Quantities,
	err error) {
	var v value
	first[sumItems] = int64((m.o.Keys + 1) / 2)
	for i := range m.o.Keys {
		k := keyOf(node, i)
		for t := Counters; t <= Pointers; t++ {
			err := read(t, k, v[:])
			if t == Items && errors.Is(err, proto.ErrNotFound) {
				continue
			}
			if err == nil {
				err = v.check(k)
			}
			if err != nil {
				return first, last, fmt.Errorf("key %d of node %d, table %d: %w", i, node, t, err)
			}
			switch t {
			case Counters:
				last[sumIncrements] += int64(v.number())
			case Items:
				last[sumItems]++
			}
		}
	}
	return first, last, nil
}

// value is a number and the same scrambled with its key.
type value [ValueBytes]byte

func (v *value) number() uint64 { return binary.NativeEndian.Uint64(v[:8]) }

func (v *value) set(k proto.Key, n uint64) {
	binary.NativeEndian.PutUint64(v[:8], n)
	binary.NativeEndian.PutUint64(v[8:], scramble(k, n))
}

func (v *value) check(k proto.Key) error {
	if binary.NativeEndian.Uint64(v[8:]) != scramble(k, v.number()) {
		return ErrCorrupt
	}
	return nil
}

// scramble is SplitMix64's finalizer of both.
func scramble(k proto.Key, n uint64) uint64 {
	x := uint64(k)*0x9e3779b97f4a7c15 + n
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
