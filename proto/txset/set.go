package txset

import (
	"encoding/binary"
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/store/layout"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// MaxRecords of one attempt.
const MaxRecords = 1024

// ErrTooManyRecords: a transaction touches more than MaxRecords records.
var ErrTooManyRecords = errors.New("transaction of more than " + fmt.Sprint(MaxRecords) +
	" records: split it")

// Config is what the sets of an engine share.
type Config struct {
	Specs     []proto.TableSpec // table t is Specs[t-1]
	Records   []layout.Record   // how its records lie in memory: Records[t-1]
	Placement proto.Placement
	Nodes     int
	// Declared: an access that the Decl does not have, or not for that, is refused.
	Declared bool
	// AccessPs is the modelled CPU time of each access by the program, in picoseconds.
	AccessPs int64
	// Recorder takes the history, with times of Clock; nil: nobody does.
	Recorder *history.Recorder
	Clock    verbs.Clock
	// SpentAllowed is a mutation: a key whose incarnations are used up is inserted again.
	SpentAllowed bool
}

// Loader is the protocol behind a Set.
type Loader interface {
	// Load finds and protects the records from index from to before index to that are not loaded, and
	// has each accept what it found. The error ends the attempt.
	Load(from, to int) error
}

// Completer is the Loader of a protocol that loads records in part (Record.Lines).
type Completer[Own any] interface {
	// Complete loads what is missing of some bytes of the record's value, of the same version. The error ends the
	// attempt.
	Complete(r *Record[Own], offset, size int) error
}

// Record is a record of an attempt. Own is the protocol's part of it.
type Record[Own any] struct {
	Key   proto.Key
	Table proto.TableID
	Mode  proto.Mode // of the declaration, or of the access that discovered it
	Node  proto.NodeID
	At    proto.Location // Node is its Primary

	Loaded bool // the fields that follow, and Value, say what there is
	Was    bool // there was a value when it was loaded
	Is     bool // there is one as the transaction sees it
	Dirty  bool // written, inserted or deleted by the program
	shown  bool // the program has seen it: it is in the history
	apart  bool // Value is no part of Image
	added  bool // delta was added to the value, which the program has neither read nor written
	delta  int64
	// Of Value, what was written, if that is not all: from and to are a range that has all of it.
	partly   bool
	from, to int

	Version layout.Version // as loaded
	Value   []byte         // of the table's size; the transaction's view
	Image   []byte         // the record as it lies in tables, in the memory of Buffers
	SGE     verbs.SGE      // of Image
	// Lines are those of Image that the protocol loads before the program sees the record, and those that it has
	// loaded after: bit i is line i, from the beginning of Image on. 0: all of them.
	Lines  uint64
	layout *layout.Record

	Own Own
}

// Accept takes what lies in Image, or in Value if that is a part of it, for the record's, at a version.
func (r *Record[Own]) Accept(v layout.Version, live bool) {
	if r.apart && live {
		r.Fetch()
	}
	r.Take(v, live)
}

// Take is Accept of what lies in Value, wherever that is.
func (r *Record[Own]) Take(v layout.Version, live bool) {
	r.Loaded, r.Version, r.Was, r.Is = true, v, live, live
}

// WholeLines is Image up to the end of its last line: room for a copy of the lines in which the record lies. Value is a part
// of Image.
func (r *Record[Own]) WholeLines() []byte {
	return r.Image[:(len(r.Image)+layout.LineBytes-1)&^(layout.LineBytes-1)]
}

// Apart reports whether Value is no part of Image.
func (r *Record[Own]) Apart() bool { return r.apart }

// Fetch brings the value in Image into Value, and gives that.
func (r *Record[Own]) Fetch() []byte {
	if r.apart {
		r.layout.Value(r.Image, r.Value)
	}
	return r.Value
}

// Seal makes Image the record with Value at a version, for tables.
func (r *Record[Own]) Seal(v layout.Version) {
	if r.apart {
		r.layout.Put(r.Image, v, r.Value)
		return
	}
	binary.LittleEndian.PutUint64(r.Image[layout.VersionOffset:], uint64(v))
}

// Parts are what an update writes of the image: see layout.Layout.Update.
func (r *Record[Own]) Parts() (version, value layout.Span) {
	return r.layout.VersionPart, r.layout.ValuePart
}

// SealAt is where Image has its seal (layout.Sealed); 0: it has none.
func (r *Record[Own]) SealAt() int { return r.layout.Seal }

// Proved reports whether Image, which was READ without a lock, is of one version by itself, if a READ is
// atomic per line (layout.Layout.Whole), or, if it has a seal, in words.
func (r *Record[Own]) Proved() bool { return r.layout.Whole(r.Image) }

// Absent takes the record for one that has no entry.
func (r *Record[Own]) Absent() { r.Accept(0, false) }

// Changes reports whether the transaction changes the record: one that it inserts and deletes again
// it does not.
func (r *Record[Own]) Changes() bool { return r.Dirty && (r.Was || r.Is) }

// Written is the part of Value that the transaction has written: all, unless WriteAt alone did. It is never empty.
func (r *Record[Own]) Written() (from, to int) {
	if r.partly && r.from < r.to {
		return r.from, r.to
	}
	return 0, len(r.Value)
}

// wrote notes that the bytes from one offset to another were written.
func (r *Record[Own]) wrote(from, to int) {
	switch {
	case !r.Dirty:
		r.partly, r.from, r.to = true, from, to
	case r.partly:
		r.from, r.to = min(r.from, from), max(r.to, to)
	}
	r.Dirty = true
}

// inserted reports whether the transaction has inserted the record itself.
func (r *Record[Own]) inserted() bool { return r.Is && !r.Was }

// Next is the version that the transaction gives a record that it changes.
func (r *Record[Own]) Next() layout.Version {
	switch {
	case !r.Was:
		return r.Version.Inserted()
	case !r.Is:
		return r.Version.Deleted()
	}
	return r.Version.Written()
}

// Set is the records of an attempt. It is used again for others.
type Set[Own any] struct {
	Records []Record[Own]
	// Err is why the attempt is over though it was not ended; operations repeat it.
	Err error
	F   *fiber.Fiber // that runs the attempt; nil: none
	// Ranges are those of its scans. Stamp is that of the scan that runs, which the Scanner sets with its first
	// keys; 0: it has not.
	Ranges []Range
	Stamp  uint64

	config  *Config
	loader  Loader
	parts   Completer[Own] // loader, or nil
	buffers *Buffers
	cursor  int
	scan    scan // that runs
	keys    [chunkKeys]proto.Key
	note    *history.Txn // nil unless a history is taken
	noted   bool         // it has the writes
	// chain is that of which the attempt is a piece; nil: none. Its note, or nil, and how much of that is of pieces
	// that have committed.
	chain     *proto.Link
	chainNote *history.Txn
	chainLen  int
}

// Init prepares a set for its first attempt.
func (s *Set[Own]) Init(c *Config, b *Buffers, l Loader) {
	s.config, s.buffers, s.loader = c, b, l
	s.parts, _ = l.(Completer[Own])
}

// Open begins an attempt of a transaction that d describes.
func (s *Set[Own]) Open(f *fiber.Fiber, d *proto.Decl) {
	s.F, s.Err, s.cursor, s.Records, s.Ranges = f, nil, 0, s.Records[:0], s.Ranges[:0]
	s.chain = nil
	if s.config.Recorder != nil {
		s.beginNote(d.Kind)
	}
}

// OpenPiece is Open of an attempt of the piece at which a chain is. The set is the chain's, from its first piece to
// EndChain.
func (s *Set[Own]) OpenPiece(f *fiber.Fiber, d *proto.Decl, l *proto.Link) {
	s.F, s.Err, s.cursor, s.Records, s.Ranges = f, nil, 0, s.Records[:0], s.Ranges[:0]
	s.chain = l
	if s.config.Recorder != nil {
		s.beginPieceNote(d.Kind)
	}
}

// Declare adds the records of the declaration.
func (s *Set[Own]) Declare(d *proto.Decl) error {
	for i := range d.Accesses {
		a := &d.Accesses[i]
		if d.ReadOnly && a.Mode != proto.ModeRead && s.config.Declared {
			return proto.Undeclared(a.Table, a.Key, a.Mode, proto.ModeRead)
		}
		if !s.config.Declared && s.Find(a.Table, a.Key) != nil {
			continue
		}
		if err := s.Add(a.Table, a.Key, a.Mode); err != nil {
			return err
		}
	}
	s.cursor = 0
	return nil
}

// Add adds a record that the set does not have.
func (s *Set[Own]) Add(t proto.TableID, k proto.Key, m proto.Mode) error {
	c, n := s.config, len(s.Records)
	if uint(t)-1 >= uint(len(c.Specs)) {
		return proto.UnknownTable(t, k, len(c.Specs))
	}
	at, err := proto.Locate(c.Placement, t, k, c.Nodes)
	if err != nil {
		return err
	}
	if n == MaxRecords {
		return ErrTooManyRecords
	}
	if n == cap(s.Records) {
		s.Records = append(s.Records, Record[Own]{})
	} else {
		s.Records = s.Records[:n+1]
	}
	l := &c.Records[t-1]
	room, sge, err := s.buffers.At(n, l.Bytes+l.Room)
	if err != nil {
		s.Records = s.Records[:n]
		return err
	}
	sge.Length = uint32(l.Bytes)
	valueEnd := layout.ValueOffset + l.ValueBytes
	value, end := room[layout.ValueOffset:valueEnd:valueEnd], cap(room)
	if l.Room > 0 {
		value, end = room[l.Bytes:], l.Bytes
	}
	r := &s.Records[n] // field by field: a literal is made aside, and its copy waits for all of it
	*r = Record[Own]{}
	r.Key, r.Table, r.Mode, r.Node, r.At = k, t, m, at.Primary, at
	r.Image, r.SGE, r.Value, r.layout, r.apart = room[:l.Bytes:end], sge, value, l, l.Room > 0
	return nil
}

// Find is a record of the set; nil if it has none. Programs mostly follow their declaration, or write what they have
// just read: the search begins with the record found last, and goes on behind it.
func (s *Set[Own]) Find(t proto.TableID, k proto.Key) *Record[Own] {
	if i := s.index(t, k); i >= 0 {
		return &s.Records[i]
	}
	return nil
}

func (s *Set[Own]) index(t proto.TableID, k proto.Key) int {
	n := len(s.Records)
	if i := s.cursor - 1; i >= 0 && i < n {
		if r := &s.Records[i]; r.Key == k && r.Table == t {
			return i
		}
	}
	for i := s.cursor; i < n; i++ {
		if r := &s.Records[i]; r.Key == k && r.Table == t {
			s.cursor = i + 1
			return i
		}
	}
	for i := range min(s.cursor, n) {
		if r := &s.Records[i]; r.Key == k && r.Table == t {
			s.cursor = i + 1
			return i
		}
	}
	return -1
}

// Sort puts the records into the order <table, key>.
func (s *Set[Own]) Sort() {
	a := s.Records
	for i := 1; i < len(a); i++ {
		for j := i; j > 0 && less(&a[j], &a[j-1]); j-- {
			a[j], a[j-1] = a[j-1], a[j]
		}
	}
	s.cursor = 0
}

func less[Own any](a, b *Record[Own]) bool {
	return a.Table < b.Table || a.Table == b.Table && a.Key < b.Key
}
