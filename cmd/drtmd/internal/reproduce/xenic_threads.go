package reproduce

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
)

// Table 3 of Xenic with threads that are counted in the model, as §5.6 counts them: the fewest of a server that reach 95 % of
// the highest throughput.

const (
	fiveSix     = "§5.6"
	enoughShare = 0.95 // of the highest throughput
)

// countedSizes are the sizes of a count.
type countedSizes struct {
	keys, warehouses, items int
	hosts, cores            int           // most threads of a host, and cores of a NIC
	underWay, underWayXenic int           // transactions of a server
	warmup, learning, span  time.Duration // learning: the warm-up of DrTM+H, which learns addresses
	benchmarks              []string
}

func countedSizesOf(r *Run) countedSizes {
	return pick(r, countedSizes{keys: 20_000, warehouses: 24, items: 400, hosts: 32, cores: 24, underWay: 96, underWayXenic: 320,
		warmup: 100 * time.Microsecond, learning: 500 * time.Microsecond, span: 200 * time.Microsecond, benchmarks: []string{retwisTitle, smallbankTitle}},
		countedSizes{keys: 200, warehouses: 1, items: 100, hosts: 2, cores: 2, underWay: 4, underWayXenic: 4,
			warmup: 20 * time.Microsecond, learning: 20 * time.Microsecond, span: 20 * time.Microsecond, benchmarks: []string{smallbankTitle}})
}

// threadCount is a count of one benchmark's threads.
type threadCount struct {
	r     *Run
	z     countedSizes
	s     *study
	seed  uint64
	done  int
	total int // about
	// applying are the threads that Robinhood workers of a server were busy for, in the last run.
	applying float64
}

// roleThreads are those of a server with Xenic.
type roleThreads struct{ applications, robinhoods, cores int }

// rate of a system with so many threads that run transactions, in M/s per server.
func (c *threadCount) rate(k *competitor, threads, workers, underWay int, settings option.Settings) (float64, error) {
	if err := c.r.step(c.done, max(c.total, c.done+1)); err != nil {
		return 0, err
	}
	w, err := c.s.make()
	if err != nil {
		return 0, err
	}
	warmup := c.z.warmup
	if k.protocol == drtmhName {
		warmup = c.z.learning
	}
	run := model{protocol: k.protocol, settings: settings, workload: w, functions: c.s.functions, preset: k.preset, nodes: servers,
		workers: workers, fibers: (underWay + threads - 1) / threads, replicas: copies, seed: c.seed, warmup: warmup,
		measured: c.z.span}
	got, err := run.run(c.r.ctx)
	if err != nil {
		return 0, err
	}
	c.done++
	c.applying = float64(got.Sum.Roles[protocol.Robinhood].BusyPs) / 1e3 / float64(got.Elapsed.Nanoseconds()) / servers
	return finished(got) / aMillion / servers, nil
}

// threads of a system all of whose threads are the same: the fewest, and the highest rate.
func (c *threadCount) threads(k *competitor) (n int, peak float64, err error) {
	return fewest(c.z.hosts, 0, func(n int) (float64, error) { return c.rate(k, n, n, c.z.underWay, k.settings) })
}

// xenic counts application threads and NIC cores, with as many of the others as there are, and Robinhood workers by the time that
// they are charged with the application threads that were counted: in a short run logs hide that there are too few.
func (c *threadCount) xenic() (t roleThreads, peak float64, err error) {
	k, known := xenicItself("Xenic"), map[roleThreads]float64{}
	rate := func(t roleThreads) (v float64, err error) {
		t.robinhoods = min(t.robinhoods, t.cores)
		if v, ok := known[t]; ok {
			return v, nil
		}
		o := option.Settings{"nic-cores": strconv.Itoa(t.cores), "application-threads": strconv.Itoa(t.applications),
			"robinhood-workers": strconv.Itoa(t.robinhoods)}
		v, err = c.rate(&k, t.applications, t.applications+t.robinhoods, c.z.underWayXenic, o)
		known[t] = v
		return v, err
	}
	all := roleThreads{c.z.hosts / 2, c.z.hosts / 2, c.z.cores}
	applying := map[int]float64{}
	least := all
	if least.applications, peak, err = fewest(all.applications, 0, func(n int) (float64, error) {
		v, err := rate(roleThreads{n, all.robinhoods, all.cores})
		applying[n] = c.applying
		return v, err
	}); err != nil {
		return least, 0, err
	}
	least.robinhoods = max(int(math.Ceil(applying[least.applications])), 1)
	least.cores, peak, err = fewest(all.cores, peak, func(n int) (float64, error) {
		return rate(roleThreads{all.applications, all.robinhoods, n})
	})
	return least, peak, err
}

// fewest is the least number from 1 to most whose rate is enough, of the highest that is seen, or was before; found by halves,
// as if the rate did not fall where there are more.
func fewest(most int, before float64, rate func(n int) (float64, error)) (least int, peak float64, err error) {
	known := map[int]float64{}
	peak, best := before, most
	at := func(n int) (float64, error) {
		if v, ok := known[n]; ok {
			return v, nil
		}
		v, err := rate(n)
		if known[n] = v; v > known[best] || n == best {
			best = n
		}
		peak = max(peak, v)
		return v, err
	}
	if _, err = at(most); err != nil {
		return 0, 0, err
	}
	for {
		was, low, high := peak, 0, best
		for high-low > 1 {
			n := (low + high) / 2
			v, err := at(n)
			if err != nil {
				return 0, 0, err
			}
			if v >= enoughShare*peak {
				high = n
			} else {
				low = n
			}
		}
		if peak == was { // else what was enough may not be
			return high, peak, nil
		}
	}
}

