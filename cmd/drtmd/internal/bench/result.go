package bench

import "github.com/HdrHistogram/hdrhistogram-go"

// Result is one row of the table. What was not measured is nil.
type Result struct {
	Case    Case
	Inline  bool // the payload went inline
	Latency *LatencyResult
	Rate    *RateResult
}

// LatencyResult are the latencies of one case; times in nanoseconds.
type LatencyResult struct {
	Kind                              LatencyKind
	Samples                           int64
	Lost                              int64 // datagrams without an answer; no sample each
	Min, Mean, Median, P99, P999, Max int64
}

// RateResult is the message rate of one case.
type RateResult struct {
	Messages       uint64 // completed, or for SEND and UD received
	Lost           uint64 // datagrams sent and not received
	ElapsedNs      int64
	PerSecond      float64 // messages
	BytesPerSecond float64 // payload
	Depth, Batch   int
}

// maxLatencyNs is where the histogram ends; longer ones count as this.
const maxLatencyNs = int64(100e9)

// recorder collects the times between laps. It sorts them into the histogram outside of the
// measured intervals.
type recorder struct {
	clock  clock
	hist   *hdrhistogram.Histogram
	halves int64 // 2 records half of each interval
	last   int64
	n      int
	laps   [4096]int64
}

func newRecorder(c clock, kind LatencyKind) *recorder {
	r := &recorder{clock: c, hist: hdrhistogram.New(1, maxLatencyNs, 3), halves: 1}
	if kind == HalfPingPong {
		r.halves = 2
	}
	return r
}

// start begins an interval.
func (r *recorder) start() { r.last = r.clock.now() }

// lap ends an interval and begins the next.
func (r *recorder) lap() {
	now := r.clock.now()
	r.laps[r.n] = now - r.last
	r.last = now
	if r.n++; r.n == len(r.laps) {
		r.flush()
		r.start()
	}
}

func (r *recorder) flush() {
	for _, d := range r.laps[:r.n] {
		_ = r.hist.RecordValue(min(d/r.halves, maxLatencyNs)) // in range, so it takes it
	}
	r.n = 0
}

// reset forgets everything, after the warm-up.
func (r *recorder) reset() {
	r.n = 0
	r.hist.Reset()
}

func (r *recorder) result(kind LatencyKind, lost int64) *LatencyResult {
	r.flush()
	h := r.hist
	return &LatencyResult{Kind: kind, Samples: h.TotalCount(), Lost: lost, Min: h.Min(),
		Mean: int64(h.Mean()), Median: h.ValueAtQuantile(50), P99: h.ValueAtQuantile(99),
		P999: h.ValueAtQuantile(99.9), Max: h.Max()}
}
