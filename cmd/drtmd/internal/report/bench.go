package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/option"
	"drtmd/verbs"
)

// BenchSchema of the JSON document. docs/BENCH.md describes it.
const BenchSchema = "drtmd.bench/1"

// Bench is a run of drtmd bench with everything needed to understand its numbers.
type Bench struct {
	Schema   string    `json:"schema"`
	Date     time.Time `json:"date"` // UTC, of the start
	Machine  Machine   `json:"machine"`
	Command  []string  `json:"command"`
	Workload string    `json:"workload"`
	Settings string    `json:"workload_settings"`
	// Options are all of the workload, with their values.
	Options  option.Settings `json:"workload_options,omitempty"`
	Protocol string          `json:"protocol"`
	Mutation string          `json:"mutation,omitempty"` // a deliberate bug that was switched on
	// Memory is the address of the memory node whose clients the nodes are, or "own": it is in their process or
	// simulation. Index stores the tables there. Both are "" if the nodes have the records.
	Memory      string `json:"memory,omitempty"`
	MemoryNodes int    `json:"memory_nodes,omitempty"`
	Index       string `json:"index,omitempty"`
	Transport   string `json:"transport"`
	Device      string `json:"device,omitempty"`
	CostModel   string `json:"cost_model,omitempty"` // of the simulator
	AtomicScope string `json:"atomic_scope"`
	Nodes       int    `json:"nodes"`
	// ClientNodes is how many nodes have clients, the first ones; 0: all.
	ClientNodes int       `json:"client_nodes,omitempty"`
	Replicas    int       `json:"replicas,omitempty"` // of each record, the primary included
	Workers     int       `json:"workers_per_node"`
	Fibers      int       `json:"fibers_per_worker"`
	Threads     int       `json:"threads,omitempty"` // OS threads of a process; none in the simulator
	Processes   int       `json:"processes"`
	Seed        uint64    `json:"seed"`
	WarmupNs    int64     `json:"warmup_ns"`
	DurationNs  int64     `json:"duration_ns"`  // asked for
	ElapsedNs   int64     `json:"elapsed_ns"`   // measured, on the cluster's clock
	WallNs      int64     `json:"wall_ns"`      // the same in real time
	Virtual     bool      `json:"virtual_time"` // the cluster's clock is the simulator's
	SampleEvery int       `json:"latency_of_one_in"`
	Recorded    bool      `json:"history_recorded"` // which costs throughput
	Interrupted bool      `json:"interrupted"`
	Kinds       []KindRow `json:"transactions"`
	All         KindRow   `json:"all"`
	// PerMinute is the rate of one type of transaction, where the workload's specification wants it.
	PerMinute *PerMinute `json:"per_minute,omitempty"`
	Paths     PathRow    `json:"paths"`
	// Roles are those of the threads of a node, of protocols that divide them.
	Roles []RoleRow `json:"roles,omitempty"`
	// Repairs are those of clients of a memory node; nil: the nodes have the records.
	Repairs   *RepairRow `json:"repairs,omitempty"`
	Verbs     []VerbRow  `json:"verbs"`
	Bytes     float64    `json:"payload_bytes_per_committed"`
	Unsettled string     `json:"unsettled,omitempty"` // why the run ended before all was settled
	Conserved string     `json:"conserved"`           // "yes", or what is wrong or unknown
	Verified  *Verified  `json:"verified,omitempty"`  // nil: Conserved is unknown
	// Audit is "yes" if all replicas of each record are equal in the end and none is locked, or what is
	// wrong or unknown; "" with one replica.
	Audit   string        `json:"replicas_equal,omitempty"`
	Check   *check.Result `json:"check,omitempty"`
	History string        `json:"history_file,omitempty"`
	// Lost names the nodes that were lost during the run.
	Lost string `json:"lost,omitempty"`
	// Recovered says of which nodes the run was lost without harm: others had replicas of what they held. nil:
	// of none.
	Recovered *load.Recovered `json:"recovered,omitempty"`
	// Orphans are the records that were still locked at the end of the run; nil: none.
	Orphans     *load.Orphans `json:"orphans,omitempty"`
	Environment Environment   `json:"environment"` // when the run began
	// Series is the run over time, Quantiles the curve of the latency of committed transactions.
	Series    []load.Point    `json:"series"`
	Quantiles []load.Quantile `json:"quantiles"`
}