// countedTable is the item.
func countedTable(r *Run) (*Outcome, error) {
	z := countedSizesOf(r)
	const eachHalves, systems = 6, 5
	c := &threadCount{r: r, z: z, total: eachHalves * systems * len(z.benchmarks) * r.Seeds}
	o := &Outcome{Conditions: z.conditions(r)}
	for _, title := range z.benchmarks {
		sizes := xenicSizes{keys: z.keys, alone: z.keys, warehouses: z.warehouses, items: z.items}
		c.s = sizes.study(title)
		var all []countedThreads
		for seed := range r.Seeds {
			c.seed = uint64(seed + 1)
			t, err := c.all()
			if err != nil {
				return nil, err
			}
			all = append(all, t)
		}
		o.Rows = append(o.Rows, countedRows(r, title, all)...)
	}
	return o, nil
}

// countedThreads of a benchmark and a seed, and the highest rates of DrTM+H, FaSST and Xenic.
type countedThreads struct {
	drtmh, fasst int
	xenic        roleThreads
	peaks        [3]float64
}

// all systems of Table 3.
func (c *threadCount) all() (t countedThreads, err error) {
	all := baselines()
	if t.drtmh, t.peaks[0], err = c.threads(&all[0]); err != nil {
		return t, err
	}
	if t.fasst, t.peaks[1], err = c.threads(&all[2]); err != nil {
		return t, err
	}
	t.xenic, t.peaks[2], err = c.xenic()
	return t, err
}

// normalized threads: with those of the NIC counted as so many of the host.
func (t *countedThreads) normalized() float64 {
	return float64(t.xenic.applications+t.xenic.robinhoods) + coreRatio()*float64(t.xenic.cores)
}

// conditions of the runs.
func (z *countedSizes) conditions(r *Run) string {
	return fmt.Sprintf("%d servers, %d replicas; the fewest threads with %.0f %% of the highest throughput, found by halves; up to "+
		"%d threads of a host, of which Xenic has half as application threads and half as Robinhood workers, and %d NIC cores; "+
		"Robinhood workers by the time that they are charged; preset %s for Xenic, %s for the others; %d transactions of a server under way, %d of Xenic; per server %d keys or customers; "+
		"%s behind a warm-up of %s (%s of DrTM+H), so that a rate has a standard error of about 2 %%; %s", servers, copies, 100*enoughShare, z.hosts, z.cores, liquidio3, cx5, z.underWay,
		z.underWayXenic, z.keys, z.span, z.warmup, z.learning, r.seedsText())
}

// countedRows are of a benchmark, by seed.
func countedRows(r *Run, title string, all []countedThreads) (rows []report.ComparedRow) {
	var paper threadsRow
	for _, x := range table3() {
		if x.name == title {
			paper = x
		}
	}
	values := func(of func(t *countedThreads) float64) (v []float64) {
		for i := range all {
			v = append(v, of(&all[i]))
		}
		return v
	}
	row := func(what, unit, missed string, digits int, paper float64, of func(t *countedThreads) float64) {
		n := number{what: title + ": " + what, unit: unit, section: fiveSix, digits: digits, paper: paper, missed: missed}
		if paper > 0 {
			n.printed = strconv.FormatFloat(paper, 'f', -1, 64)
			n = r.judged(n)
		}
		rows = append(rows, n.seen(values(of)...))
	}
	normalized, _ := strconv.ParseFloat(paper.normalized, 64)
	row("threads of DrTM+H", "threads", missedThreadsH, 1, float64(paper.baseline), func(t *countedThreads) float64 { return float64(t.drtmh) })
	row("threads of FaSST", "threads", missedThreadsFaSST, 1, float64(paper.fasst), func(t *countedThreads) float64 { return float64(t.fasst) })
	row("threads of Xenic's host", "threads", missedThreadsHost, 1, float64(paper.host), func(t *countedThreads) float64 {
		return float64(t.xenic.applications + t.xenic.robinhoods)
	})
	row("of these, application threads", "threads", "", 1, 0, func(t *countedThreads) float64 { return float64(t.xenic.applications) })
	row("cores of Xenic's NIC", "threads", missedCores, 1, float64(paper.nic), func(t *countedThreads) float64 { return float64(t.xenic.cores) })
	row("normalized threads of Xenic", "threads", missedNormalized, 1, normalized, (*countedThreads).normalized)
	for i, name := range []string{"DrTM+H", "FaSST", "Xenic"} {
		row("highest throughput of "+name, "M/s per server", "", 2, 0, func(t *countedThreads) float64 { return t.peaks[i] })
	}
	fewer := "yes"
	for i := range all {
		if all[i].normalized() >= float64(min(all[i].drtmh, all[i].fasst)) {
			fewer = "no"
		}
	}
	if !r.Quick {
		w := word(title+": Xenic takes fewer normalized threads than the others", fiveSix, "yes", fewer, "")
		if w.Exceeds {
			w.Missed = missedNormalized
		}
		rows = append(rows, w)
	}
	return rows
}
