package reproduce

import (
	"fmt"
	"math"
	"math/rand/v2"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/htm/bloom"
	"drtmd/htm/directory"
)

// hadesCluster is a cluster of which HADES §VI counts the storage.
type hadesCluster struct {
	name           string
	cores, perCore int     // C, m
	remote         int     // D: remote nodes of a transaction
	core, nic      float64 // KB
	tag            float64 // bits
}

func hadesClusters() []hadesCluster {
	return []hadesCluster{
		{"5 nodes of 5 cores", 5, 2, 4, 7.0, 11.0, 4},
		{"90 nodes of 16 cores", 16, 2, 5, 22.4, 43.1, 5},
	}
}

const (
	tableThree = "Table III"
	sixHADES   = "§VI"
	entryBytes = 100 // of a transaction in module (4b): "less than 100 B" (§VI); Table III has 90
	kib        = 1024.0
)

// hadesTable3 counts the storage of the filters of Table III, and with them that of §VI.
func hadesTable3(*Run) (*Outcome, error) {
	o := &Outcome{Conditions: "the geometries of htm/directory and htm/bloom; nothing is run"}
	c := directory.Hades(5, 2)
	pair := float64(c.Read.StorageBits()+c.Write.StorageBits()) / 8 / kib
	nicPair := 2 * float64(bloom.Plain().StorageBits()) / 8 / kib
	printedPair := rounded(pair, 1)
	equal := func(what, unit, section string, paper float64, digits int, reading string, ours float64) {
		o.Rows = append(o.Rows, number{what: what, unit: unit, section: section, printed: fixed(paper, digits), paper: paper,
			digits: digits, limit: within(0), reading: reading}.seen(rounded(ours, digits)))
	}
	equal("a core's pair of filters", "KB", tableThree, 0.7, 1, fmt.Sprintf("%g KiB", pair), pair)
	equal("a NIC's pair of filters", "KB", tableThree, 0.25, 2, "", nicPair)
	for _, x := range hadesClusters() {
		n := x.cores * x.perCore
		equal(x.name+": filters of the cores", "KB", sixHADES, x.core, 1,
			fmt.Sprintf("%d pairs; the paper multiplies the rounded %.1f KB", n, printedPair), printedPair*float64(n))
		equal(x.name+": tag of a line of the cache", "bits", sixHADES, x.tag, 0,
			"without a valid bit, which the model adds", float64(directory.Tag(n)))
		pairs := n * x.remote
		equal(x.name+": NIC", "KB", sixHADES, x.nic, 1, fmt.Sprintf("%d pairs, and %d entries of %d B: §VI says less than "+
			"100 B; with the 90 B of Table III the sum does not come out", pairs, n, entryBytes),
			nicPair*float64(pairs)+entryBytes*float64(n)/kib)
	}
	return o, nil
}

func rounded(v float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(v*scale) / scale
}

// tableIVFilter is a row of Table IV.
type tableIVFilter struct {
	name     string
	geometry bloom.Geometry
	printed  map[int]string
	paper    map[int]float64 // percent, by lines
}

func tableIVFilters() []tableIVFilter {
	five := directory.Hades(5, 2)
	return []tableIVFilter{
		{"1 Kbit", bloom.Plain(),
			map[int]string{10: "0.04", 20: "0.138", 50: "0.877", 76: "about 2", 100: "3.26"},
			map[int]float64{10: 0.04, 20: 0.138, 50: 0.877, 76: 2, 100: 3.26}},
		{"512 bit + 4 Kbit", bloom.CoreWrite(five.Cores * five.LLC.Sets),
			map[int]string{10: "0.003", 20: "0.022", 50: "0.093", 100: "0.439"},
			map[int]float64{10: 0.003, 20: 0.022, 50: 0.093, 100: 0.439}},
	}
}

// Lines of the columns of Table IV, and of the largest transaction (§VIII-C).
func tableIVLines() []int { return []int{10, 20, 50, 76, 100} }

const (
	eightC       = "§VIII-C"
	paperShare   = 0.25  // of the paper's number, or
	paperPoints  = 0.002 // percent, whichever is larger: its smallest cells are a handful of events
	formulaShare = 0.05
	fullEvents   = 5_000 // false positives that are counted: their standard error is 1.4 %
	quickEvents  = 500   // 4.5 %
	quickShare   = 0.2
	trialProbes  = 1_000 // of each filled filter
	hadesLines   = 1 << 30
	largestReads = 76
)

