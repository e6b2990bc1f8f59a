package etcdmember

import (
	"testing"
	"time"

	"drtmd/verbs"
)

// BenchmarkLease: every transaction of a cluster with replicas asks for the lease before its client is told.
func BenchmarkLease(b *testing.B) {
	s := &session{r: &Registry{cfg: Config{Clock: verbs.NewMonotonicClock()}}}
	s.holdUntil(s.r.cfg.Clock.Now() + time.Hour)
	for _, x := range []struct {
		name string
		run  func(b *testing.B)
	}{
		{"one worker", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Lease()
			}
		}},
		{"two workers", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(1)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					s.Lease()
				}
			})
		}},
	} {
		b.Run(x.name, x.run)
	}
}
