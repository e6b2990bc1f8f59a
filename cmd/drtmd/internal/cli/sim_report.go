package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"drtmd/verbs/scenario"
	"drtmd/verbs/sim"
)

// simDocument is what a run is reported as: printed in words, or as JSON of SimSchema.
type simDocument struct {
	Schema    string      `json:"schema"`
	Scenario  string      `json:"scenario"`
	CostModel string      `json:"cost_model"`
	Nodes     int         `json:"nodes,omitempty"`
	Workers   int         `json:"workers_per_node,omitempty"`
	Fibers    int         `json:"fibers_per_worker,omitempty"`
	Mutation  string      `json:"mutation,omitempty"`
	Settings  []string    `json:"dimensions,omitempty"` // NAME=VALUE; of a search those that were set
	Seed      *uint64     `json:"seed,omitempty"`       // of a single run
	FirstSeed *uint64     `json:"first_seed,omitempty"` // of a search
	LastSeed  *uint64     `json:"last_seed,omitempty"`
	Runs      uint64      `json:"runs"`
	EveryStep bool        `json:"every_step,omitempty"`
	Planned   int         `json:"crashes_planned,omitempty"`
	Crashes   int         `json:"crashes,omitempty"`
	Struck    int         `json:"crashes_that_struck,omitempty"`
	Orders    *simOrders  `json:"orders,omitempty"` // of --every-order
	Steps     []simStep   `json:"steps,omitempty"`
	Schedule  []string    `json:"schedule,omitempty"`
	NotStruck []string    `json:"never_struck,omitempty"`
	InVain    []string    `json:"struck_in_vain,omitempty"`
	Hash      string      `json:"hash"`
	Events    uint64      `json:"fabric_events"`
	Resumes   uint64      `json:"fiber_resumes"`
	Started   uint64      `json:"fibers,omitempty"`
	Virtual   int64       `json:"virtual_ps,omitempty"`
	Wall      float64     `json:"wall_seconds"`
	CPU       float64     `json:"cpu_seconds"`
	PerWall   float64     `json:"events_and_resumes_per_wall_second"`
	PerCPU    float64     `json:"events_and_resumes_per_cpu_second"`
	Counts    []simCount  `json:"counts,omitempty"`
	Failure   *simFailure `json:"failure,omitempty"`

	Interrupted bool `json:"interrupted,omitempty"`

	drawn        []int // numbers of workers that seeds draw from, of a search
	took         spent
	virtual      string
	notTriggered *notTriggeredError
}

// simOrders is what --every-order has run.
type simOrders struct {
	Orders   int  `json:"orders"`
	Cut      int  `json:"repeated_and_cut"`
	Missed   int  `json:"not_found_again"`
	Crashes  int  `json:"with_a_crash"`
	Arrivals int  `json:"arrivals_of_the_longest"`
	States   int  `json:"states"`
	Whole    bool `json:"whole"`
}

type simStep struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

type simCount struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
}

// simFailure is a check that failed.
type simFailure struct {
	Seed       uint64   `json:"seed"`
	Check      string   `json:"check"`
	Text       string   `json:"text"`
	At         int64    `json:"at_ps"`
	Event      uint64   `json:"event"`
	LastEvents []string `json:"last_events"`
	Settings   []string `json:"dimensions,omitempty"`
	Workers    int      `json:"workers_per_node,omitempty"`
	Schedule   []string `json:"schedule"`
	ShrunkFrom *int     `json:"shrunk_from_faults,omitempty"`
	ShrinkRuns int      `json:"shrink_runs,omitempty"`
	Replay     string   `json:"replay"`

	at string
}