// PerMinute is a rate of committed transactions of a type.
type PerMinute struct {
	Name string  `json:"name"`
	Rate float64 `json:"committed_per_minute"`
}

// CountPerMinute adds the rate per minute of a type of transaction; "" is none.
func (b *Bench) CountPerMinute(name string) {
	for i := range b.Kinds {
		if k := &b.Kinds[i]; k.Name == name {
			b.PerMinute = &PerMinute{name, 60 * k.PerSecond}
		}
	}
}

// perMinuteText is the rate, with the shares of all types in what ended.
func (b *Bench) perMinuteText() string {
	ended := func(k *KindRow) uint64 { return k.Committed + k.RolledBack }
	var shares []string
	for i := range b.Kinds {
		k := &b.Kinds[i]
		shares = append(shares, fmt.Sprintf("%s %.1f %%", k.Name, 100*ratio(ended(k), ended(&b.All))))
	}
	return fmt.Sprintf("%s per minute: %.0f; mix: %s", b.PerMinute.Name, b.PerMinute.Rate, strings.Join(shares, ", "))
}

// Verified is the workload's check of its tables after the run.
type Verified struct {
	What    string `json:"what"`    // the workload's own words
	Records uint64 `json:"records"` // that the check has looked for, absent ones included
}

// KindRow is a type of transaction. Rates are per second of the cluster's clock.
type KindRow struct {
	Name       string     `json:"name"`
	Committed  uint64     `json:"committed"`
	PerSecond  float64    `json:"committed_per_s"`
	RolledBack uint64     `json:"rolled_back"` // by its own decision
	GivenUp    uint64     `json:"given_up"`    // aborted by the protocol for good
	Unknown    uint64     `json:"unknown"`
	Attempts   uint64     `json:"attempts"`
	Aborts     []AbortRow `json:"aborted_attempts"`
	Latency    *LatencyNs `json:"latency,omitempty"` // of committed ones, retries included
}

// AbortRow counts aborted attempts of a cause.
type AbortRow struct {
	Reason string `json:"reason"`
	Count  uint64 `json:"count"`
}

// LatencyNs are quantiles.
type LatencyNs struct {
	Samples int64   `json:"samples"`
	MeanNs  float64 `json:"mean_ns"`
	P50Ns   int64   `json:"p50_ns"`
	P90Ns   int64   `json:"p90_ns"`
	P99Ns   int64   `json:"p99_ns"`
	P999Ns  int64   `json:"p99_9_ns"`
	MaxNs   int64   `json:"max_ns"`
}

// PathRow says which ways transactions went inside the protocol. Ratios are per attempt.
type PathRow struct {
	Fallback   float64 `json:"fallbacks_per_attempt"`
	Regions    float64 `json:"regions_per_attempt"`
	LeaseWaits float64 `json:"lease_waits_per_attempt"`
	Lookups    uint64  `json:"remote_lookups"`
	CacheHits  uint64  `json:"remote_lookups_without_read"`
}

// RepairRow says what clients of a memory node did about the transactions of other clients, which they took for dead.
type RepairRow struct {
	Met      uint64 `json:"expired_locks_met"`
	Finished uint64 `json:"transactions_finished"`
	Undone   uint64 `json:"transactions_undone"`
}

// VerbRow is an opcode, RPC included.
type VerbRow struct {
	Opcode       string  `json:"opcode"`
	Requests     uint64  `json:"requests"`
	PerCommitted float64 `json:"per_committed"`
}

