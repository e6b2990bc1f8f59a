package reproduce

import (
	"context"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"drtmd/cmd/drtmd/internal/report"
	"drtmd/proto/protocol"
	"drtmd/verbs/sim"
)

// The time between two marked steps belongs to what ends there, or to the sets.
func TestStopwatchSplitsATransaction(t *testing.T) {
	w := &stopwatch{reads: 0.25, nodes: map[string]*lap{}}
	at := sim.Time(0)
	c := protocol.HADESSoftware()
	accesses, atomic, version := sim.Time(requests*c.AccessPs), sim.Time(requests*c.AtomicPs)/4, sim.Time(requests*c.VersionPs)*3/4
	for _, x := range []struct {
		after sim.Time // since the step before
		step  string
	}{{5, "occ: after commit"}, {clientPs + 30, "occ: before execute"}, {7, "occ: record written"}, // another's request
		{393, "occ: after execute"}, {50 + accesses + atomic + version, "occ: before lock"}, {300, "occ: after lock"}, {0, "occ: before validate"},
		{100, "occ: after validate"}, {0, "occ: before commit"}, {400, "occ: after commit"}} {
		at += x.after
		w.step(sim.Event{Kind: "step", Node: "n0", What: strconv.Quote(x.step), At: at})
		w.step(sim.Event{Kind: "step", Node: "n1", What: strconv.Quote("occ: before lock"), At: at}) // one that stands still
	}
	want := [partEnd]sim.Time{readFirst: 300, otherTime: 100 + 400 + clientPs + accesses, conflicts: 400, manageSets: 80,
		atomicRead: atomic, newVersion: version}
	other := sim.Time(0) // n1 has nothing but the time of its sets
	for _, p := range w.parts {
		other += p
	}
	for p := range want {
		got := w.parts[p]
		if part(p) == manageSets {
			got -= at - 5
		}
		if got != want[p] {
			t.Errorf("%v: %d, want %d", part(p), got, want[p])
		}
	}
}

func TestBaselinesAreJudged(t *testing.T) {
	fake := func(rate, median float64) *measuredAt {
		return &measuredAt{rates: [][]float64{{1}, {rate}, {rate / 2}}, medians: [][]float64{{median}, {2 * median}, {9 * median}},
			cached: []float64{99}}
	}
	for _, x := range []struct {
		name    string
		all     []*measuredAt
		exceeds []string // rows
	}{
		{"as the paper", []*measuredAt{fake(5.4, 10), fake(3, 12), fake(5.3, 12.3), fake(4, 11)}, nil},
		{"FaSST first, and quick", []*measuredAt{fake(5, 10), fake(3, 12), fake(8, 9), fake(4, 11)},
			[]string{"highest peak of the four", "least median of FaSST over"}},
		{"slow", []*measuredAt{fake(2, 10), fake(1.5, 12), fake(1.9, 12), fake(1.2, 11)}, []string{"peak of DrTM+H ["}},
	} {
		t.Run(x.name, func(t *testing.T) {
			found := map[string]bool{}
			for _, title := range []string{"Retwis", "SmallBank"} {
				s := study{title: title}
				for _, row := range s.baselineRows(&Run{Options: Options{Seeds: 1}}, x.all) {
					if row.Exceeds && row.Missed == "" {
						t.Errorf("no reason: %+v", row)
					}
					if row.Exceeds {
						found[row.What+" ["] = true
					}
				}
			}
			for _, want := range x.exceeds {
				seen := false
				for what := range found {
					seen = seen || strings.Contains(what, want)
				}
				if !seen {
					t.Errorf("%q is within its bound", want)
				}
			}
			if len(x.exceeds) == 0 && len(found) > 0 {
				t.Errorf("over their bounds: %v", found)
			}
		})
	}
}

