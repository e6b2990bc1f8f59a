package reproduce

import (
	"context"
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/smallbank"
	"drtmd/verbs/sim"
)

// What the paper prints of Figure 17 (§8.3), all with 1 % of the transactions on two customers
// distributed, and the bound on our deviation.
const (
	speedUpMachines = 4.52  // six machines over one
	speedUpThreads  = 10.85 // 16 threads over one, on six machines
	millionsAtSix   = 138
	speedUpBound    = 0.15
	eightThree      = "§8.3"
	mostMachines    = 6
)

// cluster is a model of DrTM's.
type cluster struct {
	load     func(machines int) (workload.Workload, error) // nil: SmallBank
	protocol string
	settings option.Settings // of it
	machines int
	perNIC   int  // machines that share a NIC: they are logical nodes of one; 0 = 1
	workers  int  // per machine
	fibers   int  // per worker; the paper's threads wait for their own verbs, as one fiber does
	every    int  // transactions of which one is timed; 0 = none
	quick    bool // atomics take no longer than READs
	mutation string
	seed     uint64
	warmup   time.Duration
	measured time.Duration
}

// run runs it.
func (c cluster) run(ctx context.Context) (*load.Result, error) {
	make := c.load
	if make == nil {
		make = smallBank
	}
	b, err := make(c.machines)
	if err != nil {
		return nil, err
	}
	m := model{protocol: c.protocol, settings: c.settings, workload: b, preset: cx3, nodes: c.machines, perNIC: c.perNIC,
		workers: c.workers, fibers: c.fibers, mutation: c.mutation, seed: c.seed, warmup: c.warmup,
		measured: c.measured, every: c.every}
	if c.quick {
		m.tune = func(cost *sim.CostModel) { cost.NIC.AtomicLatency = 0 }
	}
	return m.run(ctx)
}

// rate is how many transactions end in a second of virtual time, committed or rolled back by their
// own rules.
func (c cluster) rate(ctx context.Context) (float64, error) {
	x, err := c.run(ctx)
	if err != nil {
		return 0, err
	}
	return finished(x), nil
}

// smallBank is SmallBank as DrTM runs it.
func smallBank(machines int) (workload.Workload, error) {
	o := smallbank.Default(machines)
	if machines == 1 {
		o.Distributed = 0 // one machine has no other to reach
	}
	return smallbank.New(o)
}

// scaling are rates by number of machines or of workers, with a value for each seed.
type scaling struct {
	at    []int
	rates [][]float64 // by place in at, then by seed
}

// overFirst is the speed-up over the first place, seed by seed.
func (s *scaling) overFirst(i int) (all []float64) {
	for seed, rate := range s.rates[i] {
		all = append(all, rate/s.rates[0][seed])
	}
	return all
}

func (s *scaling) millions(i int) (all []float64) {
	for _, rate := range s.rates[i] {
		all = append(all, rate/1e6)
	}
	return all
}

// curve is the mean speed-up or rate.
func (s *scaling) curve(name string) report.ChartCurve {
	c := report.ChartCurve{Name: name}
	for i, at := range s.at {
		sum := 0.0
		for _, v := range s.millions(i) {
			sum += v
		}
		c.Points = append(c.Points, [2]float64{float64(at), sum / float64(len(s.rates[i]))})
	}
	return c
}

// sweeper runs models one after the other.
type sweeper struct {
	r           *Run
	done, total int
}

// sweep runs a model at each place of s, with each seed.
func (w *sweeper) sweep(s *scaling, base cluster, set func(c *cluster, n int)) error {
	for _, n := range s.at {
		var rates []float64
		for seed := range w.r.Seeds {
			if err := w.r.step(w.done, w.total); err != nil {
				return err
			}
			c := base
			c.seed = uint64(seed + 1)
			set(&c, n)
			rate, err := c.rate(w.r.ctx)
			if err != nil {
				return err
			}
			rates = append(rates, rate)
			w.done++
		}
		s.rates = append(s.rates, rates)
	}
	return nil
}

