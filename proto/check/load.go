package check

import (
	"cmp"
	"context"
	"math"
	"slices"

	"drtmd/proto/history"
)

// Limits that follow from the packing of op.
const (
	maxTxns = 1 << 29
	maxOps  = math.MaxUint32
	nobody  = math.MaxUint32 // no transaction, or no position
)

// class is what an op is to the checker.
type class uint32

const (
	classWrite        class = iota // the last write of its key by its transaction
	classDelete                    // likewise
	classAdd                       // an addition; each of its transaction's stays
	classIntermediate              // a write or delete that its transaction overwrote
	classRead
	classAbsent  // with the version of a delete, or 0
	classMissing // a key that a scan did not find; version 0
	classBase    // what an addition was made to: the addition's version, and the digest before it
	classBits    = 3
)

// txn is a transaction in 32 bytes.
type txn struct {
	start, end int64 // ns, on the node's clock
	seq        uint64
	worker     history.WorkerID
	node       uint16 // index into nodes
	kind       history.Kind
	outcome    history.Outcome
}

// op is an operation in 24 bytes.
type op struct {
	version uint64
	digest  uint64
	key     uint32 // number in the dictionary
	packed  uint32 // txn and class
}

func pack(t uint32, c class) uint32 { return t<<classBits | uint32(c) }
func (o *op) txn() uint32           { return o.packed >> classBits }
func (o *op) class() class          { return class(o.packed & (1<<classBits - 1)) }

// scan is a scanned range, until it is turned into the keys that were missing.
type scan struct {
	txn       uint32
	table     history.Table
	low, high history.Key
	ops, end  uint32 // the transaction's ops
}

// checker is one check under way.
type checker struct {
	ctx     context.Context // of the call of History
	options Options
	history *history.History
	names   history.Names
	nodes   []history.Node

	txns  []txn
	ops   []op // in the order of reading; by key and version once sorted
	keys  dictionary
	first []uint32 // first[k] is where the ops of key k begin; one more at the end
	scans []scan

	broken         []brokenChain
	additions      bool // there are some
	decisions      decisions
	initial, final contents // of the tables
	counting       bool     // versions leave none out (history.Counting)

	inGraph  []bool // by transaction: checked
	installs []bool // by transaction: its writes count
	scales   family // nodes whose times can be compared
	sources  family // nodes that read the same clock
	// resolution of each source, in ns.
	resolution []int64
	oneClock   bool // all nodes' times can be compared
	line       timeline
	choices    []choice // by read
	recount    []uint32 // unknown transactions that count because of a choice, until observe
	guessed    bool     // a choice or a writer was guessed: a violation may not be one
	late       bool     // absences are guessed late
	// variant is which of several writers is guessed, and guessedWriter whether one was.
	variant       int
	guessedWriter bool

	graph
	result Result
}

// tick reports progress and notices that the caller gave up.
func (c *checker) tick(p Phase, done, total int) error {
	if c.options.Progress != nil {
		c.options.Progress(p, uint64(done), uint64(total))
	}
	return c.ctx.Err()
}

// tickEvery is how many steps of a loop pass between two calls of tick; a power of two.
const tickEvery = 1 << 16

