package reproduce

import (
	"fmt"
	"strconv"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/htm"
	"drtmd/proto/option"
	"drtmd/proto/workload/tpcc"
)

// Table I and Figure 1 (§2.1): transactions that are one region each.

// naiveGeometry is what §2.1 says of a region: it "will definitely abort after it writes 768 bytes", whichever sets they
// fall into; 32 KB of reads fit.
func naiveGeometry() htm.Geometry {
	return htm.Geometry{LineBytes: htm.LineBytes, Sets: 1, Ways: 768 / htm.LineBytes, ReadLines: 32 << 10 / htm.LineBytes}
}

// workingSet is a line of Table I: averages in bytes, and how often the transaction took the fallback path, and for want of
// capacity of these, in percent.
type workingSet struct {
	name          string
	read, written int
	path, cap     float64
}

func workingSets() []workingSet {
	return []workingSet{
		{"SP", 905, 396, 0, 0}, {"AMG", 1432, 437, 0, 0}, {"BAL", 902, 286, 0, 0}, {"DC", 684, 322, 0, 0},
		{"WC", 967, 347, 0, 0}, {"TS", 640, 323, 0, 0}, {"NEW", 6757, 1174, 97.2, 99.9}, {"PAY", 1040, 646, 58.2, 0.8},
		{"DLY", 12_216, 2378, 100, 95.4}, {"OS", 2186, 715, 45, 43}, {"SL", 38_516, 838, 100, 91.6},
	}
}

// mostly is the share of fallbacks, in percent, from which a transaction exceeds the capacity as a rule.
const mostly = 50

// tableI runs regions with the working sets of the table, in memory at random places.
func tableI(r *Run) (*Outcome, error) {
	b := newBedOf(naiveGeometry())
	o := &Outcome{Conditions: fmt.Sprintf("regions of the sizes of the table, whose averages are of an unpublished build, with "+
		"room for %d written and %d read lines of %d B: \"definitely abort after it writes 768 bytes\", and 32 KB of reads (§2.1)",
		b.geometry.Ways, b.geometry.ReadLines, htm.LineBytes)}
	for _, s := range workingSets() {
		overflows, err := b.overflows(s.read, s.written)
		if err != nil {
			return nil, err
		}
		row := word(s.name+": more than a region can hold", "Table I", yes(s.path*s.cap/100 > mostly), yes(overflows),
			fmt.Sprintf("%d B read, %d B written; %.1f %% on the fallback path, %.1f %% of these for want of capacity", s.read,
				s.written, s.path, s.cap))
		o.Rows = append(o.Rows, row)
		if err := r.step(len(o.Rows), len(workingSets())); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// figure1 runs SmallBank and TPC-C on one machine, each transaction as one region.
func figure1(r *Run) (*Outcome, error) {
	size, base := tpccScaleOf(r), tpccCluster(r)
	at := pick(r, []int{1, 2, 4, 8}, []int{1, 2})
	small, naive, pieces := &scaling{at: at}, &scaling{at: at}, &scaling{at: at}
	w := &sweeper{r: r, total: 3 * len(at) * r.Seeds}
	if err := w.sweep(small, base, func(c *cluster, n int) { c.workers, c.settings = n, nil }); err != nil {
		return nil, err
	}
	var last []*load.Result
	for _, n := range at {
		c := base
		c.workers, c.settings, c.load = n, option.Settings{"region-writes": strconv.Itoa(naiveGeometry().Ways)}, size.load(n, nil)
		c.measured = pick(r, 20*time.Millisecond, 30*time.Millisecond) // the fallback path takes a millisecond and more
		runs, err := w.results(c)
		if err != nil {
			return nil, err
		}
		last, naive.rates = runs, append(naive.rates, each(runs, finished))
	}
	if err := w.sweep(pieces, base, func(c *cluster, n int) {
		c.workers, c.load = n, size.load(n, nil)
	}); err != nil {
		return nil, err
	}
	return figure1Outcome(r, size, &base, last, small, naive, pieces), nil
}

func figure1Outcome(r *Run, size tpccScale, base *cluster, last []*load.Result, small, naive, pieces *scaling) *Outcome {
	o := &Outcome{Conditions: size.conditions(r, base, "one machine; TPC-C's whole transactions in regions that write at "+
		"most 768 B (§2.1), measured longer, all others in those of htm.DefaultGeometry; ")}
	poor := true
	for i := range naive.at {
		poor = poor && 2*mean(naive.rates[i]) < mean(pieces.rates[i])
	}
	o.Rows = []report.ComparedRow{
		claim("SmallBank: each doubling of the threads gives more", "§2.1", rising(small), "the shape of the curve"),
		claim("TPC-C: poor, less than half of what pieces do at each number of threads", "§2.1", poor,
			"the paper compares with Silo and DBX, which are not here: DrTM in pieces is (drtm/figure-15)"),
	}
	for _, x := range []struct {
		kind   tpcc.Kind
		name   string
		mostly bool
		path   string
		paper  float64
	}{{tpcc.NewOrder, "NEW", true, "97.2", 97.2}, {tpcc.Payment, "PAY", false, "58.2", 58.2},
		{tpcc.Delivery, "DLY", true, "100.0", 100}} {
		path, capacity := each(last, fallenShare(x.kind)), mean(each(last, capacityShare(x.kind)))
		o.Rows = append(o.Rows, number{what: x.name + ", whole, on the fallback path", unit: "%", section: "Table I",
			printed: x.path, paper: x.paper, digits: 1, reading: "transactions that have committed there; working sets of an unpublished build: not judged"}.
			seen(path...))
		ours := word(x.name+", whole: falls back mostly for want of capacity", "Table I", yes(x.mostly), yes(capacity > mostly),
			fmt.Sprintf("%.1f %% of ours", capacity))
		if ours.Exceeds {
			ours.Missed = missedSets
		}
		o.Rows = append(o.Rows, ours)
	}
	for _, x := range []struct {
		name string
		s    *scaling
	}{{"SmallBank", small}, {"TPC-C, whole", naive}, {"TPC-C, in pieces", pieces}} {
		for i, n := range x.s.at {
			o.Rows = append(o.Rows, number{what: fmt.Sprintf("rate with %d threads, %s", n, x.name), unit: "M/s", digits: 3,
				reading: finishedReading}.seen(x.s.millions(i)...))
		}
	}
	o.Charts = []report.Chart{{Title: "(a) SmallBank", X: "threads", Y: "transactions [M/s]",
		Curves: []report.ChartCurve{small.curve("whole, modelled")}},
		{Title: "(b) TPC-C", X: "threads", Y: "transactions [M/s]", Curves: []report.ChartCurve{
			naive.curve("whole, modelled"), pieces.curve("in pieces, modelled")}}}
	if len(small.at) < 3 { // quick
		o.Charts = o.Charts[1:]
	}
	return o
}
