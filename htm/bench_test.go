package htm

import (
	"sync"
	"sync/atomic"
	"testing"
)

// agree is a Committer that agrees.
type agree struct{ n int }

func (a *agree) Confirm() bool { a.n++; return true }

// BenchmarkRegion touches one word on each line, and raises the first ones.
func BenchmarkRegion(b *testing.B) {
	for _, c := range []struct {
		name          string
		reads, writes int
	}{
		{"empty", 0, 0}, {"4 reads", 4, 0}, {"4 reads 4 writes", 4, 4}, {"16 reads", 16, 0},
		{"64 reads", 64, 0}, {"512 reads", 512, 0}, {"64 writes", 64, 64},
	} {
		b.Run(c.name, func(b *testing.B) {
			m := newBed(1024, 1).memories[0]
			r := NewRegion(Config{})
			b.ReportAllocs()
			for b.Loop() {
				r.Begin()
				for k := range c.reads {
					v, _ := r.Load64(m, k*LineBytes)
					if k < c.writes {
						r.Store64(m, k*LineBytes, v+1)
					}
				}
				if !r.Commit(nil) {
					b.Fatal(r.Aborted())
				}
			}
		})
	}
}

// BenchmarkRecords reads three records of one line each, version, state and value, and writes
// version and value of two: a transaction of SmallBank. The records are spread over 64 KiB.
func BenchmarkRecords(b *testing.B) {
	const records = 1024
	at := func(i, k int) int { return (i*7 + k*31) % records * LineBytes }
	b.Run("region", func(b *testing.B) {
		m := newBed(records, 1).memories[0]
		var flag uint32
		r := NewRegion(Config{Flag: &flag})
		c := new(agree)
		var value [16]byte
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			i++
			r.Begin()
			for k := range 3 {
				off := at(i, k)
				r.Load64(m, off+8)
				r.Load64(m, off+16)
				r.Load(m, off+24, value[:])
				if k < 2 {
					r.Store(m, off+24, value[:])
					r.Store64(m, off+8, uint64(i))
				}
			}
			if !r.Commit(c) {
				b.Fatal(r.Aborted())
			}
		}
	})
	// What it costs under a plain mutex, which neither remote operations nor a crash respects.
	b.Run("mutex", func(b *testing.B) {
		m := newBed(records, 1).memories[0]
		var mu sync.Mutex
		var value [16]byte
		var sum uint64
		i := 0
		b.ReportAllocs()
		for b.Loop() {
			i++
			mu.Lock()
			for k := range 3 {
				off := at(i, k)
				sum += atomic.LoadUint64(m.at(off+8)) + atomic.LoadUint64(m.at(off+16))
				copy(value[:], m.Bytes[off+24:])
				if k < 2 {
					copy(m.Bytes[off+24:], value[:])
					*m.at(off + 8) = uint64(i)
				}
			}
			mu.Unlock()
		}
		_ = sum
	})
}

// BenchmarkThreads is BenchmarkRecords on every processor, on records of its own.
func BenchmarkThreads(b *testing.B) {
	const records, owners = 1024, 64
	bed := newBed(records*8, owners)
	var next atomic.Int32
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		self := int(next.Add(1)-1) % owners
		m, first := bed.memories[self], self%8*records
		r := NewRegion(Config{})
		for i := 0; pb.Next(); i++ {
			r.Begin()
			for k := range 3 {
				off := (first + (i*7+k*31)%records) * LineBytes
				v, _ := r.Load64(m, off+8)
				if k < 2 {
					r.Store64(m, off+8, v+1)
				}
			}
			if !r.Commit(nil) {
				b.Error(r.Aborted())
			}
		}
	})
}
