package btree

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

// operation on a set of up to 64 keys, for porcupine.
type operation struct {
	kind       uint8 // of the constants below
	key, other uint64
}

const (
	opInsert = iota
	opDelete
	opFind
	opScan
	opKinds
)

// setModel is a sorted set: a bit per key. An output is whether the key was there, or the keys of a range.
var setModel = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		s, o := state.(uint64), input.(operation)
		bit := uint64(1) << o.key
		switch o.kind {
		case opInsert:
			return output.(uint64) == s&bit, s | bit
		case opDelete:
			return output.(uint64) == s&bit, s &^ bit
		case opFind:
			return output.(uint64) == s&bit, s
		}
		low, high := min(o.key, o.other), max(o.key, o.other)
		mask := (uint64(1)<<(high-low+1) - 1) << low
		return output.(uint64) == s&mask, s
	},
}

const setKeys = 60

// TestThreadsSeeOneOrder has several threads insert, delete, look for and scan few keys, so that leaves are
// split and merged under each other's hands, and lets porcupine find an order that explains what they saw.
func TestThreadsSeeOneOrder(t *testing.T) {
	const threads = 4
	rounds, operations := 30, 60
	if raceEnabled || testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		c := For(1, "t", 8, setKeys)
		memory := tabletest.Memory(c.Bytes(), true)
		if _, err := Format(c, memory, 0); err != nil {
			t.Fatal(err)
		}
		var all []func(do func(any, func() (any, error)) bool)
		for i := range threads {
			table, err := Attach(c, htm.NewMemory(memory.Bytes, memory.Words, uint16(i+1), nil), 0)
			if err != nil {
				t.Fatal(err)
			}
			x := &setWorker{table: table, region: htm.NewRegion(htm.Config{})}
			random := rand.New(rand.NewPCG(uint64(round), uint64(i)))
			all = append(all, func(do func(any, func() (any, error)) bool) {
				for range operations {
					o := operation{kind: uint8(random.IntN(opKinds)), key: random.Uint64N(setKeys),
						other: random.Uint64N(setKeys)}
					if !do(o, func() (any, error) { return x.run(o) }) {
						return
					}
				}
			})
		}
		tabletest.OneOrder(t, round, setModel, all...)
		table, err := Attach(c, memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkTable(table); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// setWorker runs operations as regions, each begun again until it commits.
type setWorker struct {
	table  *Table
	region *htm.Region
}

const setTries = 100_000

func (x *setWorker) run(o operation) (out uint64, err error) {
	for range setTries {
		x.region.Begin()
		out, ok, err := x.try(o)
		if err != nil {
			return 0, err
		}
		if x.region.Commit(nil) && ok {
			return out, nil
		}
		if code, n := x.region.Aborted(); code != htm.Conflict {
			return 0, fmt.Errorf("%+v: aborted by %v %d", o, code, n)
		}
		runtime.Gosched()
	}
	return 0, fmt.Errorf("%+v: no commit", o)
}

func (x *setWorker) try(o operation) (out uint64, ok bool, err error) {
	switch o.kind {
	case opInsert:
		off, v, ok, err := x.table.EnsureIn(x.region, o.key, 0)
		if !ok || err != nil || v.Live() {
			return 1 << o.key, ok, err
		}
		return 0, x.region.Store64(x.table.m, off+layout.VersionOffset, uint64(v.Inserted())), nil
	case opScan:
		live := true
		ok = x.table.Scan(x.region, o.key, o.other, func(key uint64, off int) bool {
			if live, ok = x.live(off); live && ok {
				out |= 1 << key
			}
			return ok
		})
		return out, ok, nil
	}
	off, found, ok := x.table.FindIn(x.region, o.key)
	if !ok || !found {
		return 0, ok, nil
	}
	live, ok := x.live(off)
	if !ok || !live {
		return 0, ok, nil
	}
	if o.kind == opDelete {
		w, _ := x.region.Load64(x.table.m, off+layout.VersionOffset)
		if !x.region.Store64(x.table.m, off+layout.VersionOffset, uint64(layout.Version(w).Deleted())) {
			return 0, false, nil
		}
		ok, err = x.table.ReclaimIn(x.region, o.key, 0)
	}
	return 1 << o.key, ok, err
}

func (x *setWorker) live(off int) (live, ok bool) {
	w, ok := x.region.Load64(x.table.m, off+layout.VersionOffset)
	return layout.Version(w).Live(), ok
}

// TestWithoutLineWordsScansSeeWhatStays has threads make and give back odd keys on memory without line words,
// where regions do not conflict, while others scan: a scan that counts has every even key, in order.
func TestWithoutLineWordsScansSeeWhatStays(t *testing.T) {
	const keys = 200
	rounds := 2000
	if raceEnabled || testing.Short() {
		rounds /= 10
	}
	c := For(1, "t", 8, keys)
	memory := tabletest.Memory(c.Bytes(), false)
	table, err := Format(c, memory, 0)
	if err != nil {
		t.Fatal(err)
	}
	for k := uint64(0); k < keys; k += 2 {
		if err := table.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	var writers, scanners sync.WaitGroup
	var over atomic.Bool
	var scans atomic.Int64
	view := func() *setWorker {
		x, err := Attach(c, htm.NewMemory(memory.Bytes, nil, 0, nil), 0)
		if err != nil {
			t.Error(err)
		}
		return &setWorker{table: x, region: htm.NewRegion(htm.Config{})}
	}
	for w := range uint64(2) {
		writers.Go(func() {
			x, random := view(), rand.New(rand.NewPCG(w, 1))
			for range rounds {
				if err := x.toggle(2*(2*random.Uint64N(keys/4)+w) + 1); err != nil {
					t.Error(err)
					return
				}
			}
		})
		scanners.Go(func() {
			x, random := view(), rand.New(rand.NewPCG(w, 2))
			for !over.Load() || scans.Load() == 0 {
				first, last := random.Uint64N(keys), random.Uint64N(keys)
				if got, ok := x.even(first, last); !ok {
					continue
				} else if want := int(max(first, last)/2) - int(min(first, last)+1)/2 + 1; got != want {
					t.Errorf("%d even keys from %d to %d, want %d", got, first, last, want)
					return
				}
				scans.Add(1)
			}
		})
	}
	writers.Wait()
	over.Store(true)
	scanners.Wait()
	t.Logf("%d scans counted", scans.Load())
	if err := checkTable(table); err != nil {
		t.Error(err)
	}
}

// toggle makes an absent entry for a key or gives it back.
func (x *setWorker) toggle(key uint64) error {
	for range setTries {
		x.region.Begin()
		_, found, _ := x.table.FindIn(x.region, key)
		ok, err := true, error(nil)
		if found {
			ok, err = x.table.ReclaimIn(x.region, key, 0)
		} else {
			_, _, ok, err = x.table.EnsureIn(x.region, key, 0)
		}
		x.region.Commit(tabletest.Lonely{})
		if ok {
			return err
		}
	}
	return fmt.Errorf("key %d: the table stays locked", key)
}

// even counts the even keys of a range; false: the scan does not count.
func (x *setWorker) even(first, last uint64) (n int, ok bool) {
	x.region.Begin()
	before, started := uint64(0), false
	ordered := true
	ok = x.table.Scan(x.region, first, last, func(key uint64, _ int) bool {
		ordered = ordered && (!started || (key > before) == (first < last))
		before, started = key, true
		if key%2 == 0 {
			n++
		}
		return true
	})
	if !ok || !x.region.Commit(tabletest.Lonely{}) {
		return 0, false
	}
	if !ordered {
		return -1, true
	}
	return n, true
}
