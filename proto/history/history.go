package history

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Segment is the recording of one worker.
type Segment struct {
	worker  WorkerID
	node    Node
	spill   *os.File // the older blocks; nil if all are in memory
	spilled int64    // where the blocks in spill end
	// spillStart is where they begin.
	spillStart int64
	borrowed   bool     // spill is not to be removed
	memory     [][]byte // the younger blocks
	total      counts
	// decisions are those of the transactions that say something about another record's.
	decisions uint64
}

// Txns is how many transactions were recorded.
func (s *Segment) Txns() uint64 { return s.total.txns }

// Discard drops the recording and removes its file. It may be called twice.
func (s *Segment) Discard() error {
	s.memory = nil
	if s.spill == nil {
		return nil
	}
	f := s.spill
	s.spill = nil
	if s.borrowed {
		return f.Close()
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Names gives words for numbers in what is printed; missing ones are printed as numbers.
type Names struct {
	Tables []string `json:"tables,omitempty"` // by Table
	Kinds  []string `json:"kinds,omitempty"`  // by Kind
}

// TableName is the name of a table.
func (n Names) TableName(t Table) string {
	if int(t) < len(n.Tables) && n.Tables[t] != "" {
		return n.Tables[t]
	}
	return fmt.Sprintf("table %d", t)
}

// KindName is the name of a type of transaction.
func (n Names) KindName(k Kind) string {
	if int(k) < len(n.Kinds) && n.Kinds[k] != "" {
		return n.Kinds[k]
	}
	return fmt.Sprintf("type %d", k)
}

// Run is what a history says of a run beside its transactions.
type Run struct {
	Names
	Versions Succession
	// Initial are the tables of all nodes before the first transaction, and Final those after the
	// last one; nil: not recorded.
	Initial, Final []*Snapshot
	// Snapshots of replicas are all those of a shard that live and are complete.
	// Partial: some nodes are missing in Final.
	Partial bool
}

// History is all that was recorded of a run.
type History struct {
	header   header
	total    counts
	keys     [Final + 1]uint64 // in the snapshots
	segments []*Segment
	sources  []source
	format   uint32
	workers  map[WorkerID]bool // of a file or several
}

// source is a part of a history: blocks in memory, or in a file from start to end.
type source struct {
	blocks     [][]byte
	file       *os.File
	start, end int64
}

// New joins the segments of a run, whose owner the history becomes. On an error they stay the
// caller's.
func New(names Names, segments ...*Segment) (*History, error) {
	return NewRun(Run{Names: names}, segments...)
}

// NewRun is New with all that is known of a run.
func NewRun(r Run, segments ...*Segment) (*History, error) {
	h := &History{header: header{Names: r.Names, Versions: r.Versions, Initial: r.Initial != nil},
		segments: slices.Clone(segments), format: FormatVersion}
	switch {
	case r.Final != nil && r.Partial:
		h.header.Final = finalPart
	case r.Final != nil:
		h.header.Final = finalWhole
	}
	for _, s := range r.Final {
		if s.shard == 0 {
			continue
		}
		if err := h.header.addReplica(Replica{uint16(s.shard - 1), s.node}); err != nil {
			return nil, err
		}
	}
	for _, s := range slices.Concat(r.Initial, r.Final) {
		blocks := s.blocks()
		h.total.blocks += uint32(len(blocks))
		h.keys[s.moment] += s.records
		h.sources = append(h.sources, source{blocks: blocks})
	}
	slices.SortStableFunc(h.segments,
		func(a, b *Segment) int { return cmp.Compare(a.worker, b.worker) })
	for i, s := range h.segments {
		if i > 0 && h.segments[i-1].worker == s.worker {
			return nil, twoRecordings(s.worker)
		}
		if err := h.header.addNode(s.node); err != nil {
			return nil, err
		}
		h.total.add(s.total)
		h.header.Decisions += s.decisions
		if s.spill != nil {
			h.sources = append(h.sources, source{file: s.spill, start: s.spillStart, end: s.spilled})
		}
		h.sources = append(h.sources, source{blocks: s.memory})
	}
	return h, nil
}

func twoRecordings(w WorkerID) error {
	return fmt.Errorf("%w: worker %d recorded two; give a restarted worker a new number", ErrMerge, w)
}

// Nodes gives every node with its clock, by number.
func (h *History) Nodes() []Node { return slices.Clone(h.header.Nodes) }

// Names gives the words for tables and types of transactions.
func (h *History) Names() Names { return h.header.Names }

// Versions says what follows from a version about the one before.
func (h *History) Versions() Succession { return h.header.Versions }

// Knows reports whether the content of the tables at a moment was recorded. whole: that of all
// nodes, so that a key which is not among it was not there.
func (h *History) Knows(m Moment) (known, whole bool) {
	if m == Initial {
		return h.header.Initial, h.header.Initial
	}
	return h.header.Final != "", h.header.Final == finalWhole
}

// Replicas are those of which the content in the end was recorded, by shard and node; none if the nodes'
// tables are no replicas.
func (h *History) Replicas() []Replica { return slices.Clone(h.header.Replicas) }

// Keys is how many keys the content of the tables at a moment has.
func (h *History) Keys(m Moment) uint64 { return h.keys[m] }

// Txns is how many transactions there are.
func (h *History) Txns() uint64 { return h.total.txns }

// Decisions is how many of these are decisions of survivors (Outcome.Decision), or continue chains (Record.Continues).
func (h *History) Decisions() uint64 { return h.header.Decisions }

// Ops is how many operations they have.
func (h *History) Ops() uint64 { return h.total.ops }

// Format is that of the file that the history was read from, or FormatVersion.
func (h *History) Format() uint32 { return h.format }

// Each calls fn with every transaction, those of a worker together and in the order of their ends.
// The record is fn's during the call only. An error of fn ends it and is returned as it is; a
// damaged file gives a *FormatError.
func (h *History) Each(fn func(*Record) error) error {
	var record Record
	return h.each(func(b blockHeader) bool { return b.magic == blockMagic },
		func(b blockHeader, payload []byte) error { return eachTxn(b, payload, &record, fn) })
}

// EachContent calls fn with every key that the tables held at a moment: as Each.
func (h *History) EachContent(m Moment, fn func(Content) error) error {
	return h.each(func(b blockHeader) bool { return b.moment == m },
		func(b blockHeader, payload []byte) error { return eachContent(b, payload, fn) })
}

// each goes through the blocks that are wanted.
func (h *History) each(want func(blockHeader) bool, take func(blockHeader, []byte) error) error {
	r := &reader{want: want, take: take}
	for _, s := range h.sources {
		if s.file != nil {
			if err := r.file(s.file, s.start, s.end); err != nil {
				return err
			}
		}
		for _, b := range s.blocks {
			header, ok := parseBlock(b)
			if !ok {
				return errContent
			}
			if !want(header) {
				continue
			}
			if err := take(header, b[blockHeaderBytes:]); err != nil {
				return fromCaller(err)
			}
		}
	}
	return nil
}

// Close closes files and removes those that recorders spilled into; a saved history stays. It
// may be called twice.
func (h *History) Close() error {
	var errs []error
	for _, s := range h.sources {
		if s.file != nil && h.workers != nil {
			errs = append(errs, s.file.Close())
		}
	}
	for _, s := range h.segments {
		errs = append(errs, s.Discard())
	}
	h.segments, h.sources = nil, nil
	return errors.Join(errs...)
}

// reader goes through the blocks of a file.
type reader struct {
	payload []byte
	want    func(blockHeader) bool
	take    func(blockHeader, []byte) error
}

func (r *reader) file(f *os.File, start, end int64) error {
	bad := func(at int64, what string) error { return &FormatError{f.Name(), at, what} }
	var head [blockHeaderBytes]byte
	for at := start; at < end; {
		if _, err := f.ReadAt(head[:], at); err != nil {
			return readError(f, at, err)
		}
		h, ok := parseBlock(head[:])
		if !ok {
			return bad(at, whatBlock)
		}
		if r.want(h) {
			r.payload = slices.Grow(r.payload[:0], int(h.bytes))[:h.bytes]
			if _, err := f.ReadAt(r.payload, at+blockHeaderBytes); err != nil {
				return readError(f, at, err)
			}
			if err := r.take(h, r.payload); err != nil {
				if c, ok := err.(*callerError); ok {
					return c.err
				}
				return bad(at, err.Error())
			}
		}
		at += blockHeaderBytes + int64(h.bytes)
	}
	return nil
}

// readError tells a file that ends too early from one that cannot be read.
func readError(f *os.File, at int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &FormatError{f.Name(), at, whatCut}
	}
	return fmt.Errorf("history: %w", err)
}

// callerError marks an error of the callback of Each, which must come back unchanged.
type callerError struct{ err error }

func (e *callerError) Error() string { return e.err.Error() }

// fromCaller unwraps a callerError and leaves other errors.
func fromCaller(err error) error {
	if c, ok := err.(*callerError); ok {
		return c.err
	}
	return err
}

var errChecksum = errors.New(whatChecksum)

// errorsJoin is errors.Join that keeps a lone error as it is.
func errorsJoin(first, second error) error {
	if second == nil {
		return first
	}
	return errors.Join(first, second)
}
