package bloom_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"drtmd/htm/bloom"
)

// hadesSets are the sets of a last-level cache of 20 MB in 16 ways: 4 MB for each of five cores.
const hadesSets = 20 << 20 / 64 / 16

func filter(t testing.TB, g bloom.Geometry) *bloom.Filter {
	t.Helper()
	f, err := bloom.New(g)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestHashIsTheCRC32OfTheByteAddress(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		line := bloom.Line(draw.Uint64() >> draw.IntN(64) >> 6)
		b := binary.LittleEndian.AppendUint64(nil, uint64(line)<<6)
		if got, want := bloom.Hash(line), crc32.ChecksumIEEE(b); got != want {
			t.Fatalf("line %#x: %#x, want %#x", uint64(line), got, want)
		}
	}
}

// TestAFilterHasNoFalseNegatives inserts lines that are near each other, far, and the same again.
func TestAFilterHasNoFalseNegatives(t *testing.T) {
	for _, g := range []bloom.Geometry{bloom.Plain(), bloom.CoreWrite(hadesSets), {Bits: 2, Hashes: 1},
		{Bits: 64, Hashes: 5, IndexBits: 128, Sets: 129}} {
		f, taken, draw := filter(t, g), filter(t, bloom.Geometry{Bits: 2, Hashes: 1}), rand.New(rand.NewPCG(2, 2))
		for round := range 20 {
			f.Clear()
			in := map[bloom.Line]bool{}
			for range 200 {
				line := bloom.Line(draw.Uint64() >> (draw.IntN(50) + 6))
				f.Insert(line)
				in[line] = true
			}
			taken.Take(f)
			for line := range in {
				if !f.Contains(line) || !taken.Contains(line) {
					t.Fatalf("%+v, round %d: line %d is lost", g, round, line)
				}
			}
			if f.Lines() != 200 || taken.Lines() != 200 || taken.Geometry() != g {
				t.Fatalf("%d and %d lines, geometry %+v", f.Lines(), taken.Lines(), taken.Geometry())
			}
		}
	}
}

func TestAClearedFilterContainsNothing(t *testing.T) {
	for _, g := range []bloom.Geometry{bloom.Plain(), bloom.CoreWrite(hadesSets)} {
		f := filter(t, g)
		for line := range bloom.Line(500) {
			f.Insert(line)
		}
		f.Clear()
		f.Insert(1 << 30) // so that it is not empty
		for line := range bloom.Line(500) {
			if f.Contains(line) && filter(t, g).Contains(line) {
				t.Errorf("line %d is in a filter that was cleared", line)
			}
		}
		if g.IndexBits > 0 && f.NextGroup(f.NextGroup(0)+1) >= 0 {
			t.Error("more than one group of sets after one line")
		}
	}
}

// TestACopyIsIndependent: a Locking Buffer keeps what it took while the transaction's filter goes on.
func TestACopyIsIndependent(t *testing.T) {
	f, copied := filter(t, bloom.Plain()), filter(t, bloom.CoreWrite(hadesSets))
	f.Insert(7)
	copied.Take(f)
	f.Clear()
	f.Insert(8)
	if !copied.Contains(7) || copied.Contains(8) || f.Contains(7) {
		t.Error("copy and original share bits")
	}
}

// TestGroupsLeadToEverySetOfALine: Figure 8's example, a write filter of 4 bits and a cache of 8 sets, and
// the geometry of Table III.
func TestGroupsLeadToEverySetOfALine(t *testing.T) {
	f := filter(t, bloom.Geometry{Bits: 512, Hashes: 1, IndexBits: 4, Sets: 8})
	f.Insert(6)
	if got := f.NextGroup(0); got != 2 || f.NextGroup(3) != -1 {
		t.Errorf("a line of set 6 sets bit %d, want 2: sets 2 and 6", got)
	}
	f, draw := filter(t, bloom.CoreWrite(hadesSets)), rand.New(rand.NewPCG(3, 3))
	want := map[int]bool{}
	for range 100 {
		line := bloom.Line(draw.Uint64N(1 << 30))
		f.Insert(line)
		want[int(line%hadesSets)%4096] = true
	}
	found := 0
	for b := f.NextGroup(0); b >= 0; b = f.NextGroup(b + 1) {
		if found++; !want[b] {
			t.Errorf("bit %d is set, of no line", b)
		}
	}
	if found != len(want) {
		t.Errorf("%d bits are found, %d are set", found, len(want))
	}
}

