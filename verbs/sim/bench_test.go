package sim

import (
	"runtime"
	"testing"

	"drtmd/verbs"
)

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

// BenchmarkConnections measures the memory of connected RC QPs, both ends counted, as a cluster
// of 90 nodes with 16 workers has them: one iteration is one connection.
func BenchmarkConnections(b *testing.B) {
	w := newWorld(b, 1)
	x, y := addSide(b, w, "a"), addSide(b, w, "y")
	made := 0
	open := func(s *side) *verbs.QP {
		qp, err := s.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.rcq,
			SendDepth: 32, RecvDepth: 1, Access: verbs.AccessAll})
		must(b, err)
		must(b, qp.ToInit())
		return qp
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		p, q := open(x), open(y)
		pe, qe := p.Endpoint(), q.Endpoint()
		must(b, p.Connect(&qe, verbs.ConnectAttr{}))
		must(b, q.Connect(&pe, verbs.ConnectAttr{}))
		made += 2
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(made), "B/QP")
	runtime.KeepAlive(w)
}

// BenchmarkPreset measures the decoding of a cost file.
func BenchmarkPreset(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		preset(b, DefaultPreset)
	}
}
