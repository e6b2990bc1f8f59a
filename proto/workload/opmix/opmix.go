// Package opmix is the family of microbenchmarks O(G,P) of Dandelion §7: every transaction gets G
// records and puts P others, all drawn uniformly from all nodes. Dandelion runs O(1,0), O(0,1), O(4,0)
// and O(4,2), with keys of 8 and values of 16 bytes, 18 million of them per machine.
//
// Gets and puts are of different records: only then do the paper's counts of messages for O(4,2) come
// out. Puts are blind.
//
// Options draw the records as the microbenchmarks of DrTM §8.5 do, which share with TPC-C's new-order that most records
// are of the own node: some of the records are of other nodes (Remote), and one get is of a few hot records, which all
// nodes have the same number of (Hot).
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
	// Remote is the share of records of another node than the client's, in percent; Uniform: they are of any node.
	Remote float64
	Hot    int // records of all nodes of which the first get takes one, and nothing else does; 0: none
	// Interactive transactions do not declare their records, and get them all before they look at the first.
	Interactive bool
}

// Uniform is Options.Remote of records that are drawn from all nodes alike.
const Uniform = 0

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
	case !(o.Remote >= 0 && o.Remote <= 100):
		err = fmt.Errorf("%v %% of the records of another node: take up to 100, or 0 for records of any node", o.Remote)
	case o.Remote != Uniform && o.Nodes == 1:
		err = fmt.Errorf("%v %% of the records of another node, and there is one node: take 0, or more nodes", o.Remote)
	case o.Hot < 0 || o.Hot%o.Nodes != 0:
		err = fmt.Errorf("%d hot records on %d nodes: each node has as many, so take a multiple of %d", o.Hot, o.Nodes, o.Nodes)
	case o.Hot > 0 && o.Gets == 0:
		err = fmt.Errorf("%d hot records and no get: the first get of a transaction is of a hot record, so take a get at least",
			o.Hot)
	case o.Hot > 0 && o.Remote == Uniform:
		err = fmt.Errorf("%d hot records and no share of records of another node (far): hot records go with a share, so take "+
			"one above 0", o.Hot)
	case o.Remote != Uniform && (o.Theta != 0 || s.Keys-o.Hot/o.Nodes < 4*(o.Gets+o.Puts)):
		err = fmt.Errorf("a share of records of another node: it needs %d records of each node that are not hot, without Zipf",
			4*(o.Gets+o.Puts))
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

// Undeclared implements workload.Undeclared.
func (w *OpMix) Undeclared() (option string, is bool) {
	return keyvalue.OptInteractive, w.o.Interactive
}

// NewClient makes a client.
func (w *OpMix) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	c := keyvalue.NewClient(&w.Space, r, func(c *keyvalue.Client) { w.draw(c, int(home)) })
	c.Interactive = w.o.Interactive
	return &client{c}
}

// client leaves the sum out.
type client struct{ *keyvalue.Client }

func (c *client) AddTo(*workload.Ledger) {}

func (w *OpMix) draw(c *keyvalue.Client, home int) {
	c.Begin(1)
	gets := w.o.Gets
	if w.o.Hot > 0 {
		c.Add(keyvalue.OpGet, w.Key(c.Rand.IntN(w.o.Hot))) // records take turns at the nodes
		gets--
	}
	w.add(c, keyvalue.OpGet, gets, home)
	w.add(c, keyvalue.OpPut, w.o.Puts, home)
}

// add adds an operation on n records.
func (w *OpMix) add(c *keyvalue.Client, op keyvalue.Op, n, home int) {
	if w.o.Remote == Uniform {
		c.AddDrawn(op, n)
		return
	}
	for range n {
		of := home
		if w.o.Nodes > 1 && 100*c.Rand.Float64() < w.o.Remote {
			of = (home + 1 + c.Rand.IntN(w.o.Nodes-1)) % w.o.Nodes
		}
		hot := w.o.Hot / w.o.Nodes
		for !c.Add(op, w.Key(of+w.o.Nodes*(hot+c.Rand.IntN(w.Keys-hot)))) {
		}
	}
}
