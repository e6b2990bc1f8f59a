// Package ranges is a workload of scans, and of insertions and deletions that change what they find: the load of
// scenarios that look for phantoms. There are few records, so that transactions conflict.
//
// # Table
//
// Rows, an ordered table. Keys are node 16 bits | number 48 bits; every other one exists in the beginning. Values
// are 16 bytes or a larger multiple of 8: a number, and in every other word that number scrambled with the key and
// the word's place, so that a reader detects a torn value and one of another key.
//
// # Transactions, in percent of the mix
//
//	insert 15   adds a row, or is rolled back because it is there
//	delete 10   removes one, or is rolled back because it is not
//	move 20     removes one row and adds another of the same node, or is rolled back
//	scan 20     reads a range of a node, in either direction, all of it or up to some rows
//	both 10     reads a range of each of two nodes
//	toggle 15   reads a range, and adds a row in the middle of it, or removes that if it is there
//	pop 10      removes the first row of a range, which it has planned (DrTM §7.4)
//
// # What is checked
//
// Scans give keys of their range in order, once, with values that were written for them. The number of rows is
// that of the beginning and of committed insertions and deletions.
package ranges

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// Rows is the table.
const Rows proto.TableID = 1

// ValueBytes is the size of every value, unless Options say otherwise.
const ValueBytes = 16

// Kind is the type of a transaction: Decl.Kind.
type Kind uint8

// Kinds.
const (
	Insert Kind = iota + 1
	Delete
	Move
	Scan
	Both
	Toggle
	Pop
	kindEnd // one past the last
)

func (k Kind) String() string {
	return [...]string{"insert", "delete", "move", "scan", "both", "toggle", "pop"}[k-1]
}

// Mix is the share of each kind, in percent, in their order.
type Mix [kindEnd - 1]int

// DefaultMix is the one of the package comment.
func DefaultMix() Mix { return Mix{15, 10, 20, 20, 10, 15, 10} }

// Options of New.
type Options struct {
	Nodes       int
	Keys        int     // of each node
	Longest     int     // keys of a range
	Distributed float64 // probability that a record or a range is on another node than its transaction
	ValueBytes  int     // 0 = ValueBytes
	RollBack    float64 // probability that Scan and Both roll back in the end
	Mix         Mix     // all 0 = DefaultMix
}

// Default gives the options for a cluster of a size.
func Default(nodes int) Options {
	o := Options{Nodes: nodes, Keys: 64, Longest: 48, Distributed: 0.1}
	if nodes == 1 {
		o.Distributed = 0
	}
	return o
}

const maxKeys = 1 << 24

// ErrCorrupt: a value is not what was ever written for its key, or a scan gives what is not in its range.
var ErrCorrupt = errors.New("ranges: corrupt content")

// Ranges is the workload.
type Ranges struct {
	o   Options
	mix workload.Mix
}

// New checks the options and makes the workload.
func New(o Options) (*Ranges, error) {
	if o.Mix == (Mix{}) {
		o.Mix = DefaultMix()
	}
	if o.ValueBytes == 0 {
		o.ValueBytes = ValueBytes
	}
	switch {
	case o.Nodes < 1 || o.Nodes > 1<<16:
		return nil, fmt.Errorf("ranges: %d nodes are not in 1..%d", o.Nodes, 1<<16)
	case o.Longest < 3 || o.Keys < o.Longest || o.Keys > maxKeys:
		return nil, fmt.Errorf("ranges: ranges of up to %d of %d keys per node: a range has at least 3, and there are "+
			"at most %d keys", o.Longest, o.Keys, maxKeys)
	case o.ValueBytes < ValueBytes || o.ValueBytes%8 != 0:
		return nil, fmt.Errorf("ranges: values of %d bytes: take %d or a larger multiple of 8", o.ValueBytes, ValueBytes)
	case !(o.Distributed >= 0 && o.Distributed <= 1) || o.Distributed > 0 && o.Nodes == 1:
		return nil, fmt.Errorf("ranges: probability %v of other nodes, with %d nodes", o.Distributed, o.Nodes)
	case !(o.RollBack >= 0 && o.RollBack <= 1):
		return nil, fmt.Errorf("ranges: probability %v of rolling back is not in 0..1", o.RollBack)
	}
	mix, err := workload.NewMix(o.Mix[:])
	if err != nil {
		return nil, fmt.Errorf("ranges: %w", err)
	}
	return &Ranges{o: o, mix: mix}, nil
}

// Name is "ranges".
func (w *Ranges) Name() string { return "ranges" }

// Tables are the rows.
func (w *Ranges) Tables() []proto.TableSpec {
	return []proto.TableSpec{{ID: Rows, Name: "rows", ValueBytes: w.o.ValueBytes, Capacity: w.o.Keys, Ordered: true}}
}

// Kinds names the transactions.
func (w *Ranges) Kinds() []string {
	var names []string
	for k := Insert; k < kindEnd; k++ {
		names = append(names, k.String())
	}
	return names
}

// nodeShift is where the node stands in a key.
const nodeShift = 48

func keyOf(node proto.NodeID, i int) proto.Key { return proto.Key(node)<<nodeShift | proto.Key(i) }

// Placement reads the node off the key.
func (w *Ranges) Placement() proto.Placement { return placement{} }

type placement struct{}

func (placement) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> nodeShift)}
}

// Load gives a node every other row.
func (w *Ranges) Load(node proto.NodeID, put func(t proto.TableID, k proto.Key, value []byte) error) error {
	v := make(value, w.o.ValueBytes)
	for i := 0; i < w.o.Keys; i += 2 {
		k := keyOf(node, i)
		v.set(k, 0)
		if err := put(Rows, k, v); err != nil {
			return err
		}
	}
	return nil
}

// NewClient makes a client.
func (w *Ranges) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	c := &client{w: w, home: home, rand: r}
	t := &c.tx
	t.value = make(value, w.o.ValueBytes)
	t.decl.Accesses = t.accesses[:0]
	t.each, t.popper.t = t.take, t
	return c
}

// Sums names what Check adds up.
func (w *Ranges) Sums() []string { return []string{"rows"} }

// Check counts the rows of a node.
func (w *Ranges) Check(node proto.NodeID, c workload.Contents) (first, last workload.Quantities, err error) {
	v := make(value, w.o.ValueBytes)
	first[0] = int64((w.o.Keys + 1) / 2)
	for i := range w.o.Keys {
		k := keyOf(node, i)
		err := c.Read(Rows, k, v)
		if errors.Is(err, proto.ErrNotFound) {
			continue
		}
		if err == nil {
			err = v.check(k)
		}
		if err != nil {
			return first, last, fmt.Errorf("row %d of node %d: %w", i, node, err)
		}
		last[0]++
	}
	return first, last, nil
}

// value is a number, and the same scrambled with its key in every word behind.
type value []byte

func (v value) set(k proto.Key, n uint64) {
	binary.NativeEndian.PutUint64(v, n)
	for at := 8; at < len(v); at += 8 {
		binary.NativeEndian.PutUint64(v[at:], scramble(k, n, at))
	}
}

func (v value) check(k proto.Key) error {
	n := binary.NativeEndian.Uint64(v)
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
