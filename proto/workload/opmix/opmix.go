// Package opmix is the family of microbenchmarks O(G,P) of Dandelion §7: every transaction gets G
// records and puts P others, all drawn uniformly from all nodes. Dandelion runs O(1,0), O(0,1), O(4,0)
// and O(4,2), with keys of 8 and values of 16 bytes, 18 million of them per machine.
//
// Gets and puts are of different records: only then do the paper's counts of messages for O(4,2) come
// out. Puts are blind.
package opmix

import (
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/proto/workload/keyvalue"
)

// Options of New.
type Options struct {
	Nodes      int
	Keys       int // per node
	ValueBytes int
	KeyBytes   int // 0 = 8
	Gets, Puts int // of each transaction
	Theta      float64
}

// Default is O(4,2) with 100,000 keys per node.
func Default(nodes int) Options {
	return Options{Nodes: nodes, Keys: 100_000, ValueBytes: 16, Gets: 4, Puts: 2}
}

// OpMix is the workload.
type OpMix struct {
	keyvalue.Space
	o Options
}

// New checks the options and makes the workload.
func New(o Options) (*OpMix, error) {
	s, err := keyvalue.NewSpace(keyvalue.Space{Nodes: o.Nodes, Keys: o.Keys, ValueBytes: o.ValueBytes,
		KeyBytes: o.KeyBytes}, o.Theta)
	switch {
	case err != nil:
	case o.Gets < 0 || o.Puts < 0 || o.Gets+o.Puts < 1 || o.Gets+o.Puts > keyvalue.MaxOps:
		err = fmt.Errorf("%d gets and %d puts: take 1 to %d in all", o.Gets, o.Puts, keyvalue.MaxOps)
	case s.Records() < 4*(o.Gets+o.Puts):
		err = fmt.Errorf("%d keys on all nodes are too few for %d different ones in a transaction",
			s.Records(), o.Gets+o.Puts)
	}
	if err != nil {
		return nil, fmt.Errorf("opmix: %w", err)
	}
	return &OpMix{s, o}, nil
}

// Name is "opmix".
func (w *OpMix) Name() string { return "opmix" }

// Kinds is the one, such as O(4,2).
func (w *OpMix) Kinds() []string { return []string{name(w.o.Gets, w.o.Puts)} }

// Sums is none: puts are blind.
func (w *OpMix) Sums() []string { return nil }

// Check checks every value of a node.
func (w *OpMix) Check(node proto.NodeID, c workload.Contents) (first, last workload.Quantities, err error) {
	_, err = w.Space.Check(node, c)
	return first, last, err
}

// NewClient makes a client.
func (w *OpMix) NewClient(_ proto.NodeID, r *rand.Rand) workload.Client {
	return &client{keyvalue.NewClient(&w.Space, r, w.draw)}
}

// client leaves the sum out.
type client struct{ *keyvalue.Client }

func (c *client) AddTo(*workload.Ledger) {}

func (w *OpMix) draw(c *keyvalue.Client) {
	c.Begin(1)
	c.AddDrawn(keyvalue.OpGet, w.o.Gets)
	c.AddDrawn(keyvalue.OpPut, w.o.Puts)
}
