package reproduce

import (
	"fmt"
	"strings"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/occ/farm"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/keyvalue"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tatp"
	"drtmd/proto/workload/tpcc"
	"drtmd/proto/workload/ycsb"
)

// Figures 9 to 11 of HADES: throughput and latency of HADES and HADES-H relative to the software baseline, which is FaRM.

// The cluster of HADES §VII.
const (
	hadesNodes, hadesCores, hadesPerCore = 5, 5, 2

	eightA      = "§VIII-A"
	eightB      = "§VIII-B"
	speedBound  = 0.15      // of the paper's mean
	speedPreset = hadesName // as the system is called
	hadesTheta  = 0.99      // assumed: HADES says "zipfian"
)

// contender is a protocol of the figures, by the paper's name.
type contender struct {
	name, protocol  string
	printed, lessIs string // printed numbers: throughput, and by how much the mean latency is less
	times, percent  float64
}

// hadesContenders are those beside the baseline.
func hadesContenders() []contender {
	return []contender{
		{name: "HADES-H", protocol: hybridName, printed: "2.3", times: 2.3, lessIs: "-54", percent: -54},
		{name: "HADES", protocol: hadesName, printed: "2.7", times: 2.7, lessIs: "-60", percent: -60},
	}
}

// speedTrial is a cluster with its workloads.
type speedTrial struct {
	nodes, cores int
	local        float64 // share of the requests to the own node; 0: as of all nodes
	roundTrip    int     // between NICs, in microseconds; 0: the preset's
	lean         bool    // the baseline's software takes no time of its own
}

// baselineSettings make farm HADES' baseline: its software takes what HADES Figure 3 was calibrated to.
func baselineSettings() option.Settings { return option.Settings{farm.OptSoftware: farm.SoftwareHADES} }

// paperCluster is the cluster of HADES §VII.
func paperCluster() speedTrial { return speedTrial{nodes: hadesNodes, cores: hadesCores} }

// application is a workload of the figures.
type application struct {
	name string
	make func(t *speedTrial, scale int) (workload.Workload, error)
}

// hadesApplications are the eleven of §VII: TPC-C, TATP, Smallbank, and each store with wA and wB, in turn.
func hadesApplications(r *Run) []application {
	store := func(s keyvalue.Store, letter string) func(*speedTrial, int) (workload.Workload, error) {
		return func(t *speedTrial, scale int) (workload.Workload, error) {
			o := ycsb.Default(t.nodes)
			o.Letter, o.Keys, o.Operations, o.ValueBytes = letter, 20*scale, requests, oneLineBytes
			o.Distribution, o.Theta, o.Local, o.Store = ycsb.Zipfian, hadesTheta, t.local, s
			return ycsb.New(o)
		}
	}
	all := []application{
		{"TPC-C", func(t *speedTrial, scale int) (workload.Workload, error) {
			o := tpcc.Default(t.nodes)
			o.Warehouses, o.Items, o.Customers, o.Orders = 4*t.cores, scale, 30, 1000
			o.Anywhere, o.Local = true, t.local
			o.Mix = hadesMix()
			return tpcc.New(o)
		}},
		{"TATP", func(t *speedTrial, scale int) (workload.Workload, error) {
			o := tatp.Default(t.nodes)
			if o.Subscribers = 5 * scale; t.local > 0 {
				o.Anywhere, o.Far = false, 1-t.local
			}
			return tatp.New(o)
		}},
		{"Smallbank", func(t *speedTrial, scale int) (workload.Workload, error) {
			o := smallbank.Default(t.nodes)
			o.Accounts = 20 * scale
			if o.PlaceAnywhere(); t.local > 0 {
				o.Anywhere, o.Distributed = 1-t.local, 1-t.local
			}
			return smallbank.New(o)
		}},
	}
	for _, s := range []struct {
		name  string
		store keyvalue.Store
	}{{"HT", keyvalue.HashTable}, {"Map", keyvalue.Map}, {"BTree", keyvalue.BTree}, {"B+Tree", keyvalue.BPlusTree}} {
		all = append(all, application{s.name + writesA, store(s.store, "A")}, application{s.name + writesB, store(s.store, "B")})
	}
	return pick(r, all, all[2:5]) // the first two take a while to load
}

// What the names of stores under wA and wB end with.
const (
	writesA = "-wA"
	writesB = "-wB"
)

// endsWith are the mean numbers of the applications whose names end so.
func (g gained) endsWith(apps []application, end string) float64 {
	sum, n := 0.0, 0.0
	for i, app := range apps {
		if strings.HasSuffix(app.name, end) {
			sum, n = sum+mean(g[i]), n+1
		}
	}
	return sum / n
}

