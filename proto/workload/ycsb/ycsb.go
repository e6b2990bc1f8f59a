// Package ycsb is the Yahoo! Cloud Serving Benchmark (Cooper et al., SoCC 2010): its core workloads by
// their original definitions, as single operations and as transactions of several.
//
//	A   50 % read, 50 % update                 zipfian
//	B   95 % read, 5 % update                  zipfian
//	C   100 % read                             zipfian
//	D   95 % read, 5 % insert                  latest
//	E   95 % scan of 1 to 100, 5 % insert      zipfian
//	F   50 % read, 50 % read-modify-write      zipfian
//
// Zipfian has theta 0.99 and scrambles ranks over all nodes' records. Latest reads what was inserted
// last most often, by the same distribution over the age. Each operation of a transaction is drawn for
// itself; HADES has 5 of them, and 50/50 and 95/5 as its A and B. rTX's B is 90/10: Options.Reads.
//
// # Deviations
//
//   - A value is one field of ValueBytes; the original has ten of 100 bytes and an update writes one of
//     them. An update here writes the whole value, without a look at what was there.
//   - An insert's key is the next one of its client's node; the original hashes a counter.
//   - A read of a record whose insertion has not committed yet finds nothing, and counts as a read.
//   - A scan of E is of the records of one node, in the order of their numbers; the original's is of hashed
//     keys.
//
// # Stores
//
// HADES (§VII) runs A and B on four key-value stores. Options.Store is the index by which a client finds the place of a record:
// keyvalue.HashTable, Map, BTree or BPlusTree, over the keys of all nodes. HADES does not say where indexes are; here each
// node has its own copy, which nobody changes, and a look-up is CPU time and no access of the transaction.
//
// # What is checked
//
// Every value, when it is read and in the end, those of inserted records as well; with D and E the number of
// inserted records, and with F that of puts. E's table is scanned in the end, and compared with
// look-ups.
package ycsb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/proto/workload/keyvalue"
)

// Distribution of the records that are read and updated.
type Distribution uint8

// Distributions.
const (
	Zipfian Distribution = iota + 1
	Uniform
	Latest
)

func (d Distribution) String() string {
	return [...]string{"default", "zipfian", "uniform", "latest"}[min(d, Latest)]
}

// ErrDistribution: no distribution has this name.
var ErrDistribution = errors.New("unknown distribution: known are zipfian, uniform, latest")

// ParseDistribution finds one by its name; "" and "default" are the workload's own.
func ParseDistribution(name string) (Distribution, error) {
	if name == "" {
		return 0, nil
	}
	for d := Distribution(0); d <= Latest; d++ {
		if d.String() == name {
			return d, nil
		}
	}
	return 0, fmt.Errorf("%q: %w", name, ErrDistribution)
}

// Options of New.
type Options struct {
	Nodes        int
	Letter       string // A to F
	Keys         int    // per node, in the beginning
	Room         int    // for inserted records per node; D and E only
	ValueBytes   int
	KeyBytes     int          // 0 = 8; longer ones travel with their values
	Operations   int          // of each transaction
	Distribution Distribution // 0: the workload's own
	Theta        float64
	// Reads is the share of reads, or of scans, in percent; 0: the workload's own.
	Reads int
	// Local is the share of records that are drawn on the client's node, 0..1, others being on any other node; 0: those that
	// the distribution draws, of all nodes alike. Reads and updates of zipfian or uniform only.
	Local float64
	// Store finds the records, for A, B, C and F.
	Store keyvalue.Store
	// ScanLength is the most records of a scan, of which E draws from 1 on.
	ScanLength int
}

// Default is A as single operations on 100,000 records of 1,000 bytes per node.
func Default(nodes int) Options {
	return Options{Nodes: nodes, Letter: "A", Keys: 100_000, Room: 100_000, ValueBytes: 1000,
		Operations: 1, Theta: 0.99, ScanLength: 100}
}

// definition of a core workload.
type definition struct {
	read         keyvalue.Op
	reads        int // percent
	other        keyvalue.Op
	distribution Distribution
}

