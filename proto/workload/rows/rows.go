// Package rows is a workload of transactions that access fields of the same few rows: the load of scenarios and tests of
// protocols that access parts of values (proto.ReadAt, proto.WriteAt).
//
// # Table
//
// Rows of 200 bytes. Keys are node 16 bits | number 48 bits. A row has three counters, two edges, and bytes that are
// always 0:
//
//	+0 near 8 | zero | +16 first edge 8 | zero | +32 cross 8, the same again 8 | zero | +150 far 8 | zero | +184 last edge 8 | zero
//
// With a header of 24 bytes, near and the first edge are in the first line of 64 bytes, the two words of cross are in the
// first and the second, far is in the third, and the last edge in the fourth.
//
// # Transactions, in percent of the mix
//
//	add 50     adds 1 to a field of each of two rows, and reads fields of the first and of a third row
//	whole 15   adds 1 to all fields and edges of a row, which it reads and writes as a whole, and reads a field of another
//	look 35    reads fields of three rows, then both edges of the first, the last one although it has not declared it
//
// Half of them declare their fields, the others no record; all do with Options.Declared.
//
// With Options.Frames there is another one, in place of most looks:
//
//	frame 25           adds 1 to both edges of a row, and reads a field of another; it declares its fields
//
// Of a row that is loaded in part it loads the first line and the last one, and writes both; a log that has an update as one
// range of bytes has the lines between them, too.
//
// # What is checked
//
// The two words of cross are equal, and the two edges, whoever reads them. The fields add up to the additions that were
// committed.
package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// Rows is the table.
const Rows proto.TableID = 1

// ValueBytes is the size of a row.
const ValueBytes = 200

// Fields of a row by their offset.
const (
	near  = 0
	cross = 32
	far   = 150
	// Edges.
	firstEdge = 16
	lastEdge  = 184

	wordBytes = 8
)

// Kind is the type of a transaction: Decl.Kind.
type Kind uint8

// Kinds.
const (
	Add Kind = iota + 1
	Whole
	Look
	Frame
)

const (
	addPercent   = 50
	wholePercent = 15
	framePercent = 25 // with Options.Frames
	accessed     = 3  // rows of a transaction
)

// ErrCorrupt: a row is none that any transaction can have written.
var ErrCorrupt = errors.New("rows: half of an addition was seen")

// Options of New.
type Options struct {
	Nodes       int
	Rows        int     // of each node
	Distributed float64 // probability that a row is on another node than its transaction
	Declared    bool    // all transactions declare their records, for protocols that need that
	Frames      bool    // there are transactions that write both edges of a row
}

// Workload is the workload.
type Workload struct {
	o   Options
	far uint32 // threshold of a 32-bit draw for Options.Distributed
}

const nodeShift = 48

// New checks the options and makes the workload.
func New(o Options) (*Workload, error) {
	switch {
	case o.Nodes < 1 || o.Nodes > 1<<16:
		return nil, fmt.Errorf("rows: %d nodes are not in 1..%d", o.Nodes, 1<<16)
	case o.Rows <= accessed:
		return nil, fmt.Errorf("rows: %d rows on each node: a transaction accesses %d, take more", o.Rows, accessed)
	case !(o.Distributed >= 0 && o.Distributed <= 1) || o.Distributed > 0 && o.Nodes == 1:
		return nil, fmt.Errorf("rows: probability %v of rows on other nodes, with %d nodes", o.Distributed, o.Nodes)
	}
	return &Workload{o: o, far: uint32(math.Round(o.Distributed * math.MaxUint32))}, nil
}

// Name is "rows".
func (w *Workload) Name() string { return "rows" }

// Kinds names the transactions.
func (w *Workload) Kinds() []string {
	kinds := []string{"add", "whole", "look"}
	if w.o.Frames {
		kinds = append(kinds, "frame")
	}
	return kinds
}

// Tables are the rows.
func (w *Workload) Tables() []proto.TableSpec {
	return []proto.TableSpec{{ID: Rows, Name: "rows", ValueBytes: ValueBytes, Capacity: w.o.Rows}}
}

