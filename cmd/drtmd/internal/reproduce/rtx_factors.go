package reproduce

import (
	"errors"
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/rtx/engine"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Figures 16 and 17: what each part of rTX does to insertions into the tree, from the baseline to the whole. Each part is
// a switch of the code.

const sixThree = "§6.3"

// factor is a bar of the figures.
type factor struct {
	name    string
	system  string
	options engine.Options
	// change of the throughput over the bar before, and of the latency; 0: the paper prints none.
	throughput, latency float64
	// missed and missedLatency are why the changes are others here.
	missed, missedLatency string
}

var factors = []factor{
	{name: "Base", system: optimalName},
	{name: "+OCC", system: optimalName, options: engine.Options{Optimistic: true}, throughput: 1 - 0.33, latency: 1.35,
		missed: "requests limit here, and the validation adds one, of 16 bytes, to six"},
	{name: "+ICommit", system: optimalName, options: engine.Options{Optimistic: true, Idempotent: true}, throughput: 1 - 0.14,
		missed: "it turns one WRITE into a CAS, the paper two: Base releases its locks by CAS here"},
	{name: "+Log", system: dtxName, options: engine.Options{Idempotent: true}, throughput: 1 - 0.26, latency: 1.7,
		missed:        "requests limit here, not payload: a log adds two, and takes one away, as DTX writes a node at once",
		missedLatency: "a log adds one round trip to three, with 1 KB to write: the decision travels with the value"},
	{name: "+Separate", system: rtxName, options: engine.Options{Logged: true, LateLocks: true}, throughput: 1.06, latency: 1,
		missed: "requests limit here, not the payload that it saves: the log takes three CASes on its header, and the block that is " +
			"used again one",
		missedLatency: "it adds four round trips to four: the metadata before the block, and each phase of the commit, which is " +
			"awaited, so that others can repair from the log"},
	{name: "+Opt", system: rtxName, throughput: 1.43, latency: 1 - 0.3,
		missed:        "it takes away what the log of +Separate costs, which is more here than in the paper",
		missedLatency: "it takes away the round trips of the log of +Separate, which are more here than in the paper"},
}

// insertions are what a bar comes to.
type insertions struct{ rate, latency float64 } // M/s, us

// insertions runs a part, and checks that the tree has all keys then.
func (x *failure) insertions(p *factor, seed uint64) (insertions, error) {
	y := *x
	y.options, y.spared = p.options, true
	bins, c, err := y.watched(p.system, seed)
	if err != nil {
		return insertions{}, err
	}
	n := uint64(0)
	for _, k := range c.counts {
		n += k
	}
	if n == 0 {
		return insertions{}, errors.New("no insertion has ended")
	}
	return insertions{mean(bins), float64(c.took) / float64(n) / 1e6}, nil
}

// verify reads the whole tree, when nobody changes it any more.
func (c *clientsAt) verify() error {
	found := 0
	c.workers[0][0].Submit("verify", func(f *fiber.Fiber) error {
		return c.engines[0][0].Each(f, 1, func(proto.Key, layout.Version, []byte) { found++ })
	}, c.note)
	if err := errors.Join(c.world.Run(), c.failed); err != nil {
		return err
	}
	if want := c.failure.keys + c.present; found != want {
		return fmt.Errorf("the tree has %d keys, and %d were inserted", found, want)
	}
	return nil
}

// factorRuns are the runs of both figures.
func factorRuns(r *Run, x *failure) (map[string][]insertions, error) {
	all := map[string][]insertions{}
	for i := range factors {
		p := &factors[i]
		for seed := range r.Seeds {
			if err := r.step(i*r.Seeds+seed, len(factors)*r.Seeds); err != nil {
				return nil, err
			}
			got, err := x.insertions(p, uint64(seed+1))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			all[p.name] = append(all[p.name], got)
		}
	}
	return all, nil
}

// factorBound bounds what each part changes, and what all of them do together.
const factorBound = 0.10

// factorRows compares what each part changes.
func factorRows(r *Run, o *Outcome, all map[string][]insertions, unit string, of func(insertions) float64,
	paper func(*factor) (change float64, missed string)) {
	values := func(p *factor) (list []float64) {
		for _, x := range all[p.name] {
			list = append(list, of(x))
		}
		return list
	}
	ours := report.ChartCurve{Name: "modelled"}
	theirs := report.ChartCurve{Name: "paper, " + sixThree, Paper: true}
	product, whole := 1.0, true
	for i := range factors {
		p := &factors[i]
		o.Rows = append(o.Rows, number{what: p.name, unit: unit, digits: 2}.seen(values(p)...))
		ours.Points = append(ours.Points, [2]float64{float64(i + 1), mean(values(p)) / mean(values(&factors[0]))})
		if i == 0 {
			theirs.Points = append(theirs.Points, [2]float64{1, 1})
			continue
		}
		n := number{what: p.name + " over " + factors[i-1].name, section: sixThree, digits: 2}
		if v, missed := paper(p); v != 0 {
			n.printed, n.paper, n.missed = fmt.Sprintf("%.2f", v), v, missed
			n.limit = within(pick(r, factorBound, 1))
			product *= v
			if whole {
				theirs.Points = append(theirs.Points, [2]float64{float64(i + 1), product})
			}
		} else {
			whole = false
		}
		o.Rows = append(o.Rows, n.seen(ratios(values(p), values(&factors[i-1]))...))
	}
	last := &factors[len(factors)-1]
	n := number{what: last.name + " over " + factors[0].name, section: sixThree, digits: 3}
	if whole {
		n.printed, n.paper, n.limit = fmt.Sprintf("%.3f", product), product, within(pick(r, factorBound, 1)).
			because("the product of the parts")
		n.missed = "the parts say why"
	}
	o.Rows = append(o.Rows, n.seen(ratios(values(last), values(&factors[0]))...))
	o.Charts = []report.Chart{{Title: "insertions, as a share of Base", X: "parts, in the order of the rows", Y: "over Base",
		Curves: []report.ChartCurve{ours, theirs}}}
}

// factorThroughput is Figure 16.
func factorThroughput(r *Run) (*Outcome, error) {
	x := &failure{clients: pick(r, 5, 2), workers: pick(r, 12, 2), fibers: pick(r, 2, 1), keys: pick(r, 60_000, 1500),
		lease: 8 * time.Millisecond, warmup: pick(r, 3*time.Millisecond, 200*time.Microsecond),
		before: pick(r, time.Millisecond, 100*time.Microsecond), bin: 50 * time.Microsecond}
	all, err := factorRuns(r, x)
	if err != nil {
		return nil, err
	}
	o := &Outcome{Conditions: fmt.Sprintf("preset %s, one memory node, %d clients of %d insertions of random keys at a time (the "+
		"paper: 24 threads), %d keys (the paper: 100 M), %v measured; after each run the tree has all keys; %s", cx4, x.clients,
		x.workers*x.fibers, x.keys, x.before, r.seedsText())}
	factorRows(r, o, all, "M/s", func(i insertions) float64 { return i.rate }, func(p *factor) (float64, string) {
		return p.throughput, p.missed
	})
	return o, nil
}

// factorLatency is Figure 17.
func factorLatency(r *Run) (*Outcome, error) {
	x := &failure{clients: 1, workers: 1, fibers: 1, keys: pick(r, 20_000, 500), lease: 8 * time.Millisecond,
		warmup: pick(r, 3*time.Millisecond, 500*time.Microsecond), before: pick(r, 3*time.Millisecond, 500*time.Microsecond),
		bin: 50 * time.Microsecond}
	all, err := factorRuns(r, x)
	if err != nil {
		return nil, err
	}
	o := &Outcome{Conditions: fmt.Sprintf("preset %s, one memory node, one client with one insertion of a random key at a time, %d "+
		"keys (the paper: 100 M), %v measured; after each run the tree has all keys; %s", cx4, x.keys, x.before, r.seedsText())}
	factorRows(r, o, all, "us", func(i insertions) float64 { return i.latency }, func(p *factor) (float64, string) {
		return p.latency, p.missedLatency
	})
	return o, nil
}
