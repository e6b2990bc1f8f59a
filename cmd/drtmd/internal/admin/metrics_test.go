package admin

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
)

// gather reads all metrics as a scrape does.
func gather(t *testing.T, f *fake) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := newRegistry(optionsFor(f)).Gather()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, x := range list {
		byName[x.GetName()] = x
	}
	return byName
}

// value is that of the metric with these labels, in order of their names.
func value(t *testing.T, all map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range all[prefix+name].GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetValue())
		}
		if slices.Equal(have, labels) {
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Errorf("no %s%s of %v", prefix, name, labels)
	return 0
}

func TestMetricsFollowPrometheusConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(newRegistry(optionsFor(newFake())))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestEveryMetricThatIsListedIsSent(t *testing.T) {
	all := gather(t, newFake())
	for _, s := range append(specs(), latencySpec()) {
		x := all[prefix+s.name]
		if x == nil {
			t.Errorf("%s%s is listed and not sent", prefix, s.name)
			continue
		}
		var have []string
		for _, l := range x.GetMetric()[0].GetLabel() {
			have = append(have, l.GetName())
		}
		want := slices.Sorted(slices.Values(s.labels))
		if !slices.Equal(have, want) {
			t.Errorf("%s has the labels %v, want %v", s.name, have, want)
		}
	}
}

func TestMetricsSayWhatThePlaneCounted(t *testing.T) {
	f := newFake()
	work(f.metrics, 1000)
	all := gather(t, f)
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"transactions_total", []string{"committed", "drtm", "balance"}, 1000},
		{"transaction_attempts_total", []string{"drtm", "balance"}, 1250},
		{"aborted_attempts_total", []string{"locked", "drtm", "balance"}, 250},
		{"lease_waits_total", []string{"drtm"}, 62},
		{"htm_aborts_total", []string{"conflict"}, 100},
		{"verbs_requests_total", []string{"rdma_read"}, 3000},
		{"verbs_requests_total", []string{"rdma_write"}, 0},
		{"verbs_completions_total", []string{"success"}, 4000},
		{"verbs_completions_total", []string{"wr_flush_err"}, 0},
		{"cq_polls_total", nil, 10_000},
		{"cq_empty_polls_total", nil, 7000},
		{"rpc_retransmissions_total", nil, 1},
		{"table_entries_used", []string{"checking"}, 600},
		{"registered_memory_bytes", nil, 256 << 20},
		{"epoch", nil, 7},
		{"members", nil, 3},
		{"membership_lease_left_seconds", nil, 4.2},
		{"clock_error_seconds", nil, 0.0002},
		{"read_lease_seconds", []string{"that write"}, 0.001},
		{"certificate_expiry_timestamp_seconds", nil, 1_900_000_000},
		{"plane_generation", nil, 1},
		{"shard_map_version", nil, 4},
		{"build_info", []string{"v1 <test>"}, 1},
	} {
		if got := value(t, all, c.name, c.labels...); got != c.want {
			t.Errorf("%s of %v is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

func TestLatencyHistogramCountsEveryValueOnce(t *testing.T) {
	f := newFake()
	m := f.metrics
	for _, ns := range []int64{200, 900, 2_000, 50_000, 20_000_000_000} {
		if err := m.Life[1].RecordValue(ns); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range gather(t, f)[prefix+latencySpec().name].GetMetric() {
		if x.GetLabel()[1].GetValue() != m.Kinds[0] {
			continue
		}
		h := x.GetHistogram()
		if h.GetSampleCount() != 5 {
			t.Errorf("%d values, want 5", h.GetSampleCount())
		}
		if s := h.GetSampleSum(); s < 19.98 || s > 20.02 {
			t.Errorf("sum %v s, want about 20", s)
		}
		want := map[float64]uint64{1e-7: 0, 3.16e-7: 1, 1e-6: 2, 3.16e-6: 3, 3.16e-5: 3, 1e-4: 4, 10: 4}
		got := map[float64]uint64{}
		for _, b := range h.GetBucket() {
			if _, ok := want[b.GetUpperBound()]; ok {
				got[b.GetUpperBound()] = b.GetCumulativeCount()
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("buckets %v, want %v", got, want)
		}
		return
	}
	t.Error("no histogram")
}

// counters are all counters and histograms' counts, by name and labels.
func counters(all map[string]*dto.MetricFamily) map[string]float64 {
	list := map[string]float64{}
	for name, x := range all {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		for _, m := range x.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			switch {
			case m.GetCounter() != nil:
				list[key] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				list[key] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return list
}

func TestCountersNeverGoBackWithinAPlane(t *testing.T) {
	f := newFake()
	before := counters(gather(t, f))
	for range 3 {
		now := counters(gather(t, f))
		if len(now) != len(before) {
			t.Fatalf("%d series, then %d", len(before), len(now))
		}
		grew := 0
		for key, n := range before {
			if now[key] < n {
				t.Errorf("%s went back from %v to %v", key, n, now[key])
			}
			if now[key] > n {
				grew++
			}
		}
		if grew == 0 {
			t.Error("nothing grew")
		}
		before = now
	}
	f.change(func() { f.metrics = emptyMetrics(2) })
	if n := value(t, gather(t, f), "plane_generation"); n != 2 {
		t.Errorf("generation %v of the second plane", n)
	}
}

func TestMetricsWithoutAPlane(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(f *fake)
	}{
		{"none", func(f *fake) { f.metrics = nil }},
		{"workers that do not answer", func(f *fake) { f.stuck = true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.notReady, f.expires = errors.New("refusing"), time.Time{}
			c.do(f)
			begin := time.Now()
			all := gather(t, f)
			if d := time.Since(begin); d > askTimeout {
				t.Errorf("the scrape took %v, more than %v", d, askTimeout)
			}
			if value(t, all, "plane_up") != 0 || value(t, all, "ready") != 0 {
				t.Error("up or ready")
			}
			if n := value(t, all, "members"); n != 3 {
				t.Errorf("%v members, want 3", n)
			}
			for _, name := range []string{"transactions_total", "plane_generation",
				"certificate_expiry_timestamp_seconds"} {
				if all[prefix+name] != nil {
					t.Errorf("%s is sent", name)
				}
			}
		})
	}
}
