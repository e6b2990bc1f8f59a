package reproduce

import (
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/proto/workload/tpcc"
)

// What figures and tables with TPC-C share (DrTM §8.1): a warehouse of ten districts for each worker, the standard mix,
// 1 % of the items of a new order and 15 % of the payments of another warehouse. Tables are scaled down, so that a run
// takes seconds.

// tpccScale is the size of a warehouse, and its room for new orders.
type tpccScale struct{ items, customers, orders int }

func tpccScaleOf(r *Run) tpccScale {
	return pick(r, tpccScale{10_000, 300, 500}, tpccScale{1000, 60, 200})
}

// words says what the scale is.
func (s tpccScale) words() string {
	return fmt.Sprintf("%d items and %d customers per district (the specification: %d, %d)", s.items, s.customers,
		tpcc.SpecItems, tpcc.SpecCustomers)
}

// load makes TPC-C with a warehouse for each worker. change, if not nil, has the last word.
func (s tpccScale) load(workers int, change func(*tpcc.Options)) func(machines int) (workload.Workload, error) {
	return func(machines int) (workload.Workload, error) {
		o := tpcc.Default(machines)
		o.Warehouses, o.Items, o.Customers, o.Orders = workers, s.items, s.customers, s.orders
		if change != nil {
			change(&o)
		}
		return tpcc.New(o)
	}
}

// chopped runs transactions in pieces, as DrTM's evaluation does.
func chopped() option.Settings { return option.Settings{protocol.OptChopped: "true"} }

// tpccCluster is DrTM under TPC-C on one machine.
func tpccCluster(r *Run) cluster {
	return cluster{protocol: drtmName, settings: chopped(), fibers: 1, machines: 1, workers: pick(r, 8, 2),
		mutation: r.Mutation, warmup: pick(r, time.Millisecond, 200*time.Microsecond),
		measured: pick(r, 3*time.Millisecond, 500*time.Microsecond)}
}

// conditions of a figure.
func (s tpccScale) conditions(r *Run, c *cluster, more string) string {
	return fmt.Sprintf("TPC-C in pieces, preset %s, one warehouse and one fiber per worker, %s, %s%s after %s, %s", cx3,
		s.words(), more, c.measured, c.warmup, r.seedsText())
}

// perSecond is how many transactions of a kind were committed in a second of virtual time.
func perSecond(r *load.Result, k tpcc.Kind) float64 {
	return float64(r.Sum.Counts.Kinds[k].Outcomes[proto.Committed]) / r.Elapsed.Seconds()
}

// results runs a cluster with each seed.
func (w *sweeper) results(c cluster) (all []*load.Result, err error) {
	for seed := range w.r.Seeds {
		if err := w.r.step(w.done, w.total); err != nil {
			return nil, err
		}
		c.seed = uint64(seed + 1)
		x, err := c.run(w.r.ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
		w.done++
	}
	return all, nil
}

// each is a number of every result.
func each(all []*load.Result, of func(*load.Result) float64) (values []float64) {
	for _, x := range all {
		values = append(values, of(x))
	}
	return values
}

// printedAt are numbers that the paper prints of a curve, by the place on its axis.
type printedAt map[int]struct {
	text  string
	value float64
}

// grown are the rows of a curve: the rate at each place, and the speed-up over the first one. The paper's rates are not
// judged: costs of local work are assumed.
type grown struct {
	name    func(n int) string
	section string
	speed   printedAt
	rates   printedAt // in millions
	missed  string
}

func (g *grown) rows(s *scaling) (rows []report.ComparedRow) {
	for i, n := range s.at {
		row := number{what: "speed-up of " + g.name(n), digits: 2, reading: finishedReading}
		if p, ok := g.speed[n]; ok {
			row.printed, row.paper, row.section = p.text, p.value, g.section
			row.limit, row.missed = share(speedUpBound), g.missed
		}
		if i > 0 {
			rows = append(rows, row.seen(s.overFirst(i)...))
		}
		rate := number{what: "rate of " + g.name(n), unit: "M/s", digits: 2, reading: finishedReading}
		if p, ok := g.rates[n]; ok {
			rate.printed, rate.paper, rate.section = p.text, p.value, g.section
			rate.reading = "costs of local work are assumed: not judged"
		}
		rows = append(rows, rate.seen(s.millions(i)...))
	}
	return rows
}

const finishedReading = "finished transactions: committed, or rolled back by their own rules"

// threadsText names a number of threads on six machines.
func threadsText(n int) string {
	if n == 1 {
		return "one thread on each of six machines"
	}
	return fmt.Sprintf("%d threads on each of six machines", n)
}

// claim is order, without a reason why it should not hold.
func claim(what, section string, is bool, reading string) report.ComparedRow {
	r := order(what, section, is, reading)
	r.Missed = ""
	return r
}
