package reproduce

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/proto/workload/opmix"
	"drtmd/proto/workload/ycsb"
	"drtmd/verbs/sim"
)

// Figure 3 of HADES: where the time of a transaction of the software protocol goes. The paper's parts are
// measured here between the marked steps of FaRM's phases (package occ), one transaction at a time on each
// node, so that a step of a node belongs to its one transaction.

// part is a contribution to the execution time.
type part uint8

// Parts, by the paper's names.
const (
	manageSets part = iota + 1 // Manage RD/WR Sets
	newVersion                 // Update Version
	atomicRead                 // Read Atomicity
	readFirst                  // RD before WR
	conflicts                  // Conflict Detection
	otherTime                  // Other Time
	partEnd
)

func (p part) String() string {
	return [...]string{"?", "Manage RD/WR Sets", "Update Version", "Read Atomicity", "RD before WR", "Conflict Detection", "Other Time"}[p]
}

// splitRecords are the records of a run. HADES says of this figure neither how long values are nor how skewed.
type splitRecords struct {
	bytes int
	theta float64 // of Zipf; 0: uniform
}

// judged reports whether the paper's sums are compared with these records'.
func (s splitRecords) judged() bool { return s.bytes == oneLineBytes }

func (s splitRecords) String() string {
	if s.theta > 0 {
		return fmt.Sprintf("values of %d B, Zipf %g", s.bytes, s.theta)
	}
	return fmt.Sprintf("values of %d B, uniform", s.bytes)
}

// mixture is a workload of the figure.
type mixture struct {
	name    string
	printed string
	paper   float64 // sum of the overheads, in percent
	reads   float64 // share of the records that are only read
	missed  string
	make    func(nodes, keys int, records splitRecords) (workload.Workload, error)
}

const (
	threeHADES   = "§III"
	requests     = 5 // of a transaction
	splitNodes   = 4
	splitBound   = 5 // points
	cx4          = "cx4-100g"
	oneLineBytes = 16
	ycsbBytes    = 1000
	ycsbTheta    = 0.99 // YCSB's own
)

// Why a sum is not the paper's.
const missesZipf = "a few records get most of the writes, and the time of the attempts that are aborted for that is overhead"

func mixtures() []mixture {
	letter := func(l string) func(int, int, splitRecords) (workload.Workload, error) {
		return func(nodes, keys int, records splitRecords) (workload.Workload, error) {
			o := ycsb.Default(nodes)
			o.Letter, o.Keys, o.ValueBytes, o.Operations = l, keys, records.bytes, requests
			if o.Distribution, o.Theta = ycsb.Uniform, records.theta; o.Theta > 0 {
				o.Distribution = ycsb.Zipfian
			}
			return ycsb.New(o)
		}
	}
	return []mixture{
		{"100%WR", "59", 59, 0, "", func(nodes, keys int, records splitRecords) (workload.Workload, error) {
			return opmix.New(opmix.Options{Nodes: nodes, Keys: keys, ValueBytes: records.bytes, Theta: records.theta,
				Puts: requests})
		}},
		{"50%WR-50%RD", "65", 65, 0.5, "", letter("A")},
		{"100%RD", "71", 71, 1, "", letter("C")},
	}
}

// stopwatch adds up the time of each part from the steps of nodes.
type stopwatch struct {
	reads float64
	nodes map[string]*lap
	parts [partEnd]sim.Time
}

// lap is the last step of a node's transaction.
type lap struct {
	at   sim.Time
	step string
}

// ends has the steps at which something ends, with the part that it was. Between two others the engine
// keeps its sets.
var ends = map[string]part{
	"occ: after execute":  readFirst, // and what is only read: other time
	"occ: after lock":     conflicts,
	"occ: after validate": conflicts,
	"occ: after commit":   otherTime, // the update, and the unlocking that travels with it
	"occ: after release":  conflicts, // of an attempt that is aborted
}

// begins has the steps between which and the end before the engine keeps its sets.
var begins = []string{"occ: before execute", "occ: before lock", "occ: before validate", "occ: before commit",
	"occ: before release"}

// step takes a line of the trace.
func (s *stopwatch) step(e sim.Event) {
	if e.Kind != "step" {
		return
	}
	name, err := strconv.Unquote(e.What)
	if err != nil {
		return
	}
	what, end := ends[name]
	if !end && !slices.Contains(begins, name) {
		return // of a record, or of another's request
	}
	l := s.nodes[e.Node]
	if l == nil {
		s.nodes[e.Node] = &lap{e.At, name}
		return
	}
	span, last := e.At-l.at, l.step
	l.at, l.step = e.At, name
	switch {
	case !end:
		what = manageSets
		switch {
		case name == "occ: before execute" && last == "occ: after release": // a pause, to try again
			what = conflicts
		case last == "occ: after execute":
			// The records that were brought are managed, and the program accesses them.
			c, of := protocol.HADESSoftware(), func(p part, share float64, ps int64) {
				t := min(span, sim.Time(requests*share*float64(ps)))
				s.parts[p] += t
				span -= t
			}
			of(otherTime, 1, c.AccessPs)
			of(atomicRead, s.reads, c.AtomicPs)
			of(newVersion, 1-s.reads, c.VersionPs)
		case name == "occ: before execute": // a transaction begins: its client has drawn it
			drawn := min(span, clientPs)
			s.parts[otherTime] += drawn
			span -= drawn
		}
		s.parts[what] += span
	case what == readFirst:
		read := sim.Time(float64(span) * s.reads)
		s.parts[otherTime] += read
		s.parts[readFirst] += span - read
	default:
		s.parts[what] += span
	}
}

