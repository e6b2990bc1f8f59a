package bloom

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"drtmd/internal/invariant"
)

// ErrGeometry refuses a filter that cannot be built.
var ErrGeometry = errors.New("impossible Bloom filter")

// Geometry of a filter.
type Geometry struct {
	Bits   int // of the section by CRC; a power of two
	Hashes int // fields of the CRC, a bit for each
	// IndexBits is the size of the section by cache set, a power of two; 0: there is none.
	IndexBits int
	Sets      int // of the last-level cache, if there is such a section
}

// Plain is the geometry of read filters, and of all filters of a NIC (HADES Table III).
func Plain() Geometry { return Geometry{Bits: 1024, Hashes: 2} }

// CoreWrite is the geometry of the write filters of a core (HADES Table III), beside a last-level cache of
// so many sets.
func CoreWrite(sets int) Geometry {
	return Geometry{Bits: 512, Hashes: 1, IndexBits: 4096, Sets: sets}
}

// Check says what is wrong with a geometry.
func (g Geometry) Check() error {
	switch {
	case g.Bits <= 0:
		return fmt.Errorf("%w: it has %d bits; HADES has 1,024 and 512 + 4,096", ErrGeometry, g.Bits)
	case !powerOfTwo(g.Bits):
		return fmt.Errorf("%w: %d bits are no power of two, so no field of a CRC numbers them", ErrGeometry, g.Bits)
	case g.Hashes < 1:
		return fmt.Errorf("%w: %d hashes; at least one has to say where a line is", ErrGeometry, g.Hashes)
	case g.Hashes*bits.TrailingZeros(uint(g.Bits)) > 32:
		return fmt.Errorf("%w: %d hashes for %d bits need more than the 32 bits of a CRC", ErrGeometry, g.Hashes,
			g.Bits)
	case g.IndexBits < 0 || g.IndexBits > 0 && !powerOfTwo(g.IndexBits):
		return fmt.Errorf("%w: %d bits by cache set are no power of two", ErrGeometry, g.IndexBits)
	case g.IndexBits > 0 && g.Sets < g.IndexBits:
		return fmt.Errorf("%w: %d bits by cache set, but the cache has only %d sets", ErrGeometry, g.IndexBits, g.Sets)
	}
	return nil
}

func powerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }

// StorageBits is what the filter takes.
func (g Geometry) StorageBits() int { return g.Bits + g.IndexBits }

// FalsePositives is the expected share of other lines that a filter with so many lines answers for, if all
// bits are equally likely.
func (g Geometry) FalsePositives(lines int) float64 {
	one := func(size, set int) float64 { return 1 - math.Pow(1-1/float64(size), float64(set)) }
	share := math.Pow(one(g.Bits, g.Hashes*lines), float64(g.Hashes))
	if g.IndexBits > 0 {
		share *= one(g.IndexBits, lines)
	}
	return share
}

// Filter is a set of lines that may answer for lines which are not in it, and never denies one that is.
type Filter struct {
	geometry Geometry
	field    uint     // bits of a field of the CRC
	words    []uint64 // the section by CRC, then the one by cache set
	base     int      // first word of the latter
	lines    int      // insertions since it was cleared
}

// New makes an empty filter.
func New(g Geometry) (*Filter, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	base := wordsFor(g.Bits)
	return &Filter{geometry: g, field: uint(bits.TrailingZeros(uint(g.Bits))), base: base,
		words: make([]uint64, base+wordsFor(g.IndexBits))}, nil
}

func wordsFor(bits int) int { return (bits + 63) / 64 }

// Geometry of the filter.
func (f *Filter) Geometry() Geometry { return f.geometry }

// Lines is the number of insertions since the filter was cleared; a line twice counts twice.
func (f *Filter) Lines() int { return f.lines }

// Insert adds a line.
func (f *Filter) Insert(line Line) {
	f.lines++
	h, mask := Hash(line), uint32(f.geometry.Bits-1)
	for range f.geometry.Hashes {
		f.words[h&mask>>6] |= 1 << (h & mask & 63)
		h >>= f.field
	}
	if f.geometry.IndexBits > 0 {
		b := f.group(line)
		f.words[f.base+b>>6] |= 1 << (b & 63)
	}
}

// Contains reports whether the line may be in the filter.
func (f *Filter) Contains(line Line) bool {
	if f.lines == 0 {
		return false
	}
	h, mask := Hash(line), uint32(f.geometry.Bits-1)
	for range f.geometry.Hashes {
		if f.words[h&mask>>6]>>(h&mask&63)&1 == 0 {
			return false
		}
		h >>= f.field
	}
	if f.geometry.IndexBits > 0 {
		b := f.group(line)
		return f.words[f.base+b>>6]>>(b&63)&1 == 1
	}
	return true
}

// group is the bit by cache set of a line. It stands for the sets group, group + IndexBits, and so on.
func (f *Filter) group(line Line) int {
	return int(uint64(line)%uint64(f.geometry.Sets)) & (f.geometry.IndexBits - 1)
}

// NextGroup is the first bit by cache set at or behind from that is set, or -1. The cache sets that it
// stands for are NextGroup, NextGroup + IndexBits, and so on.
func (f *Filter) NextGroup(from int) int {
	invariant.Assert(f.geometry.IndexBits > 0, "bloom: a plain filter has no bits by cache set")
	if from >= f.geometry.IndexBits {
		return -1
	}
	section := f.words[f.base:]
	w := from >> 6
	rest := section[w] >> (from & 63) << (from & 63)
	for {
		if rest != 0 {
			return w<<6 + bits.TrailingZeros64(rest)
		}
		if w++; w == len(section) {
			return -1
		}
		rest = section[w]
	}
}

// Clear empties the filter.
func (f *Filter) Clear() {
	if f.lines > 0 {
		clear(f.words)
		f.lines = 0
	}
}

// Take makes the filter a copy of another one, of that one's geometry.
func (f *Filter) Take(from *Filter) {
	words := append(f.words[:0], from.words...)
	*f = *from
	f.words = words
}