// Sums is what all fields add up to.
func (w *Workload) Sums() []string { return []string{"additions"} }

// Placement reads the node off the key.
func (w *Workload) Placement() proto.Placement { return placement{} }

type placement struct{}

func (placement) Locate(_ proto.TableID, k proto.Key) proto.Location {
	return proto.Location{Primary: proto.NodeID(k >> nodeShift)}
}

func keyOf(n proto.NodeID, i int) proto.Key { return proto.Key(n)<<nodeShift | proto.Key(i) }

// Load gives a node its rows, with counters of 0.
func (w *Workload) Load(n proto.NodeID, put func(t proto.TableID, k proto.Key, value []byte) error) error {
	var row [ValueBytes]byte
	for i := range w.o.Rows {
		if err := put(Rows, keyOf(n, i), row[:]); err != nil {
			return err
		}
	}
	return nil
}

// Check adds up the fields of a node.
func (w *Workload) Check(n proto.NodeID, c workload.Contents) (first, last workload.Quantities, err error) {
	var row [ValueBytes]byte
	for i := range w.o.Rows {
		if err = c.Read(Rows, keyOf(n, i), row[:]); err == nil && !whole(row[:]) {
			err = ErrCorrupt
		}
		if err != nil {
			return first, last, fmt.Errorf("row %d of node %d: %w", i, n, err)
		}
		last[0] += int64(word(row[:], near) + word(row[:], cross) + word(row[:], far))
	}
	return first, last, nil
}

func word(row []byte, at int) uint64 { return binary.LittleEndian.Uint64(row[at:]) }

// whole reports whether a row is one of a moment.
func whole(row []byte) bool { return crossed(row) && framed(row) }

func crossed(row []byte) bool { return word(row, cross) == word(row, cross+wordBytes) }

func framed(row []byte) bool { return word(row, firstEdge) == word(row, lastEdge) }

// bytesOf is how long the field at an offset is.
func bytesOf(at int) int {
	if at == cross {
		return 2 * wordBytes
	}
	return wordBytes
}

// NewClient makes a client.
func (w *Workload) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	return &client{w: w, home: home, rand: r}
}

// client draws the transactions of one fiber.
type client struct {
	w    *Workload
	home proto.NodeID
	rand *rand.Rand
	tx   transaction
	open bool
	did  workload.Ledger
}

// Next draws a transaction.
func (c *client) Next() (*proto.Decl, proto.Program) {
	t := &c.tx
	t.kind = Look
	switch p := c.rand.IntN(100); {
	case p < addPercent:
		t.kind = Add
	case p < addPercent+wholePercent:
		t.kind = Whole
	case c.w.o.Frames && p < addPercent+wholePercent+framePercent:
		t.kind = Frame
	}
	for i := range t.keys {
		for t.keys[i] = c.key(); drawn(t.keys[:i], t.keys[i]); {
			t.keys[i] = c.key()
		}
		t.fields[i] = [...]int{near, cross, far}[c.rand.IntN(3)]
	}
	t.decl = proto.Decl{Kind: uint8(t.kind), ReadOnly: t.kind == Look}
	if c.rand.IntN(2) == 0 || c.w.o.Declared || t.kind == Frame {
		t.declare()
	}
	c.open = true
	return &t.decl, t
}

func drawn(keys []proto.Key, k proto.Key) bool {
	for _, o := range keys {
		if o == k {
			return true
		}
	}
	return false
}

func (c *client) key() proto.Key {
	n := c.home
	if c.w.far > 0 && c.rand.Uint32() <= c.w.far {
		n = proto.NodeID((int(n) + 1 + c.rand.IntN(c.w.o.Nodes-1)) % c.w.o.Nodes)
	}
	return keyOf(n, c.rand.IntN(c.w.o.Rows))
}

// Done notes what the transaction did.
func (c *client) Done(o proto.Outcome) {
	c.open = false
	c.did.Settle(o, c.tx.does())
}

// AddTo adds what the client's transactions did.
func (c *client) AddTo(l *workload.Ledger) {
	l.Add(&c.did)
	if c.open {
		l.AddUnknown(c.tx.does())
	}
}