// TestXenicIsJudged: numbers as the paper's are within their bounds, others exceed them, and say why.
func TestXenicIsJudged(t *testing.T) {
	at := func(rate, median float64) *measuredAt {
		return &measuredAt{rates: [][]float64{{1e-3}, {rate}}, medians: [][]float64{{median}, {2 * median}}, cached: []float64{99}}
	}
	r := &Run{Options: Options{Seeds: 1}}
	for _, x := range []struct {
		title   string
		all     []*measuredAt
		itself  *measuredAt
		exceeds int
	}{
		{ordersTitle, []*measuredAt{at(1.19/2.42, 50), at(1.19/3.81, 60), at(0.232, 80), at(0.3, 70)}, at(1.19, 50*0.41), 0},
		{"Retwis", []*measuredAt{at(1, 20), at(0.8, 22), at(1, 24.6), at(0.9, 23)}, at(2.07, 20*0.58), 0},
		{"SmallBank", []*measuredAt{at(5.43, 10), at(4, 12), at(4.2, 15), at(4, 14)}, at(12.0, 7.85), 0},
		{"SmallBank", []*measuredAt{at(5.43, 10), at(4, 12), at(4.2, 15), at(4, 14)}, at(6, 9.9), 3},
		{ordersTitle, []*measuredAt{at(0.2, 20), at(0.1, 60), at(0.3, 80), at(0.3, 70)}, at(0.1, 30), 5},
	} {
		s := study{title: x.title}
		if n := exceeding(t, s.xenicRows(r, x.all, x.itself)); n != x.exceeds {
			t.Errorf("%s: %d rows exceed their bounds, not %d", x.title, n, x.exceeds)
		}
	}
	if n := exceeding(t, mixRows(r, at(1.19, 20), at(0.541, 25), at(0.322, 25))); n != 0 {
		t.Errorf("%d rows of the mix exceed their bounds", n)
	}
}

// exceeding counts the rows over their bounds, each of which has to have a reason.
func exceeding(t *testing.T, rows []report.ComparedRow) (n int) {
	t.Helper()
	for _, row := range rows {
		if !row.Exceeds {
			continue
		}
		if n++; row.Missed == "" {
			t.Errorf("no reason: %+v", row)
		}
	}
	return n
}

// TestEachStageOfXenicCommits: every competitor of Figures 8 and 9 runs, at the smallest size.
func TestEachStageOfXenicCommits(t *testing.T) {
	r := &Run{Options: Options{Seeds: 1, Quick: true}, ctx: context.Background(), progress: func(int, int) {}}
	x := &figure{r: r, span: 20 * time.Microsecond}
	s := baselineStudies(100)[0]
	for _, g := range append(throughputStages(), latencyStages()[1:3]...) {
		if m, err := x.measure(&s, &g.xenic, []pressure{{1, 2}}); err != nil || m.peak()[0] <= 0 {
			t.Errorf("%s: %v", g.xenic.name, err)
		}
	}
}

// A model under a workload of the figure commits, and its caches are warm after the warm-up.
func TestCachesAreWarmWhenBaselinesAreMeasured(t *testing.T) {
	const keys = 100
	p := pressure{2, 4}
	for _, s := range baselineStudies(keys) {
		w, err := s.make()
		if err != nil {
			t.Fatal(err)
		}
		m := model{protocol: "drtmh", workload: w, preset: cx5, nodes: servers, workers: p.workers, fibers: p.fibers,
			replicas: copies, seed: 1, warmup: p.warmup(keys), measured: 50 * time.Microsecond, every: 1}
		r, err := m.run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		cached := float64(r.Sum.Engine.CacheHits) / float64(r.Sum.Engine.Lookups)
		t.Logf("%s: %.2f M/s, %.3f of the look-ups cached, median %.1f us", s.title, finished(r)/1e6, cached,
			float64(r.Latency[0].P50Ns)/1e3)
		if finished(r) == 0 || math.IsNaN(cached) || cached < 0.9 {
			t.Errorf("%s: %.3f of the look-ups were answered by the cache", s.title, cached)
		}
	}
}

