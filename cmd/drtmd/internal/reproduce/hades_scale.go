package reproduce

import (
	"fmt"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
)

// Figures 12 and 13 of HADES: other networks, other shares of local requests, ten nodes; and what §VIII-C says of the
// structures.

const (
	eightD = "§VIII-D"
	eightE = "§VIII-E"
)

// Round trips and local shares of Figure 12, in the paper's order. The second network, and the first share, are
// the others' unit.
func roundTrips() []int      { return []int{1, 2, 3} }
func localShares() []float64 { return []float64{0.2, 0.5, 0.8} }

// hadesFigure12 is throughput by network latency, and by share of local requests.
func hadesFigure12(r *Run) (*Outcome, error) {
	two := paperCluster()
	o := &Outcome{Conditions: hadesConditions(r, &two) + "; (a) the switch takes what the round trip is longer or shorter, (b) a " +
		"share of the requests is to the own node, drawn one by one"}
	p := &progress{r: r, apps: pick(r, hadesApplications(r), hadesApplications(r)[1:2])}
	p.expect(len(roundTrips()) + len(localShares()))
	var networks, shares []speedTrial
	for _, us := range roundTrips() {
		t := paperCluster()
		if us != presetTrip { // that one is Figure 9's
			t.roundTrip = us
		}
		networks = append(networks, t)
	}
	for _, share := range localShares() {
		t := paperCluster()
		t.local = share
		shares = append(shares, t)
	}
	a, err := o.lines(p, networks, 1, "(a), round trip of %v us", func(i int) float64 { return float64(roundTrips()[i]) },
		report.Chart{Title: "throughput by round trip", X: "round trip [us]", Y: "times the baseline of 2 us"})
	if err != nil {
		return nil, err
	}
	b, err := o.lines(p, shares, 0, "(b), %v %% local", func(i int) float64 { return 100 * localShares()[i] },
		report.Chart{Title: "throughput by share of local requests", X: "local requests [%]", Y: "times the baseline of 20 %"})
	if err != nil {
		return nil, err
	}
	hybrid, hades := 0, 1
	drawn := o.Charts[1].Curves // the baseline, HADES-H, HADES
	up := func(c int) bool {
		p := drawn[c].Points
		return p[0][1] < p[1][1] && p[1][1] < p[2][1]
	}
	o.Rows = append(o.Rows,
		order("(b): HADES rises as more is local, over the baseline of 20 %", eightD, up(2), "as the paper draws it"),
		order("(b): HADES-H does not, over the baseline of 20 %", eightD, !up(1), "as the paper draws it"),
		order("(a): HADES gains more over the baseline as the latency decreases", eightD, a[hades][0] > a[hades][1] &&
			a[hades][1] > a[hades][2], "mean of the applications, each over the baseline of the same network"),
		because(order("(b): HADES gains more over the baseline as more is local", eightD, b[hades][2] > b[hades][1] &&
			b[hades][1] > b[hades][0], "mean of the applications, each over the baseline of the same share"), missedLocal),
		order("(b): HADES-H gains less over the baseline as more is local", eightD, b[hybrid][2] < b[hybrid][1] &&
			b[hybrid][1] < b[hybrid][0], "the same"))
	return o, nil
}

const missedLocal = "the baseline rises, too, as more is local: its software takes as long for a local record as for another, and " +
	"waits for no round trip; it has no misses of caches, which HADES' lines have"

// because gives a missed row its cause.
func because(r report.ComparedRow, why string) report.ComparedRow {
	if r.Exceeds {
		r.Missed = why
	}
	return r
}

// lines runs trials, and adds a row and a point for each and protocol, relative to the baseline of one of them. It gives
// the mean gains over the baseline of the same trial, by contender.
func (o *Outcome) lines(p *progress, trials []speedTrial, unit int, name string, x func(int) float64,
	c report.Chart) ([][]float64, error) {
	contenders := hadesContenders()
	names := []string{"baseline"}
	for _, k := range contenders {
		names = append(names, k.name)
	}
	gains := make([][]float64, len(contenders))
	all := make([][]gained, len(trials)) // by protocol
	for i := range trials {
		base, rates, err := p.rates(&trials[i], throughput)
		if err != nil {
			return nil, err
		}
		all[i] = append([]gained{base}, rates...)
		for j, g := range rates {
			gains[j] = append(gains[j], mean(g.over(base).means()))
		}
	}
	for j, who := range names {
		curve := report.ChartCurve{Name: who + ", modelled"}
		for i := range trials {
			v := all[i][j].over(all[unit][0]).means()
			o.Rows = append(o.Rows, number{what: who + " " + fmt.Sprintf(name, x(i)), unit: "x", digits: 2}.seen(v...))
			curve.Points = append(curve.Points, [2]float64{x(i), mean(v)})
		}
		c.Curves = append(c.Curves, curve)
	}
	o.Charts = append(o.Charts, c)
	return gains, nil
}

