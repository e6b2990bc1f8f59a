package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto/check"
)

// WriteHTML prints the run as one self-contained page.
func (b *Bench) WriteHTML(w io.Writer) error {
	runs := []named{{name: b.Workload, Bench: b}}
	p := &page{Title: b.Workload + " with " + b.Protocol + " on " + b.Transport,
		Subtitle: b.Date.UTC().Format(time.RFC3339) + ", " + b.cluster(), Modelled: b.Virtual,
		Measured: !b.Virtual, Notices: b.notices(), Stats: b.stats()}
	over, err := throughputPlot(runs)
	if err != nil {
		return err
	}
	latency, err := latencyPlot(runs)
	if err != nil {
		return err
	}
	aborts, err := abortPlot(runs)
	if err != nil {
		return err
	}
	p.Sections = []section{
		{ID: "throughput", Title: "Throughput over time", Figure: figure(over), Nature: b.natureLine(),
			Note: missing(over, "The run has no series."), Tables: b.seriesTable()},
		{ID: "latency", Title: "Latency", Figure: figure(latency), Nature: b.natureLine(),
			Tables: b.latencyTable(),
			Note:   missing(latency, "No latency was measured.")},
		{ID: "aborts", Title: "Aborts by cause", Figure: figure(aborts), Nature: b.natureLine(),
			Tables: b.abortTable(),
			Note:   missing(aborts, "No attempt was aborted by the protocol.")},
		{ID: "types", Title: "Types of transactions", Tables: append([]htmlTable{b.kindTable()}, b.roleTables()...)},
		{ID: "verbs", Title: "Verbs and paths", Tables: []htmlTable{b.verbTable(), b.pathTable()}},
		{ID: "nature", Title: "Real, emulated, modelled", Tables: []htmlTable{b.natureTable()}},
		{ID: "configuration", Title: "Configuration", Tables: []htmlTable{b.settingsTable()}},
		{ID: "environment", Title: "Environment", Tables: []htmlTable{b.environmentTable()}},
		{ID: "command", Title: "Command line", Text: []string{b.CommandLine()}},
	}
	if b.Check != nil && len(b.Check.Violations) > 0 {
		s := section{ID: "violations", Title: "Violations"}
		for _, v := range b.Check.Violations {
			s.Text = append(s.Text, v.Text)
		}
		p.Sections = append([]section{s}, p.Sections...)
	}
	return writePage(w, p)
}

// rate writes a number with so many digits behind the point, and one that would be lost by that
// with an exponent.
func rate(v float64, digits int) string {
	if v > 0 && v < 10*math.Pow(10, -float64(digits)) {
		return fmt.Sprintf("%.2e", v)
	}
	return fmt.Sprintf("%.*f", digits, v)
}

func missing(drawn, text string) string {
	if drawn != "" {
		return ""
	}
	return text
}

// CommandLine as a shell takes it.
func (b *Bench) CommandLine() string { return shellLine(b.Command) }

