package history

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"

	"drtmd/internal/invariant"
)

// Options of a Recorder.
type Options struct {
	Worker WorkerID
	Node   NodeID
	Clock  Clock
	// MemoryBytes bounds what stays in memory, in steps of a block; 0 is no bound.
	MemoryBytes int64
	// SpillDir is where a file is made for what exceeds MemoryBytes. Without one the recording
	// ends there with ErrMemoryFull.
	SpillDir string
	// Keep is an empty file in which each transaction is written when it ends, so that it outlives a process
	// that is killed: see Salvage. The recorder owns it, and its history removes it. nil: none, and
	// transactions stay in memory up to MemoryBytes.
	Keep *os.File
}

// Recorder takes down the transactions of one worker.
type Recorder struct {
	options Options
	seq     uint64
	open    []*Txn // between Begin and End, in no order
	free    []*Txn
	block   []byte // under construction, with room for its header
	txns    uint32 // in block
	ops     uint32 // in block
	delta   delta
	full    [][]byte // finished blocks, in memory
	spare   [][]byte // emptied ones
	bytes   int64    // of full
	spill   *os.File // nil until it is needed
	spilled int64    // where its finished blocks end
	// spillStart is where they begin.
	spillStart int64
	total      counts
	decisions  uint64
	err        error // first one; from then on nothing is recorded
	closed     bool
}

// counts of a recording or a file.
type counts struct {
	blocks    uint32
	txns, ops uint64
}

func (c *counts) add(o counts) {
	c.blocks += o.blocks
	c.txns += o.txns
	c.ops += o.ops
}

// NewRecorder makes a Recorder; nothing is opened before it is needed. What Err says then counts.
func NewRecorder(o Options) *Recorder {
	r := &Recorder{options: o}
	if o.Keep != nil {
		r.err = r.keep()
	}
	return r
}

// SetClockError says how wrong the clock has been, once that is known: before Close, and the same of
// all workers of a node.
func (r *Recorder) SetClockError(ns int64) { r.options.Clock.ErrorNs = ns }

// Begin starts a transaction at startNs on the recorder's clock. The Txn is the caller's until
// End.
func (r *Recorder) Begin(startNs int64) *Txn {
	invariant.Assert(!r.closed, "transaction begun on a closed recorder")
	var t *Txn
	if n := len(r.free); n > 0 {
		t, r.free = r.free[n-1], r.free[:n-1]
	} else {
		t = &Txn{recorder: r}
	}
	r.seq++
	t.record = Record{ID: TxnID{r.options.Worker, r.seq}, Node: r.options.Node,
		StartNs: startNs, Ops: t.record.Ops[:0]}
	t.told = false
	t.index = len(r.open)
	r.open = append(r.open, t)
	return t
}

// End takes a transaction down with its outcome; endNs counts if the client is told then, and was not told
// before. The Txn must not be used again. What went wrong is kept for Err and Close.
//
// A survivor takes down what was decided about a transaction of another node as one that it begins (Ever)
// and ends as Recovered or Revoked, with its name and, if it was committed, its writes.
func (r *Recorder) End(t *Txn, endNs int64, o Outcome) {
	invariant.Assert(o >= Committed && o < OutcomeCount, "outcome without a meaning")
	invariant.Assert(!o.Decision() || t.record.Name != 0, "decision about a transaction without a name")
	invariant.Assert(t.recorder == r && t.index < len(r.open) && r.open[t.index] == t,
		"transaction ended that is not open here")
	last := len(r.open) - 1
	r.open[t.index] = r.open[last]
	r.open[t.index].index = t.index
	r.open = r.open[:last]
	t.record.Outcome, t.record.EndNs = o, endNs
	switch {
	case t.told && o != Committed && r.err == nil:
		r.err = fmt.Errorf("%w: %v, %v", ErrTold, t.record.ID, o)
	case t.told:
		t.record.EndNs = t.toldNs
	case !o.ended():
		t.record.EndNs = Never
	}
	r.append(&t.record)
	t.index = math.MaxInt
	r.free = append(r.free, t)
}

