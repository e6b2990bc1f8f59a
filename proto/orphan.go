package proto

import (
	"time"

	"drtmd/store/layout"
)

// DefaultOrphanAfter is how long one and the same lock must have been met until it can be called
// orphaned.
const DefaultOrphanAfter = 500 * time.Millisecond

// Orphan is a record that stays locked: by a machine that is gone, or by this one if the record's
// machine was out of reach when the lock was to be released. It stays so until recovery, or until
// the debt is paid (Debts); transactions that need a lock of a machine that is gone are given up
// with ReasonOrphaned.
type Orphan struct {
	Node  NodeID // of the record
	Table TableID
	Key   Key
	Owner NodeID        // that holds the lock
	Since time.Duration // the lock was first met, or could not be released; on the engine's clock
}

// Lock is a record's lock that was in the way.
type Lock struct {
	Node  NodeID // of the record
	Shard ShardID
	Table TableID
	Key   Key
	Owner NodeID
	Off   uint64 // of the entry in its machine's memory
	// Word and Version tell the lock from all others of the record: Word is the state word. A
	// protocol whose holders use a word again adds the record's version.
	Word, Version uint64
}

// Sightings remembers the locks that an engine's transactions ran into, and says which of them are
// orphaned: those that were met for After while their owner does not live. It belongs to the
// engine's worker.
type Sightings struct {
	After time.Duration
	// Lives reports whether a lock's owner lives; nil: that is unknown, and time alone decides.
	Lives func(owner NodeID) bool

	used int // places of seen that are taken
	seen [sightingSets][sightingWays]sighting
}

// sighting is a lock that was met.
type sighting struct {
	Lock
	since, last time.Duration
	verdict     verdict
}

// verdict is what is known of a lock that was met.
type verdict uint8

const (
	undecided verdict = iota // the place may be free: Word is 0 then
	alive                    // met for After, and its owner lives
	orphaned
)

const (
	sightingSetBits = 6
	sightingSets    = 1 << sightingSetBits
	sightingWays    = 4
)

// set are the places where a record's lock is remembered: any of them.
func (s *Sightings) set(node NodeID, off uint64) *[sightingWays]sighting {
	h := off/layout.EntryAlignment ^ uint64(node)<<48
	return &s.seen[h*0x9e3779b97f4a7c15>>(64-sightingSetBits)] // Fibonacci hashing
}

// idleShare of After is how long nobody has met a lock that can be forgotten. Whoever waits for one
// looks much more often.
const idleShare = 4

// Met notes that a lock was in the way, and gives the reason of the abort: ReasonOrphaned if the
// same lock was met for After and its owner does not live, else ReasonLocked. Locks that are waited
// for keep their place until that is decided, so that every wait for a machine that is gone is
// bounded however many locks stay.
func (s *Sightings) Met(l Lock, now time.Duration) Reason {
	set := s.set(l.Node, l.Off)
	var x *sighting
	for i := range set {
		y := &set[i]
		if y.Word != 0 && y.Off == l.Off && y.Node == l.Node {
			x = y
			break
		}
		free := y.Word == 0 || y.verdict != undecided || now-y.last > s.After/idleShare
		if free && (x == nil || y.last < x.last) {
			x = y
		}
	}
	if x == nil {
		return ReasonLocked
	}
	if x.Lock != l {
		if x.Word == 0 {
			s.used++
		}
		*x = sighting{Lock: l, since: now}
	}
	x.last = now
	switch {
	case now-x.since < s.After:
		return ReasonLocked
	case s.Lives != nil && s.Lives(l.Owner):
		x.verdict = alive // looked at again next time: it may die
		return ReasonLocked
	}
	x.verdict = orphaned
	return ReasonOrphaned
}

// Released forgets the lock of a record, which was found unlocked.
func (s *Sightings) Released(node NodeID, off uint64) {
	if s.used == 0 {
		return
	}
	set := s.set(node, off)
	for i := range set {
		if x := &set[i]; x.Word != 0 && x.Off == off && x.Node == node {
			*x = sighting{}
			s.used--
		}
	}
}

// Orphans appends the locks that are orphaned. held reports whether a lock is still there, as far as
// the caller can tell. A lock of another machine's record that recovery has released is named until
// a transaction finds the record unlocked, or its owner lives again.
func (s *Sightings) Orphans(to []Orphan, held func(*Lock) bool) []Orphan {
	for i := range s.seen {
		for j := range s.seen[i] {
			x := &s.seen[i][j]
			if x.verdict != orphaned || s.Lives != nil && s.Lives(x.Owner) || !held(&x.Lock) {
				continue
			}
			to = append(to, Orphan{x.Node, x.Table, x.Key, x.Owner, x.since})
		}
	}
	return to
}

// Orphans appends the records at which something is owed by the machine owner, whose they are.
func (ds *Debts) Orphans(to []Orphan, owner NodeID) []Orphan {
	ds.Each(func(d *Debt) { to = append(to, Orphan{d.Node, d.Table, d.Key, owner, d.Since}) })
	return to
}
