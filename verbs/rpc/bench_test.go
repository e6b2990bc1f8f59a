package rpc

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ibv"
	"drtmd/verbs/shm"
)

// benchmark runs body as a fiber of one node that has a session with a second one, on each
// provider that this machine has, or on ibv alone where DRTMD_REQUIRE is ibv: both nodes on one thread, each on its
// own, and each on its own that spins for as long as a round trip takes, as perftest does.
func benchmark(b *testing.B, cfg Config, body func(*testing.B, *fiber.Fiber, *Session) error) {
	run := filepath.Join(b.TempDir(), "run")
	for _, p := range []verbs.Provider{shm.New(shm.Options{Dir: run}), ibv.New()} {
		if devices, err := p.Devices(); err != nil || len(devices) == 0 {
			continue
		}
		if p.Name() == "shm" && os.Getenv("DRTMD_REQUIRE") == "ibv" {
			continue // an emulated CPU; the host has run it
		}
		for _, x := range []struct {
			name    string
			threads int
			spin    time.Duration
		}{{"threads=1", 1, 0}, {"threads=2", 2, 0}, {"threads=2,spin", 2, time.Millisecond}} {
			b.Run(p.Name()+"/"+x.name, func(b *testing.B) {
				c := newSpinningCluster(b, p, x.threads, x.spin, cfg, cfg)
				c.ports[1].Handle(typeEcho, echo)
				b.ReportAllocs()
				c.run(func(f *fiber.Fiber) error {
					s, err := c.ports[0].Connect(f, c.ports[1].Address(), 0)
					if err != nil {
						return err
					}
					return body(b, f, s)
				})
				if n := c.ports[0].Stats.Retransmissions; n > 0 {
					b.ReportMetric(float64(n), "retransmissions")
				}
			})
		}
	}
}

// BenchmarkRoundTrip is one call at a time. Its median compares with twice what perftest's
// ib_send_lat -c UD prints, which halves its round trips.
func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{8, 64, 4096} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			benchmark(b, Config{}, func(b *testing.B, f *fiber.Fiber, s *Session) error {
				req, resp := make([]byte, size), make([]byte, size)
				took := make([]time.Duration, 0, 1<<16)
				for b.Loop() {
					at := f.Now()
					if _, err := s.Call(f, typeEcho, req, resp, 0); err != nil {
						return err
					}
					if len(took) < cap(took) {
						took = append(took, f.Now()-at)
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2]), "median-ns")
				return nil
			})
		})
	}
}

// BenchmarkRate is 32 calls of 8 bytes in flight; an operation is one call.
func BenchmarkRate(b *testing.B) {
	for _, noBatch := range []bool{false, true} {
		b.Run(fmt.Sprintf("batch=%t", !noBatch), func(b *testing.B) {
			cfg := Config{NoBatch: noBatch, Window: 64}
			benchmark(b, cfg, func(b *testing.B, f *fiber.Fiber, s *Session) error {
				var calls [defaultSlots]Call
				var all [defaultSlots]*Call
				req, resp := make([]byte, 8), make([]byte, 8)
				for i := range calls {
					all[i] = &calls[i]
				}
				i := 0
				for b.Loop() {
					c := all[i%len(all)]
					if i >= len(all) {
						if _, err := c.Await(f, 0); err != nil {
							return err
						}
					}
					if err := s.Start(f, c, typeEcho, req, resp); err != nil {
						return err
					}
					i++
				}
				b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "calls/s")
				return awaitAll(f, 0, all[:min(i, len(all))]...)
			})
		})
	}
}

// BenchmarkFlowRate is BenchmarkRate with requests of 13 bytes on a flow.
func BenchmarkFlowRate(b *testing.B) {
	benchmark(b, Config{Window: 64}, func(b *testing.B, f *fiber.Fiber, s *Session) error {
		var calls [defaultSlots]Call
		var all [defaultSlots]*Call
		req, resp := make([]byte, 13), make([]byte, 13)
		fl := s.Flow(1)
		i := 0
		for b.Loop() {
			c := &calls[i%len(calls)]
			if i >= len(calls) {
				if _, err := c.Await(f, 0); err != nil {
					return err
				}
			}
			if err := fl.Start(f, c, typeEcho, req, resp); err != nil {
				return err
			}
			all[i%len(all)] = c
			i++
		}
		b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "calls/s")
		return awaitAll(f, 0, all[:min(i, len(all))]...)
	})
}

// The benchmarks run once, so that they cannot rot.
func TestBenchmarksRun(t *testing.T) {
	benchtime := flag.Lookup("test.benchtime")
	before := benchtime.Value.String()
	if err := benchtime.Value.Set("64x"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := benchtime.Value.Set(before); err != nil {
			t.Error(err)
		}
	}()
	for name, f := range map[string]func(*testing.B){"RoundTrip": BenchmarkRoundTrip,
		"Rate": BenchmarkRate, "FlowRate": BenchmarkFlowRate} {
		if r := testing.Benchmark(f); r.N == 0 {
			t.Errorf("Benchmark%s fails", name)
		}
	}
}
