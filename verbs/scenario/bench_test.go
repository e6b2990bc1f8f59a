package scenario

import (
	"syscall"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/sim"
)

// BenchmarkEvents measures the event loop without fibers, under READs of 64 B from 1,440
// outstanding requests: one iteration is one event.
func BenchmarkEvents(b *testing.B) {
	l := load(b, LoadConfig{nil, verbs.OpRead, 64, 9, 10, 16, false})
	must(b, l.World.RunUntil(100*sim.Microsecond))
	start, used := l.World.Stats(), cpuTime(b)
	b.ReportAllocs()
	for b.Loop() {
		l.World.RunOne(sim.Forever)
	}
	s := l.World.Stats()
	b.ReportMetric(float64(s.Events-start.Events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(s.Events-start.Events)/(cpuTime(b)-used).Seconds(), "events/cpu-s")
	b.ReportMetric(float64(s.Completions-start.Completions)/b.Elapsed().Seconds(), "ops/s")
}

// cpuTime is what the process has used: it tells the rate of a core that is shared.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFibers measures 1,440 fibers on 90 workers of 9 nodes (scenario crowd) after a
// warm-up: events are those of the fabric and resumes of fibers, both stated.
func BenchmarkFibers(b *testing.B) {
	var events, resumes uint64
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		e, err := prepare(crowd(), &Options{Seed: 1}, nil)
		must(b, err)
		must(b, e.World.RunUntil(100*sim.Microsecond)) // every fiber and connection is made
		start, before := e.World.Stats().Events, cpuTime(b)
		resumed, _ := e.fiberStats()
		b.StartTimer()
		must(b, e.run(b.Context(), 1e9))
		b.StopTimer()
		used += cpuTime(b) - before
		r, _ := e.fiberStats()
		events, resumes = events+e.World.Stats().Events-start, resumes+r-resumed
		e.kill()
		b.StartTimer()
	}
	b.ReportMetric(float64(events)/used.Seconds(), "fabric-events/cpu-s")
	b.ReportMetric(float64(resumes)/used.Seconds(), "resumes/cpu-s")
	b.ReportMetric(float64(events+resumes)/used.Seconds(), "total/cpu-s")
}
