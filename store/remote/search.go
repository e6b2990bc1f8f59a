package remote

import (
	"errors"

	"drtmd/store/layout"
)

// Bounds of a look-up.
const (
	maxPath     = 64 // links followed
	maxRestarts = 16 // walks begun again because the chain changed, and readings of a directory
)

// Search is one look-up, as a state machine: whoever runs it reads the buckets that it names.
//
//	for s.Start(t, cache, key); !s.Done(); s.Feed(&bucket) { read s.Next() into bucket }
//
// Client and Batch do so over a conn. The zero value is done.
//
// In a table that grows the extents that are known are searched from the newest on. Absence is
// believed if the directory, read after all of them, names no other: a key has one entry at most, and
// has none before it has one in another extent. Of an ordered table that grows only the directory is read.
type Search struct {
	root   *Table // that Start was given
	table  *Table // of the extent that is read
	cache  *Cache
	key    uint64
	main   uint64      // offset of the key's main bucket
	next   uint64      // offset of the bucket to read
	via    layout.Slot // the link that led there; 0 at the main bucket
	phase  phase
	whole  bool // the walk began in memory, not in the cache
	tries  int  // walks begun
	reads  int
	depth  int // links followed by this walk
	check  int // index in path of the link to look at again
	path   [maxPath]step
	result Entry
	err    error

	known  []*Table // the extents; nil: the table does not grow
	at     int      // index in known of the one that is searched
	low    int      // and of the last one to be searched
	line   int      // of the directory, which is read
	count  int      // of extents, as the directory says
	rounds int      // lines of the directory that were read
}

// step is a link that a walk has followed.
type step struct {
	bucket uint64 // offset of the bucket that holds it
	link   layout.Slot
}

// phase of a Search.
type phase uint8

const (
	phaseDone      phase = iota
	phaseWalk            // reading the chain
	phaseVerify          // reading its links again
	phaseDirectory       // reading which extents there are
)

// Start begins to look up key in t, first in the cache, which may be nil.
func (s *Search) Start(t *Table, cache *Cache, key uint64) {
	s.root, s.table, s.cache, s.key = t, t, cache, key
	s.reads, s.result, s.err, s.known = 0, Entry{}, nil, nil
	list := t.extents.Load()
	if t.err != nil {
		if s.rounds = 0; list == nil || !errors.Is(t.err, ErrHosted) {
			s.finish(Entry{}, t.err)
			return
		}
		s.known = *list
		s.readLine(0)
		return
	}
	if list != nil {
		s.known, s.low, s.rounds = *list, 0, 0
		if s.cached() {
			return
		}
		s.at = len(s.known) - 1
		s.table = s.known[s.at]
	}
	s.begin()
}

// cached reports whether the cache has the entry, in whatever extent, and ends the look-up if so.
func (s *Search) cached() bool {
	for i := len(s.known) - 1; i >= 0 && s.cache != nil; i-- {
		t := s.known[i]
		found, slot := s.cache.lookup(t.source, t.d.BucketOffset(s.key), s.key)
		if found == cachedEntry && t.d.Entry(slot.Offset()) {
			s.table = t
			s.finish(s.entry(slot, true), nil)
			return true
		}
	}
	return false
}

// begin begins to look the key up in an extent.
func (s *Search) begin() {
	t := s.table
	s.main, s.tries = t.d.BucketOffset(s.key), 0
	if s.cache != nil {
		switch found, slot := s.cache.lookup(t.source, s.main, s.key); {
		case found == cachedEntry && t.d.Entry(slot.Offset()):
			s.finish(s.entry(slot, true), nil)
			return
		case found == cachedLink && t.d.Bucket(slot.Offset()):
			s.phase, s.whole, s.depth = phaseWalk, false, 0
			s.next, s.via = slot.Offset(), slot
			return
		}
	}
	s.restart()
}

// absent is reached where an extent has no entry of the key.
func (s *Search) absent() {
	switch {
	case s.known == nil:
		s.finish(Entry{}, ErrNotFound)
	case s.at > s.low:
		s.at--
		s.table = s.known[s.at]
		s.begin()
	case s.root.mutation == NoDirectory:
		s.finish(Entry{}, ErrNotFound)
	default:
		s.readLine(0)
	}
}

// readLine goes on with a line of the directory.
func (s *Search) readLine(i int) {
	if s.rounds++; s.rounds > maxRestarts*layout.MaxExtents {
		s.finish(Entry{}, ErrUnstable)
		return
	}
	s.phase, s.table, s.line, s.next = phaseDirectory, s.root, i, s.root.directoryAt(i)
}

