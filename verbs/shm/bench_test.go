//go:build linux && amd64 && !race

package shm

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

// benchBytes is the memory over which random accesses go.
const benchBytes = 256 << 20

// chase fills the first 8 bytes of each line with the offset of another, in one random cycle.
func chase(b []byte) {
	lines := len(b) / lineBytes
	order := rand.New(rand.NewPCG(1, 2)).Perm(lines)
	for i, l := range order {
		next := uint64(order[(i+1)%lines]) * lineBytes
		*word(b, uint64(l)*lineBytes) = next
	}
}

// BenchmarkReadVsCopy compares a 64-byte READ, posted and polled one at a time, with a plain copy
// of 64 bytes, each at an address that the one before has brought, in 256 MiB.
func BenchmarkReadVsCopy(b *testing.B) {
	a, t := newPair(b, nodeOptions{single: true, bytes: benchBytes})
	chase(t.mr.Bytes())
	src, dst := t.mr.Bytes(), a.mr.Bytes()
	wr := []verbs.WR{{Op: verbs.OpRead, Flags: verbs.FlagSignaled, NumSGE: 1, RKey: t.mr.RKey(),
		SGE: [4]verbs.SGE{a.mr.SGE(0, lineBytes)}}}
	var wcs [1]verbs.WC
	at := uint64(0) // both go on where the other stopped: no line is met twice in 4 M accesses
	read := func(n int) {
		for range n {
			wr[0].RemoteAddr = t.mr.Addr() + at
			_, _ = a.qp.PostSend(wr)
			if k, _ := a.cq.Poll(wcs[:]); k != 1 || wcs[0].Status != 0 {
				b.Fatal("no completion")
			}
			at = *word(dst, 0)
		}
	}
	plain := func(n int) {
		for range n {
			copy(dst[:lineBytes], src[at:at+lineBytes])
			at = *word(dst, 0)
		}
	}
	compare(b, "x-copy", read, plain)
}

// BenchmarkCASVsLocal compares a CAS on a line that the caller's cache owns with the CPU's own.
func BenchmarkCASVsLocal(b *testing.B) {
	a, t := newPair(b, nodeOptions{single: true})
	wr := []verbs.WR{{Op: verbs.OpCAS, Flags: verbs.FlagSignaled, NumSGE: 1, RKey: t.mr.RKey(),
		SGE: [4]verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: t.mr.Addr()}}
	var wcs [1]verbs.WC
	old := word(a.mr.Bytes(), 0)
	remote := func(n int) {
		for range n {
			wr[0].CompareAdd, wr[0].Swap = *old, *old+1
			_, _ = a.qp.PostSend(wr)
			if k, _ := a.cq.Poll(wcs[:]); k != 1 || wcs[0].Status != 0 {
				b.Fatal("no completion")
			}
		}
	}
	w := (*uint64)(word(t.mr.Bytes(), 0))
	local := func(n int) {
		for range n {
			v := *w
			atomic.CompareAndSwapUint64(w, v, v+1)
		}
	}
	compare(b, "x-cas", remote, local)
}

// compare runs two loops in turns and reports the median time of an operation of each, and the
// ratio of these. A median over short rounds hides what else the machine does now and then.
func compare(b *testing.B, unit string, ours, theirs func(n int)) {
	const round = 2000
	var x, y []float64
	ours(round)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		ours(round)
		middle := time.Now()
		theirs(round)
		x = append(x, float64(middle.Sub(start))/round)
		y = append(y, float64(time.Since(middle))/round)
	}
	slices.Sort(x)
	slices.Sort(y)
	b.ReportMetric(x[len(x)/2], "ns/verb")
	b.ReportMetric(y[len(y)/2], "ns/plain")
	b.ReportMetric(x[len(x)/2]/y[len(y)/2], unit)
}

// BenchmarkDatagramsVsChannel compares the rate of 64-byte datagrams between two threads, with
// SEND, RECV and all completions, with that of a buffered channel of 64-byte values. Both are
// medians over short rounds; "best" is the shortest round of each, which is what a machine gives
// whose second core is not always there.
func BenchmarkDatagramsVsChannel(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(map[int]string{1: "single", 16: "batch16"}[batch], func(b *testing.B) {
			b.ReportAllocs()
			var x, y []float64
			s, r := newPair(b, nodeOptions{kind: verbs.UD, single: true, depth: 256, qkey: 17})
			h, err := s.pd.CreateAHTo(r.qp.Endpoint())
			check(b, err)
			const round = 5000
			for b.Loop() {
				x = append(x, float64(datagramRound(b, s, r, h.Handle(), round, batch))/round)
				y = append(y, float64(channelRound(round))/round)
			}
			slices.Sort(x)
			slices.Sort(y)
			b.ReportMetric(x[len(x)/2], "ns/datagram")
			b.ReportMetric(y[len(y)/2], "ns/channel")
			b.ReportMetric(y[len(y)/2]/x[len(x)/2], "x-channel")
			b.ReportMetric(y[0]/x[0], "x-channel-best")
			b.ReportMetric(x[0], "ns/datagram-best")
		})
	}
}

// onTwoThreads runs two functions, each locked to a thread of its own, and times the second.
func onTwoThreads(first, second func()) time.Duration {
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread()
		first()
	})
	var took time.Duration
	wg.Go(func() {
		runtime.LockOSThread()
		start := time.Now()
		second()
		took = time.Since(start)
	})
	wg.Wait()
	return took
}

func channelRound(n int) time.Duration {
	ch := make(chan [64]byte, 256)
	return onTwoThreads(func() {
		var v [64]byte
		for i := range n {
			v[0] = byte(i)
			ch <- v
		}
	}, func() {
		for range n {
			<-ch
		}
	})
}