var definitions = map[string]definition{
	"A": {keyvalue.OpGet, 50, keyvalue.OpPut, Zipfian},
	"B": {keyvalue.OpGet, 95, keyvalue.OpPut, Zipfian},
	"C": {keyvalue.OpGet, 100, keyvalue.OpPut, Zipfian},
	"D": {keyvalue.OpGet, 95, keyvalue.OpInsert, Latest},
	"E": {keyvalue.OpScan, 95, keyvalue.OpInsert, Zipfian},
	"F": {keyvalue.OpGet, 50, keyvalue.OpUpdate, Zipfian},
}

// Letters of the workloads that there are.
const Letters = "A, B, C, D, E, F"

// mostScanned is how many records all scans of a transaction may have: each is one of its records.
const mostScanned = 1000

// YCSB is the workload.
type YCSB struct {
	keyvalue.Space
	o    Options
	def  definition
	next []atomic.Uint64 // by node: number of the next record to be inserted
}

// New checks the options and makes the workload.
func New(o Options) (*YCSB, error) {
	o.Letter = strings.ToUpper(o.Letter)
	def, ok := definitions[o.Letter]
	switch {
	case !ok:
		return nil, fmt.Errorf("ycsb: unknown workload %q; known: %s", o.Letter, Letters)
	case o.Operations < 1 || o.Operations > keyvalue.MaxOps:
		return nil, fmt.Errorf("ycsb: %d operations per transaction are not in 1..%d", o.Operations,
			keyvalue.MaxOps)
	case !(o.Local >= 0 && o.Local <= 1) || o.Local < 1 && o.Local > 0 && o.Nodes == 1:
		return nil, fmt.Errorf("ycsb: a share of %v of the records on the client's node, of %d nodes, is not in 0..1", o.Local,
			o.Nodes)
	case o.Reads < 0 || o.Reads > 100:
		return nil, fmt.Errorf("ycsb: %d %% of reads are not in 0..100", o.Reads)
	case def.read == keyvalue.OpScan && (o.ScanLength < 1 || o.ScanLength*o.Operations > mostScanned):
		return nil, fmt.Errorf("ycsb: %d scans of up to %d records in a transaction: there may be 1 to %d records "+
			"in all", o.Operations, o.ScanLength, mostScanned)
	case def.other == keyvalue.OpInsert && o.Store != keyvalue.NoStore:
		return nil, fmt.Errorf("ycsb: store %v has what was loaded, and %s inserts: take A, B, C or F, or store %v", o.Store,
			o.Letter, keyvalue.NoStore)
	case o.Distribution > Latest:
		return nil, fmt.Errorf("ycsb: %w", ErrDistribution)
	}
	if o.Reads > 0 {
		def.reads = o.Reads
	}
	if o.Distribution != 0 {
		def.distribution = o.Distribution
	}
	theta, room := o.Theta, 0
	if def.distribution == Uniform {
		theta = 0
	} else if theta == 0 {
		return nil, fmt.Errorf("ycsb: %v needs a theta above 0", def.distribution)
	}
	if def.other == keyvalue.OpInsert {
		room = o.Room
	}
	s, err := keyvalue.NewSpace(keyvalue.Space{Nodes: o.Nodes, Keys: o.Keys, Room: room,
		ValueBytes: o.ValueBytes, KeyBytes: o.KeyBytes, Store: o.Store,
		Ordered: def.read == keyvalue.OpScan}, theta)
	if err == nil && s.Records() < 4*o.Operations {
		err = fmt.Errorf("%d keys on all nodes are too few for %d different ones in a transaction",
			s.Records(), o.Operations)
	}
	if err != nil {
		return nil, fmt.Errorf("ycsb: %w", err)
	}
	w := &YCSB{Space: s, o: o, def: def, next: make([]atomic.Uint64, o.Nodes)}
	for i := range w.next {
		w.next[i].Store(uint64(o.Keys))
	}
	return w, nil
}

// Name is "ycsb".
func (w *YCSB) Name() string { return "ycsb" }

// Kinds: a single operation is of its own kind; transactions are read-only or not.
const (
	kindRead uint8 = iota + 1
	kindOther
)

// Kinds names the transactions.
func (w *YCSB) Kinds() []string {
	if w.o.Operations > 1 {
		return []string{"read-only", "read-write"}
	}
	return []string{map[bool]string{false: "read", true: "scan"}[w.def.read == keyvalue.OpScan], map[keyvalue.Op]string{keyvalue.OpPut: "update",
		keyvalue.OpInsert: "insert", keyvalue.OpUpdate: "read-modify-write"}[w.def.other]}
}