// directory takes a line of the directory.
func (s *Search) directory(w *layout.ExtentWords) {
	switch n := len(s.known); {
	case s.line > 0:
		if s.root.learn(s.line, w) {
			s.line++
		}
	case w[0] == uint64(n):
		s.finish(Entry{}, s.missing())
		return
	case w[0] < uint64(n) || w[0] > layout.MaxExtents:
		s.finish(Entry{}, ErrBounds)
		return
	default:
		s.count, s.line = int(w[0]), n
	}
	if s.line < s.count {
		s.readLine(s.line)
		return
	}
	s.low = len(s.known)
	s.known = *s.root.extents.Load()
	if s.root.err != nil {
		s.finish(Entry{}, s.root.err)
		return
	}
	s.at = len(s.known) - 1
	s.table = s.known[s.at]
	s.begin()
}

// missing is why no entry is in any extent: there is none, or the table's host alone knows its trees.
func (s *Search) missing() error {
	if s.root.err != nil {
		return s.root.err
	}
	return ErrNotFound
}

// Done reports whether the look-up has ended.
func (s *Search) Done() bool { return s.phase == phaseDone }

// Next is the offset of the bucket to read, in the peer's memory region, or in that of the extent.
func (s *Search) Next() uint64 { return s.next }

// bytes to read there: a bucket, or a line of the directory.
func (s *Search) bytes() uint32 {
	if s.phase == phaseDirectory {
		return layout.LineBytes
	}
	return layout.BucketBytes
}

// Result is what the look-up ended with: the entry, or ErrNotFound, ErrUnstable or ErrBounds.
func (s *Search) Result() (Entry, error) { return s.result, s.err }

// Reads is the number of buckets read.
func (s *Search) Reads() int { return s.reads }

// Feed gives the bucket that was read at Next.
func (s *Search) Feed(b *layout.Bucket) {
	s.reads++
	switch s.phase {
	case phaseVerify:
		s.verify(b)
		return
	case phaseDirectory:
		s.directory((*layout.ExtentWords)(b[:]))
		return
	}
	if s.cache != nil {
		s.cache.fill(s.table.source, s.main, s.via, b)
	}
	lacks := s.table.mutation
	if slot, ok := b.Find(s.key); ok && (s.table.d.Entry(slot.Offset()) || lacks == NoBounds) {
		s.finish(s.entry(slot, false), nil)
		return
	}
	link, ok := b.Link()
	if !ok {
		s.end()
		return
	}
	if link.Type() != layout.Header && lacks != TornLink ||
		!s.table.d.Bucket(link.Offset()) && lacks != NoBounds || s.depth == maxPath {
		s.restart() // torn, or not a bucket of this table
		return
	}
	s.path[s.depth] = step{s.next, link}
	s.depth++
	s.next, s.via = link.Offset(), link
}

// end is reached where a chain ends without the key.
func (s *Search) end() {
	switch {
	case !s.whole && s.table.mutation != CachedAbsence:
		s.restart()
	case s.depth == 0 || s.table.mutation == NoVerify || !s.whole:
		s.absent()
	default:
		s.phase, s.check = phaseVerify, 0
		s.next = s.path[0].bucket
	}
}

// verify looks whether a link that was followed is still there.
func (s *Search) verify(b *layout.Bucket) {
	if slot, ok := b.Find(s.key); ok && s.table.d.Entry(slot.Offset()) {
		s.finish(s.entry(slot, false), nil)
		return
	}
	if b.Slot(layout.LinkSlot) != s.path[s.check].link {
		s.restart()
		return
	}
	if s.check++; s.check == s.depth {
		s.absent()
		return
	}
	s.next = s.path[s.check].bucket
}

// restart begins a walk in memory.
func (s *Search) restart() {
	if s.tries++; s.tries > maxRestarts {
		s.finish(Entry{}, ErrUnstable)
		return
	}
	s.phase, s.whole, s.depth = phaseWalk, true, 0
	s.next, s.via = s.main, 0
}

func (s *Search) finish(e Entry, err error) { s.phase, s.result, s.err = phaseDone, e, err }

func (s *Search) entry(slot layout.Slot, cached bool) Entry {
	t := s.table
	return Entry{Addr: t.Addr(slot.Offset()), RKey: t.rkey, Lossy: slot.Lossy(), Cached: cached,
		Off: uint64(layout.MakePlace(t.extent, int(slot.Offset())))}
}