// newSimDocument begins a report; result may be nil.
func newSimDocument(r *simRun, result *scenario.Result, took spent) *simDocument {
	d := &simDocument{Schema: SimSchema, Scenario: r.scenario.Name,
		CostModel: r.options.Cost.Name, Mutation: r.options.Mutation, Runs: 1,
		Wall: took.wall.Seconds(), CPU: took.cpu.Seconds(), took: took}
	o := r.options
	if result != nil && !r.search {
		o = result.Options
	}
	pick := func(given, own int) int {
		if given == 0 {
			return own
		}
		return given
	}
	s := r.scenario
	d.Nodes, d.Fibers = pick(o.Nodes, s.Nodes), pick(o.Fibers, s.Fibers)
	if d.Workers = o.Workers; d.Workers == 0 {
		if d.drawn = s.DrawnWorkers; d.drawn == nil {
			d.Workers = s.Workers
		}
	}
	d.Settings = settingLines(o.Settings)
	return d
}

func settingLines(list []scenario.Setting) (lines []string) {
	for _, s := range list {
		lines = append(lines, s.String())
	}
	return lines
}

func (d *simDocument) setEvents(events, resumes uint64) {
	d.Events, d.Resumes = events, resumes
	d.PerWall = rate(events+resumes, d.took.wall)
	d.PerCPU = rate(events+resumes, d.took.cpu)
}

// addRun says what a single run did.
func (d *simDocument) addRun(r *scenario.Result) {
	d.Seed = &r.Options.Seed
	d.Hash = fmt.Sprintf("%016x", r.Hash)
	d.setEvents(r.Stats.Events, r.Resumes)
	d.Started, d.Virtual, d.virtual = r.Fibers, int64(r.Stats.Virtual), r.Stats.Virtual.String()
	d.Schedule = faultLines(r)
	for _, c := range r.Counts {
		d.Counts = append(d.Counts, simCount{c.Name, c.Value})
	}
	d.addSteps(r)
}

func (d *simDocument) addSteps(r *scenario.Result) {
	for _, s := range r.Steps {
		d.Steps = append(d.Steps, simStep{s.Name, s.Count})
	}
}

// addOutcomes names the faults that did nothing, if they were asked for and not drawn.
func (d *simDocument) addOutcomes(r *simRun, outcomes []sim.Outcome) {
	if r.options.Random {
		return
	}
	for _, o := range outcomes {
		switch {
		case !o.Struck:
			d.NotStruck = append(d.NotStruck, o.Fault.String())
			if d.notTriggered == nil {
				d.notTriggered = &notTriggeredError{first: o.Fault, taken: o.StepsTaken}
			}
			d.notTriggered.count++
		case o.Hits == 0:
			d.InVain = append(d.InVain, o.Fault.String())
		}
	}
}

func faultLines(r *scenario.Result) []string {
	lines := []string{}
	for _, f := range r.Schedule {
		lines = append(lines, f.String())
	}
	return lines
}

// addShrunk notes that the failure, which addFailure adds, has fewer faults than were found.
func (d *simDocument) addShrunk(from, runs int) {
	d.Failure = &simFailure{ShrunkFrom: &from, ShrinkRuns: runs}
}

func (d *simDocument) addFailure(r *scenario.Result, costArgs string) {
	if d.Failure == nil {
		d.Failure = &simFailure{}
	}
	f, x := d.Failure, r.Failure
	f.Seed, f.Check, f.Text, f.At, f.Event = r.Options.Seed, x.Check, x.Text, int64(x.At), x.Event
	f.at = x.At.String()
	for _, e := range x.Events {
		f.LastEvents = append(f.LastEvents, e.String())
	}
	f.Settings, f.Workers, f.Schedule = settingLines(r.Options.Settings), r.Options.Workers,
		faultLines(r)
	f.Replay = "drtmd " + r.ReplayArgs(costArgs)
}