func (r *Recorder) append(t *Record) {
	switch {
	case r.err != nil:
		return
	case len(t.Ops) > MaxOps:
		r.err = ErrTooManyOps
		return
	case t.EndNs < t.StartNs:
		r.err = fmt.Errorf("%w: %v started at %d ns and ended at %d ns", ErrClockBackwards, t.ID,
			t.StartNs, t.EndNs)
		return
	}
	if len(r.block) == 0 {
		r.begin()
	}
	from := len(r.block)
	r.block = appendTxn(r.block, &r.delta, t)
	r.keepTxn(from)
	r.txns++
	if t.decides() {
		r.decisions++
	}
	r.ops += uint32(len(t.Ops))
	if len(r.block) >= blockBytes {
		r.finish()
	}
}

// begin starts a block.
func (r *Recorder) begin() {
	if n := len(r.spare); n > 0 {
		r.block, r.spare = r.spare[n-1], r.spare[:n-1]
	} else if r.total.blocks > 0 {
		r.block = make([]byte, 0, blockBytes+blockSlack)
	} else {
		r.block = make([]byte, 0, blockSlack) // many a worker records little: this one grows
	}
	r.block = r.block[:blockHeaderBytes]
	r.txns, r.ops, r.delta = 0, 0, delta{}
}

// finish seals the block and keeps it, in memory or in the file.
func (r *Recorder) finish() {
	if len(r.block) == 0 {
		return
	}
	seal(r.block, blockHeader{magic: blockMagic, owner: uint32(r.options.Worker),
		node: r.options.Node, items: r.txns, ops: r.ops})
	r.total.blocks++
	r.total.txns += uint64(r.txns)
	r.total.ops += uint64(r.ops)
	if r.options.Keep != nil {
		r.keepBlock()
		return
	}
	r.full = append(r.full, r.block)
	r.bytes += int64(cap(r.block))
	r.block = nil
	if r.options.MemoryBytes > 0 && r.bytes >= r.options.MemoryBytes {
		r.err = r.toFile()
	}
}

// toFile empties the memory into the file.
func (r *Recorder) toFile() error {
	if r.options.SpillDir == "" {
		return ErrMemoryFull
	}
	if r.spill == nil {
		f, err := os.CreateTemp(r.options.SpillDir, "drtmd-history-*.spill") // mode 0600
		if err != nil {
			return fmt.Errorf("history: make a spill file: %w", err)
		}
		r.spill = f
	}
	for _, b := range r.full {
		if _, err := r.spill.Write(b); err != nil {
			return fmt.Errorf("history: spill: %w; use a directory with room", err)
		}
		r.spilled += int64(len(b))
		r.spare = append(r.spare, b[:0])
	}
	r.full, r.bytes = r.full[:0], 0
	return nil
}

// Err is what ended the recording before its time, or nil. A history that lacks transactions is
// never handed out: Close returns the same error.
func (r *Recorder) Err() error { return r.err }

// Close ends the recording. Transactions that are still open are taken down as Unknown, for their
// coordinator died, unless the client was told. The Segment belongs to the caller, who gives it to New or discards it.
func (r *Recorder) Close() (*Segment, error) {
	invariant.Assert(!r.closed, "recorder closed twice")
	r.closed = true
	left := slices.SortedFunc(slices.Values(r.open),
		func(a, b *Txn) int { return cmp.Compare(a.record.ID.Seq, b.record.ID.Seq) })
	for _, t := range left {
		o := Unknown
		if t.told {
			o = Committed
		}
		r.End(t, Never, o)
	}
	if r.err == nil {
		r.finish()
	}
	s := &Segment{worker: r.options.Worker, node: Node{r.options.Node, r.options.Clock},
		spill: r.spill, spillStart: r.spillStart, spilled: r.spilled, memory: r.full, total: r.total, decisions: r.decisions}
	if r.err != nil {
		return nil, errorsJoin(r.err, s.Discard())
	}
	return s, nil
}

