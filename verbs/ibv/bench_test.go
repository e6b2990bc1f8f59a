//go:build cgo && linux

package ibv

import (
	"fmt"
	"testing"

	"drtmd/verbs"
)

// The benchmarks need a device: in the guest with scripts/rxe-vm/run, or on hardware. The
// comparison with perftest is `make bench-verbs`.

func benchPair(b *testing.B, q verbs.QPType) (x, y *side) {
	o := defaultConfig(q)
	o.Single, o.Depth = true, 128
	return newPair(b, requireDevice(b), o)
}

// spin polls until n completions came.
func spin(b *testing.B, cq *verbs.CQ, buf []verbs.WC, n int) {
	for n > 0 {
		k, err := cq.Poll(buf)
		if err != nil {
			b.Fatal(err)
		}
		for i := range k {
			if buf[i].Status != verbs.WCSuccess {
				b.Fatal(buf[i].Err())
			}
		}
		n -= k
	}
}

func BenchmarkEmptyPoll(b *testing.B) {
	x, _ := benchPair(b, verbs.RC)
	buf := make([]verbs.WC, 16)
	b.ReportAllocs()
	for b.Loop() {
		if n, err := x.cq.Poll(buf); n != 0 || err != nil {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkOneAtATime(b *testing.B) {
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpWrite, verbs.OpFAA} {
		b.Run(op.String(), func(b *testing.B) {
			x, y := benchPair(b, verbs.RC)
			wrs := []verbs.WR{at(x.wr(op, 1, 0, 8), y, 64)}
			buf := make([]verbs.WC, 16)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := x.qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
				spin(b, x.cq, buf, 1)
			}
		})
	}
}

// BenchmarkBatch posts lists with one signaled request each; the time is that of one request.
func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x, y := benchPair(b, verbs.RC)
			wrs := make([]verbs.WR, n)
			for i := range wrs {
				wrs[i] = at(x.wr(verbs.OpWrite, uint64(i), 0, 64), y, 64)
				wrs[i].Flags = 0
			}
			wrs[n-1].Flags = verbs.FlagSignaled
			buf := make([]verbs.WC, 16)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%n > 0 {
					continue
				}
				if _, err := x.qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
				spin(b, x.cq, buf, 1)
			}
		})
	}
}

func BenchmarkSendAndReceive(b *testing.B) {
	for _, q := range []verbs.QPType{verbs.RC, verbs.UD} {
		b.Run(q.String(), func(b *testing.B) {
			x, y := benchPair(b, q)
			wr := x.wr(verbs.OpSend, 1, 0, 64)
			if q == verbs.UD {
				ah, err := x.pd.CreateAHTo(y.qp.Endpoint())
				check(b, err)
				b.Cleanup(func() { check(b, ah.Close()) })
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah.Handle(), y.qp.QPN(), testQKey
			}
			wrs := []verbs.WR{wr}
			recvs := []verbs.RecvWR{y.recv(2, 0, 64+verbs.GRHBytes)}
			buf := make([]verbs.WC, 16)
			y.postRecv(recvs[0]) // so that the queue is never empty
			b.ReportAllocs()
			for b.Loop() {
				if _, err := y.qp.PostRecv(recvs); err != nil {
					b.Fatal(err)
				}
				if _, err := x.qp.PostSend(wrs); err != nil {
					b.Fatal(err)
				}
				spin(b, x.cq, buf, 1)
				spin(b, y.cq, buf, 1)
			}
		})
	}
}

func TestDataPathDoesNotAllocate(t *testing.T) {
	x, y := newPair(t, requireDevice(t), defaultConfig(verbs.RC))
	wrs := []verbs.WR{at(x.wr(verbs.OpRead, 1, 0, 8), y, 64), x.wr(verbs.OpSend, 2, 0, 8)}
	recvs := []verbs.RecvWR{y.recv(2, 0, 64)}
	buf := make([]verbs.WC, 16)
	y.postRecv(recvs...)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := y.qp.PostRecv(recvs); err != nil {
			t.Fatal(err)
		}
		if _, err := x.qp.PostSend(wrs); err != nil {
			t.Fatal(err)
		}
		for _, w := range []struct {
			cq *verbs.CQ
			n  int
		}{{x.cq, 2}, {y.cq, 1}} {
			for w.n > 0 {
				k, err := w.cq.Poll(buf)
				if err != nil {
					t.Fatal(err)
				}
				w.n -= k
			}
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations per post, receive and poll", allocs)
	}
}
