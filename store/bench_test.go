package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/htm"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

// benchTable is a table of n records of 8 bytes beside a map with the same, and keys to look up.
type benchTable struct {
	table *Table
	model map[uint64]uint64
	keys  []uint64
}

func newBenchTable(b testing.TB, n int) *benchTable {
	b.Helper()
	c := For(1, "bench", 8, n)
	table, err := Format(c, mapped(b, c.Bytes()), 0)
	if err != nil {
		b.Fatal(err)
	}
	x := &benchTable{table: table, model: make(map[uint64]uint64, n)}
	for k := range uint64(n) {
		if err := x.table.Load(k, tabletest.Value(8, k+1)); err != nil {
			b.Fatal(err)
		}
		x.model[k] = k + 1
	}
	r := rand.New(rand.NewPCG(1, 2))
	x.keys = make([]uint64, 1<<20)
	for i := range x.keys {
		x.keys[i] = r.Uint64N(uint64(n))
	}
	return x
}

// get is what a protocol does to read a record outside of a region: place, check, value.
func (x *benchTable) get(key uint64) (uint64, bool) {
	off, ok := x.table.Find(key)
	if !ok {
		return 0, false
	}
	e := x.table.m.Bytes[off : off+layout.HeaderBytes+8]
	v := layout.Version(binary.LittleEndian.Uint64(e[layout.VersionOffset:]))
	if layout.Match(key, binary.LittleEndian.Uint64(e), v) != layout.Live {
		return 0, false
	}
	return binary.LittleEndian.Uint64(e[layout.ValueOffset:]), true
}

// getIn is get inside a region.
func (x *benchTable) getIn(r *htm.Region, key uint64) (uint64, bool) {
	for range 100 {
		if !r.Begin() {
			return 0, false
		}
		off, ok := x.table.Find(key)
		if !ok {
			r.Abort(1)
			return 0, false
		}
		k, _ := r.Load64(x.table.m, off+layout.KeyOffset)
		w, _ := r.Load64(x.table.m, off+layout.VersionOffset)
		v, alive := r.Load64(x.table.m, off+layout.ValueOffset)
		if !alive {
			continue
		}
		if layout.Match(key, k, layout.Version(w)) != layout.Live {
			r.Abort(1)
			return 0, false
		}
		if r.Commit(nil) {
			return v, true
		}
	}
	return 0, false
}

// BenchmarkLookupVsMap looks keys up in the table and in a Go map with the same keys, in turns of
// one run: x-find is how much longer the table takes to give the place of a record, x-get to read
// it too, both outside of a region, and x-region inside.
func BenchmarkLookupVsMap(b *testing.B) {
	for _, n := range []int{1_000_000, 16_000_000} {
		if testing.Short() {
			n /= 1000
		}
		x := newBenchTable(b, n)
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) { benchmarkLookup(b, x) })
	}
}

// batch is the number of look-ups between two looks at the clock.
const batch = 1024

func benchmarkLookup(b *testing.B, x *benchTable) {
	r := htm.NewRegion(htm.Config{})
	var sum uint64
	ways := []struct {
		unit string
		get  func(keys []uint64)
	}{
		{"map", func(keys []uint64) {
			for _, k := range keys {
				sum += x.model[k]
			}
		}},
		{"find", func(keys []uint64) {
			for _, k := range keys {
				off, _ := x.table.Find(k)
				sum += uint64(off)
			}
		}},
		{"get", func(keys []uint64) {
			for _, k := range keys {
				v, _ := x.get(k)
				sum += v
			}
		}},
		{"region", func(keys []uint64) {
			for _, k := range keys {
				v, _ := x.getIn(r, k)
				sum += v
			}
		}},
	}
	spent := make([]time.Duration, len(ways))
	done := 0
	b.ReportAllocs()
	for b.Loop() {
		for i, w := range ways {
			// Every way has other keys in a round, and all of them have all keys in the end.
			at := (done + i*len(x.keys)/len(ways)) % (len(x.keys) - batch)
			start := time.Now()
			w.get(x.keys[at : at+batch])
			spent[i] += time.Since(start)
		}
		done += batch
	}
	if sum == 0 {
		b.Fatal("nothing was found")
	}
	for i, w := range ways {
		b.ReportMetric(float64(spent[i])/float64(done), "ns/"+w.unit)
		if i > 0 {
			b.ReportMetric(float64(spent[i])/float64(spent[0]), "x-"+w.unit)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// TestBenchmarkReadsWhatItLoaded keeps the benchmark from measuring look-ups that find nothing.
func TestBenchmarkReadsWhatItLoaded(t *testing.T) {
	x := newBenchTable(t, 1000)
	r := htm.NewRegion(htm.Config{})
	for k, want := range x.model {
		if v, ok := x.get(k); !ok || v != want {
			t.Errorf("key %d outside of a region: %d, %v", k, v, ok)
		}
		if v, ok := x.getIn(r, k); !ok || v != want {
			t.Errorf("key %d in a region: %d, %v", k, v, ok)
		}
	}
	if _, ok := x.get(1000); ok {
		t.Error("a key that was not loaded is found")
	}
}

// BenchmarkGrowingVsFixed finds keys in a table of fixed size and in one that has grown from a hundredth
// of its records, in turns of one run: x-growing is how much longer the latter takes.
func BenchmarkGrowingVsFixed(b *testing.B) {
	n := 1_000_000
	if testing.Short() {
		n /= 1000
	}
	x := newBenchTable(b, n)
	c := For(1, "grows", 8, n/100)
	c.Grows = true
	workers, err := openGrowing(newGround(b, true), c, tabletest.Opening{BoundBytes: 1 << 40, Workers: 1,
		Memory: mapped(b, c.Bytes()).Bytes})
	if err != nil {
		b.Fatal(err)
	}
	growing := workers[0]
	for k := range uint64(n) {
		if err := growing.Load(k, tabletest.Value(8, k+1)); err != nil {
			b.Fatal(err)
		}
	}
	var sum int
	var spent [2]time.Duration
	done := 0
	b.ReportAllocs()
	for b.Loop() {
		for i, find := range []func(uint64) (int, bool){x.table.Find, growing.Find} {
			at := (done + i*len(x.keys)/2) % (len(x.keys) - batch)
			start := time.Now()
			for _, k := range x.keys[at : at+batch] {
				off, _ := find(k)
				sum += off
			}
			spent[i] += time.Since(start)
		}
		done += batch
	}
	b.ReportMetric(float64(spent[0])/float64(done), "ns/fixed")
	b.ReportMetric(float64(spent[1])/float64(done), "ns/growing")
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "x-growing")
	b.ReportMetric(float64(growing.x.Growth.Extents()), "extents")
	b.ReportMetric(0, "ns/op")
	if sum == 0 {
		b.Fatal("nothing was found")
	}
}