// Fill takes the measurement over. kinds are the names of the types of transactions; verify says what the
// workload checks after the run.
func (b *Bench) Fill(kinds []string, verify string, r *load.Result) {
	b.ElapsedNs, b.WallNs, b.Interrupted = int64(r.Elapsed), int64(r.Wall), r.Interrupted
	b.Machine, b.AtomicScope = ThisMachine(), r.Device.Atomic.String()
	if !b.Virtual {
		b.Device = r.Device.Name
	}
	b.All = KindRow{Name: "all", Aborts: []AbortRow{}}
	var aborts [proto.ReasonEnd]uint64
	for i, name := range kinds {
		c := &r.Sum.Counts.Kinds[i+1]
		k := KindRow{Name: name, Committed: c.Outcomes[proto.Committed],
			RolledBack: c.Outcomes[proto.RolledBack], GivenUp: c.Outcomes[proto.Aborted],
			Unknown: c.Outcomes[proto.Unknown], Attempts: c.Attempts, Aborts: abortRows(&c.Aborts)}
		k.PerSecond = perSecond(k.Committed, r.Elapsed)
		k.Latency = latencyOf(r, i+1)
		b.Kinds = append(b.Kinds, k)
		b.All.Committed += k.Committed
		b.All.RolledBack += k.RolledBack
		b.All.GivenUp += k.GivenUp
		b.All.Unknown += k.Unknown
		b.All.Attempts += k.Attempts
		for j, n := range c.Aborts {
			aborts[j] += n
		}
	}
	b.All.PerSecond = perSecond(b.All.Committed, r.Elapsed)
	b.All.Aborts, b.All.Latency = abortRows(&aborts), latencyOf(r, 0)
	e := &r.Sum.Engine
	b.Paths = PathRow{Fallback: ratio(e.Fallbacks, e.Begun), Regions: ratio(e.RegionRuns, e.Begun),
		LeaseWaits: ratio(e.LeaseWaits, e.Begun), Lookups: e.Lookups, CacheHits: e.CacheHits}
	if b.Memory != "" {
		m := &r.Sum.Memory
		b.Repairs = &RepairRow{Met: m.Repairs, Finished: m.Finished, Undone: m.Undone}
	}
	b.Verbs = []VerbRow{}
	for op, n := range r.Sum.Fiber.Ops {
		if n > 0 {
			b.Verbs = append(b.Verbs, VerbRow{Opcode: verbs.Opcode(op).String(), Requests: n,
				PerCommitted: ratio(n, b.All.Committed)})
		}
	}
	b.Bytes = ratio(r.Sum.Fiber.Bytes, b.All.Committed)
	b.Series, b.Quantiles = r.Series, r.Quantiles
	if r.Orphans.Count > 0 {
		b.Orphans = &r.Orphans
	}
	b.Conserved = "yes"
	if r.Lost != nil {
		b.Lost = r.Lost.Error()
		b.Conserved = "unknown: " + b.Lost
	} else if r.Unsettled != nil {
		b.Unsettled = r.Unsettled.Error()
		b.Conserved = "unknown: " + b.Unsettled
	} else {
		b.Recovered = r.Recovered
		b.Verified = &Verified{What: verify, Records: r.Verified}
		switch {
		case r.Conserved != nil:
			b.Conserved = r.Conserved.Error()
		case r.Recovered != nil:
			b.Conserved = "unknown: what the clients of the lost nodes paid in and out is gone with them"
		}
	}
	switch {
	case b.Replicas <= 1:
	case r.Lost != nil || r.Unsettled != nil:
		b.Audit = b.Conserved
	case r.Audit != nil:
		b.Audit = r.Audit.Error()
	default:
		b.Audit = "yes"
	}
}

func latencyOf(r *load.Result, kind int) *LatencyNs {
	if kind >= len(r.Latency) || r.Latency[kind].Samples == 0 {
		return nil
	}
	l := r.Latency[kind]
	return &LatencyNs{Samples: l.Samples, MeanNs: l.MeanNs, P50Ns: l.P50Ns, P90Ns: l.P90Ns,
		P99Ns: l.P99Ns, P999Ns: l.P999Ns, MaxNs: l.MaxNs}
}

func abortRows(counts *[proto.ReasonEnd]uint64) []AbortRow {
	rows := []AbortRow{}
	for r, n := range counts {
		if n > 0 {
			rows = append(rows, AbortRow{Reason: proto.Reason(r).String(), Count: n})
		}
	}
	return rows
}

func ratio(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// WriteJSON prints the run for programs.
func (b *Bench) WriteJSON(w io.Writer) error {
	b.Schema = BenchSchema
	if b.Kinds == nil {
		b.Kinds = []KindRow{}
	}
	if b.Series == nil {
		b.Series = []load.Point{}
	}
	if b.Quantiles == nil {
		b.Quantiles = []load.Quantile{}
	}
	return writeJSON(w, b)
}

// CheckLine says the verdict in one line.
func CheckLine(r *check.Result) string {
	switch r.Verdict {
	case check.Serializable:
		return fmt.Sprintf("strictly serializable: yes (%d transactions)", r.Checked)
	case check.Undecided:
		return fmt.Sprintf("strictly serializable: undecided (%d transactions; what had to be "+
			"guessed led to a violation, see docs/HISTORY.md)", r.Checked)
	}
	return fmt.Sprintf("strictly serializable: NO (%d transactions)", r.Checked)
}
