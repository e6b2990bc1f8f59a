package dlht

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"drtmd/store"
)

// TestABinIsACacheLine: §6, bounded chains of cache lines.
func TestABinIsACacheLine(t *testing.T) {
	for _, bins := range []int{8, 64, 4096} {
		x := makeIndex(bins)
		if at := uintptr(unsafe.Pointer(&x.bins[0])); at%lineBytes != 0 {
			t.Errorf("%d bins begin at %#x", bins, at)
		}
	}
	if s := unsafe.Sizeof(line{}); s != lineBytes {
		t.Error("a bin has bytes: ", s)
	}
}

// TestADeletedSlotIsUsedAtOnce: §6, deletes free their slot instantly. A table that may not grow takes insertions and
// deletions for ever.
func TestADeletedSlotIsUsedAtOnce(t *testing.T) {
	table := newTable(t, Config{MaxBytes: 2 * indexBytes(8)})
	for i := range uint64(20_000) {
		if _, ok, err := table.Insert(i, i); !ok || err != nil {
			t.Fatal(i, ok, err)
		}
		if i >= 10 {
			if v, ok := table.Delete(i - 10); !ok || v != i-10 {
				t.Fatal(i-10, v, ok)
			}
		}
	}
	if o := table.Occupancy(); o.Records != 10 || o.Bins != 8 {
		t.Errorf("%+v", o)
	}
}

// TestATableGrows from 8 bins to a million records. All are found on the way.
func TestATableGrows(t *testing.T) {
	table, n := newTable(t, Config{}), uint64(1_000_000)
	if raceEnabled || testing.Short() {
		n /= 20
	}
	for i := range n {
		if _, ok, err := table.Insert(i, ^i); !ok || err != nil {
			t.Fatal(i, ok, err)
		}
		if v, ok := table.Get(i / 2); !ok || v != ^(i/2) {
			t.Fatal(i/2, v, ok)
		}
	}
	count, seen := uint64(0), make([]bool, n)
	for k, v := range table.All() {
		if v != ^k || seen[k] {
			t.Fatal(k, v, seen[k])
		}
		seen[k] = true
		count++
	}
	o := table.Occupancy()
	if count != n || !o.Growing && o.Records != int(n) {
		t.Errorf("%d records, %+v", count, o)
	}
	if perBin := float64(n) / float64(o.Bins); perBin > 4 {
		t.Errorf("%.1f records per bin: %+v", perBin, o)
	}
}

// TestARequestWithoutAnOperationIsRefused, and has no answer of another batch.
func TestARequestWithoutAnOperationIsRefused(t *testing.T) {
	table := newTable(t, Config{})
	requests := []Request{{Op: OpInsert, Key: 1, Value: 2}, {Op: OpGet, Key: 1}}
	table.Batch(requests)
	if !requests[0].Done || !requests[1].Done {
		t.Fatalf("%+v", requests)
	}
	for _, op := range []Op{0, OpDelete + 1} {
		requests[1].Op, requests[1].Done, requests[1].Value = op, true, 2
		table.Batch(requests[1:])
		if r := requests[1]; r.Done || r.Value != 0 || !errors.Is(r.Err, ErrOp) {
			t.Errorf("%v: %+v", op, r)
		}
	}
	requests[1].Op = OpGet
	table.Batch(requests[1:])
	if r := requests[1]; !r.Done || r.Value != 2 || r.Err != nil {
		t.Errorf("afterwards: %+v", r)
	}
}