// figure17 runs SmallBank on growing clusters.
func figure17(r *Run) (*Outcome, error) {
	base := cluster{protocol: drtmName, fibers: 1, mutation: r.Mutation, machines: mostMachines, workers: pick(r, 8, 2),
		warmup:   pick(r, time.Millisecond, 500*time.Microsecond),
		measured: pick(r, 5*time.Millisecond, 3*time.Millisecond)}
	machines := &scaling{at: pick(r, []int{1, 2, 3, 4, 5, 6}, []int{1, 2, 6})}
	threads := &scaling{at: pick(r, []int{1, 2, 4, 8, 16}, nil)}
	w := &sweeper{r: r, total: (len(machines.at) + len(threads.at)) * r.Seeds}
	if err := w.sweep(machines, base, func(c *cluster, n int) { c.machines = n }); err != nil {
		return nil, err
	}
	if err := w.sweep(threads, base, func(c *cluster, n int) { c.workers = n }); err != nil {
		return nil, err
	}
	return scalingOutcome(r, base, machines, threads), nil
}

func scalingOutcome(r *Run, base cluster, machines, threads *scaling) *Outcome {
	o := &Outcome{Conditions: fmt.Sprintf("preset %s, %d workers of one fiber per machine where "+
		"machines vary, 1 %% distributed, %s after %s, %s", cx3, base.workers, base.measured, base.warmup, r.seedsText())}
	const reading = "finished transactions: committed, or rolled back by their own rules"
	for i, n := range machines.at {
		size := machinesText(n)
		row := number{what: "speed-up of " + size, digits: 2, reading: reading}
		if n == mostMachines {
			row.printed, row.paper, row.section = "4.52", speedUpMachines, eightThree
			row.limit = share(speedUpBound)
		}
		if n > 1 {
			o.Rows = append(o.Rows, row.seen(machines.overFirst(i)...))
		}
		o.Rows = append(o.Rows, number{what: "rate of " + size, unit: "M/s",
			digits: 1, reading: reading}.seen(machines.millions(i)...))
	}
	for i, n := range threads.at {
		size := fmt.Sprintf("%d threads on six machines", n)
		if n == 1 {
			size = "one thread on six machines"
		}
		row := number{what: "speed-up of " + size, digits: 2, reading: reading}
		rate := number{what: "rate of " + size, unit: "M/s", digits: 1, reading: reading}
		if n == 16 {
			row.printed, row.paper, row.section = "10.85", speedUpThreads, eightThree
			row.limit = share(speedUpBound)
			rate.printed, rate.paper, rate.section = ">138", millionsAtSix, eightThree
			rate.reading = "if it is of 16 threads: §8.3 does not say; costs of local work are " +
				"assumed, so it has no bound"
		}
		if n > 1 {
			o.Rows = append(o.Rows, row.seen(threads.overFirst(i)...))
		}
		o.Rows = append(o.Rows, rate.seen(threads.millions(i)...))
	}
	o.Charts = scalingCharts(machines, threads)
	return o
}

func machinesText(n int) string {
	if n == 1 {
		return "one machine"
	}
	return fmt.Sprintf("%d machines", n)
}

// scalingCharts are the two halves. The paper prints ratios, so its points are ratios of our first.
func scalingCharts(machines, threads *scaling) []report.Chart {
	chart := func(title, x string, s *scaling, at, speedUp float64) report.Chart {
		c := s.curve("1 % distributed, modelled")
		return report.Chart{Title: title, X: x, Y: "transactions [M/s]",
			Curves: []report.ChartCurve{c, {Name: "paper's speed-up from our first point, §8.3",
				Paper: true, Points: [][2]float64{{at, speedUp * c.Points[0][1]}}}}}
	}
	charts := []report.Chart{chart("(a) by machines", "machines", machines, mostMachines,
		speedUpMachines)}
	if len(threads.at) > 0 {
		charts = append(charts, chart("(b) by threads, six machines", "threads", threads, 16,
			speedUpThreads))
	}
	return charts
}