// print writes the report.
func (r *simRun) print(d *simDocument) error {
	if r.flags.json {
		enc := json.NewEncoder(r.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(d)
	}
	var b strings.Builder
	d.write(&b)
	_, err := io.WriteString(r.stdout, b.String())
	return err
}

func (d *simDocument) write(b *strings.Builder) {
	line := func(head, format string, args ...any) {
		fmt.Fprintf(b, "%-9s "+format+"\n", append([]any{head}, args...)...)
	}
	size := fmt.Sprintf("%d nodes", d.Nodes)
	switch {
	case d.drawn != nil:
		size += fmt.Sprintf(" of %d to %d workers of %d fibers", slices.Min(d.drawn),
			slices.Max(d.drawn), d.Fibers)
	case d.Workers > 0:
		size += fmt.Sprintf(" of %d workers of %d fibers", d.Workers, d.Fibers)
	}
	line("scenario", "%s, %s, cost model %s", d.Scenario, size, d.CostModel)
	if d.Mutation != "" {
		line("mutation", "%s: a deliberate bug", d.Mutation)
	}
	if len(d.Settings) > 0 {
		line("set", "%s", strings.Join(d.Settings, ","))
	}
	switch {
	case d.Seed != nil:
		line("seed", "%d, %d faults", *d.Seed, len(d.Schedule))
	case d.FirstSeed != nil:
		line("seeds", "%d..%d, %s runs", *d.FirstSeed, *d.LastSeed, thousands(d.Runs))
	}
	if d.EveryStep {
		line("crashes", "%d of %d, each in its own run; %d triggered", d.Crashes, d.Planned, d.Struck)
	}
	if o := d.Orders; o != nil {
		whole := "there are no others"
		if !o.Whole {
			whole = "there are more"
		}
		line("orders", "%s that differ, of up to %d arrivals; %s; %s repeat one and were cut", thousands(uint64(o.Orders)),
			o.Arrivals, whole, thousands(uint64(o.Cut)))
		line("crashes", "%s, each in its own run", thousands(uint64(o.Crashes)))
		if o.Missed > 0 {
			line("missed", "%s, as what was to arrive is sent by a timer", thousands(uint64(o.Missed)))
		}
		line("states", "%s seen by these orders", thousands(uint64(o.States)))
	}
	for _, f := range d.NotStruck {
		line("fault", "never triggered: %s", f)
	}
	for _, f := range d.InVain {
		line("fault", "triggered without effect: %s", f)
	}
	for _, s := range d.Steps {
		line("step", "%s x %d", strconv.Quote(s.Name), s.Count)
	}
	line("hash", "%s", d.Hash)
	if d.Events > 0 {
		line("events", "%s of the fabric, %s resumes of fibers", thousands(d.Events),
			thousands(d.Resumes))
		line("speed", "%.2f M events and resumes per second (%.3f s; %.2f M per second of CPU time)",
			d.PerWall/1e6, d.Wall, d.PerCPU/1e6)
	}
	if d.virtual != "" {
		line("virtual", "%s", d.virtual)
	}
	for _, c := range d.Counts {
		line("count", "%s %s", thousands(c.Value), c.Name)
	}
	switch {
	case d.Failure != nil:
		d.Failure.write(b)
	case d.Interrupted:
		line("checks", "held so far; interrupted")
	default:
		line("checks", "all held")
	}
}

func (f *simFailure) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nthe last events before the failure:\n")
	for _, e := range f.LastEvents {
		fmt.Fprintf(b, "  %s\n", e)
	}
	if len(f.Settings) > 0 {
		fmt.Fprintf(b, "\ndimensions:\n  workers=%d,%s\n", f.Workers, strings.Join(f.Settings, ","))
	}
	switch {
	case f.ShrunkFrom != nil:
		fmt.Fprintf(b, "\nfaults, the fewest that fail, %d of %d, after %d runs:\n",
			len(f.Schedule), *f.ShrunkFrom, f.ShrinkRuns)
	default:
		fmt.Fprintf(b, "\nfaults:\n")
	}
	for _, s := range f.Schedule {
		fmt.Fprintf(b, "  %s\n", s)
	}
	if len(f.Schedule) == 0 {
		fmt.Fprintln(b, "  none")
	}
	fmt.Fprintf(b, "\nFAILED    seed %d, check %s, at %s, event %s:\n  %s\n", f.Seed, f.Check, f.at,
		thousands(f.Event), f.Text)
	fmt.Fprintf(b, "\nthe same run again:\n  %s\n", f.Replay)
}

// thousands groups the digits of a number: 1,234,567.
func thousands(n uint64) string {
	s := []byte(strconv.FormatUint(n, 10))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = slices.Insert(s, i, ',')
	}
	return string(s)
}
