// Package micro is a workload of small transactions on few records, for operations that SmallBank does
// not have: insertions, deletions, reads of absent records, reads of many records, and transactions whose
// reads decide which records they need (DrTM §7.4). There are few records, so that transactions conflict.
//
// # Tables
//
//	counters   numbers that transactions increment
//	items      records that are inserted and deleted; initially every other one exists
//	pointers   each holds the key of a counter
//
// Keys are node 16 bits | number 48 bits. Values are 16 bytes or a larger multiple of 8: a number,
// and in every other word that number scrambled with the key and the word's place, so that a reader
// detects a torn value and one of another key.
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
// Options make values larger, popular keys more popular, the items more than there is room for at
// a time, and reading transactions roll back.
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
	"drtmd/proto/workload/zipf"
)

// Tables.
const (
	Counters proto.TableID = iota + 1
	Items
	Pointers
	tables = iota
)

// ValueBytes is the size of every value, unless Options say otherwise.
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

// Mix is the share of each kind, in percent, in their order.
type Mix [kindEnd - 1]int

// DefaultMix is the one of the package comment.
func DefaultMix() Mix { return Mix{15, 15, 10, 10, 10, 10, 10, 5, 15} }

// Sums that Check gives.
const (
	sumIncrements = iota
	sumItems
)

// Options of New. Zero fields below Distributed take the defaults named.
type Options struct {
	Nodes       int
	Keys        int     // of each table on each node
	Distributed float64 // probability that a record is on another node than its transaction
	// Items are the keys that the items of a node come from; 0 = Keys. Of more than Keys, half of
	// Keys are there in the beginning.
	Items int
	// Theta is the skew of Zipf with which keys are drawn; 0 = all alike.
	Theta      float64
	ValueBytes int // 0 = ValueBytes
	// LeastReads of Look and ReadMany; 0 = 2 and 8. The number is drawn, up to 8.
	LeastReads int
	// RollBack is the probability that Increment, Look, ReadMany and Depend roll back in the end.
	RollBack float64
	// Restless has Depend read items, which come and go, instead of counters, and Follow peek at one
	// when it plans.
	Restless bool
	Mix      Mix // all 0 = DefaultMix
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
	minKeys  = mostIncrements + 1 // that distinct ones can be drawn at random
	maxKeys  = 1 << 24
	maxNodes = 1 << 16
)

// ErrCorrupt: a value is not what was ever written for its key.
var ErrCorrupt = errors.New("micro: value was never written for its key")

// Micro is the workload.
type Micro struct {
	o    Options
	mix  [100]Kind
	far  uint32                 // threshold of a 32-bit draw for Options.Distributed
	back uint32                 // that for Options.RollBack
	zipf [tables + 1]*zipf.Zipf // by table; nil: all keys alike
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
	if err := o.complete(); err != nil {
		return nil, err
	}
	m := &Micro{o: o, far: threshold(o.Distributed), back: threshold(o.RollBack)}
	n := 0
	for i, share := range o.Mix {
		if share < 0 || n+share > len(m.mix) {
			return nil, fmt.Errorf("micro: the mix %v does not add up to 100 %%", o.Mix)
		}
		for range share {
			m.mix[n] = Increment + Kind(i)
			n++
		}
	}
	if n != len(m.mix) {
		return nil, fmt.Errorf("micro: the mix %v adds up to %d %%", o.Mix, n)
	}
	return m, m.drawZipf()
}

// complete takes the defaults and checks what has some.
func (o *Options) complete() error {
	if o.Items == 0 {
		o.Items = o.Keys
	}
	if o.ValueBytes == 0 {
		o.ValueBytes = ValueBytes
	}
	if o.Mix == (Mix{}) {
		o.Mix = DefaultMix()
	}
	switch {
	case o.Items < o.Keys || o.Items > maxKeys:
		return fmt.Errorf("micro: %d keys for items per node are not in %d..%d", o.Items, o.Keys,
			maxKeys)
	case o.ValueBytes < ValueBytes || o.ValueBytes%8 != 0:
		return fmt.Errorf("micro: values of %d bytes: take %d or a larger multiple of 8",
			o.ValueBytes, ValueBytes)
	case o.LeastReads < 0 || o.LeastReads > manyReads:
		return fmt.Errorf("micro: %d reads are not in 0..%d", o.LeastReads, manyReads)
	case !(o.RollBack >= 0 && o.RollBack <= 1):
		return fmt.Errorf("micro: probability %v of rolling back is not in 0..1", o.RollBack)
	}
	return nil
}