// Sums is the number of updates that read before, or of insertions; blind puts have none.
func (w *YCSB) Sums() []string {
	switch w.def.other {
	case keyvalue.OpUpdate:
		return []string{"read-modify-writes"}
	case keyvalue.OpInsert:
		return []string{"inserted records"}
	}
	return nil
}

// Check checks every value of a node, and adds up what Sums names.
func (w *YCSB) Check(node proto.NodeID, c workload.Contents) (first, last workload.Quantities, err error) {
	h, err := w.Space.Check(node, c)
	switch w.def.other {
	case keyvalue.OpUpdate:
		last[0] = h.Puts
	case keyvalue.OpInsert:
		last[0] = h.Inserted
	}
	return first, last, err
}

// client draws transactions of one fiber.
type client struct {
	*keyvalue.Client
	w    *YCSB
	home proto.NodeID
}

// NewClient makes a client.
func (w *YCSB) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	c := &client{w: w, home: home}
	c.Client = keyvalue.NewClient(&w.Space, r, func(*keyvalue.Client) { c.draw() })
	return c
}

// GoOn implements workload.Continuer: each node numbers its records.
func (w *YCSB) GoOn(node proto.NodeID, c workload.Contents) error {
	if w.def.other != keyvalue.OpInsert {
		return nil
	}
	next := uint64(w.Keys)
	c.Each(keyvalue.Table, func(k proto.Key, _ []byte) { next = max(next, keyvalue.NumberOf(k)+1) })
	w.next[node].Store(next)
	return nil
}

// AddTo leaves the sum out where puts are blind.
func (c *client) AddTo(l *workload.Ledger) {
	if len(c.w.Sums()) > 0 {
		c.Client.AddTo(l)
	}
}

// draw draws one transaction.
func (c *client) draw() {
	var ops [keyvalue.MaxOps]keyvalue.Op
	kind := kindRead
	for i := range c.w.o.Operations {
		ops[i] = c.w.def.read
		if c.Rand.IntN(100) >= c.w.def.reads {
			ops[i], kind = c.w.def.other, kindOther
		}
	}
	c.Begin(kind)
	for _, op := range ops[:c.w.o.Operations] {
		switch {
		case op == keyvalue.OpInsert:
			c.Add(op, c.insertion())
		case op == keyvalue.OpScan:
			c.AddScan(c.start(), 1+c.Rand.IntN(c.w.o.ScanLength))
		case c.w.def.distribution == Latest:
			for range 64 {
				if c.Add(op, c.latest()) {
					break
				}
			}
		case c.w.o.Local > 0:
			for range 64 {
				if c.Add(op, c.near()) {
					break
				}
			}
		default:
			c.AddDrawn(op, 1)
		}
	}
}

// near draws a record of the client's node with the probability Local, and one of another node else.
func (c *client) near() proto.Key {
	number, n := keyvalue.NumberOf(c.w.Draw(c.Rand)), c.w.Nodes
	node := int(c.home)
	if c.Rand.Float64() >= c.w.o.Local {
		node = (node + 1 + c.Rand.IntN(n-1)) % n
	}
	return c.w.numbered(proto.NodeID(node), number)
}

// start is the first key of a scan.
func (c *client) start() proto.Key {
	if c.w.def.distribution == Latest {
		return c.latest()
	}
	return c.w.Draw(c.Rand)
}

// insertion is the key of the next record of the client's node.
func (c *client) insertion() proto.Key {
	return c.w.numbered(c.home, c.w.next[c.home].Add(1)-1)
}

// numbered is record i of a node.
func (w *YCSB) numbered(node proto.NodeID, i uint64) proto.Key {
	return w.Key(int(i)*w.Nodes + int(node))
}

// latest draws a record by its age: that of the rank's place before the newest one.
func (c *client) latest() proto.Key {
	rank := c.w.Rank(c.Rand)
	node := proto.NodeID(rank % c.w.Nodes)
	newest := c.w.next[node].Load() - 1
	return c.w.numbered(node, newest-min(newest, uint64(rank/c.w.Nodes)))
}