// Txn is a transaction that is being recorded, for one fiber.
type Txn struct {
	recorder *Recorder
	record   Record
	index    int // in recorder.open
	told     bool
	toldNs   int64
}

// ID names the transaction in what the checker says.
func (t *Txn) ID() TxnID { return t.record.ID }

// SetKind says which type of transaction it is.
func (t *Txn) SetKind(k Kind) { t.record.Kind = k }

// SetName gives the transaction the name by which survivors would decide about it; not 0.
func (t *Txn) SetName(name uint64) { t.record.Name = name }

// Told takes down that the client may be told at ns that the transaction is committed. It has ended then,
// as committed, whatever becomes of its coordinator; its writes must have been taken down.
func (t *Txn) Told(ns int64) {
	if !t.told {
		t.told, t.toldNs = true, ns
	}
}

// Reset forgets the operations: the transaction starts over, with the start it had.
func (t *Txn) Reset() { t.record.Ops = t.record.Ops[:0] }

// Read takes down that version v was found, with a value of digest d.
func (t *Txn) Read(table Table, key Key, v Version, d Digest) {
	t.add(Op{Kind: OpRead, Table: table, Key: key, Version: v, Digest: d})
}

// ReadAbsent takes down that the key was not there. v is the version of its tombstone, or 0 if
// there was no trace of the key; the checker then works out which absence it was.
func (t *Txn) ReadAbsent(table Table, key Key, v Version) {
	t.add(Op{Kind: OpReadAbsent, Table: table, Key: key, Version: v})
}

// Write takes down that version v, with a value of digest d, is installed if the transaction
// commits: by update or by insert. Of several writes of a key the last one counts.
func (t *Txn) Write(table Table, key Key, v Version, d Digest) {
	t.add(Op{Kind: OpWrite, Table: table, Key: key, Version: v, Digest: d})
}

// Delete takes down that the key is gone from version v on if the transaction commits.
func (t *Txn) Delete(table Table, key Key, v Version) {
	t.add(Op{Kind: OpDelete, Table: table, Key: key, Version: v})
}

// Scan takes down that all keys from low to high were looked at, both included. What was found
// is taken down by Read; every other key in the range was absent.
func (t *Txn) Scan(table Table, low, high Key) {
	invariant.Assert(low <= high, "scan of a range that ends before it begins")
	t.add(Op{Kind: OpScan, Table: table, Key: low, High: high})
}

// Add takes down that delta is added to the number that the key has, which makes it sum at version v, if the
// transaction commits. Additions of different transactions commute: nothing is said of what was there before.
func (t *Txn) Add(table Table, key Key, v Version, delta int64, sum uint64) {
	t.add(Op{Kind: OpAdd, Table: table, Key: key, Version: v, Digest: DigestOfNumber(sum), Delta: delta, Sum: sum})
}

// Piece takes down that a piece of the transaction begins, of so many, from 0. A transaction in pieces is one, and
// needs all of them, in their order.
func (t *Txn) Piece(index, count int) {
	invariant.Assert(index >= 0 && index < count, "piece of a transaction that has fewer")
	t.add(Op{Kind: OpPiece, Key: Key(index), High: Key(count)})
}

// Len is how many operations were taken down, for Truncate.
func (t *Txn) Len() int { return len(t.record.Ops) }

// Truncate forgets the operations behind the first n: an attempt of a piece starts over.
func (t *Txn) Truncate(n int) { t.record.Ops = t.record.Ops[:n] }

func (t *Txn) add(o Op) {
	invariant.Assert(o.Version != 0 || o.Kind == OpReadAbsent || o.Kind == OpScan || o.Kind == OpPiece,
		"operation without a version")
	t.record.Ops = append(t.record.Ops, o)
}
