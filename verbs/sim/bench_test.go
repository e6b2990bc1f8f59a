package sim

import (
	"testing"

	"drtmd/verbs"
)

// BenchmarkEvents measures the event loop under READs of 64 B from 1,440 outstanding requests:
// one iteration is one event.
func BenchmarkEvents(b *testing.B) {
	l := newLoad(b, nil, verbs.OpRead, 64, 9, 10, 16)
	must(b, l.w.RunUntil(100*Microsecond))
	start := l.w.Stats()
	b.ReportAllocs()
	for b.Loop() {
		l.w.RunOne(Forever)
	}
	s := l.w.Stats()
	b.ReportMetric(float64(s.Events-start.Events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(s.Completions-start.Completions)/b.Elapsed().Seconds(), "ops/s")
}

// BenchmarkCalls measures the bare heap: 1,440 calls that schedule themselves again.
func BenchmarkCalls(b *testing.B) {
	w := newWorld(b, 1)
	r := w.Rand("bench")
	for range 1440 {
		var f func()
		f = func() { w.After(Time(r.Int64N(int64(Microsecond))), f) }
		w.After(0, f)
	}
	b.ReportAllocs()
	for b.Loop() {
		w.RunOne(Forever)
	}
}
