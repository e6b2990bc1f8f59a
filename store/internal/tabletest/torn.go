package tabletest

import (
	"encoding/binary"
	"math/rand/v2"

	"drtmd/store/layout"
	"drtmd/store/words"
)

// Recorder is access that takes down every store, in order, beside carrying it out.
type Recorder struct {
	words.Plain
	Log *[]Stored
}

// Stored is a store of a word.
type Stored struct {
	Off int
	V   uint64
}

// Store implements words.Access.
func (a Recorder) Store(off int, v uint64) bool {
	*a.Log = append(*a.Log, Stored{off, v})
	return a.Plain.Store(off, v)
}

// Complete implements words.Access.
func (a Recorder) Complete(off int, v uint64) bool { return a.Store(off, v) }

// Swap implements words.Access.
func (a Recorder) Swap(off int, expect, swap uint64) (swapped, ok bool) {
	if v, _ := a.Load(off); v != expect {
		return false, true
	}
	return true, a.Store(off, swap)
}

// Past is memory as it was at each of a number of stores: what a NIC that makes no more than 8 bytes atomic may read
// while a host without line words works.
type Past struct {
	Log     []Stored
	Initial []byte
	Torn    int // reads that gave what never stood there at once

	history map[int][]became
}

// became is what a word became at which store.
type became struct {
	store int
	v     uint64
}

// Index readies reads of the stores so far.
func (p *Past) Index() {
	p.history = map[int][]became{}
	for i, s := range p.Log {
		p.history[s.Off] = append(p.history[s.Off], became{i + 1, s.V})
	}
}

// word is what a word held after n stores.
func (p *Past) word(off, n int) uint64 {
	v := binary.LittleEndian.Uint64(p.Initial[off:])
	for _, x := range p.history[off] {
		if x.store > n {
			break
		}
		v = x.v
	}
	return v
}

// Read is a read that lasts from after store from to after store to: its lines are of moments in between, in
// ascending order if so asked, and their words of moments after one another.
func (p *Past) Read(random *rand.Rand, off, bytes, from, to int, ascending bool) []byte {
	b := make([]byte, bytes)
	first, low, high := to, to, from
	line := from
	for i := 0; i < bytes; i += 8 {
		if i == 0 || (off+i)%layout.LineBytes == 0 {
			if ascending && i > 0 {
				line = low
			}
			low = line + random.IntN(to-line+1)
		}
		if low += random.IntN(2); low > to {
			low = to
		}
		first, high = min(first, low), max(high, low)
		binary.LittleEndian.PutUint64(b[i:], p.word(off+i, low))
	}
	if first != high {
		p.Torn++
	}
	return b
}
