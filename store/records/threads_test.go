package records

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
	"drtmd/store/words"
	"drtmd/verbs/lineword"
)

// TestWorkersShareATable has threads insert, delete and give back the same keys, each with its record locked, while the
// index grows from the fewest bins and others look keys up. Versions of a key grow whoever makes them.
func TestWorkersShareATable(t *testing.T) {
	const workers, keys = 4, 200
	rounds := 3000
	if raceEnabled {
		rounds /= 10
	}
	for _, worded := range []bool{true, false} {
		t.Run(fmt.Sprintf("worded=%t", worded), func(t *testing.T) {
			c := Config{ID: 1, Name: "threads", ValueBytes: 8, Entries: keys + workers, Keys: 1}
			memory := tabletest.Memory(c.Bytes(), worded)
			table, err := Format(c, memory, 0)
			if err != nil {
				t.Fatal(err)
			}
			highest := make([]atomic.Uint64, keys) // version of each key, written by who has it locked
			var all sync.WaitGroup
			for w := range uint64(workers) {
				all.Go(func() {
					x, err := table.View(htm.NewMemory(memory.Bytes, memory.Words, uint16(w+1), nil))
					if err != nil {
						t.Error(err)
						return
					}
					random := rand.New(rand.NewPCG(w, 1))
					for range rounds {
						key := random.Uint64N(keys)
						if err := toggle(x, key, 2*w+1, &highest[key]); err != nil {
							t.Errorf("worker %d: %v", w, err)
							return
						}
					}
				})
			}
			all.Wait()
			if err := checkTable(table); err != nil {
				t.Error(err)
			}
			for key := range highest {
				v := layout.Version(highest[key].Load())
				off, found := table.Find(uint64(key))
				if found != v.Live() || found && table.version(off) != v {
					t.Errorf("key %d: found %v, and its last version is %v", key, found, v)
				}
			}
		})
	}
}

// toggle inserts a key, or deletes it and gives its record back, unless somebody else has it locked.
func toggle(x *Table, key, word uint64, highest *atomic.Uint64) error {
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	off, _, ok, err := x.EnsureIn(r, key, 0)
	if !ok || err != nil {
		return fmt.Errorf("key %d is not ensured: %v, %w", key, ok, err)
	}
	r.Commit(tabletest.Lonely{})
	if !lock(x, off, key, word) {
		return nil
	}
	v := x.version(off)
	if last := layout.Version(highest.Load()); v.Live() != last.Live() || v < last {
		return fmt.Errorf("key %d is at %v, and was at %v before", key, v, last)
	}
	if !v.Live() {
		v = v.Inserted()
		highest.Store(uint64(v))
		setVersion(x, off, v, 0)
		return nil
	}
	v = v.Deleted()
	highest.Store(uint64(v))
	setVersion(x, off, v, word)
	r.Begin()
	if ok, err = x.ReclaimIn(r, key, word); !ok || err != nil {
		return fmt.Errorf("key %d is not given back: %v, %w", key, ok, err)
	}
	r.Commit(tabletest.Lonely{})
	if !x.lineWords {
		atomic.StoreUint64(x.at64(off+layout.StateOffset), 0)
	}
	return nil
}

// lock locks a record as the CPU does (package occ); false if it is another's, or not the key's any more.
func lock(x *Table, off int, key, word uint64) bool {
	state := x.at64(off + layout.StateOffset)
	if !x.lineWords {
		if !atomic.CompareAndSwapUint64(state, 0, word) {
			return false
		}
		if _, bound := x.bound(off, key); !bound {
			atomic.StoreUint64(state, 0)
			return false
		}
		return true
	}
	p, w := words.LockLine(x.m, off)
	if layout.HeadOf(x.m.Bytes[off:off+layout.HeaderBytes]).Match(key) == layout.Stale || *state != 0 {
		lineword.Restore(p, w)
		return false
	}
	lineword.StoreUnlock(state, word, p, w)
	return true
}

// setVersion writes the version of a record that the caller has locked, and its state word.
func setVersion(x *Table, off int, v layout.Version, state uint64) {
	p, w := x.lockLine(off)
	atomic.StoreUint64(x.at64(off+layout.VersionOffset), uint64(v))
	if x.lineWords {
		x.unlockLine(off, state, p, w)
	} else {
		atomic.StoreUint64(x.at64(off+layout.StateOffset), state)
	}
}

// TestARecordIsMadeOnce: while a worker makes the record of a key, no other one does. With UnlockedStripe two are made.
func TestARecordIsMadeOnce(t *testing.T) {
	const key = 5
	for _, m := range []Mutation{0, UnlockedStripe} {
		c := Config{ID: 1, Name: "once", ValueBytes: 8, Entries: 16, Mutation: m}
		table := newTable(t, c)
		other, err := table.View(htm.NewMemory(table.m.Bytes, table.m.Words, 2, nil))
		if err != nil {
			t.Fatal(err)
		}
		table.config.step = func() {
			l := &table.index.stripes[layout.Hash(key)%stripes].Mutex
			if l.TryLock() { // another worker would not wait here
				l.Unlock()
				if _, _, err := ensured(t, other, key); err != nil {
					t.Error(err)
				}
			}
		}
		if _, _, err := ensured(t, table, key); err != nil {
			t.Fatal(err)
		}
		if err := checkTable(table); (err != nil) != (m == UnlockedStripe) {
			t.Errorf("mutation %v: %v", m, err)
		}
	}
}

// TestARestartFindsWhatALifeHasLeft: it was killed between two steps of making a record or of giving one back, so that
// two records of a key are bound, or one that the index did not lead to.
func TestARestartFindsWhatALifeHasLeft(t *testing.T) {
	const key = 5
	for _, x := range []struct {
		name  string
		leave func(table *Table) (keeps layout.Version)
	}{
		{"a new record that was not in the index yet, of a key that has a value", func(table *Table) layout.Version {
			_ = table.Load(key, tabletest.Value(8, 1))
			table.bind(table.take(), key, layout.Fresh(0), 0)
			return layout.FirstVersion
		}},
		{"a record that was being given back, and the one that another worker has made since", func(table *Table) layout.Version {
			_ = table.Load(key, tabletest.Value(8, 1))
			off, _ := table.Find(key)
			table.setWord(off+layout.VersionOffset, uint64(layout.FirstVersion.Deleted()))
			table.setWord(off+layout.StateOffset, 9)
			table.raise(layout.FirstVersion.Deleted().Incarnation())
			table.index.keys.Delete(key)
			_, v, _, _ := table.make(key, 0)
			at, _ := table.Find(key)
			table.setWord(at+layout.VersionOffset, uint64(v.Inserted()))
			return v.Inserted()
		}},
		{"a new record that was not in the index yet", func(table *Table) layout.Version {
			table.bind(table.take(), key, layout.Fresh(4), 0)
			return layout.Fresh(4)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := Config{ID: 1, Name: "life", ValueBytes: 8, Entries: 64}
			table := newTable(t, c)
			want := x.leave(table)
			table.raise(want.Incarnation() &^ 1)
			after, err := Attach(c, table.m, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkTable(after); err != nil {
				t.Fatal(err)
			}
			if off, found := after.Find(key); !found || after.version(off) != want {
				t.Errorf("found %v, want version %v", found, want)
			}
			for k := range uint64(c.Entries - 1) { // no place is lost
				if err := after.Load(1000+k, tabletest.Value(8, 0)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
