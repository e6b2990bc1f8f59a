package htm

import (
	"testing"
	"unsafe"

	"drtmd/verbs/lineword"
)

// bed is memory on the Go heap with line words and n owners.
type bed struct {
	bytes    []byte
	words    []uint64
	memories []*Memory
}

func newBed(lines, owners int) *bed {
	raw := make([]uint64, (lines+1)*lineWords)
	skip := int(-uintptr(unsafe.Pointer(&raw[0])) & (LineBytes - 1))
	all := unsafe.Slice((*byte)(unsafe.Pointer(&raw[0])), len(raw)*8)
	b := &bed{bytes: all[skip : skip+lines*LineBytes], words: make([]uint64, lines)}
	for i := range owners {
		b.memories = append(b.memories, NewMemory(b.bytes, b.words, uint16(i+1),
			make([]uint64, lineword.JournalWords(min(lines, lineword.JournalLines)))))
	}
	return b
}

// plainBed is memory without line words.
func plainBed(lines int) *Memory {
	b := newBed(lines, 0)
	return NewMemory(b.bytes, nil, 0, nil)
}

func bench3Read2Write(b *testing.B, c Committer) {
	bed := newBed(1024, 1)
	m := bed.memories[0]
	var flag uint32
	r := NewRegion(Config{Flag: &flag})
	var buf [16]byte
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		r.Begin()
		for k := range 3 {
			off := (i*7 + k*31) & 1023 * 64
			r.Load64(m, off+8)
			r.Load64(m, off+16)
			r.Load(m, off+24, buf[:])
			if k < 2 {
				r.Store(m, off+24, buf[:])
				r.Store64(m, off+8, uint64(i))
			}
		}
		if !r.Commit(c) {
			b.Fatal(r.Aborted())
		}
		i++
	}
}

type agree struct{ n int }

func (a *agree) Confirm() bool { a.n++; return true }

func BenchmarkThreeRecordsReadTwoWritten(b *testing.B) { bench3Read2Write(b, new(agree)) }

func BenchmarkRegion(b *testing.B) {
	for _, c := range []struct {
		name          string
		reads, writes int
	}{{"empty", 0, 0}, {"4 reads", 4, 0}, {"4 reads 4 writes", 4, 4}, {"64 reads", 64, 0}} {
		b.Run(c.name, func(b *testing.B) {
			bed := newBed(1024, 1)
			m := bed.memories[0]
			r := NewRegion(Config{})
			b.ReportAllocs()
			for b.Loop() {
				r.Begin()
				for k := range c.reads {
					v, _ := r.Load64(m, k*64)
					if k < c.writes {
						r.Store64(m, k*64, v+1)
					}
				}
				if !r.Commit(nil) {
					b.Fatal(r.Aborted())
				}
			}
		})
	}
}
