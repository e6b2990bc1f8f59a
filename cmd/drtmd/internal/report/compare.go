package report

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// CompareSchema of the JSON document. docs/BENCH.md describes it.
const CompareSchema = "drtmd.compare/1"

// Compare puts runs side by side.
type Compare struct {
	Schema string        `json:"schema"`
	Base   int           `json:"base"` // index of the run that ratios refer to
	Runs   []ComparedRun `json:"runs"`
	// Warnings say why numbers should not be put beside each other.
	Warnings    []string     `json:"warnings"`
	Differences []Difference `json:"differences"`
	Metrics     []Metric     `json:"metrics"`

	benches []*Bench
}

// ComparedRun is where a run's numbers are from.
type ComparedRun struct {
	Name      string    `json:"name"` // A, B, ...
	File      string    `json:"file"`
	Date      time.Time `json:"date"`
	Command   []string  `json:"command"`
	Virtual   bool      `json:"virtual_time"`
	Verdict   string    `json:"verdict"` // on strict serializability; "none" without a check
	Conserved string    `json:"conserved"`
}

// Difference is a setting that is not the same in all runs.
type Difference struct {
	Setting string   `json:"setting"`
	Values  []string `json:"values"`
}

// Metric is a number of each run; nil where a run has none. Ratios are to the base, nil where one
// of the two is missing, the base is 0, or the two are times of which one is modelled.
type Metric struct {
	Name   string     `json:"name"`
	Unit   string     `json:"unit"`
	Values []*float64 `json:"values"`
	Ratios []*float64 `json:"ratios"`
	digits int        // behind the point, for people
	timed  bool       // the run's clock has a part in it
}

// NewCompare compares. There is at least one run, and base is the index of one.
func NewCompare(runs []*Read, base int) *Compare {
	c := &Compare{Schema: CompareSchema, Base: base, Warnings: []string{}, Differences: []Difference{}}
	for i, r := range runs {
		verdict := r.Verdict
		if verdict == "" {
			verdict = "none"
		}
		c.Runs = append(c.Runs, ComparedRun{Name: letter(i), File: r.File, Date: r.Bench.Date,
			Command: r.Bench.Command, Virtual: r.Bench.Virtual, Verdict: verdict,
			Conserved: r.Bench.Conserved})
		c.benches = append(c.benches, r.Bench)
	}
	c.differ()
	c.warn()
	c.measure()
	return c
}

// differ lists what is not the same.
func (c *Compare) differ() {
	var all [][]setting
	for _, b := range c.benches {
		rows := append(b.settingRows(), setting{"CPU", b.Machine.CPU},
			setting{"CPUs", fmt.Sprint(b.Machine.CPUs)}, setting{"kernel", b.Machine.Kernel},
			setting{"software", b.Machine.Build.String()},
			setting{"CPU governor", b.Environment.Governor})
		all = append(all, rows)
	}
	for i := range all[0] {
		d := Difference{Setting: all[0][i].name}
		same := true
		for _, rows := range all {
			d.Values = append(d.Values, rows[i].value)
			same = same && rows[i].value == all[0][i].value
		}
		if !same {
			c.Differences = append(c.Differences, d)
		}
	}
}

// warn says why runs are not comparable.
func (c *Compare) warn() {
	add := func(format string, v ...any) { c.Warnings = append(c.Warnings, fmt.Sprintf(format, v...)) }
	differs := func(key func(b *Bench) string) bool {
		return slices.ContainsFunc(c.benches, func(b *Bench) bool { return key(b) != key(c.benches[0]) })
	}
	if differs(func(b *Bench) string { return fmt.Sprint(b.Virtual) }) {
		add("some runs have virtual time and some real time: their rates and latencies are not " +
			"comparable")
	}
	if differs(func(b *Bench) string { return b.CostModel }) &&
		!differs(func(b *Bench) string { return fmt.Sprint(b.Virtual) }) {
		add("the runs have different cost models")
	}
	if differs(func(b *Bench) string {
		return fmt.Sprint(b.Machine.CPU, "/", b.Machine.CPUs, "/", b.Machine.Kernel)
	}) {
		add("the runs are of different machines")
	}
	if differs(func(b *Bench) string { return b.Workload + "/" + b.Settings }) {
		add("the runs have different workloads or settings of the workload")
	}
	if differs(func(b *Bench) string { return fmt.Sprint(b.Recorded) }) {
		add("some runs recorded their history, which costs throughput, and some did not")
	}
	if differs(func(b *Bench) string { return b.Transport + "/" + b.Device }) {
		add("the runs have different transports or devices")
	}
	for i, b := range c.benches {
		name := c.Runs[i].Name
		if b.Interrupted {
			add("run %s was interrupted", name)
		}
		if b.Lost != "" {
			add("run %s lost nodes: %s", name, b.Lost)
		}
		if b.Mutation != "" {
			add("run %s had the deliberate bug %s", name, b.Mutation)
		}
		if b.Machine.Build.Race {
			add("run %s is of a build with the race detector", name)
		}
		if busy := b.busy(); busy != "" {
			add("run %s had a busy machine: %s", name, busy)
		}
		if b.All.Committed == 0 {
			add("run %s committed nothing", name)
		}
	}
}

