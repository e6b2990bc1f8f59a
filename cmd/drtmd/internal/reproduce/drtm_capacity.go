package reproduce

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"unsafe"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/htm"
	"drtmd/verbs/lineword"
)

// regionBytes is the memory from which Figure 2's accesses are drawn: 32 MiB, a hundred times what
// a core's caches hold.
const regionBytes = 32 << 20

// bed is memory of regions, with the region that works on it.
type bed struct {
	memory   *htm.Memory
	region   *htm.Region
	geometry htm.Geometry
	lines    int
}

func newBed() *bed { return newBedOf(htm.DefaultGeometry()) }

func newBedOf(g htm.Geometry) *bed {
	lines := regionBytes / htm.LineBytes
	raw := make([]uint64, (lines+1)*htm.LineBytes/8)
	skip := int(-uintptr(unsafe.Pointer(&raw[0])) & (htm.LineBytes - 1))
	all := unsafe.Slice((*byte)(unsafe.Pointer(&raw[0])), len(raw)*8)
	return &bed{lines: lines, geometry: g, region: htm.NewRegion(htm.Config{Geometry: g}),
		memory: htm.NewMemory(all[skip:skip+regionBytes], make([]uint64, lines), 1,
			make([]uint64, lineword.JournalWords(g.Sets*g.Ways)))}
}

// fits gives the number of different lines that a region takes before it aborts for want of
// capacity: next gives their numbers, access touches the line at an offset.
func (b *bed) fits(next func(i int) int, access func(off int)) (int, error) {
	b.region.Begin()
	seen := map[int]bool{}
	for i := range b.lines {
		line := next(i)
		access(line * htm.LineBytes)
		if !b.region.Active() {
			break
		}
		seen[line] = true
	}
	code, _ := b.region.Aborted()
	if b.region.Commit(nil) || code != htm.Capacity {
		return 0, fmt.Errorf("the region ended with %v after %d lines, not for want of capacity", code,
			len(seen))
	}
	return len(seen), nil
}

// overflows reports whether a region aborts for want of capacity that reads and writes so many bytes, in lines that are
// all different.
func (b *bed) overflows(read, written int) (bool, error) {
	linesOf := func(bytes int) int { return (bytes + htm.LineBytes - 1) / htm.LineBytes }
	b.region.Begin()
	n := linesOf(written)
	for i := range n {
		b.write(i * htm.LineBytes)
	}
	for i := range max(0, linesOf(read)-n) { // what is written was read, too
		b.read((n + i) * htm.LineBytes)
	}
	if b.region.Commit(nil) {
		return false, nil
	}
	if code, _ := b.region.Aborted(); code != htm.Capacity {
		return false, fmt.Errorf("the region ended with %v, not for want of capacity", code)
	}
	return true, nil
}

func (b *bed) write(off int) { b.region.Store64(b.memory, off, 1) }
func (b *bed) read(off int)  { b.region.Load64(b.memory, off) }

// figure2 grows the working set of a region of the default geometry, in order and at random.
func figure2(r *Run) (*Outcome, error) {
	b := newBed()
	inOrder := func(i int) int { return i }
	g := htm.DefaultGeometry()
	writes, err := b.fits(inOrder, b.write)
	if err != nil {
		return nil, err
	}
	reads, err := b.fits(inOrder, b.read)
	if err != nil {
		return nil, err
	}
	oneSet, err := b.fits(func(i int) int { return i * g.Sets }, b.write)
	if err != nil {
		return nil, err
	}
	trials := pick(r, 1000, 100)
	var random []int // lines that fitted, of all trials
	for seed := range r.Seeds {
		draw := rand.New(rand.NewPCG(uint64(seed+1), 2))
		for i := range trials {
			n, err := b.fits(func(int) int { return draw.IntN(b.lines) }, b.write)
			if err != nil {
				return nil, err
			}
			random = append(random, n)
			if err := r.step(seed*trials+i, r.Seeds*trials); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(random)
	return &Outcome{
		Conditions: fmt.Sprintf("htm.DefaultGeometry: %d sets of %d lines of %d B; %d regions with "+
			"random writes, %s", g.Sets, g.Ways, g.LineBytes, len(random), r.seedsText()),
		Rows:   capacityRows(writes, reads, oneSet, random),
		Charts: []report.Chart{sequentialChart(writes, reads), randomChart(random)},
	}, nil
}

// capacityRows compare what fits with what the text of the paper says of its figure.
func capacityRows(writes, reads, oneSet int, random []int) []report.ComparedRow {
	const line = htm.LineBytes
	bytes := func(lines int) float64 { return float64(lines * line) }
	const noReading = "no reading gives 768 B: the L1 of 64 sets of 8 lines holds any 8 lines, and " +
		"lines at random fill its sets evenly"
	return []report.ComparedRow{
		number{what: "sequential writes that fit", unit: "KB", section: "§2.1", printed: "32", paper: 32,
			limit: within(0), reading: "the L1 cache bounds the write set"}.
			seen(bytes(writes) / 1024),
		number{what: "sequential reads that fit", unit: "KB", reading: "reads are counted and not held " +
			"to the sets: hardware tracks them beyond the L1"}.seen(bytes(reads) / 1024),
		number{what: "random writes that always abort", unit: "B", section: "§2.1", printed: "768",
			paper: 768, reading: noReading}.seen(bytes(random[len(random)-1] + 1)),
		number{what: "random writes of which half abort", unit: "B", reading: noReading}.
			seen(bytes(random[len(random)/2] + 1)),
		number{what: "writes to one set that always abort", unit: "B", section: "§2.1", printed: "768",
			paper: 768, reading: "the nearest: the ninth line of a set does not fit; 768 B are twelve"}.
			seen(bytes(oneSet + 1)),
	}
}

// sequentialChart is Figure 2(a): no region aborts up to the capacity, every one does beyond.
func sequentialChart(writes, reads int) report.Chart {
	const kib = 1024.0 / htm.LineBytes
	step := func(name string, lines int) report.ChartCurve {
		at := float64(lines) / kib
		return report.ChartCurve{Name: name, Points: [][2]float64{{1, 0}, {at, 0},
			{at + 1/kib, 100}, {512, 100}}}
	}
	return report.Chart{Title: "(a) sequential accesses", X: "working set [KB]", Y: "abort rate [%]",
		LogX: true, Curves: []report.ChartCurve{step("writes", writes), step("reads", reads)}}
}

// randomChart is Figure 2(b). sorted are the lines that fitted.
func randomChart(sorted []int) report.Chart {
	c := report.ChartCurve{Name: "writes"}
	for i, lines := range sorted {
		share := 100 * float64(i+1) / float64(len(sorted))
		at := float64((lines + 1) * htm.LineBytes)
		if n := len(c.Points); n > 0 && c.Points[n-1][0] == at {
			c.Points[n-1][1] = share
			continue
		}
		c.Points = append(c.Points, [2]float64{at, share})
	}
	first := [][2]float64{{64, 0}, {float64(sorted[0] * htm.LineBytes), 0}}
	c.Points = append(first, c.Points...)
	paper := report.ChartCurve{Name: "paper, §2.1", Paper: true, Points: [][2]float64{{768, 100}}}
	return report.Chart{Title: "(b) random accesses", X: "working set [B]", Y: "abort rate [%]",
		LogX: true, Curves: []report.ChartCurve{c, paper}}
}