// spin counts looks that found nothing; after some hundred microseconds of these the other
// thread has no core, and the spin ends in a sleep.
type spin int

func (s *spin) pause() {
	lineword.Pause()
	if *s++; *s > 20_000 {
		*s = 0
		time.Sleep(20 * time.Microsecond)
	}
}

// datagramRound sends n datagrams. The receiver tells by credits, now and then, how many
// receives it has posted, as an RPC layer does, so that none is dropped.
func datagramRound(b *testing.B, s, r *node, ah uint32, n, batch int) time.Duration {
	const depth, creditEvery = 256, 64
	var credits atomic.Int64
	wrs, recvs := datagramWRs(s, r, ah, batch)
	posted := 0
	post := func(k int) {
		for i := range k {
			recvs[i].SGE[0] = r.mr.SGE((posted+i)%depth*128, 128)
		}
		if _, err := r.qp.PostRecv(recvs[:k]); err != nil {
			b.Error(err)
		}
		posted += k
		if posted%creditEvery < k {
			credits.Store(int64(posted))
		}
	}
	for posted = r.posted; posted < depth; {
		post(min(batch, depth-posted))
	}
	r.posted = depth
	posted = depth
	credits.Store(depth)
	return onTwoThreads(func() {
		wcs := make([]verbs.WC, 4)
		have := 0
		for sent := 0; sent < n; {
			k := min(batch, n-sent)
			for wait := spin(0); have < sent+k; wait.pause() {
				have = int(credits.Load())
			}
			if _, err := s.qp.PostSend(wrs[batch-k:]); err != nil {
				b.Error(err)
				return
			}
			sent += k
			if _, err := s.cq.Poll(wcs); err != nil {
				b.Error(err)
				return
			}
		}
	}, func() {
		wcs := make([]verbs.WC, batch)
		wait := spin(0)
		for got := 0; got < n; {
			k, _ := r.cq.Poll(wcs)
			if k == 0 {
				wait.pause()
				continue
			}
			wait = 0
			post(k)
			got += k
		}
	})
}

// BenchmarkDatagramOneThread is the work of one 64-byte datagram on both sides, without the
// traffic between two cores.
func BenchmarkDatagramOneThread(b *testing.B) {
	for _, batch := range []int{1, 16} {
		b.Run(map[int]string{1: "single", 16: "batch16"}[batch], func(b *testing.B) {
			s, r := newPair(b, nodeOptions{kind: verbs.UD, single: true, qkey: 17})
			h, err := s.pd.CreateAHTo(r.qp.Endpoint())
			check(b, err)
			wrs, recvs := datagramWRs(s, r, h.Handle(), batch)
			wcs := make([]verbs.WC, batch)
			b.ReportAllocs()
			const rounds = 100
			var x []float64
			for b.Loop() {
				start := time.Now()
				for range rounds {
					_, _ = r.qp.PostRecv(recvs)
					_, _ = s.qp.PostSend(wrs)
					for got := 0; got < batch; {
						k, _ := r.cq.Poll(wcs)
						got += k
					}
					_, _ = s.cq.Poll(wcs)
				}
				x = append(x, float64(time.Since(start))/float64(rounds*batch))
			}
			slices.Sort(x)
			b.ReportMetric(x[len(x)/2], "ns/datagram")
		})
	}
}

// datagramWRs makes a batch of sends, of which the last is signaled, and of receives.
func datagramWRs(s, r *node, ah uint32, batch int) ([]verbs.WR, []verbs.RecvWR) {
	wrs := make([]verbs.WR, batch)
	recvs := make([]verbs.RecvWR, batch)
	for i := range wrs {
		wrs[i] = verbs.WR{Op: verbs.OpSend, NumSGE: 1, AH: ah, RemoteQPN: r.qp.QPN(),
			RemoteQKey: 17, SGE: [4]verbs.SGE{s.mr.SGE(0, 64)}}
		recvs[i] = verbs.RecvWR{NumSGE: 1, SGE: [4]verbs.SGE{r.mr.SGE(i*128, 128)}}
	}
	wrs[batch-1].Flags = verbs.FlagSignaled
	return wrs, recvs
}

// BenchmarkBatch compares requests posted and polled 16 at a time with single ones.
func BenchmarkBatch(b *testing.B) {
	for _, op := range []verbs.Opcode{verbs.OpRead, verbs.OpWrite, verbs.OpCAS} {
		b.Run(op.String(), func(b *testing.B) {
			a, t := newPair(b, nodeOptions{single: true})
			wrs := make([]verbs.WR, 16)
			for i := range wrs {
				wrs[i] = verbs.WR{Op: op, NumSGE: 1, RKey: t.mr.RKey(),
					RemoteAddr: t.mr.Addr() + uint64(i*lineBytes),
					SGE:        [4]verbs.SGE{a.mr.SGE(i*lineBytes, lineBytes)}}
				if op == verbs.OpCAS {
					wrs[i].SGE[0].Length = 8
				}
			}
			wcs := make([]verbs.WC, 16)
			post := func(k int) func(int) {
				return func(n int) {
					for range n / k {
						wrs[k-1].Flags = verbs.FlagSignaled
						_, _ = a.qp.PostSend(wrs[:k])
						if got, _ := a.cq.Poll(wcs); got != 1 || wcs[0].Status != 0 {
							b.Fatal("no completion")
						}
						wrs[k-1].Flags = 0
					}
				}
			}
			compare(b, "x-single", post(16), post(1))
		})
	}
}
