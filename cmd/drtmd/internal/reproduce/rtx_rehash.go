package reproduce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto"
	"drtmd/proto/rtx/engine"
	"drtmd/proto/rtx/race"
	"drtmd/verbs/fiber"
)

// Figure 15: clients insert into a hash table, and one of them dies in the middle of a rehash.

const (
	rehashRatio = 1300.0 / 200
	rehashBound = 0.25
	// rehashRepair is in milliseconds.
	rehashRepair = 185
	repairBound  = 0.15
	missesRepair = "a rehash takes microseconds with 105 slots, and 200 ms in the paper; so the lease, shorter than the paper's " +
		"8 ms, is most of the time here, and a rehash there"
	// leavesOut is why the paper's size cannot be modelled.
	leavesOut = "§6.2 leaves out how many slots or bytes a subtable has, how many requests of a rehash are in flight, when in it " +
		"the client dies, and which lease covers 200 ms (§6 has 8 ms, and 100 us for each object). What it says does not fit " +
		"together: more than 500 M pairs are moved, of 100 M loaded, with 2 CASes each in 1.3 s, 770 M CASes a second"
	// missesRehash: Optimal takes a round trip for each record and one for each that moves, rTX one for 8 records.
	missesRehash = "a subtable has 105 slots here, and millions in the paper: the round trips of the transaction itself weigh " +
		"more beside its READs of records, 8 at a time"
)

// rehashTime is how much longer insertions take that split a subtable, in microseconds: the median of one client's.
func (x *failure) rehashTime(system string, seed uint64, insertions int) (float64, error) {
	one := *x
	one.clients, one.workers, one.fibers = victim+1, 1, 1 // the victim does nothing
	c := &clientsAt{failure: &one, claimed: make([]bool, one.clients)}
	defer func() {
		for _, core := range c.cores {
			core.Kill()
		}
	}()
	if err := c.build(system, seed); err != nil {
		return 0, err
	}
	var plain, split []float64
	c.workers[0][0].Submit("insert", func(f *fiber.Fiber) error {
		e, source := c.engines[0][0], rand.New(rand.NewPCG(seed, 1))
		for range insertions {
			begin, rehashes := f.Now(), e.Rehashes()
			if err := insertOne(e, f, proto.Key(source.Uint64N(1<<63))); err != nil {
				return err
			}
			took := float64((f.Now() - begin).Nanoseconds()) / 1e3
			switch e.Rehashes() - rehashes {
			case 0:
				plain = append(plain, took)
			case 1:
				split = append(split, took)
			}
		}
		return nil
	}, c.note)
	if err := errors.Join(c.world.Run(), c.failed); err != nil {
		return 0, err
	}
	if len(split) < 3 {
		return 0, fmt.Errorf("%d insertions split %d subtables only", insertions, len(split))
	}
	slices.Sort(plain)
	slices.Sort(split)
	return split[len(split)/2] - plain[len(plain)/2], nil
}

// insertOne inserts a key, when nobody else does anything.
func insertOne(e *engine.Engine, f *fiber.Fiber, k proto.Key) error {
	for attempt := 0; ; attempt++ {
		if err := attemptInsert(f, e, k, attempt); proto.AbortReason(err) == 0 {
			return err
		}
	}
}

// rehashFailure is Figure 15.
func rehashFailure(r *Run) (*Outcome, error) {
	x := &failure{clients: 3, workers: pick(r, 6, 3), fibers: 1, keys: pick(r, 20_000, 1500), index: hashIndex,
		atStep: race.StepRehash, lease: pick(r, 800*time.Microsecond, 100*time.Microsecond),
		warmup: pick(r, 2*time.Millisecond, 300*time.Microsecond), before: pick(r, 2*time.Millisecond, 300*time.Microsecond),
		after: pick(r, 6*time.Millisecond, 2*time.Millisecond), bin: pick(r, 400*time.Microsecond, 100*time.Microsecond)}
	o := &Outcome{Conditions: fmt.Sprintf("preset %s, one memory node, %d clients of %d insertions of random keys at a time, of "+
		"which one is killed in the first rehash after %v; subtables of 1 KB and %d keys (the paper: some 500 M keys are moved, so its "+
		"rehashes take 200 ms and more), leases of %v (the paper: 8 ms) and bins of %v; %s", cx4, x.clients, x.workers*x.fibers,
		x.before, x.keys, x.lease, x.bin, r.seedsText())}
	chart := report.Chart{Title: "insertions over time; a client dies while it splits a subtable", X: "time [ms]",
		Y: "throughput [M/s]", Marks: []report.ChartMark{{X: x.before.Seconds() * 1e3, Text: "a client dies in its next rehash"}}}
	systems := []string{rtxName, optimalName}
	times := map[string][]float64{}
	for i, s := range systems {
		var before, after, late, mended []float64
		for seed := range r.Seeds {
			if err := r.step(i*r.Seeds+seed, len(systems)*r.Seeds); err != nil {
				return nil, err
			}
			took, err := x.rehashTime(s, uint64(seed+1), pick(r, 3000, 800))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
			times[s] = append(times[s], took)
			bins, end, err := x.watched(s, uint64(seed+1))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s, err)
			}
			if end.died == 0 {
				return nil, fmt.Errorf("%s: no rehash after %v", s, x.before)
			}
			l := x.levels(bins)
			before, after, late = append(before, l.before), append(after, l.after), append(late, bins[len(bins)-1])
			if end.mended > 0 {
				mended = append(mended, float64(end.mended-end.died)/1e9)
			}
			if seed == 0 {
				curve := report.ChartCurve{Name: s + ", modelled"}
				for j, v := range bins {
					curve.Points = append(curve.Points, [2]float64{(float64(j) + 0.5) * x.bin.Seconds() * 1e3, v})
				}
				chart.Curves = append(chart.Curves, curve)
			}
		}
		o.Rows = append(o.Rows, number{what: s + ": a rehash without failure", unit: "us", digits: 1}.seen(times[s]...),
			number{what: s + ": before the death", unit: "M/s", digits: 2}.seen(before...),
			number{what: s + ": in the second half after it", unit: "M/s", digits: 2}.seen(after...),
			number{what: s + ": last bin over the level before", digits: 2, section: sixTwo}.seen(ratios(late, before)...))
		if len(mended) > 0 {
			o.Rows = append(o.Rows, number{what: s + ": from the death to the first repair", unit: "ms", digits: 2, section: sixTwo,
				printed: "185", paper: rehashRepair, limit: pick(r, share(repairBound), limit{}), missed: missesRepair,
				reading: leavesOut}.seen(mended...))
		}
	}
	o.Rows = append(o.Rows, number{what: "a rehash without failure, Optimal over rTX", section: sixTwo, digits: 2,
		printed: "1.3 s over 200 ms", paper: rehashRatio, limit: share(pick(r, rehashBound, 0.5)), missed: missesRehash}.seen(ratios(times[optimalName], times[rtxName])...))
	o.Charts = []report.Chart{chart}
	return o, nil
}