// shellLine quotes the arguments of a command of drtmd.
func shellLine(args []string) string {
	line := []string{"drtmd"}
	for _, a := range args {
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`*?[]{}()<>|&;#~!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		line = append(line, a)
	}
	return strings.Join(line, " ")
}

// notices say the verdicts, and what took place that makes numbers mean something else.
func (b *Bench) notices() []notice {
	var all []notice
	add := func(level, word, text string) { all = append(all, notice{level, word, text}) }
	switch {
	case b.Check == nil && b.Lost != "":
		add("note", "no verdict", "on strict serializability: what the lost nodes recorded is gone")
	case b.Check == nil && b.Recorded:
		add("note", "no verdict", "on strict serializability: the history was recorded and not "+
			"checked; see --check, and drtmd check for a saved one")
	case b.Check == nil:
		add("note", "no verdict", "on strict serializability: the history was not recorded; see --check")
	case b.Check.Verdict == check.Serializable:
		add("good", "checked", CheckLine(b.Check))
	case b.Check.Verdict == check.Undecided:
		add("note", "undecided", CheckLine(b.Check))
	default:
		add("bad", "violated", CheckLine(b.Check))
	}
	judge := func(what, verdict string) {
		switch text := what + ": " + answer(verdict); {
		case verdict == "":
		case verdict == "yes":
			add("good", "checked", text)
		case strings.HasPrefix(verdict, "unknown: "):
			add("note", "no verdict", text)
		default:
			add("bad", "violated", text)
		}
	}
	if b.PerMinute != nil {
		add("note", "rate", b.perMinuteText())
	}
	judge("sums conserved", b.Conserved)
	if v := b.Verified; v != nil && b.Conserved == "yes" {
		add("good", "checked", fmt.Sprintf("%s (%s read)", v.What, count(int(v.Records), "record")))
	}
	judge("replicas equal", b.Audit)
	if b.Lost != "" {
		add("bad", "lost", b.Lost)
	}
	if b.Recovered != nil {
		add("note", "recovered", b.recoveredText())
	}
	if b.Orphans != nil {
		add("bad", "orphans", b.orphansText())
	}
	if b.Unsettled != "" {
		add("bad", "not settled", b.Unsettled)
	}
	if b.Interrupted {
		add("bad", "interrupted", "the measurement is shorter than was asked for")
	}
	if b.Mutation != "" {
		add("bad", "deliberate bug", b.Mutation+" was switched on: the numbers are of no use")
	}
	if b.Virtual {
		add("note", "modelled", "virtual time, cost model "+b.CostModel)
	} else if b.Transport == "shm" {
		add("note", "emulated", "shm has no network: its latencies say nothing about one")
	}
	if b.Recorded {
		add("note", "recorded", "recording the history cost throughput")
	}
	if b.Machine.Build.Race {
		add("note", "race detector", "the build is many times slower than a normal one")
	}
	if busy := b.busy(); busy != "" {
		add("note", "busy machine", busy)
	}
	return all
}

// busy says that other work was using the machine when the run began; "" if it was idle, or that is of
// no meaning.
func (b *Bench) busy() string {
	l := b.Environment.LoadAverage
	if l == nil || *l <= float64(b.Machine.CPUs)/2 || b.Virtual {
		return ""
	}
	return fmt.Sprintf("load average %.2f on %s when the run began: measure again when it is idle", *l,
		count(b.Machine.CPUs, "CPU"))
}

// number is a cell that the run's clock has a part in.
func (b *Bench) number(format string, v ...any) cell {
	return cell{Text: fmt.Sprintf(format, v...), Number: true, Modelled: b.Virtual}
}

func (b *Bench) stats() []stat {
	s := []stat{{"committed/s", fmt.Sprintf("%.0f", b.All.PerSecond), "", b.Virtual}}
	if l := b.All.Latency; l != nil {
		s = append(s, stat{"latency p50", micro(l.P50Ns), "us", b.Virtual},
			stat{"latency p99", micro(l.P99Ns), "us", b.Virtual})
	}
	s = append(s, stat{"aborts/commit", rate(ratio(b.All.aborted(), b.All.Committed), 4), "",
		b.Virtual})
	verdict := "none"
	if b.Check != nil {
		verdict = b.Check.Verdict.String()
	}
	return append(s, stat{"verdict", verdict, "", false}, stat{"protocol", b.Protocol, "", false},
		stat{"workload", b.Workload, "", false})
}

// aborted attempts, whatever the cause.
func (k *KindRow) aborted() uint64 {
	n := uint64(0)
	for _, a := range k.Aborts {
		n += a.Count
	}
	return n
}

// seriesRows bounds the table beside a plot: it sums points up to so many rows.
const seriesRows = 12

func (b *Bench) seriesTable() []htmlTable {
	if len(b.Series) == 0 {
		return nil
	}
	t := htmlTable{Caption: "Rates by time since the measurement began",
		Heads: heads(">until", ">span", ">committed/s", ">aborts/attempt")}
	step := (len(b.Series) + seriesRows - 1) / seriesRows
	var sum load.Point
	n := 0
	for i, x := range b.Series {
		sum.Span += x.Span
		sum.Committed += x.Committed
		sum.Attempts += x.Attempts
		sum.Aborted += x.Aborted
		n++
		last := i+1 == len(b.Series)
		// No row has both of warm-up and of measurement.
		if n < step && !last && (x.At > 0 || b.Series[i+1].At <= 0) {
			continue
		}
		until := roundDuration(x.At)
		if x.At <= 0 {
			until += " (warm-up)"
		}
		t.Rows = append(t.Rows, []cell{b.number("%s", until), b.number("%s", roundDuration(sum.Span)),
			b.number("%.0f", perSecond(sum.Committed, sum.Span)),
			b.number("%s", rate(ratio(sum.Aborted, sum.Attempts), 4))})
		sum, n = load.Point{}, 0
	}
	return []htmlTable{t}
}

// roundDuration keeps about four digits of a time.
func roundDuration(d time.Duration) string {
	digits := time.Duration(math.Pow(10, max(0, math.Floor(math.Log10(max(1,
		math.Abs(float64(d)))))-3)))
	return d.Round(digits).String()
}

func (b *Bench) latencyTable() []htmlTable {
	l := b.All.Latency
	if l == nil {
		return nil
	}
	t := htmlTable{Heads: heads("share", ">at most [us]"),
		Caption: fmt.Sprintf("Latency of committed transactions, retries included; %d samples",
			l.Samples)}
	row := func(name string, ns int64) {
		t.Rows = append(t.Rows, []cell{{Text: name}, b.number("%s", micro(ns))})
	}
	row("50 % (p50)", l.P50Ns)
	row("90 % (p90)", l.P90Ns)
	row("99 % (p99)", l.P99Ns)
	row("99.9 % (p99.9)", l.P999Ns)
	row("all (maximum)", l.MaxNs)
	t.Rows = append(t.Rows, []cell{{Text: "mean"}, b.number("%.2f", l.MeanNs/1e3)})
	return []htmlTable{t}
}

func (b *Bench) abortTable() []htmlTable {
	if len(b.All.Aborts) == 0 {
		return nil
	}
	t := htmlTable{Caption: "Aborted attempts by cause",
		Heads: heads("cause", ">attempts", ">per commit", ">share of aborts")}
	total := b.All.aborted()
	for _, a := range b.All.Aborts {
		t.Rows = append(t.Rows, []cell{{Text: a.Reason}, b.number("%d", a.Count),
			b.number("%s", rate(ratio(a.Count, b.All.Committed), 4)),
			b.number("%.1f %%", 100*ratio(a.Count, total))})
	}
	return []htmlTable{t}
}

// kindTable is the table of the text.
func (b *Bench) kindTable() htmlTable {
	return b.asHTML("Rates and latencies by type of transaction", b.transactions())
}

// roleTables are what threads did, by role; none if the protocol does not divide them.
func (b *Bench) roleTables() []htmlTable {
	if len(b.Roles) == 0 {
		return nil
	}
	return []htmlTable{b.asHTML("Threads by role", b.roles())}
}

// asHTML is a table of the text, with numbers behind the first column.
func (b *Bench) asHTML(caption string, text *table) htmlTable {
	rows := text.rows
	t := htmlTable{Caption: caption}
	for i, head := range rows[0] {
		t.Heads = append(t.Heads, cell{Text: head, Number: i > 0})
	}
	for _, r := range rows[1:] {
		row := words(r[0])
		for _, c := range r[1:] {
			row = append(row, cell{Text: c, Number: true, Modelled: b.Virtual && c != "-"})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (b *Bench) verbTable() htmlTable {
	t := htmlTable{Caption: "Work requests by opcode, those of RPC included",
		Heads: heads("opcode", ">requests", ">per commit")}
	for _, v := range b.Verbs {
		t.Rows = append(t.Rows, []cell{{Text: v.Opcode}, b.number("%d", v.Requests),
			b.number("%.3f", v.PerCommitted)})
	}
	t.Rows = append(t.Rows, []cell{{Text: "payload"}, {},
		b.number("%.1f B", b.Bytes)})
	return t
}

func (b *Bench) pathTable() htmlTable {
	t := htmlTable{Caption: "Ways inside the protocol", Heads: heads("what", ">value")}
	row := func(name string, c cell) { t.Rows = append(t.Rows, []cell{{Text: name}, c}) }
	row("fallbacks per attempt", b.number("%s", rate(b.Paths.Fallback, 4)))
	row("regions (emulated HTM) per attempt", b.number("%.2f", b.Paths.Regions))
	row("waits for a lease per attempt", b.number("%s", rate(b.Paths.LeaseWaits, 4)))
	row("remote lookups", b.number("%d", b.Paths.Lookups))
	row("of these answered by the location cache", b.number("%d", b.Paths.CacheHits))
	return t
}

func (b *Bench) natureTable() htmlTable {
	t := htmlTable{Caption: "What the numbers are made of", Heads: heads("part", "is", "how")}
	for _, n := range b.Natures() {
		t.Rows = append(t.Rows, words(n.Part, n.Is, n.How))
	}
	return t
}

func (b *Bench) settingsTable() htmlTable {
	t := htmlTable{Caption: "Settings of the run", Heads: heads("setting", "value")}
	for _, s := range b.settingRows() {
		t.Rows = append(t.Rows, words(s.name, s.value))
	}
	return t
}

// setting of a run, in words.
type setting struct{ name, value string }

// settingRows are what somebody chose.
func (b *Bench) settingRows() []setting {
	or := func(s, none string) string {
		if s == "" {
			return none
		}
		return s
	}
	sample := "not measured"
	if b.SampleEvery > 0 {
		sample = "one transaction in " + strconv.Itoa(b.SampleEvery)
	}
	return []setting{{"workload", b.Workload}, {"workload settings", b.Settings},
		{"protocol", b.Protocol}, {"deliberate bug", or(b.Mutation, "none")},
		{"transport", b.Transport}, {"device", or(b.Device, "none")},
		{"cost model", or(b.CostModel, "none")}, {"atomic scope", or(b.AtomicScope, "unknown")},
		{"nodes", strconv.Itoa(b.Nodes)},
		{"nodes with clients", or(strings.TrimPrefix(strconv.Itoa(b.ClientNodes), "0"), "all")},
		{"workers per node", strconv.Itoa(b.Workers)},
		{"replicas", strconv.Itoa(max(b.Replicas, 1))},
		{"fibers per worker", strconv.Itoa(b.Fibers)},
		{"threads per process", or(strings.TrimPrefix(strconv.Itoa(b.Threads), "0"), "none: simulated")},
		{"processes", strconv.Itoa(b.Processes)}, {"seed", strconv.FormatUint(b.Seed, 10)},
		{"warm-up", time.Duration(b.WarmupNs).String()},
		{"duration asked for", time.Duration(b.DurationNs).String()},
		{"time", map[bool]string{true: "virtual", false: "real"}[b.Virtual]},
		{"latency measured of", sample},
		{"history recorded", map[bool]string{true: "yes", false: "no"}[b.Recorded]}}
}

func (b *Bench) environmentTable() htmlTable {
	load := "unknown"
	if l := b.Environment.LoadAverage; l != nil {
		load = fmt.Sprintf("%.2f", *l)
	}
	governor := b.Environment.Governor
	if governor == "" {
		governor = "unknown: the system does not tell"
	}
	t := htmlTable{Caption: "Machine and software", Heads: heads("what", "value")}
	for _, s := range []setting{{"CPU", b.Machine.CPU}, {"CPUs", strconv.Itoa(b.Machine.CPUs)},
		{"GOMAXPROCS", strconv.Itoa(b.Machine.GoMaxProcs)}, {"kernel", b.Machine.Kernel},
		{"software", b.Machine.Build.String()}, {"CPU governor", governor},
		{"load average of a minute, when the run began", load},
		{"measured", roundDuration(time.Duration(b.ElapsedNs)) + " on the cluster's clock"},
		{"in real time", roundDuration(time.Duration(b.WallNs))}} {
		t.Rows = append(t.Rows, words(s.name, s.value))
	}
	return t
}
