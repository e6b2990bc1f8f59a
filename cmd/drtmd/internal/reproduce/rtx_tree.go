package reproduce

import (
	"context"
	"fmt"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload/ycsb"
	"drtmd/verbs/sim"
)

// The B+ tree of rTX on a memory node, modelled.

const (
	treeIndex = "sherman"
	treeBound = 0.10 // of the ratio, in points
	// treeBoundQuick is for clients that saturate nothing.
	treeBoundQuick = 0.50
	sixOne         = "§6.1"
	valueBytes     = 8
)

// treeLoad is a workload of Figure 11, with the ratio that the paper prints for it; 0: none.
type treeLoad struct {
	letter       string
	reads        int
	distribution ycsb.Distribution
	ratio        float64
}

var treeLoads = []treeLoad{
	{"A", 50, ycsb.Uniform, 0.87}, {"B", 90, ycsb.Uniform, 0.90}, {"C", 0, ycsb.Uniform, 0.92},
	{"D", 0, ycsb.Uniform, 0.92}, {"E", 0, ycsb.Uniform, 0.92},
	{"A", 50, ycsb.Zipfian, 0.58}, {"B", 90, ycsb.Zipfian, 0.60}, {"C", 0, ycsb.Zipfian, 0.92},
	{"D", 0, ycsb.Latest, 0}, {"E", 0, ycsb.Zipfian, 0.92},
}

func (l *treeLoad) String() string { return fmt.Sprintf("YCSB %s, %v", l.letter, l.distribution) }

// clientsOf is the size of a run.
type clientsOf struct {
	clients, workers, fibers, keys int
	warmup, measured               time.Duration
}

// throughput is that of a system under a workload, in M/s.
func (c *clientsOf) throughput(ctx context.Context, protocol string, l *treeLoad, seed uint64) (float64, error) {
	o := ycsb.Default(c.clients)
	o.Letter, o.Reads, o.Distribution, o.Keys, o.ValueBytes = l.letter, l.reads, l.distribution, c.keys, valueBytes
	o.Room = c.keys
	w, err := ycsb.New(o)
	if err != nil {
		return 0, err
	}
	cost, err := sim.Preset(cx4)
	if err != nil {
		return 0, err
	}
	var p node.Protocol
	for _, m := range node.MemoryProtocols() {
		if m.Name == protocol {
			p = m
		}
	}
	r, err := load.Run(ctx, load.Options{Workload: w, Seed: seed, Virtual: true, Warmup: c.warmup, Duration: c.measured,
		ChargePs: clientPs, Open: func(ctx context.Context) (*node.Cluster, error) {
			return node.NewSimulatedClients(ctx, node.ClientsConfig{Index: treeIndex, Config: node.Config{Protocol: p,
				Workload: w, Nodes: c.clients, Workers: c.workers, Fibers: c.fibers, Seed: seed}}, cost)
		}})
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s under %v: %w", protocol, l, err)
	case r.Conserved != nil:
		return 0, fmt.Errorf("the records of %v under %s: %w", l, protocol, r.Conserved)
	}
	return float64(r.Sum.Outcomes(proto.Committed)) / r.Elapsed.Seconds() / 1e6, nil
}

// Why ratios are not the paper's.
const (
	missesUpdates = "requests limit, not payload: the model's NIC serves eight for an update, the baseline's six, and the rate " +
		"stays the same with half and with twice as many transactions at a time; one of the eight is ours, the CAS for the " +
		"block that is used again"
	missesLatest = "all insertions of a client go to one leaf, at the end of its keys, and abort each other and who reads there: " +
		"leaves are locked by the commit, not before (Opt2 in part)"
	missesScans = "each leaf of a scan takes three READs, the baseline's one"
)

// treeThroughput is Figure 11: two of its three systems.
func treeThroughput(r *Run) (*Outcome, error) {
	c := clientsOf{clients: pick(r, 5, 2), workers: pick(r, 4, 2), fibers: 6, keys: pick(r, 10_000, 500),
		warmup: pick(r, 500*time.Microsecond, 100*time.Microsecond), measured: pick(r, time.Millisecond, 100*time.Microsecond)}
	o := &Outcome{Conditions: fmt.Sprintf("preset %s, one memory node, %d clients of %d transactions at a time on %d workers "+
		"each (the paper: 24 threads), %d pairs of 8 + 8 bytes (the paper: 100 M), loaded in ascending order, %v measured, %s",
		cx4, c.clients, c.workers*c.fibers, c.workers, c.clients*c.keys, c.measured, r.seedsText())}
	systems := []string{rtxName, optimalName}
	chart := report.Chart{Title: "throughput, as a share of the baseline's", X: "workload, in the order of the rows",
		Y: "rTX / Optimal"}
	ours := report.ChartCurve{Name: "rTX / Optimal, modelled"}
	paper := report.ChartCurve{Name: "paper, " + sixOne, Paper: true}
	done := 0
	for i := range treeLoads {
		l := &treeLoads[i]
		rates := map[string][]float64{}
		for _, s := range systems {
			for seed := range r.Seeds {
				if err := r.step(done, len(treeLoads)*len(systems)*r.Seeds); err != nil {
					return nil, err
				}
				v, err := c.throughput(r.ctx, s, l, uint64(seed+1))
				if err != nil {
					return nil, err
				}
				rates[s] = append(rates[s], v)
				done++
			}
			o.Rows = append(o.Rows, number{what: fmt.Sprintf("%v: %s", l, s), unit: "M/s", digits: 2}.seen(rates[s]...))
		}
		ratio := ratios(rates[rtxName], rates[optimalName])
		n := number{what: fmt.Sprintf("%v: rTX over Optimal", l), section: sixOne, digits: 2}
		if l.ratio > 0 {
			n.printed, n.paper, n.missed = fmt.Sprintf("%.2f", l.ratio), l.ratio, l.missed()
			n.limit = within(pick(r, treeBound, treeBoundQuick))
			paper.Points = append(paper.Points, [2]float64{float64(i + 1), l.ratio})
		}
		o.Rows = append(o.Rows, n.seen(ratio...))
		ours.Points = append(ours.Points, [2]float64{float64(i + 1), mean(ratio)})
	}
	chart.Curves = []report.ChartCurve{ours, paper}
	o.Charts = []report.Chart{chart}
	return o, nil
}

func (l *treeLoad) missed() string {
	switch l.letter {
	case "D":
		return missesLatest
	case "E":
		return missesScans
	}
	return missesUpdates
}