// shares of all time, in percent.
func (s *stopwatch) shares() (all [partEnd]float64) {
	sum := sim.Time(0)
	for _, t := range s.parts {
		sum += t
	}
	for p, t := range s.parts {
		all[p] = 100 * float64(t) / float64(sum)
	}
	return all
}

// hadesFigure3 splits the time of FaRM's transactions.
func hadesFigure3(r *Run) (*Outcome, error) {
	keys := pick(r, 10_000, 1_000)
	warmup, measured := 50*time.Microsecond, pick(r, 2*time.Millisecond, 300*time.Microsecond)
	o := &Outcome{Conditions: fmt.Sprintf("%s, preset %s, %d nodes of one worker with one transaction at a time, %d "+
		"requests each, %d records per node, %s, %s", farmName, cx4, splitNodes, requests, keys, measured,
		r.seedsText())}
	plain, skewed := splitRecords{bytes: oneLineBytes}, splitRecords{oneLineBytes, ycsbTheta}
	kinds := pick(r, []splitRecords{plain, skewed, {bytes: ycsbBytes}}, []splitRecords{plain, skewed})
	done, total := 0, len(kinds)*len(mixtures())*r.Seeds
	charts := map[part]*report.ChartCurve{}
	for _, records := range kinds {
		for _, m := range mixtures() {
			var sums []float64
			var parts [partEnd][]float64
			for seed := range r.Seeds {
				if err := r.step(done, total); err != nil {
					return nil, err
				}
				b, err := m.make(splitNodes, keys, records)
				if err != nil {
					return nil, err
				}
				w := &stopwatch{reads: m.reads, nodes: map[string]*lap{}}
				x := model{protocol: farmName, settings: baselineSettings(), workload: b, preset: cx4, nodes: splitNodes, workers: 1, fibers: 1,
					seed: uint64(seed + 1), mutation: r.Mutation, warmup: warmup, measured: measured, onEvent: w.step}
				if _, err := x.run(r.ctx); err != nil {
					return nil, err
				}
				shares := w.shares()
				for p := manageSets; p < partEnd; p++ {
					parts[p] = append(parts[p], shares[p])
				}
				sums = append(sums, 100-shares[otherTime])
				done++
			}
			o.Rows = append(o.Rows, splitRows(m, records, sums, parts)...)
			if records != plain {
				continue
			}
			for p := manageSets; p < partEnd; p++ {
				if charts[p] == nil {
					charts[p] = &report.ChartCurve{Name: p.String() + ", modelled"}
				}
				charts[p].Points = append(charts[p].Points, [2]float64{100 * m.reads, mean(parts[p])})
			}
		}
	}
	c := report.Chart{Title: "parts of the execution time, values of 16 B, uniform", X: "requests that read [%]",
		Y: "share of the time [%]"}
	sum := report.ChartCurve{Name: "all overheads, paper §III", Paper: true}
	for _, m := range mixtures() {
		sum.Points = append(sum.Points, [2]float64{100 * m.reads, m.paper})
	}
	for p := manageSets; p < partEnd; p++ {
		c.Curves = append(c.Curves, *charts[p])
	}
	c.Curves = append(c.Curves, sum)
	o.Charts = []report.Chart{c}
	return o, nil
}

// splitRows are the rows of a workload.
func splitRows(m mixture, records splitRecords, sums []float64, parts [partEnd][]float64) (rows []report.ComparedRow) {
	name := fmt.Sprintf("%s, %v", m.name, records)
	all := number{what: name + ": all overheads", unit: "%", section: threeHADES, printed: m.printed, paper: m.paper,
		digits: 1, reading: "latency of a transaction between the marked steps of its phases; of EXECUTE the share of " +
			"records that are written is RD before WR; the update and the unlocking, which travel together, are other time; " +
			"what software takes for a record is calibrated to the uniform sums (proto/protocol/software.go), and frozen for all " +
			"other figures; HADES does not say how skewed the records are: both are shown",
		missed: m.missed}
	if records.theta > 0 && m.reads < 1 {
		all.missed = missesZipf
	}
	if records.judged() {
		all.limit = within(splitBound)
	} else {
		all.reading += "; HADES does not say how long its values are: YCSB's are 1,000 B, of which FaRM's READs of " +
			"eight records would be 9 KB, 16 B are one line"
	}
	rows = append(rows, all.seen(sums...))
	for p := manageSets; p < partEnd; p++ {
		rows = append(rows, number{what: name + ": " + p.String(), unit: "%", digits: 1}.seen(parts[p]...))
	}
	return rows
}
