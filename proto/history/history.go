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
	spilled int64    // bytes of spill
	memory  [][]byte // the younger blocks
	total   counts
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

// History is all that was recorded of a run.
type History struct {
	header   header
	total    counts
	segments []*Segment
	file     *os.File // or a file, from start to end
	start    int64    // of its first block
	end      int64    // of its last block
}

// New joins the segments of a run, whose owner the history becomes. On an error they stay the
// caller's.
func New(names Names, segments ...*Segment) (*History, error) {
	h := &History{header: header{Names: names}, segments: slices.Clone(segments)}
	slices.SortStableFunc(h.segments,
		func(a, b *Segment) int { return cmp.Compare(a.worker, b.worker) })
	for i, s := range h.segments {
		if i > 0 && h.segments[i-1].worker == s.worker {
			return nil, fmt.Errorf("%w: worker %d recorded two; give a restarted worker a new number",
				ErrMerge, s.worker)
		}
		if err := h.header.addNode(s.node); err != nil {
			return nil, err
		}
		h.total.blocks += s.total.blocks
		h.total.txns += s.total.txns
		h.total.ops += s.total.ops
	}
	return h, nil
}

// Nodes gives every node with its clock, by number.
func (h *History) Nodes() []Node { return slices.Clone(h.header.Nodes) }

// Names gives the words for tables and types of transactions.
func (h *History) Names() Names { return h.header.Names }

// Txns is how many transactions there are.
func (h *History) Txns() uint64 { return h.total.txns }

// Ops is how many operations they have.
func (h *History) Ops() uint64 { return h.total.ops }

// Each calls fn with every transaction: by worker, and for each worker in the order of their
// ends. The record is fn's during the call only. An error of fn ends it and is returned as it is;
// a damaged file gives a *FormatError.
func (h *History) Each(fn func(*Record) error) error {
	r := &reader{fn: fn}
	if h.file != nil {
		return r.file(h.file, h.start, h.end)
	}
	for _, s := range h.segments {
		if s.spill != nil {
			if err := r.file(s.spill, 0, s.spilled); err != nil {
				return err
			}
		}
		for _, b := range s.memory {
			header, ok := parseBlock(b)
			if !ok {
				return errContent
			}
			if err := eachTxn(header, b[blockHeaderBytes:], &r.record, fn); err != nil {
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
	for _, s := range h.segments {
		errs = append(errs, s.Discard())
	}
	h.segments = nil
	if h.file != nil {
		errs = append(errs, h.file.Close())
		h.file = nil
	}
	return errors.Join(errs...)
}

// reader goes through the blocks of a file.
type reader struct {
	payload []byte
	record  Record
	fn      func(*Record) error
}

func (r *reader) file(f *os.File, start, end int64) error {
	bad := func(at int64, what string) error { return &FormatError{f.Name(), at, what} }
	var head [blockHeaderBytes]byte
	in := io.NewSectionReader(f, start, end-start)
	for at := start; at < end; {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return readError(f, at, err)
		}
		h, ok := parseBlock(head[:])
		if !ok {
			return bad(at, whatBlock)
		}
		r.payload = slices.Grow(r.payload[:0], int(h.bytes))[:h.bytes]
		if _, err := io.ReadFull(in, r.payload); err != nil {
			return readError(f, at, err)
		}
		if err := eachTxn(h, r.payload, &r.record, r.fn); err != nil {
			if c, ok := err.(*callerError); ok {
				return c.err
			}
			return bad(at, err.Error())
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