// TestWhatDoesNotFitIsRefused by its reason, and changes nothing.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	table := newTable(t, Config{Duplicates: true})
	for i := range uint64(100) {
		_, ok, err := table.Insert(7, i)
		if ok != (err == nil) || err != nil && !(errors.Is(err, ErrCrowded) && errors.Is(err, store.ErrFull)) {
			t.Fatal(i, ok, err)
		}
		if err != nil && i < binSlots {
			t.Fatal("refused too early: ", i, err)
		}
	}
	if got := table.Values(7, nil); len(got) != binSlots {
		t.Error("values: ", got)
	}
	table = newTable(t, Config{Keys: 100, MaxBytes: 20_000})
	n, err := uint64(0), error(nil)
	for ; err == nil; n++ {
		_, _, err = table.Insert(n, n)
	}
	if !errors.Is(err, ErrBound) || !errors.Is(err, store.ErrFull) || n < 100 {
		t.Errorf("%v with %d records", err, n)
	}
	for i := range n - 1 {
		if v, ok := table.Get(i); !ok || v != i {
			t.Fatal(i, v, ok)
		}
	}
	m, err := NewMap(MapConfig{MaxBlockBytes: 100, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	x, err := m.Thread()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Thread(); !errors.Is(err, ErrThreads) {
		t.Error("a second thread: ", err)
	}
	if ok, err := x.Insert([]byte("key"), []byte("a value that is long")); ok || !errors.Is(err, ErrBlocks) {
		t.Error("beyond MaxBlockBytes: ", ok, err)
	}
	if err := errors.Join(x.Close(), x.Close()); err != nil {
		t.Error(err)
	}
	if _, err := m.Thread(); err != nil {
		t.Error("after Close: ", err)
	}
}

// TestASecondCloseLeavesTheNextOwnerAlone: after Close another goroutine may have the thread.
func TestASecondCloseLeavesTheNextOwnerAlone(t *testing.T) {
	m, err := NewMap(MapConfig{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	first, err := m.Thread()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := m.Thread()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := m.Thread(); !errors.Is(err, ErrThreads) {
		t.Error("a second thread of one: ", err)
	}
	if ok, err := next.Insert([]byte("key"), []byte("value")); !ok || err != nil {
		t.Error("the next owner's Insert: ", ok, err)
	}
}

// TestWhatTheHostHasNotIsRefused by New and by growth, in words: Go's runtime would end the process.
func TestWhatTheHostHasNotIsRefused(t *testing.T) {
	has := func(bytes uint64, known bool) func() (uint64, bool) {
		return func() (uint64, bool) { return bytes, known }
	}
	for want, c := range map[string]Config{
		"room for 17179869184 keys takes 687194767360 bytes, and the host has 5000000000 available": {Keys: MaxKeys,
			available: has(5e9, true)},
		"has 1 available": {Keys: 1 << 20, MaxBytes: 1 << 40, available: has(1, true)},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d keys: %v, want %q", c.Keys, err, want)
		}
	}
	newTable(t, Config{Keys: 1 << 20, available: has(0, false)})
	newTable(t, Config{Keys: 1000, available: has(1, true)})
	table := newTable(t, Config{available: has(askBytes-1, true)})
	n, err := uint64(0), error(nil)
	for ; err == nil && n < 1<<22; n++ {
		_, _, err = table.Insert(n, n)
	}
	if o := table.Occupancy(); !errors.Is(err, ErrMemory) || !errors.Is(err, store.ErrFull) || o.Bytes*2 < askBytes {
		t.Errorf("%v with %+v", err, o)
	}
	for i := range n - 1 {
		if v, ok := table.Get(i); !ok || v != i {
			t.Fatal(i, v, ok)
		}
	}
}

func TestBadConfigurationsAreRefused(t *testing.T) {
	for want, c := range map[string]MapConfig{
		"give 0 to":           {Config: Config{Keys: -1}},
		"give 0 for none":     {Config: Config{MaxBytes: -1}},
		"give fewer keys":     {Config: Config{Keys: 1000, MaxBytes: 1000}},
		"Duplicates":          {Config: Config{Duplicates: true}},
		"0 for 64":            {Threads: -1},
		"0 for none, or more": {MaxBlockBytes: -1},
		"17179869184":         {Config: Config{Keys: MaxKeys + 1}},
		"bytes for blocks":    {MaxBlockBytes: -5},
		"room for 1000 keys":  {Config: Config{Keys: 1000, MaxBytes: 1}},
		"more than the bound": {Config: Config{Keys: 1000, MaxBytes: 2}},
	} {
		if _, err := NewMap(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	if _, err := New(Config{Keys: -1}); err == nil {
		t.Error("a table for -1 keys was made")
	}
}

// TestNothingIsAllocated by operations on a table that does not grow.
func TestNothingIsAllocated(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	table := newTable(t, Config{Keys: 1000})
	requests := make([]Request, 24)
	values := make([]uint64, 0, 4)
	m, err := NewMap(MapConfig{Config: Config{Keys: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := m.Thread()
	if err != nil {
		t.Fatal(err)
	}
	short, long, buffer := []byte("key"), []byte("a key of more than eight bytes"), make([]byte, 0, 64)
	for name, f := range map[string]func(){
		"table": func() {
			table.Insert(1, 2)
			table.Get(1)
			table.Put(1, 3)
			values = table.Values(1, values[:0])
			table.Delete(1)
			table.DeleteValue(1, 3)
		},
		"batch": func() {
			for i := range requests {
				requests[i] = Request{Op: Op(1 + i%4), Key: uint64(i / 4)}
			}
			table.Batch(requests)
		},
		"map": func() {
			for _, key := range [][]byte{short, long} {
				x.Insert(key, short)
				x.Put(key, long)
				buffer, _ = x.Get(key, buffer[:0])
				x.Put(key, long)
				x.Delete(key)
			}
		},
	} {
		for range 1000 {
			f() // blocks that are replaced, and lists, reach their size
		}
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestEachSizeHasAClass: a block of a class has room for what the class is asked for, and wastes at most a quarter.
func TestEachSizeHasAClass(t *testing.T) {
	last := -1
	for n := 1; n < 5000; n++ {
		class, words := sizeClass(n)
		if words < n || n > 4 && words*4 > n*5+4 || class < last || class >= sizeClasses {
			t.Fatalf("%d words: class %d with %d words", n, class, words)
		}
		if c, w := sizeClass(words); c != class || w != words {
			t.Fatalf("%d words: class %d with %d words, and they have class %d with %d", n, class, words, c, w)
		}
		last = class
	}
	if class, words := sizeClass(MaxBytes/8 + 2); class >= sizeClasses || words < MaxBytes/8+2 {
		t.Error(class, words)
	}
}

// TestSlotsOfABin: the free slots are found in their order.
func TestSlotsOfABin(t *testing.T) {
	var h header
	var got []int
	for range binSlots + 1 {
		i := h.free()
		got = append(got, i)
		if i%2 == 0 {
			h |= taken(i)
		} else {
			h |= claimed(i)
		}
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; !slices.Equal(got, want) {
		t.Error(got)
	}
	if h.count() != 8 {
		t.Error("taken: ", h.count())
	}
}

// TestACrowdedTableMoves: a bin of 12 records that becomes two bins, of 8 and of 4, takes a link bucket more than it
// had, while the others of a small table are taken.
func TestACrowdedTableMoves(t *testing.T) {
	table := newTable(t, Config{})
	keys := map[uint64][]uint64{} // by the last four bits of the hash
	for k := range uint64(1000) {
		at := table.hash(k) & 15
		keys[at] = append(keys[at], k)
	}
	all := slices.Concat(keys[0][:8], keys[8][:4], keys[1][:4], keys[2][:3], keys[3][:4], keys[4][:4])
	for _, k := range all {
		if _, ok, err := table.Insert(k, k); !ok || err != nil {
			t.Fatal(k, ok, err)
		}
	}
	for _, k := range all {
		if v, ok := table.Get(k); !ok || v != k {
			t.Error(k, v, ok)
		}
	}
}

// TestAThreadThatIsLateDoesNotGrowTwice: it has seen a full bin of an index whose growth others have ended since.
func TestAThreadThatIsLateDoesNotGrowTwice(t *testing.T) {
	table := newTable(t, Config{})
	x := table.index.Load()
	const n = 1000
	for k := range uint64(n) {
		if _, ok, err := table.Insert(k, k); !ok || err != nil {
			t.Fatal(k, ok, err)
		}
	}
	if err := table.grow(x, true); err != nil {
		t.Error(err)
	}
	for k := range uint64(n) {
		if v, ok := table.Get(k); !ok || v != k {
			t.Fatal(k, v, ok)
		}
	}
}

// TestABlockThatStoodInASlotWaits: an insertion that comes second has filled a slot. A reader of what was in the slot
// before may have seen the block there, so it is not free at once.
func TestABlockThatStoodInASlotWaits(t *testing.T) {
	var m *Map
	var first *Thread
	var step func()
	m, err := NewMap(MapConfig{Config: Config{step: func() { step() }}})
	if err != nil {
		t.Fatal(err)
	}
	key, value := []byte("a key of many bytes"), []byte("a value of many bytes")
	step = func() {
		for i := range m.index.Load().bins {
			if m.index.Load().bins[i].header()&claimedBits != 0 {
				step = func() {}
				if ok, err := first.Insert(key, value); !ok || err != nil {
					t.Error(ok, err)
				}
				return
			}
		}
	}
	first, _ = m.Thread()
	second, _ := m.Thread()
	if ok, err := second.Insert(key, value); ok || err != nil {
		t.Error("inserted twice: ", ok, err)
	}
	for class, free := range second.free {
		if len(free) > 0 {
			t.Errorf("class %d: %d blocks are free while a reader may look at them", class, len(free))
		}
	}
	if len(second.limbo) != 1 {
		t.Errorf("%d blocks wait", len(second.limbo))
	}
}

func newTable(t testing.TB, c Config) *Table {
	t.Helper()
	table, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return table
}
