package proto

import (
	"testing"
	"time"

	"drtmd/store/layout"
)

const testAfter = 100 * time.Millisecond

// lockAt is a lock of node 2 on an entry of node 1.
func lockAt(off uint64) Lock {
	return Lock{Node: 1, Table: 1, Key: Key(off), Owner: 2, Off: off, Word: off<<9 | 2<<1 | 1}
}

// sameSet gives n locks that share their places.
func sameSet(s *Sightings, n int) (all []Lock) {
	for off := uint64(0); len(all) < n; off += layout.EntryAlignment {
		if s.set(1, off) == s.set(1, 0) {
			all = append(all, lockAt(off))
		}
	}
	return all
}

// meetAll meets locks again and again until each is called orphaned, and reports how many still are
// not after a time.
func meetAll(s *Sightings, waiting []Lock, from, most time.Duration) int {
	for now := from; len(waiting) > 0 && now < from+most; {
		var still []Lock
		for _, l := range waiting {
			now += 30 * time.Microsecond
			if s.Met(l, now) != ReasonOrphaned {
				still = append(still, l)
			}
		}
		waiting = still
	}
	return len(waiting)
}

// TestEveryLockThatStaysIsCalledOrphaned: also if many more stay than fit into the places where
// they are remembered, all of them waited for at the same time.
func TestEveryLockThatStaysIsCalledOrphaned(t *testing.T) {
	s := &Sightings{After: testAfter}
	const locks = 8 * sightingWays
	const most = 2 * locks / sightingWays * testAfter
	if n := meetAll(s, sameSet(s, locks), time.Second, most); n > 0 {
		t.Fatalf("%d of %d locks are waited for after %v", n, locks, most)
	}
}

// TestALockWhoseHolderLivesIsNoOrphan, however long it is met, until the holder dies: then at once.
func TestALockWhoseHolderLivesIsNoOrphan(t *testing.T) {
	lives := true
	s := &Sightings{After: testAfter, Lives: func(owner NodeID) bool { return owner != 2 || lives }}
	l, now := lockAt(64), time.Second
	if n := meetAll(s, []Lock{l}, now, 10*testAfter); n != 1 {
		t.Fatal("the lock of a holder that lives was called orphaned")
	}
	held := func(*Lock) bool { return true }
	if list := s.Orphans(nil, held); len(list) != 0 {
		t.Errorf("orphans are %+v, want none", list)
	}
	lives = false
	if r := s.Met(l, now+10*testAfter); r != ReasonOrphaned {
		t.Errorf("after the holder's death the lock is %v, want %v", r, ReasonOrphaned)
	}
	list := s.Orphans(nil, held)
	if len(list) != 1 || list[0].Key != l.Key || list[0].Owner != 2 || list[0].Node != 1 ||
		list[0].Since > now+testAfter {
		t.Errorf("orphans are %+v, want the lock %+v", list, l)
	}
	if list := s.Orphans(nil, func(*Lock) bool { return false }); len(list) != 0 {
		t.Errorf("orphans are %+v although the lock is not there any more", list)
	}
	lives = true
	if list := s.Orphans(nil, held); len(list) != 0 {
		t.Errorf("orphans are %+v although their owner lives again", list)
	}
}

// TestLocksOfTheLivingMakeRoomForThoseOfTheDead: many records are locked by holders that live and
// are slow, and one by a machine that is gone.
func TestLocksOfTheLivingMakeRoomForThoseOfTheDead(t *testing.T) {
	s := &Sightings{After: testAfter, Lives: func(owner NodeID) bool { return owner != 3 }}
	all := sameSet(s, 2*sightingWays)
	dead := &all[len(all)-1]
	dead.Owner = 3
	if n := meetAll(s, all, time.Second, 10*testAfter); n != len(all)-1 {
		t.Errorf("%d of %d locks are waited for, want all but the one of the dead", n, len(all))
	}
}

// TestAnotherLockIsMetAnew: a sighting ends when the record is found unlocked, locked by another
// word, or at another version.
func TestAnotherLockIsMetAnew(t *testing.T) {
	for _, x := range []struct {
		name  string
		after func(*Sightings, *Lock)
	}{
		{"unlocked in between", func(s *Sightings, l *Lock) { s.Released(l.Node, l.Off) }},
		{"another word", func(_ *Sightings, l *Lock) { l.Word += 1 << 9 }},
		{"another version", func(_ *Sightings, l *Lock) { l.Version++ }},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := &Sightings{After: testAfter}
			l := lockAt(64)
			s.Met(l, time.Second)
			x.after(s, &l)
			if r := s.Met(l, time.Second+2*testAfter); r != ReasonLocked {
				t.Errorf("the lock is %v at its first sight", r)
			}
			if r := s.Met(l, time.Second+4*testAfter); r != ReasonOrphaned {
				t.Errorf("the lock is %v at its second sight", r)
			}
			s.Released(l.Node, l.Off)
			if s.used != 0 {
				t.Errorf("%d places are taken, want none", s.used)
			}
		})
	}
}

// TestSightingsDoNotAllocate: a lock is met on the hot path.
func TestSightingsDoNotAllocate(t *testing.T) {
	s := &Sightings{After: testAfter, Lives: func(NodeID) bool { return true }}
	now := time.Second
	if n := testing.AllocsPerRun(100, func() {
		now += testAfter
		s.Met(lockAt(64), now)
		s.Released(1, 128)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