// load reads the history into arrays.
func (c *checker) load() error {
	if c.history.Txns() > maxTxns || c.history.Ops() > maxOps {
		return ErrTooLarge
	}
	if err := c.loadDecisions(); err != nil {
		return err
	}
	c.txns = make([]txn, 0, c.history.Txns())
	c.ops = make([]op, 0, c.history.Ops())
	total := int(c.history.Txns())
	var lastWrite []uint32 // by key: position+1 of the newest write in ops
	err := c.history.Each(func(r *history.Record) error {
		if len(c.txns)%tickEvery == 0 {
			if err := c.tick(Reading, len(c.txns), total); err != nil {
				return err
			}
		}
		if c.decided(r) {
			c.addTxn(r)
			lastWrite = c.addOps(r, lastWrite)
		}
		if len(c.ops) > maxOps {
			return ErrTooLarge
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.result.Keys = uint64(len(c.keys.entries))
	c.promises()
	if err := c.tick(Reading, total, total); err != nil {
		return err
	}
	if err := c.loadContents(); err != nil {
		return err
	}
	if err := c.expandScans(); err != nil {
		return err
	}
	c.result.Operations = uint64(len(c.ops))
	return nil
}

func (c *checker) addTxn(r *history.Record) {
	node, _ := slices.BinarySearchFunc(c.nodes, r.Node,
		func(n history.Node, id history.NodeID) int { return cmp.Compare(n.ID, id) })
	c.txns = append(c.txns, txn{start: r.StartNs, end: r.EndNs, seq: r.ID.Seq,
		worker: r.ID.Worker, node: uint16(node), kind: r.Kind, outcome: r.Outcome})
	switch r.Outcome {
	case history.Committed:
		c.result.Committed++
	case history.UserAborted:
		c.result.UserAborted++
	case history.Aborted:
		c.result.Aborted++
	case history.Unknown:
		c.result.Unknown++
	case history.Recovered:
		c.result.Recovered++
	}
}

// addOps takes in the operations that can matter: all writes, and reads unless their
// transaction's are not looked at.
func (c *checker) addOps(r *history.Record, lastWrite []uint32) []uint32 {
	t := uint32(len(c.txns) - 1)
	reads := r.Outcome == history.Committed || r.Outcome == history.Unknown || r.Outcome == history.Recovered ||
		r.Outcome == history.UserAborted && c.options.UserAborts
	begin := len(c.ops)
	for i := range r.Ops {
		o := &r.Ops[i]
		switch o.Kind {
		case history.OpRead, history.OpReadAbsent:
			if !reads {
				continue
			}
			k := classRead
			if o.Kind == history.OpReadAbsent {
				k = classAbsent
			}
			key := c.addOp(o, t, k)
			if int(key) < len(lastWrite) && lastWrite[key] > uint32(begin) &&
				ownWrite(r.Ops[:i], o) {
				c.ops = c.ops[:len(c.ops)-1]
			}
		case history.OpWrite, history.OpDelete:
			k := classWrite
			if o.Kind == history.OpDelete {
				k = classDelete
			}
			key := c.addOp(o, t, k)
			for int(key) >= len(lastWrite) {
				lastWrite = append(lastWrite, 0)
			}
			if l := lastWrite[key]; l > uint32(begin) && c.ops[l-1].class() != classAdd {
				c.ops[l-1].packed = pack(t, classIntermediate)
			}
			lastWrite[key] = uint32(len(c.ops))
		case history.OpAdd:
			lastWrite = c.addAddition(o, t, lastWrite)
		case history.OpScan:
			if reads {
				c.scans = append(c.scans, scan{txn: t, table: o.Table, low: o.Key, high: o.High,
					ops: uint32(begin)})
			}
		}
	}
	c.addPieces(r, t)
	for i := len(c.scans) - 1; i >= 0 && c.scans[i].txn == t; i-- {
		c.scans[i].end = uint32(len(c.ops))
	}
	return lastWrite
}

// ownWrite says whether a transaction read what it had written itself. That is not to be recorded,
// but does no harm.
func ownWrite(before []history.Op, r *history.Op) bool {
	for i := range before {
		w := &before[i]
		if w.Key != r.Key || w.Version != r.Version || w.Table != r.Table {
			continue
		}
		if (w.Kind == history.OpWrite || w.Kind == history.OpAdd) && r.Kind == history.OpRead && w.Digest == r.Digest ||
			w.Kind == history.OpDelete && r.Kind == history.OpReadAbsent {
			return true
		}
	}
	return false
}

func (c *checker) addOp(o *history.Op, t uint32, k class) (key uint32) {
	key = c.keys.number(o.Table, o.Key)
	c.ops = append(c.ops, op{version: uint64(o.Version), digest: uint64(o.Digest), key: key,
		packed: pack(t, k)})
	return key
}

// expandScans turns each scan into an absence of every key in its range that the history names
// and the transaction did not read.
func (c *checker) expandScans() error {
	if len(c.scans) == 0 {
		return nil
	}
	sorted := c.keys.sorted()
	var found []uint32
	for i := range c.scans {
		s := &c.scans[i]
		if i%tickEvery == 0 {
			if err := c.tick(Contents, i, len(c.scans)); err != nil {
				return err
			}
		}
		found = found[:0]
		for _, o := range c.ops[s.ops:s.end] {
			if k := o.class(); k == classRead || k == classAbsent {
				found = append(found, o.key)
			}
		}
		slices.Sort(found)
		from, _ := slices.BinarySearchFunc(sorted, entry{s.table, s.low}, c.keys.compare)
		for _, k := range sorted[from:] {
			if e := c.keys.entries[k]; e.table != s.table || e.key > s.high {
				break
			}
			if _, ok := slices.BinarySearch(found, k); ok {
				continue
			}
			if len(c.ops) >= maxOps {
				return ErrTooLarge
			}
			c.ops = append(c.ops, op{key: k, packed: pack(s.txn, classMissing)})
		}
	}
	c.scans = nil
	return nil
}
