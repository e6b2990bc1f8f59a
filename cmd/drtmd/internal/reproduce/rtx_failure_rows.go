package reproduce

import (
	"fmt"
	"slices"
	"time"

	"drtmd/cmd/drtmd/internal/report"
)

// killSeries is what the runs of a system come to, one number for each seed.
type killSeries struct {
	before, after, lowest, quiet, repairs, waited []float64

	late      time.Duration
	preferred int // runs in which all clients had real-time priority
	first     *killedRun
}

// series runs a system once for each seed. done is how many steps of the item were taken.
func (x *killed) series(r *Run, done, steps int) (*killSeries, error) {
	s := &killSeries{}
	for seed := range r.Seeds {
		if err := r.step(done+seed, steps); err != nil {
			return nil, err
		}
		x.seed = uint64(seed + 1)
		got, err := x.run(r.ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.system, err)
		}
		before, after, lowest, quiet := got.levels()
		s.before, s.after = append(s.before, before), append(s.after, after)
		s.lowest, s.quiet = append(s.lowest, lowest), append(s.quiet, quiet)
		s.repairs, s.waited = append(s.repairs, float64(got.repairs)), append(s.waited, got.waited.Seconds()*1e3)
		if s.late = max(s.late, got.late); got.preferred {
			s.preferred++
		}
		if s.first == nil {
			s.first = got
		}
	}
	return s, nil
}

// curve is the throughput of the first run over time.
func (s *killSeries) curve(name string) report.ChartCurve {
	c := report.ChartCurve{Name: name}
	for i, v := range s.first.bins {
		c.Points = append(c.Points, [2]float64{(float64(i) + 0.5) * wallBin.Seconds() * 1e3, v})
	}
	return c
}

// rows are those of a system; control has the runs in which the client ends by itself, of rTX.
func (s *killSeries) rows(system string, control *killSeries) []report.ComparedRow {
	low := number{what: system + ": lowest bin over the level after the kill", section: sixTwo, digits: 2}
	lowest := s.lowest
	if control != nil {
		low.printed, low.paper, low.limit = "no collapse", 1, within(0.1).because("no bin below 90 % of the level")
		low.missed = missesBins(slices.Min(s.quiet), slices.Min(control.lowest), s.late)
		lowest, low.reading = []float64{slices.Min(lowest)}, "of the worst run"
	}
	rows := []report.ComparedRow{number{what: system + ": before the kill", unit: "k/s", digits: 1}.seen(s.before...),
		number{what: system + ": in the second half after it", unit: "k/s", digits: 1}.seen(s.after...),
		number{what: system + ": after over before", section: sixTwo, digits: 3}.seen(over(mean(s.after), mean(s.before))),
		low.seen(lowest...),
		number{what: system + ": lowest bin over the level before the kill", digits: 2}.seen(s.quiet...)}
	if control == nil {
		return rows
	}
	return append(rows, number{what: system + ": lowest bin over the level after the client has ended by itself", digits: 2,
		reading: "a control: the same runs without a kill; of the worst run"}.seen(slices.Min(control.lowest)),
		number{what: system + ": expired locks that the survivors met", digits: 1}.seen(s.repairs...),
		number{what: system + ": longest wait of a survivor for a lock", unit: "ms", digits: 2,
			reading: "a lease of 8.1 ms, and a repair, unless the waiting thread itself was stopped"}.seen(s.waited...))
}

// missesBins is why a bin is low that no lock of the dead has made so.
func missesBins(quiet, control float64, late time.Duration) string {
	return fmt.Sprintf("what else runs on the machine stops clients, too: the lowest bin before the kill is %.2f of the level there, "+
		"and %.2f after a client has ended by itself; an insertion began up to %v late", quiet, control,
		late.Round(100*time.Microsecond))
}

// priorities says how clients share the cores with what else runs, in how many of the runs they had real-time priority.
func priorities(preferred, runs int) string {
	const always = "clients collect no garbage, and do not spin: a thread that has nothing to do sleeps; "
	switch preferred {
	case runs:
		return always + "they run before other programs, with real-time priority (SCHED_RR)"
	case 0:
		return always + "they share the cores with other programs, since the system refuses real-time priority: run this as root"
	}
	return always + fmt.Sprintf("in %d of %d runs they have real-time priority (SCHED_RR), which the system has refused to some "+
		"client of the others: run this again", preferred, runs)
}

// treeFailureMeasured is Figure 14 by the wall clock.
func treeFailureMeasured(r *Run) (*Outcome, error) {
	x := &killed{keys: pick(r, 100_000, 5_000), before: pick(r, 500*time.Millisecond, 100*time.Millisecond),
		after: pick(r, time.Second, 200*time.Millisecond)}
	o := &Outcome{}
	chart := report.Chart{Title: fmt.Sprintf("insertions over time; a process of %d is killed", wallClientCount), X: "time [ms]",
		Y: "throughput [k/s]"}
	x.system, x.leaves = rtxName, true
	steps := (1 + len(killSystems)) * r.Seeds
	control, err := x.series(r, 0, steps)
	if err != nil {
		return nil, err
	}
	x.leaves = false
	preferred := control.preferred
	for i, name := range killSystems {
		x.system = name
		s, err := x.series(r, (1+i)*r.Seeds, steps)
		if err != nil {
			return nil, err
		}
		preferred += s.preferred
		chart.Curves = append(chart.Curves, s.curve(name+", measured"))
		chart.Marks = append(chart.Marks, report.ChartMark{X: s.first.at.Seconds() * 1e3, Text: "SIGKILL of a client of " + name})
		if name == rtxName {
			o.Rows = append(o.Rows, s.rows(name, control)...)
		} else {
			o.Rows = append(o.Rows, s.rows(name, nil)...)
		}
	}
	o.Conditions = fmt.Sprintf("a memory node and %d client processes on shared memory of this machine, each with %d "+
		"fibers that insert a random key every %v; one process gets SIGKILL in the middle of an insertion after %v; %s; leases "+
		"8 ms; bins of %v; %d keys; %s", wallClientCount, wallFibers, wallPeriod, x.before, priorities(preferred, steps), wallBin, x.keys,
		r.seedsText())
	o.Charts = []report.Chart{chart}
	return o, nil
}
