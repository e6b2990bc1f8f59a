package reproduce

import (
	"time"

	"drtmd/cmd/drtmd/internal/load"
	"drtmd/proto"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// trialKey names a run of an application: equal keys give equal runs.
type trialKey struct {
	speedTrial
	app, protocol string
	seed          int
}

// trialResult is what figures take from a run.
type trialResult struct {
	perSecond float64
	latency   load.Latency
	phases    phaseTimes
	engine    proto.Stats
}

func throughput(got *trialResult) float64 { return got.perSecond }

// trials are the runs of one invocation. Figures 9 to 11, the middle of Figure 12 (a) and §VIII-C look at the same ones.
type trials map[trialKey]*trialResult

// runTrial runs a protocol under an application, or gives what it gave before.
func (r *Run) runTrial(t *speedTrial, app application, protocol string, seed int) (*trialResult, error) {
	key := trialKey{*t, app.name, protocol, seed}
	if got := r.trials[key]; got != nil {
		return got, nil
	}
	scale, warmup, measured := hadesSizes(r)
	w, err := app.make(t, scale)
	if err != nil {
		return nil, err
	}
	watch := &phaseWatch{from: warmup, to: warmup + measured, fibers: map[*fiber.Fiber]*split{}}
	x := model{protocol: protocol, workload: w, preset: speedPreset, nodes: t.nodes, workers: t.cores, fibers: hadesPerCore,
		seed: uint64(seed + 1), warmup: warmup, measured: measured, every: 1, watch: watch, onStep: watch.step}
	if t.roundTrip > 0 {
		x.tune = withRoundTrip(t.roundTrip)
	}
	if protocol == farmName && !t.lean {
		x.settings = baselineSettings()
	}
	got, err := x.run(r.ctx)
	if err != nil {
		return nil, err
	}
	result := &trialResult{finished(got), got.Latency[0], watch.sum, got.Sum.Engine}
	if r.trials != nil {
		r.trials[key] = result
	}
	return result, nil
}

// withRoundTrip makes the network of the preset, of 2 us, one of so many microseconds: the switch takes the rest.
func withRoundTrip(us int) func(*sim.CostModel) {
	return func(c *sim.CostModel) { c.Link.Switch += sim.Time(us-presetTrip) * sim.Microsecond / 2 }
}

// presetTrip is the round trip of the preset, in microseconds.
const presetTrip = 2

// phase is a part of a transaction's latency in HADES Figure 10.
type phase uint8

const (
	execution phase = iota
	validation
	commitment
	phaseEnd
)

func (p phase) String() string { return [...]string{"Execution", "Validation", "Commit"}[p] }

// phaseTimes are the time of committed transactions in each phase, and how many they are.
type phaseTimes struct {
	spent    [phaseEnd]time.Duration
	count    int
	negative int // parts that end before they begin: steps were missing, or in another order
}

// mean nanoseconds of a transaction in a phase.
func (t *phaseTimes) mean(p phase) float64 {
	return float64(t.spent[p].Nanoseconds()) / float64(t.count)
}

// phaseWatch splits the latency of transactions at the marked steps of engines. What attempts that were aborted have taken,
// and the pauses after them, is Execution: the last attempt alone has other phases. Of HADES the time from the first step of
// the commit to its end is Validation: what follows the Acks is done by its NIC, and nobody waits for it.
type phaseWatch struct {
	// Transactions that end from then on, and until then, are counted: from the first one's beginning, first.
	from, to time.Duration
	first    time.Duration
	fibers   map[*fiber.Fiber]*split
	sum      phaseTimes
}

// split is what a fiber's transaction has come to.
type split struct {
	entered [phaseEnd]time.Duration
	in      phase
	running bool
}

// Begun implements workload.Watch.
func (w *phaseWatch) Begun(f *fiber.Fiber) {
	a := w.fibers[f]
	if a == nil {
		a = &split{}
		w.fibers[f] = a
	}
	*a = split{running: true}
	a.entered[execution] = f.Now()
	if len(w.fibers) == 1 && w.first == 0 {
		w.first = f.Now()
	}
}

// step is told of the marked steps of all fibers.
func (w *phaseWatch) step(f *fiber.Fiber, name string) {
	if a := w.fibers[f]; a != nil && a.running {
		a.step(name, f.Now())
	}
}

// step is a marked step of the transaction.
func (a *split) step(name string, now time.Duration) {
	switch name {
	case "occ: before execute", hadesName + ": before accesses":
		a.in = execution // of the first attempt, or of the next one
	case "occ: before lock", "occ: before validate", hadesName + ": before commit":
		if a.in == execution {
			a.in = validation
			a.entered[validation] = now
		}
	case "occ: before commit":
		if a.in == execution { // there was nothing to validate
			a.entered[validation] = now
		}
		a.in = commitment
		a.entered[commitment] = now
	}
}

// parts are what the transaction, which ends, has spent in each phase.
func (a *split) parts(end time.Duration) (all [phaseEnd]time.Duration) {
	for p := int(a.in); p >= int(execution); p-- {
		all[p] = end - a.entered[p]
		end = a.entered[p]
	}
	return all
}

// Ended implements workload.Watch.
func (w *phaseWatch) Ended(f *fiber.Fiber, o proto.Outcome) {
	a := w.fibers[f]
	a.running = false
	end := f.Now()
	if since := end - w.first; o != proto.Committed || since < w.from || since > w.to {
		return
	}
	for p, d := range a.parts(end) {
		w.sum.spent[p] += d
		if d < 0 {
			w.sum.negative++
		}
	}
	w.sum.count++
}
