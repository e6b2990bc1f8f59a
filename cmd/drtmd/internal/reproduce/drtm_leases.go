package reproduce

import (
	"fmt"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/opmix"
)

// What Figure 19 has (§8.5): transactions of ten records, 10 % of them of another machine; 120 hot records.
const (
	leaseRecords = 10
	leaseFar     = 10 // percent
	hotRecords   = 120
	hotGain      = 29 // percent, at six machines: "up to"
	eightFive    = "§8.5"
	stockBytes   = 306 // of a record of TPC-C's STOCK, clause 4.2.2
)

// tenRecords is a microbenchmark with so many reads.
func tenRecords(keys, reads, hot int) func(machines int) (workload.Workload, error) {
	return func(machines int) (workload.Workload, error) {
		o := opmix.Default(machines)
		o.Keys, o.ValueBytes, o.Gets, o.Puts, o.Hot = keys, stockBytes, reads, leaseRecords-reads, hot
		o.Remote = leaseFar
		return opmix.New(o)
	}
}

// figure19 runs the microbenchmarks with read leases and without.
func figure19(r *Run) (*Outcome, error) {
	base := tpccCluster(r)
	base.settings = nil
	keys := base.workers * pick(r, 10_000, 1000)
	shares := pick(r, []int{0, 2, 4, 6, 8}, []int{0, 8})
	machines := pick(r, []int{1, 2, 4, 6}, []int{2, 6})
	w := &sweeper{r: r, total: 2 * (len(shares) + len(machines)) * r.Seeds}
	leases := []option.Settings{{"read-leases": "true"}, {"read-leases": "false"}}
	sweep := func(at []int, set func(c *cluster, n int)) (with, without *scaling, err error) {
		all := []*scaling{{at: at}, {at: at}}
		for i, s := range all {
			if err := w.sweep(s, base, func(c *cluster, n int) {
				c.settings = leases[i]
				set(c, n)
			}); err != nil {
				return nil, nil, err
			}
		}
		return all[0], all[1], nil
	}
	readWith, readWithout, err := sweep(shares, func(c *cluster, n int) {
		c.machines, c.load = mostMachines, tenRecords(keys, n, 0)
	})
	if err != nil {
		return nil, err
	}
	const hotReads = 1 // the others are written
	hotWith, hotWithout, err := sweep(machines, func(c *cluster, n int) {
		c.machines, c.load = n, tenRecords(keys, hotReads, hotRecords)
	})
	if err != nil {
		return nil, err
	}
	o := &Outcome{Conditions: fmt.Sprintf("preset %s, transactions of %d records of %d B, %d %% of another machine, %d records "+
		"per machine, %d workers of one fiber per machine, (a) six machines, (b) one of the records is read and of %d hot ones, "+
		"%s after %s, %s", cx3, leaseRecords, stockBytes, leaseFar, keys, base.workers, hotRecords, base.measured, base.warmup,
		r.seedsText())}
	var gains []float64
	for i, n := range shares {
		v := gain(readWith, readWithout, i)
		gains = append(gains, mean(v))
		o.Rows = append(o.Rows, number{what: fmt.Sprintf("(a) gain of read leases, %d %% reads", n*10), unit: "%", digits: 1}.
			seen(v...))
	}
	grows := true
	for i := 1; i < len(gains); i++ {
		grows = grows && gains[i] > gains[i-1]
	}
	o.Rows = append(o.Rows, claim("(a) the gain grows with the share of reads", eightFive, grows,
		"at every step: leased records need no unlock, and readers share them"))
	for i, n := range machines {
		row := number{what: "(b) gain of read leases, hotspot, " + machinesText(n), unit: "%", digits: 1}
		if n == mostMachines {
			row.printed, row.paper, row.section = "29", hotGain, eightFive
			row.limit, row.missed = share(speedUpBound), missedHot
		}
		o.Rows = append(o.Rows, row.seen(gain(hotWith, hotWithout, i)...))
	}
	if last := len(machines) - 1; !r.Quick { // two threads of a quick run do not compete for 120 records
		o.Rows = append(o.Rows, claim("(b) the gain is larger on more machines", eightFive,
			mean(gain(hotWith, hotWithout, last)) > mean(gain(hotWith, hotWithout, 0)), "the first and the last of the curve"))
	}
	o.Charts = []report.Chart{
		{Title: "(a) read-write", X: "reads of ten records", Y: "transactions [M/s]", Curves: []report.ChartCurve{
			readWith.curve("with read leases, modelled"), readWithout.curve("without, modelled")}},
		{Title: "(b) hotspot", X: "machines", Y: "transactions [M/s]", Curves: []report.ChartCurve{
			hotWith.curve("with read leases, modelled"), hotWithout.curve("without, modelled")}}}
	return o, nil
}

// gain is how much more one curve has at a place than another, in percent, seed by seed.
func gain(a, b *scaling, i int) (all []float64) {
	for _, x := range ratios(a.rates[i], b.rates[i]) {
		all = append(all, 100*(x-1))
	}
	return all
}