// measure makes the rows.
func (c *Compare) measure() {
	add := func(name, unit string, digits int, of func(b *Bench) *float64) {
		m := Metric{Name: name, Unit: unit, digits: digits, timed: unit == "1/s" || unit == "us"}
		for _, b := range c.benches {
			m.Values = append(m.Values, of(b))
		}
		base := m.Values[c.Base]
		for i, v := range m.Values {
			var r *float64
			sameTime := c.Runs[i].Virtual == c.Runs[c.Base].Virtual
			if (sameTime || !m.timed) && v != nil && base != nil && *base != 0 {
				r = value(*v / *base)
			}
			m.Ratios = append(m.Ratios, r)
		}
		c.Metrics = append(c.Metrics, m)
	}
	add("committed", "1/s", 0, func(b *Bench) *float64 { return value(b.All.PerSecond) })
	add("rolled back", "1/s", 0, func(b *Bench) *float64 {
		return value(perSecond(b.All.RolledBack, time.Duration(b.ElapsedNs)))
	})
	for _, q := range latencyMetrics {
		add("latency "+q.name, "us", 2, func(b *Bench) *float64 {
			if b.All.Latency == nil {
				return nil
			}
			return value(q.ns(b.All.Latency) / 1e3)
		})
	}
	perCommit := func(n uint64, b *Bench) *float64 {
		if b.All.Committed == 0 {
			return nil
		}
		return value(ratio(n, b.All.Committed))
	}
	add("aborted attempts", "per commit", 4, func(b *Bench) *float64 {
		return perCommit(b.All.aborted(), b)
	})
	for _, cause := range causesOf(c.benches) {
		add("aborts: "+cause, "per commit", 4, func(b *Bench) *float64 {
			return perCommit(abortsOf(&b.All, cause), b)
		})
	}
	add("given up", "transactions", 0, func(b *Bench) *float64 {
		return value(float64(b.All.GivenUp))
	})
	add("unknown", "transactions", 0, func(b *Bench) *float64 {
		return value(float64(b.All.Unknown))
	})
	add("fallbacks", "per attempt", 4, func(b *Bench) *float64 { return value(b.Paths.Fallback) })
	for _, op := range c.opcodes() {
		add("verbs: "+op, "per commit", 3, func(b *Bench) *float64 {
			n := uint64(0)
			for _, v := range b.Verbs {
				if v.Opcode == op {
					n = v.Requests
				}
			}
			return perCommit(n, b)
		})
	}
	add("payload", "B per commit", 1, func(b *Bench) *float64 { return value(b.Bytes) })
	for _, kind := range c.kinds() {
		add("committed: "+kind, "1/s", 0, func(b *Bench) *float64 {
			for i := range b.Kinds {
				if b.Kinds[i].Name == kind {
					return value(b.Kinds[i].PerSecond)
				}
			}
			return nil
		})
	}
}

var latencyMetrics = [...]struct {
	name string
	ns   func(*LatencyNs) float64
}{{"p50", func(l *LatencyNs) float64 { return float64(l.P50Ns) }},
	{"p90", func(l *LatencyNs) float64 { return float64(l.P90Ns) }},
	{"p99", func(l *LatencyNs) float64 { return float64(l.P99Ns) }},
	{"p99.9", func(l *LatencyNs) float64 { return float64(l.P999Ns) }},
	{"mean", func(l *LatencyNs) float64 { return l.MeanNs }}}

// anyOf runs has the metric. A cause of aborts or an opcode that was there only in others is left
// out.
func (m *Metric) anyOf(group []int) bool {
	rare := strings.HasPrefix(m.Name, "aborts: ") || strings.HasPrefix(m.Name, "verbs: ")
	return slices.ContainsFunc(group, func(i int) bool {
		return m.Values[i] != nil && (!rare || *m.Values[i] != 0)
	})
}

