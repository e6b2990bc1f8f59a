package load

import (
	"context"
	"time"

	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/verbs"
)

// Options of a run.
type Options struct {
	Workload workload.Workload
	// Open builds and starts the cluster, or this process's part of it.
	Open func(ctx context.Context) (*node.Cluster, error)
	// ClientNodes is how many nodes have clients, those with the lowest numbers; the others only hold records and
	// serve. 0 = all.
	ClientNodes int
	// Seed of the clients.
	Seed uint64
	// Warmup is not measured; Duration is. Both on the cluster's clock.
	Warmup, Duration time.Duration
	// SampleEvery has the latency of one transaction in so many measured; 0 = none.
	SampleEvery int
	YieldEvery  int // workload.Driver; 0 = its default
	// Watch, if not nil, follows each transaction, of the warm-up, too. Of one process in virtual time.
	Watch workload.Watch
	// Virtual: the cluster's clock is the simulator's.
	Virtual bool
	// ChargePs is the CPU time of drawing a transaction in the simulator.
	ChargePs int64
	// Settle is how long nodes out of reach are waited for at the end; 0 = 15 s.
	Settle time.Duration
	// Progress is called about every Interval of real time, if not nil.
	Progress func(Progress)
	Interval time.Duration
}

// Progress is where a run is.
type Progress struct {
	Phase   Phase
	Elapsed time.Duration // of the phase, on the cluster's clock
	Of      time.Duration
	// PerSecond are the transactions that were committed since the last call, per second of the
	// cluster's clock, and AbortRate the aborted ones among the attempts that have ended since then,
	// 0..1.
	PerSecond float64
	AbortRate float64
}

// Phase of a run.
type Phase uint8

// Phases.
const (
	Warming Phase = iota + 1
	Measuring
)

func (p Phase) String() string { return [...]string{"warming up", "measuring"}[p-1] }

// Result of a run.
type Result struct {
	Device  verbs.DeviceAttr // of node 0
	Elapsed time.Duration    // measured, on the cluster's clock
	Wall    time.Duration    // the same in real time
	// Interrupted: the measurement is shorter than was asked for.
	Interrupted bool
	Sum         Snapshot
	// Latency of committed transactions by kind, [0] of all.
	Latency []Latency
	// Conserved is nil if the workload's check of its tables holds after the run, else the reason.
	Conserved error
	// Verified is how many records that check has looked for; 0 if it was not made.
	Verified uint64
	// Audit says whether all replicas of each record are equal, and none is locked: nil, or which is not.
	// Of replicas in several processes only the check of the History knows whether they are equal.
	Audit error
	// Lost is nil, or a *LostError: then nothing is known of Conserved, and there is no History.
	Lost error
	// Recovered is nil, or which processes were lost, and that the run went on without them: nothing is known
	// of the sums, which the clients of the lost ones changed, and everything else is.
	Recovered *Recovered
	// Unsettled is nil, or an *UnsettledError: then nothing is known of Conserved.
	Unsettled error
	// History of the whole run, warm-up included; nil if none was recorded. The caller closes it.
	History *history.History
	// Orphans are the records that were still locked at the end, as far as the engines know.
	Orphans Orphans
	// Did is what the clients did to the workload's sums.
	Did workload.Ledger
	// Series is how the run went over time, warm-up included.
	Series []Point
	// Quantiles of the latency of all committed transactions, in ascending order: the curve.
	Quantiles []Quantile
}

// Point of a Series: what happened between the point before and this one. Attempts are those that
// ended in between, the aborted ones among them.
type Point struct {
	At        time.Duration `json:"at_ns"` // since the measurement began, below 0 in the warm-up
	Span      time.Duration `json:"span_ns"`
	Committed uint64        `json:"committed"`
	Attempts  uint64        `json:"attempts"`
	Aborted   uint64        `json:"aborted_attempts"`
}

// Quantile of latencies: P of them, 0..1, took at most Ns.
type Quantile struct {
	P  float64 `json:"p"`
	Ns int64   `json:"ns"`
}

// Latency are quantiles in nanoseconds. Those without samples are 0.
type Latency struct {
	Samples                            int64
	MeanNs                             float64
	P50Ns, P90Ns, P95Ns, P99Ns, P999Ns int64
	MaxNs                              int64
}
