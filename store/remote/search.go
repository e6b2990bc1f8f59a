package remote

import "drtmd/store/layout"

// Bounds of a look-up.
const (
	maxPath     = 64 // links followed
	maxRestarts = 16 // walks begun again because the chain changed
)

// Search is one look-up, as a state machine: whoever runs it reads the buckets that it names.
//
//	for s.Start(t, cache, key); !s.Done(); s.Feed(&bucket) { read s.Next() into bucket }
//
// Client and Batch do so over a conn. The zero value is done.
type Search struct {
	table  *Table
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
}

// step is a link that a walk has followed.
type step struct {
	bucket uint64 // offset of the bucket that holds it
	link   layout.Slot
}

// phase of a Search.
type phase uint8

const (
	phaseDone   phase = iota
	phaseWalk         // reading the chain
	phaseVerify       // reading its links again
)

// Start begins to look up key in t, first in the cache, which may be nil.
func (s *Search) Start(t *Table, cache *Cache, key uint64) {
	s.table, s.cache, s.key = t, cache, key
	s.main = t.d.BucketOffset(key)
	s.reads, s.tries, s.result, s.err = 0, 0, Entry{}, nil
	if t.err != nil {
		s.finish(Entry{}, t.err)
		return
	}
	if cache != nil {
		switch found, slot := cache.lookup(t.source, s.main, key); {
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

// Done reports whether the look-up has ended.
func (s *Search) Done() bool { return s.phase == phaseDone }

// Next is the offset of the bucket to read, in the peer's memory region.
func (s *Search) Next() uint64 { return s.next }

// Result is what the look-up ended with: the entry, or ErrNotFound, ErrUnstable or ErrBounds.
func (s *Search) Result() (Entry, error) { return s.result, s.err }

// Reads is the number of buckets read.
func (s *Search) Reads() int { return s.reads }

// Feed gives the bucket that was read at Next.
func (s *Search) Feed(b *layout.Bucket) {
	s.reads++
	if s.phase == phaseVerify {
		s.verify(b)
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
		s.finish(Entry{}, ErrNotFound)
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
		s.finish(Entry{}, ErrNotFound)
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
	return Entry{Addr: s.table.Addr(slot.Offset()), Off: slot.Offset(), Lossy: slot.Lossy(),
		Cached: cached}
}