// TestThreadsAreCounted: the fewest with 95 % of the highest rate, also where the highest is met on the way; and the systems of
// Table 3 at a small size.
func TestThreadsAreCounted(t *testing.T) {
	for _, x := range []struct {
		name   string
		most   int
		before float64
		rate   func(n int) float64
		want   int
		peak   float64
	}{
		{"it rises to the end", 32, 0, func(n int) float64 { return float64(n) }, 31, 32},
		{"one is enough", 24, 0, func(int) float64 { return 3 }, 1, 3},
		{"limited from 10 threads on", 32, 0, func(n int) float64 { return float64(min(n, 10)) }, 10, 10},
		{"the highest is in the middle", 32, 0, func(n int) float64 { return 20 - math.Abs(float64(n-16)) }, 15, 20},
		{"others were faster before", 16, 20, func(n int) float64 { return float64(min(n, 19)) }, 16, 20},
	} {
		asked := 0
		got, peak, err := fewest(x.most, x.before, func(n int) (float64, error) { asked++; return x.rate(n), nil })
		if err != nil || got != x.want || peak != x.peak || asked > 10 {
			t.Errorf("%s: %d threads, peak %v, %v; %d runs", x.name, got, peak, err, asked)
		}
	}
	r := &Run{Options: Options{Seeds: 1, Quick: true}, ctx: context.Background(), progress: func(int, int) {}}
	o, err := countedTable(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range o.Rows {
		if *row.OursValue <= 0 {
			t.Errorf("%+v", row)
		}
	}
	r.Quick = false
	for _, x := range []struct {
		t       countedThreads
		exceeds int
	}{
		{countedThreads{drtmh: 20, fasst: 28, xenic: roleThreads{2, 3, 16}}, 0},
		{countedThreads{drtmh: 5, fasst: 8, xenic: roleThreads{4, 8, 24}}, 6},
	} {
		if n := exceeding(t, countedRows(r, smallbankTitle, []countedThreads{x.t})); n != x.exceeds {
			t.Errorf("%+v: %d rows exceed their bounds, not %d", x.t, n, x.exceeds)
		}
	}
}

// TestConditionsSayWhatXenicRuns: threads, pressures and sizes of the runs that a part of the figures makes.
func TestConditionsSayWhatXenicRuns(t *testing.T) {
	r := &Run{Options: Options{Seeds: 1}}
	if text := wallConditions(2, 22, 300); strings.Contains(text, "means over") ||
		!strings.Contains(text, "22 pairs of runs of 14400") || !strings.Contains(text, "2 rounds") {
		t.Error(text)
	}
	for _, x := range []struct {
		name, title    string
		of             func([]pressure) []pressure
		others         []competitor
		says, saysNone []string
	}{
		{"figure-9b", smallbankTitle, onePressure, baselines()[:1], []string{"1 application thread and 3 Robinhood workers",
			"DrTM+H with preset cx5-100g, 1 thread, 1 transaction of a server under way", "per server 1000 keys"},
			[]string{"FaSST", "20000", "320"}},
		{"figure-9a", retwisTitle, highPressures, baselines()[:1], []string{"2 application threads and 3 Robinhood workers",
			"40 to 320 transactions", "DrTM+H with preset cx5-100g, 18 threads, 18 to 72", "20000 keys"}, []string{"FaSST", "one transaction"}},
		{"figure-8d", smallbankTitle, everyPressure, baselines(), []string{"1 to 320 transactions", "DrTM+H, DrTM+H NC with",
			"FaSST with preset cx5-100g, 28 threads, 1 to 112", "1000 keys or customers where one transaction"}, nil},
		{"figure-8b", "TPC-C", everyPressure, nil, []string{"18 threads of the host that run",
			"1 application thread and 12 Robinhood workers", "24 warehouses of 400 items",
			"1 warehouse of 400 items where"}, []string{"DrTM+H", "keys"}},
	} {
		f, z, s := figure8(r, x.title)
		text := f.conditions(z, s, x.of, x.others)
		for _, part := range x.says {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is not in %q", x.name, part, text)
			}
		}
		for _, part := range x.saysNone {
			if strings.Contains(text, part) {
				t.Errorf("%s: %q is in %q", x.name, part, text)
			}
		}
	}
}