// hadesTable4 counts false positives of the filters' code.
func hadesTable4(r *Run) (*Outcome, error) {
	events, bound := pick(r, fullEvents, quickEvents), pick(r, formulaShare, quickShare)
	o := &Outcome{Conditions: fmt.Sprintf("htm/bloom, lines drawn from 64 GB, a last-level cache of 20,480 sets; about %d "+
		"false positives for each cell and seed, %s", events, r.seedsText())}
	chart := report.Chart{Title: "false positives by lines inserted", X: "lines", Y: "false positives [%]", LogY: true}
	filters, lines := tableIVFilters(), tableIVLines()
	done, total := 0, len(filters)*len(lines)*r.Seeds
	for _, f := range filters {
		formula := report.ChartCurve{Name: f.name + ", formula"}
		counted := report.ChartCurve{Name: f.name + ", counted"}
		paper := report.ChartCurve{Name: f.name + ", paper", Paper: true}
		for n := 5; n <= 100; n += 5 {
			formula.Points = append(formula.Points, [2]float64{float64(n), 100 * f.geometry.FalsePositives(n)})
		}
		for _, n := range lines {
			var shares []float64
			for seed := range r.Seeds {
				if err := r.step(done, total); err != nil {
					return nil, err
				}
				share, err := falsePositives(f.geometry, n, events, uint64(seed+1))
				if err != nil {
					return nil, err
				}
				shares = append(shares, 100*share)
				done++
			}
			o.Rows = append(o.Rows, f.rows(n, bound, shares)...)
			counted.Points = append(counted.Points, [2]float64{float64(n), mean(shares)})
			if f.printed[n] != "" {
				paper.Points = append(paper.Points, [2]float64{float64(n), f.paper[n]})
			}
		}
		chart.Curves = append(chart.Curves, formula, counted, paper)
	}
	o.Charts = []report.Chart{chart}
	if r.Quick {
		return o, nil
	}
	return o, o.squashes(r)
}

// rows compare a cell with the paper and with the formula.
func (f *tableIVFilter) rows(lines int, bound float64, shares []float64) (rows []report.ComparedRow) {
	name := fmt.Sprintf("%s, %d lines", f.name, lines)
	if printed := f.printed[lines]; printed != "" {
		paper := number{what: name, unit: "%", section: "Table IV", printed: printed, paper: f.paper[lines], digits: 4,
			limit: share(paperShare), reading: "two fields of one CRC-32 of the line's byte address; for the second section " +
				"the set of the cache, modulo 4,096"}
		if lines == largestReads {
			paper.section = eightC
			paper.reading = "the largest transaction reads 76 lines; all on one node"
		}
		if paperShare*paper.paper < paperPoints {
			paper.limit = within(paperPoints)
			paper.reading += "; the bound is in points, as the paper's cell is a handful of events"
		}
		rows = append(rows, paper.seen(shares...))
	}
	expected := 100 * f.geometry.FalsePositives(lines)
	reading := "(1 - (1 - 1/1024)^2n)^2"
	if f.geometry.IndexBits > 0 {
		reading = "(1 - (1 - 1/512)^n) (1 - (1 - 1/4096)^n)"
	}
	return append(rows, number{what: name + ": beside the formula", unit: "%", section: "formula",
		printed: fixed(expected, 4), paper: expected, digits: 4, limit: share(bound), reading: reading}.seen(shares...))
}

// falsePositives counts the lines that filters with so many other lines answer for, until about so many were
// expected.
func falsePositives(g bloom.Geometry, lines, events int, seed uint64) (float64, error) {
	f, err := bloom.New(g)
	if err != nil {
		return 0, err
	}
	draw := rand.New(rand.NewPCG(seed, 4))
	trials := max(1, int(float64(events)/g.FalsePositives(lines)/trialProbes))
	positives := 0
	for range trials {
		f.Clear()
		for range lines {
			f.Insert(bloom.Line(draw.Uint64N(hadesLines)))
		}
		for range trialProbes {
			if f.Contains(bloom.Line(draw.Uint64N(hadesLines))) {
				positives++
			}
		}
	}
	return float64(positives) / float64(trials*trialProbes), nil
}