// hadesMix is that of TPC-C: the transactions that fit into what HADES says of its applications, at most 76 lines that are
// read and 40 that are written (§VIII-C). A delivery of ten districts writes more than 100, a stock-level reads about 300,
// and fills filters of 1,024 bits.
func hadesMix() [5]int { return [5]int{49, 47, 4, 0, 0} }

// gained is what a contender is, relative to the baseline, by application and seed.
type gained [][]float64

// means over applications, by seed.
func (g gained) means() (all []float64) {
	for seed := range g[0] {
		sum := 0.0
		for _, app := range g {
			sum += app[seed]
		}
		all = append(all, sum/float64(len(g)))
	}
	return all
}

// sizes of the runs: of tables, and times.
func hadesSizes(r *Run) (scale int, warmup, measured time.Duration) {
	return pick(r, 1000, 100), 50 * time.Microsecond, pick(r, 1*time.Millisecond, 100*time.Microsecond)
}

// hadesConditions say what a run is made with.
func hadesConditions(r *Run, t *speedTrial) string {
	scale, _, measured := hadesSizes(r)
	n := t.nodes
	return fmt.Sprintf("baseline %s --%s %s, preset %s, %d nodes of %d cores with %d transactions each; in all %d accounts (1/%d of "+
		"the paper's), %d keys (1/%d), %d subscribers (1/%d), %d stock rows of %d warehouses (1/%d of 10 M items); TPC-C of new-order, "+
		"payment and order-status, 49, 47 and 4 %%, as the others do not fit into 76 lines read and 40 written (§VIII-C); stores with "+
		"Zipf %g and values of %d B; %s, %s", farmName, farm.OptSoftware, farm.SoftwareHADES, speedPreset, n, t.cores, hadesPerCore,
		20*scale*n, 5_000_000/(20*scale*n), 20*scale*n, 4_000_000/(20*scale*n), 5*scale*n, 1_000_000/(5*scale*n), 4*t.cores*scale*n,
		4*t.cores*n, 10_000_000/(4*t.cores*scale*n), hadesTheta, oneLineBytes, measured, r.seedsText())
}

// hadesRuns runs all protocols under all applications. measure takes a number of a run; what is given back is that of
// each contender over the baseline's, and over that of a baseline whose software takes no time of its own, if ablate.
func hadesRuns(r *Run, o *Outcome, ablate bool, measure func(*trialResult) float64) (all, overLean []gained, err error) {
	t := paperCluster()
	o.Conditions = hadesConditions(r, &t)
	p := &progress{r: r, apps: hadesApplications(r)}
	p.expect(1)
	base, rates, err := p.rates(&t, measure)
	if err != nil {
		return nil, nil, err
	}
	for _, g := range rates {
		all = append(all, g.over(base))
	}
	if !ablate {
		return all, nil, nil
	}
	t.lean = true
	base, err = p.ratesOf(&t, farmName, measure)
	for i := range rates {
		if err == nil {
			overLean = append(overLean, rates[i].over(base))
		}
	}
	return all, overLean, err
}

// progress runs applications, and counts the runs.
type progress struct {
	r           *Run
	apps        []application
	done, total int
}

// expect says how many trials there will be.
func (p *progress) expect(trials int) {
	p.total = trials * len(p.apps) * (1 + len(hadesContenders())) * p.r.Seeds
}

// rates runs the baseline and the contenders. measure takes a number of a run.
func (p *progress) rates(t *speedTrial, measure func(*trialResult) float64) (base gained, all []gained, err error) {
	if base, err = p.ratesOf(t, farmName, measure); err != nil {
		return nil, nil, err
	}
	for _, c := range hadesContenders() {
		g, err := p.ratesOf(t, c.protocol, measure)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, g)
	}
	return base, all, nil
}

func (p *progress) ratesOf(t *speedTrial, protocol string, measure func(*trialResult) float64) (g gained, err error) {
	for _, app := range p.apps {
		var list []float64
		for seed := range p.r.Seeds {
			if err := p.r.step(p.done, p.total); err != nil {
				return nil, err
			}
			p.done++
			got, err := p.r.runTrial(t, app, protocol, seed)
			if err != nil {
				return nil, err
			}
			list = append(list, measure(got))
		}
		g = append(g, list)
	}
	return g, nil
}

// over are the ratios to those of another protocol, or of another trial.
func (g gained) over(unit gained) (all gained) {
	for app := range g {
		var list []float64
		for seed := range g[app] {
			list = append(list, g[app][seed]/unit[app][seed])
		}
		all = append(all, list)
	}
	return all
}

// applicationsAxis numbers the applications.
func applicationsAxis(apps []application) string {
	x := "application:"
	for i, app := range apps {
		x += fmt.Sprintf(" %d %s", i+1, app.name)
	}
	return x
}