func value(v float64) *float64 { return &v }

// groups are the indices of the runs in real time and of those in virtual time: their numbers never
// share a table or a plot.
func (c *Compare) groups() [][]int {
	var kinds [2][]int
	for i, r := range c.Runs {
		kind := 0
		if r.Virtual {
			kind = 1
		}
		kinds[kind] = append(kinds[kind], i)
	}
	return slices.DeleteFunc(kinds[:], func(g []int) bool { return len(g) == 0 })
}

// named runs, for plots: with their letter and file.
func (c *Compare) named(group []int) []named {
	var all []named
	for _, i := range group {
		r := c.Runs[i]
		all = append(all, named{r.Name + " " + shortFile(r.File), i, c.benches[i]})
	}
	return all
}

// columns are the heads of a group's table of metrics.
func (c *Compare) columns(group []int) []string {
	all := []string{"metric", "unit"}
	for _, i := range group {
		r := c.Runs[i]
		if all = append(all, ">"+r.Name+marked(r.Virtual)); i != c.Base {
			all = append(all, ">"+r.Name+"/"+c.Runs[c.Base].Name)
		}
	}
	return all
}

// shortFile is what tells a file from others in little room: its folder, if all have the same name.
func shortFile(file string) string {
	name := filepath.Base(file)
	if name == JSONFile {
		if dir := filepath.Base(filepath.Dir(file)); dir != "." && dir != "/" {
			name = dir
		}
	}
	const most = 24
	if r := []rune(name); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return name
}

func (c *Compare) opcodes() []string {
	var all []string
	for _, b := range c.benches {
		for _, v := range b.Verbs {
			if !slices.Contains(all, v.Opcode) {
				all = append(all, v.Opcode)
			}
		}
	}
	return all
}

func (c *Compare) kinds() []string {
	var all []string
	for _, b := range c.benches {
		for _, k := range b.Kinds {
			if !slices.Contains(all, k.Name) {
				all = append(all, k.Name)
			}
		}
	}
	return all
}

// text of run i's number, and of its ratio: "" for the base itself.
func (m *Metric) text(i, base int) (number, times string) {
	number, times = "-", "-"
	if v := m.Values[i]; v != nil {
		if number = fmt.Sprintf("%.*f", m.digits, *v); m.digits > 2 {
			number = rate(*v, m.digits)
		}
	}
	if r := m.Ratios[i]; r != nil {
		times = fmt.Sprintf("%.3gx", *r)
	}
	if i == base {
		times = ""
	}
	return number, times
}

// WriteJSON prints the comparison for programs.
func (c *Compare) WriteJSON(w io.Writer) error { return writeJSON(w, c) }

// WriteText prints the comparison for people.
func (c *Compare) WriteText(w io.Writer) error {
	var s strings.Builder
	runs := newTable("run", "file", "date", "time", "strictly serializable", "sums conserved")
	for _, r := range c.Runs {
		clock := "real"
		if r.Virtual {
			clock = "virtual: modelled"
		}
		runs.row(r.Name, r.File, r.Date.UTC().Format(time.RFC3339), clock, r.Verdict, r.Conserved)
	}
	if err := runs.write(&s, ""); err != nil {
		return err
	}
	s.WriteString("\n")
	for _, warning := range c.Warnings {
		fmt.Fprintf(&s, "warning: %s\n", warning)
	}
	if len(c.Warnings) > 0 {
		s.WriteString("\n")
	}
	heads := []string{"setting that differs"}
	for _, r := range c.Runs {
		heads = append(heads, r.Name)
	}
	settings := newTable(heads...)
	for _, d := range c.Differences {
		settings.row(append([]string{d.Setting}, d.Values...)...)
	}
	if len(c.Differences) > 0 {
		if err := settings.write(&s, ""); err != nil {
			return err
		}
		s.WriteString("\n")
	}
	for n, group := range c.groups() {
		if n > 0 {
			s.WriteString("\n")
		}
		metrics := newTable(c.columns(group)...)
		for _, m := range c.Metrics {
			if !m.anyOf(group) {
				continue
			}
			row := []string{m.Name, m.Unit}
			for _, i := range group {
				number, times := m.text(i, c.Base)
				if row = append(row, number); i != c.Base {
					row = append(row, times)
				}
			}
			metrics.row(row...)
		}
		if err := metrics.write(&s, ""); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, s.String())
	return err
}

func marked(virtual bool) string {
	if virtual {
		return " (modelled)"
	}
	return ""
}