// threshold of a 32-bit draw.
func threshold(probability float64) uint32 {
	return uint32(math.Round(probability * math.MaxUint32))
}

func (m *Micro) drawZipf() (err error) {
	if m.o.Theta == 0 {
		return nil
	}
	for t := range m.zipf {
		if m.zipf[t], err = zipf.New(uint64(m.keys(proto.TableID(t))), m.o.Theta); err != nil {
			return err
		}
	}
	return nil
}

// keys of a table on a node.
func (m *Micro) keys(t proto.TableID) int {
	if t == Items {
		return m.o.Items
	}
	return m.o.Keys
}

// Name is "micro".
func (m *Micro) Name() string { return "micro" }

// Tables are the counters, items and pointers.
func (m *Micro) Tables() []proto.TableSpec {
	var specs []proto.TableSpec
	for i, name := range [tables]string{"counters", "items", "pointers"} {
		specs = append(specs, proto.TableSpec{ID: Counters + proto.TableID(i), Name: name,
			ValueBytes: m.o.ValueBytes, Capacity: m.o.Keys, AtHome: m.o.Distributed == 0})
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
	v := make(value, m.o.ValueBytes)
	for i := range m.o.Keys {
		k := keyOf(node, i)
		v.set(k, 0)
		if err := put(Counters, k, v); err != nil {
			return err
		}
		if i%2 == 0 {
			if err := put(Items, k, v); err != nil {
				return err
			}
		}
		v.set(k, uint64(keyOf(node, (i+1)%m.o.Keys)))
		if err := put(Pointers, k, v); err != nil {
			return err
		}
	}
	return nil
}

// NewClient makes a client.
func (m *Micro) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	c := &client{micro: m, home: home, rand: r}
	for i := range c.tx.values {
		c.tx.values[i] = make(value, m.o.ValueBytes)
	}
	c.tx.decl.Accesses = c.tx.accesses[:0]
	return c
}

// Sums names what Check adds up.
func (m *Micro) Sums() []string { return []string{"increments", "items"} }

// Check adds up the counters and counts the items of a node.
func (m *Micro) Check(node proto.NodeID, c workload.Contents) (first, last workload.Quantities, err error) {
	v := make(value, m.o.ValueBytes)
	first[sumItems] = int64((m.o.Keys + 1) / 2)
	for i := range m.o.Items {
		k := keyOf(node, i)
		for t := Counters; t <= Pointers; t++ {
			if i >= m.keys(t) {
				continue
			}
			err := c.Read(t, k, v)
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

// value is a number, and the same scrambled with its key in every word behind.
type value []byte

func (v value) number() uint64 { return binary.NativeEndian.Uint64(v) }

func (v value) set(k proto.Key, n uint64) {
	binary.NativeEndian.PutUint64(v, n)
	for at := 8; at < len(v); at += 8 {
		binary.NativeEndian.PutUint64(v[at:], scramble(k, n, at))
	}
}

func (v value) check(k proto.Key) error {
	n := v.number()
	for at := 8; at < len(v); at += 8 {
		if binary.NativeEndian.Uint64(v[at:]) != scramble(k, n, at) {
			return ErrCorrupt
		}
	}
	return nil
}

// scramble is SplitMix64's finalizer of key, number, and the place in the value.
func scramble(k proto.Key, n uint64, at int) uint64 {
	x := uint64(k)*0x9e3779b97f4a7c15 + n + uint64(at-8)<<56
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