// hadesFigure13 is throughput on ten nodes of five cores.
func hadesFigure13(r *Run) (*Outcome, error) {
	t := speedTrial{nodes: 10, cores: hadesCores}
	o := &Outcome{Conditions: hadesConditions(r, &t)}
	apps := pick(r, hadesApplications(r), hadesApplications(r)[1:3])
	p := &progress{r: r, apps: apps}
	p.expect(1)
	base, all, err := p.rates(&t, throughput)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = all[i].over(base)
	}
	for i, c := range hadesContenders() {
		o.Rows = append(o.Rows, number{what: c.name + ", mean", unit: "x", section: eightE, printed: "as Figure 9: " + c.printed,
			paper: c.times, digits: 2, limit: share(speedBound), missed: missedWide, reading: "throughput over that of the " +
				"baseline, mean of the applications: the paper says \"similar\""}.seen(all[i].means()...))
		for j, app := range apps {
			o.Rows = append(o.Rows, number{what: c.name + ", " + app.name, unit: "x", digits: 2}.seen(all[i][j]...))
		}
	}
	o.Charts = []report.Chart{bars(apps, "throughput over the baseline's, ten nodes", "times", all)}
	return o, nil
}

// squashes counts squashes by evictions, with all requests local, and false conflicts of the usual cluster (§VIII-C).
func (o *Outcome) squashes(r *Run) error {
	local, apart := paperCluster(), paperCluster()
	local.local = 1
	apps := hadesApplications(r)
	o.Conditions += "; runs: " + hadesConditions(r, &apart) + ", and for evictions with all requests to the own node"
	runs := &progress{r: r, apps: apps}
	runs.expect(1)
	share := func(t *speedTrial, protocol string, of func(*proto.Stats) float64) (gained, error) {
		return runs.ratesOf(t, protocol, func(got *trialResult) float64 { return 100 * of(&got.engine) })
	}
	evicted, err := share(&local, hadesName, func(s *proto.Stats) float64 {
		return float64(s.Evicted) / float64(max(1, s.Begun))
	})
	if err != nil {
		return err
	}
	o.Rows = append(o.Rows, number{what: "HADES, transactions squashed by an eviction, mean", unit: "%", section: eightC,
		printed: "0.1", paper: 0.1, digits: 2, reading: "tables are smaller than the paper's, so that caches hold them: not " +
			"judged"}.seen(evicted.means()...))
	for j, app := range apps {
		o.Rows = append(o.Rows, number{what: "HADES, evictions, " + app.name, unit: "%", digits: 2}.seen(evicted[j]...))
	}
	for i, printed := range []string{"0.02", "0.04"} {
		c, paper := hadesContenders()[i], []float64{0.02, 0.04}[i]
		wrong, err := share(&apart, c.protocol, func(s *proto.Stats) float64 {
			return float64(s.FalseConflicts) / float64(max(1, s.Checks))
		})
		if err != nil {
			return err
		}
		o.Rows = append(o.Rows, number{what: c.name + ", comparisons that are positive by mistake, mean", unit: "%",
			section: eightC, printed: printed, paper: paper, digits: 3, limit: within(falsePoints), missed: missedFalse,
			reading: "a line against one filter of another transaction"}.seen(wrong.means()...))
		apiece, err := share(&apart, c.protocol, func(s *proto.Stats) float64 {
			return float64(s.FalseConflicts) / float64(max(1, s.Compared))
		})
		if err != nil {
			return err
		}
		o.Rows = append(o.Rows, number{what: c.name + ", mistakes of lines that are compared with all filters at once, mean",
			unit: "%", digits: 3, reading: "HADES does not say what an operation is; hardware compares a line with the filters " +
				"of all other transactions of a node in parallel (§V-B), which is this one"}.seen(apiece.means()...))
		for j, app := range apps {
			o.Rows = append(o.Rows, number{what: c.name + ", mistakes, " + app.name, unit: "%", digits: 3}.seen(wrong[j]...))
		}
	}
	return nil
}

const (
	falsePoints = 0.02 // percent: as much as the paper's two numbers differ
	missedFalse = "records of ten of the eleven applications are one line or two here, so that filters have few; TPC-C alone has " +
		"enough for mistakes. A line that is compared with all filters at once, below, has about the paper's share"
)
