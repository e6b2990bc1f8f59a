package store

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

func bytesAt(b []byte, off int) unsafe.Pointer { return unsafe.Pointer(&b[off]) }

// TestWorkersWithoutLineWordsShareATable has several threads insert, delete and give back keys of
// their own in one small table on memory without line words, where regions do not conflict.
func TestWorkersWithoutLineWordsShareATable(t *testing.T) {
	const workers, keys = 4, 16
	rounds := 5000
	if raceEnabled {
		rounds /= 10
	}
	c := Config{ID: 1, Name: "hca", ValueBytes: 8, MainBuckets: 2,
		IndirectBuckets: workers * keys, Entries: workers * keys}
	memory := htm.NewMemory(tabletest.Aligned(c.Bytes()), nil, 0, nil)
	if _, err := Format(c, memory, 0); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range uint64(workers) {
		all.Go(func() {
			table, err := Attach(c, htm.NewMemory(memory.Bytes, nil, 0, nil), 0)
			if err != nil {
				t.Error(err)
				return
			}
			x := &hcaWorker{table: table, region: htm.NewRegion(htm.Config{}),
				live: map[uint64]bool{}, highest: map[uint64]layout.Version{}}
			random := rand.New(rand.NewPCG(w, 1))
			for i := range rounds {
				if err := x.toggle(random.Uint64N(keys)*workers + w); err != nil {
					t.Errorf("worker %d, round %d: %v", w, i, err)
					return
				}
			}
			for k := range x.live {
				if x.live[k] {
					if err := x.toggle(k); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	table, err := Attach(c, memory, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkTable(table); err != nil {
		t.Fatal(err)
	}
	if o := table.Occupancy(); o.Bound != 0 || o.Chained != 0 || o.MainTaken != 0 {
		t.Errorf("in the end there are %s", o)
	}
}

// hcaTries bounds the regions that find the table's lock busy, one after the other.
const hcaTries = 10_000

type hcaWorker struct {
	table   *Table
	region  *htm.Region
	live    map[uint64]bool
	highest map[uint64]layout.Version
}

// toggle inserts a key or deletes it and gives its entry back.
func (x *hcaWorker) toggle(key uint64) error {
	off, v, ok, err := 0, layout.Version(0), false, error(nil)
	for range hcaTries {
		x.region.Begin()
		if off, v, ok, err = x.table.EnsureIn(x.region, key, 0); ok || err != nil {
			break
		}
		x.region.Commit(tabletest.Lonely{}) // the lock was busy
	}
	if err != nil {
		return err
	}
	if !ok || v.Live() != x.live[key] || v < x.highest[key] {
		return fmt.Errorf("key %d at %s after %s; region runs %v", key, v, x.highest[key], ok)
	}
	if x.live[key] {
		v = v.Deleted()
	} else {
		v = v.Inserted()
	}
	x.region.Store64(x.table.m, x.table.VersionOffset(off), uint64(v))
	if !x.region.Commit(tabletest.Lonely{}) {
		return fmt.Errorf("key %d: no commit", key)
	}
	x.highest[key], x.live[key] = v, v.Live()
	if v.Live() {
		return nil
	}
	for range hcaTries {
		x.region.Begin()
		if ok, err = x.table.ReclaimIn(x.region, key, 0); ok || err != nil {
			break
		}
		x.region.Commit(tabletest.Lonely{})
	}
	if !ok || err != nil || !x.region.Commit(tabletest.Lonely{}) {
		return fmt.Errorf("key %d is not given back: %v, %w", key, ok, err)
	}
	return nil
}