// bars are the figure's, one for each application.
func bars(apps []application, title, y string, all []gained) report.Chart {
	c := report.Chart{Title: title, X: applicationsAxis(apps), Y: y}
	for i, x := range hadesContenders() {
		curve := report.ChartCurve{Name: x.name + ", modelled"}
		for j, app := range all[i] {
			curve.Points = append(curve.Points, [2]float64{float64(j + 1), mean(app)})
		}
		c.Curves = append(c.Curves, curve)
	}
	return c
}

const missedSpeed = "the software of the baseline has the three sums of Figure 3 to go by, and no number for a network of 2 us " +
	"or records of another size; tables are smaller, so that more transactions meet"

const missedOrder = "assumed, and not measured one by one: fields of one record conflict here, as the line of its header is " +
	"accessed with each; HADES squashes at the second local access"

// hadesFigure9 is throughput.
func hadesFigure9(r *Run) (*Outcome, error) {
	o := &Outcome{}
	all, overLean, err := hadesRuns(r, o, !r.Quick, throughput)
	if err != nil {
		return nil, err
	}
	apps := hadesApplications(r)
	for i, c := range hadesContenders() {
		o.Rows = append(o.Rows, number{what: c.name + ", mean", unit: "x", section: eightA, printed: c.printed, paper: c.times,
			digits: 2, limit: share(speedBound), missed: missedSpeed, reading: "throughput over that of the baseline, mean of " +
				"the applications"}.seen(all[i].means()...))
		for j, app := range apps {
			o.Rows = append(o.Rows, number{what: c.name + ", " + app.name, unit: "x", digits: 2}.seen(all[i][j]...))
		}
	}
	for i, g := range overLean {
		o.Rows = append(o.Rows, number{what: hadesContenders()[i].name + ", mean, over a baseline without the software of Figure 3",
			unit: "x", digits: 2, reading: "ablation: the baseline waits for the network then, as HADES does"}.seen(g.means()...))
	}
	h := all[len(all)-1]
	o.Rows = append(o.Rows,
		order("HADES gains more under wA than under wB", eightA, h.endsWith(apps, writesA) > h.endsWith(apps, writesB),
			"mean of the stores"),
		order("HADES gains more than HADES-H", eightA, mean(h.means()) > mean(all[0].means()), "mean"))
	o.Charts = []report.Chart{bars(apps, "throughput over the baseline's", "times", all)}
	return o, nil
}

// order is an order that the paper states.
func order(what, section string, is bool, reading string) report.ComparedRow {
	ours := "no"
	if is {
		ours = "yes"
	}
	r := word(what, section, "yes", ours, reading)
	if r.Exceeds {
		r.Missed = missedOrder
	}
	return r
}

// latency is the rows and the chart of a figure of latency. paper: the means are compared with §VIII-B's.
func latency(r *Run, what string, paper bool, measure func(load.Latency) float64) (*Outcome, error) {
	o := &Outcome{}
	all, _, err := hadesRuns(r, o, false, func(got *trialResult) float64 { return measure(got.latency) })
	if err != nil {
		return nil, err
	}
	for i := range all {
		for _, app := range all[i] {
			for seed := range app {
				app[seed] = 100 * (app[seed] - 1)
			}
		}
	}
	apps := hadesApplications(r)
	for i, c := range hadesContenders() {
		n := number{what: c.name + ", mean of the applications", unit: "%", digits: 1}
		if paper {
			n.section, n.printed, n.paper, n.limit, n.missed = eightB, c.lessIs, c.percent, share(speedBound), missedSpeed
			n.reading = "mean latency of committed transactions beside the baseline's, mean of the applications"
		}
		o.Rows = append(o.Rows, n.seen(all[i].means()...))
		for j, app := range apps {
			o.Rows = append(o.Rows, number{what: c.name + ", " + app.name, unit: "%", digits: 1}.seen(all[i][j]...))
		}
	}
	last := len(all) - 1
	o.Rows = append(o.Rows, order("HADES reduces "+what+" more than HADES-H", eightB,
		mean(all[last].means()) < mean(all[0].means()), "mean"))
	o.Charts = []report.Chart{bars(apps, what+" beside the baseline's", "%", all)}
	return o, nil
}

// hadesFigure10 is mean latency, hadesFigure11 the 95th percentile.
func hadesFigure10(r *Run) (*Outcome, error) {
	o, err := latency(r, "mean latency", true, func(l load.Latency) float64 { return l.MeanNs })
	if err == nil {
		err = o.byPhase(r)
	}
	return o, err
}

func hadesFigure11(r *Run) (*Outcome, error) {
	return latency(r, "the 95th percentile", false, func(l load.Latency) float64 { return float64(l.P95Ns) })
}
