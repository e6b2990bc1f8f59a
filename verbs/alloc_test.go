package verbs

import (
	"fmt"
	"testing"

	"drtmd/internal/invariant"
)

// TestDataPathDoesNotAllocate covers the layer; each provider has its own test.
func TestDataPathDoesNotAllocate(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, single := range []bool{false, true} {
		for _, kind := range []QPType{RC, UD} {
			t.Run(fmt.Sprintf("%s, single-threaded %v", kind, single), func(t *testing.T) {
				r := newRig(t, rigConfig{single: single, config: QPConfig{Type: kind}})
				ah, err := r.pd.CreateAHTo(goodEndpoint())
				check(t, err)
				wrs, recvs, wcs := writes(1, 4), make([]RecvWR, 4), make([]WC, 8)
				for i := range wrs {
					if kind == UD {
						wrs[i].Op, wrs[i].RemoteQPN, wrs[i].AH = OpSend, 5, ah.Handle()
					}
				}
				allocs := testing.AllocsPerRun(1000, func() {
					if n, err := r.qp.PostSend(wrs); n != 4 || err != nil {
						t.Fatal(n, err)
					}
					if n, err := r.qp.PostRecv(recvs); n != 4 || err != nil {
						t.Fatal(n, err)
					}
					r.fq.finishAll()
					if n, err := r.scq.Poll(wcs); n != 1 || err != nil {
						t.Fatal(n, err)
					}
					if n, err := r.rcq.Poll(wcs); n != 4 || err != nil {
						t.Fatal(n, err)
					}
				})
				if allocs != 0 {
					t.Fatalf("%v allocations in a round", allocs)
				}
			})
		}
	}
}

// finishAll completes the last send and all receives.
func (q *fakeQP) finishAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.scq.put(WC{ID: q.sends[len(q.sends)-1], QPN: q.qpn})
	for _, t := range q.recvs {
		q.rcq.put(WC{ID: t, QPN: q.qpn})
	}
	q.sends, q.recvs = q.sends[:0], q.recvs[:0]
}

// BenchmarkPostPoll is the cost of the layer alone: the driver only copies tokens.
func BenchmarkPostPoll(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			d := newFakeDriver()
			ctx, err := NewContext(d, ContextOptions{})
			check(b, err)
			pd, err := ctx.AllocPD()
			check(b, err)
			cq, err := ctx.CreateCQ(CQConfig{Depth: 64, SingleThreaded: true})
			check(b, err)
			qp, err := pd.CreateQP(QPConfig{Type: RC, SendCQ: cq, RecvCQ: cq, SendDepth: 16,
				RecvDepth: 16})
			check(b, err)
			peer := goodEndpoint()
			check(b, qp.Connect(&peer, ConnectAttr{}))
			wrs, wcs, f := writes(1, batch), make([]WC, 16), qp.drv.(*fakeQP)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
				f.finishAll()
				if n, err := cq.Poll(wcs); n != 1 || err != nil {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/request")
			check(b, ctx.Close())
		})
	}
}