// HADES Table IV by the formula: the filters' numbers within the bounds that the counting allows.
func TestFormulaGivesTableIV(t *testing.T) {
	for _, c := range []struct {
		lines        int
		plain, write float64 // percent
	}{{10, 0.0374, 0.0047}, {20, 0.1469, 0.0187}, {50, 0.8664, 0.1130}, {76, 1.9046, 0.2539}, {100, 3.1507, 0.4283}} {
		plain := 100 * bloom.Plain().FalsePositives(c.lines)
		write := 100 * bloom.CoreWrite(hadesSets).FalsePositives(c.lines)
		if math.Abs(plain-c.plain) > 0.0001 || math.Abs(write-c.write) > 0.0001 {
			t.Errorf("%d lines: %.4f and %.4f %%, want %.4f and %.4f", c.lines, plain, write, c.plain, c.write)
		}
	}
}

// The bits of the code do what the formula says: a small run; drtmd reproduce hades/table-4 has the large one.
func TestFalsePositivesAreThoseOfTheFormula(t *testing.T) {
	for _, g := range []bloom.Geometry{bloom.Plain(), bloom.CoreWrite(hadesSets)} {
		f, draw := filter(t, g), rand.New(rand.NewPCG(4, 4))
		const trials, probes, lines = 2000, 200, 100
		positives := 0
		for range trials {
			f.Clear()
			for range lines {
				f.Insert(bloom.Line(draw.Uint64N(1 << 30)))
			}
			for range probes {
				if f.Contains(bloom.Line(draw.Uint64N(1 << 30))) {
					positives++
				}
			}
		}
		got, want := float64(positives)/(trials*probes), g.FalsePositives(lines)
		if math.Abs(got-want) > want/10 {
			t.Errorf("%+v: %.3f %%, the formula says %.3f %%", g, 100*got, 100*want)
		}
	}
}

func TestImpossibleGeometriesAreRefusedInWords(t *testing.T) {
	for _, c := range []struct {
		g    bloom.Geometry
		want string
	}{
		{bloom.Geometry{Hashes: 2}, "it has 0 bits"},
		{bloom.Geometry{Bits: -64, Hashes: 2}, "it has -64 bits"},
		{bloom.Geometry{Bits: 1000, Hashes: 2}, "1000 bits are no power of two"},
		{bloom.Geometry{Bits: 1024}, "0 hashes"},
		{bloom.Geometry{Bits: 1024, Hashes: 4}, "4 hashes for 1024 bits need more than the 32 bits"},
		{bloom.Geometry{Bits: 512, Hashes: 1, IndexBits: 4095, Sets: 8192}, "4095 bits by cache set"},
		{bloom.Geometry{Bits: 512, Hashes: 1, IndexBits: -1, Sets: 8192}, "-1 bits by cache set"},
		{bloom.CoreWrite(4095), "only 4095 sets"},
	} {
		f, err := bloom.New(c.g)
		if f != nil || !errors.Is(err, bloom.ErrGeometry) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.g, err, c.want)
		}
	}
}

func TestFiltersAllocateNothing(t *testing.T) {
	read, write, held := filter(t, bloom.Plain()), filter(t, bloom.CoreWrite(hadesSets)), filter(t, bloom.Plain())
	held.Take(write)
	line := bloom.Line(0)
	if n := testing.AllocsPerRun(100, func() {
		line += 12345
		read.Insert(line)
		write.Insert(line)
		held.Take(write)
		held.Take(read)
		if !held.Contains(line) || write.NextGroup(0) < 0 {
			t.Error("lost a line")
		}
		read.Clear()
		write.Clear()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkInsertAndProbe(b *testing.B) {
	f, line := filter(b, bloom.CoreWrite(hadesSets)), bloom.Line(0)
	b.ReportAllocs()
	for b.Loop() {
		line += 12345
		f.Insert(line)
		f.Contains(line + 1)
	}
}
