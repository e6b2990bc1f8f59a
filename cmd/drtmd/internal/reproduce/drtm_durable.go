package reproduce

import (
	"maps"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/workload/tpcc"
)

// Table VIII (§8.7): six machines with eight threads.
const (
	eightSeven   = "§8.7"
	logBound     = 3.0 // points
	allUnlogged  = 3_670_355
	allLogged    = 3_243_135
	newUnlogged  = 1_651_763
	newLogged    = 1_459_495
	capUnlogged  = 39.26
	capLogged    = 43.68
	fallUnlogged = 10.02
	fallLogged   = 14.80
)

// logged is a line of the table: without logs and with.
type logged struct {
	what, unit    string
	digits        int
	printed       [2]string
	paper         [2]float64
	of            func(*load.Result) float64
	change        string // what is judged: the change in percent, "points" or "" for nothing
	changePrinted string
	missed        string
}

func microseconds(of func(*load.Latency) int64) func(*load.Result) float64 {
	return func(r *load.Result) float64 { return float64(of(&r.Latency[0])) / 1000 }
}

// tableVIIILines are its lines.
func tableVIIILines() []logged {
	return []logged{
		{"standard mix", "M/s", 2, [2]string{"3.67", "3.24"}, [2]float64{allUnlogged / 1e6, allLogged / 1e6},
			func(r *load.Result) float64 { return finished(r) / 1e6 }, "%", "-11.6", missedLogs},
		{"new orders", "M/s", 2, [2]string{"1.65", "1.46"}, [2]float64{newUnlogged / 1e6, newLogged / 1e6},
			func(r *load.Result) float64 { return perSecond(r, tpcc.NewOrder) / 1e6 }, "%", "-11.6", missedLogs},
		{"median latency", "us", 2, [2]string{"6.55", "7.02"}, [2]float64{6.55, 7.02},
			microseconds(func(l *load.Latency) int64 { return l.P50Ns }), "", "", ""},
		{"latency of 90 %", "us", 2, [2]string{"23.67", "30.45"}, [2]float64{23.67, 30.45},
			microseconds(func(l *load.Latency) int64 { return l.P90Ns }), "", "", ""},
		{"latency of 99 %", "us", 2, [2]string{"86.96", "91.14"}, [2]float64{86.96, 91.14},
			microseconds(func(l *load.Latency) int64 { return l.P99Ns }), "", "", ""},
		{"capacity aborts, of all regions", "%", 2, [2]string{"39.26", "43.68"}, [2]float64{capUnlogged, capLogged},
			func(r *load.Result) float64 {
				return 100 * float64(r.Sum.Engine.Aborts[proto.ReasonCapacity]) / float64(max(1, r.Sum.Engine.RegionRuns))
			}, "points", "+4.42", missedPaths},
		{"transactions on the fallback path", "%", 2, [2]string{"10.02", "14.80"}, [2]float64{fallUnlogged, fallLogged},
			func(r *load.Result) float64 {
				return 100 * float64(r.Sum.Engine.Fallbacks) / float64(max(1, r.Sum.Outcomes(proto.Committed)))
			}, "points", "+4.78", missedPaths},
	}
}

// tableVIII runs TPC-C with logs and without.
func tableVIII(r *Run) (*Outcome, error) {
	size, base := tpccScaleOf(r), tpccCluster(r)
	base.machines, base.every, base.load = mostMachines, 1, size.load(base.workers, nil)
	w := &sweeper{r: r, total: 2 * r.Seeds}
	var runs [2][]*load.Result
	for i := range runs {
		c := base
		if i == 1 {
			c.settings = option.Settings{"durable": "true"}
			maps.Copy(c.settings, base.settings)
		}
		var err error
		if runs[i], err = w.results(c); err != nil {
			return nil, err
		}
	}
	o := &Outcome{Conditions: size.conditions(r, &base, "six machines, logs in the memory of the tables, ")}
	chart := report.Chart{Title: "latency of committed transactions", X: "percentile", Y: "latency [us]"}
	curves := [2]report.ChartCurve{{Name: "without logs, modelled"}, {Name: "with logs, modelled"}}
	for n, l := range tableVIIILines() {
		o.Rows = append(o.Rows, l.rows(runs)...)
		for i := range curves {
			if at := []float64{0, 0, 50, 90, 99}; n < len(at) && at[n] > 0 {
				curves[i].Points = append(curves[i].Points, [2]float64{at[n], mean(each(runs[i], l.of))})
			}
		}
	}
	chart.Curves = curves[:]
	o.Charts = []report.Chart{chart}
	return o, nil
}

// rows are both numbers, and the change if it is judged.
func (l *logged) rows(runs [2][]*load.Result) (rows []report.ComparedRow) {
	values := [2][]float64{each(runs[0], l.of), each(runs[1], l.of)}
	for i, with := range []string{"without logs", "with logs"} {
		rows = append(rows, number{what: l.what + ", " + with, unit: l.unit, section: "Table VIII", printed: l.printed[i],
			paper: l.paper[i], digits: l.digits, reading: "costs of local work are assumed: changes are judged"}.
			seen(values[i]...))
	}
	if l.change == "" {
		return rows
	}
	var changes []float64
	paper := l.paper[1] - l.paper[0]
	for s := range values[0] {
		d := values[1][s] - values[0][s]
		if l.change == "%" {
			d *= 100 / values[0][s]
		}
		changes = append(changes, d)
	}
	if l.change == "%" {
		paper *= 100 / l.paper[0]
	}
	return append(rows, number{what: l.what + ", change by logs", unit: l.change, section: eightSeven,
		printed: l.changePrinted, paper: paper, digits: 1, limit: within(logBound), missed: l.missed}.seen(changes...))
}
