package verbstest

import (
	"bytes"
	"fmt"
	"os"
	"runtime"

	"drtmd/verbs"
)

// holdings is what a process has of what leaks.
type holdings struct{ fds, mappings, goroutines, heapBytes int }

func (h holdings) String() string {
	return fmt.Sprintf("%d descriptors, %d mappings, %d goroutines, %d bytes of heap", h.fds,
		h.mappings, h.goroutines, h.heapBytes)
}

func (p *Proc) holdings() holdings {
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	fds, err := os.ReadDir("/proc/self/fd")
	p.Must("list descriptors", err)
	maps, err := os.ReadFile("/proc/self/maps")
	p.Must("list mappings", err)
	return holdings{len(fds), bytes.Count(maps, []byte{'\n'}), runtime.NumGoroutine(),
		int(mem.HeapAlloc)}
}

// nothingLeft runs round twice, the first time to let pools and caches fill, and compares what
// the process holds. objects is how many the second round makes: a leak of each of them, or of
// one in ten, is seen; the runtime's own mappings move by a few, and 128 bytes of heap each are
// for tables that grow.
func (p *Proc) nothingLeft(objects int, round func()) {
	round()
	before := p.holdings()
	round()
	slack := max(objects/10, 3)
	var after holdings
	p.WaitFor("what was closed to be gone", func() bool {
		after = p.holdings()
		return after.fds <= before.fds && after.goroutines <= before.goroutines ||
			p.Now() > p.Deadline()-p.Patience/2
	})
	if after.fds > before.fds || after.goroutines > before.goroutines ||
		after.mappings > before.mappings+slack ||
		after.heapBytes > before.heapBytes+128*objects+1<<18 {
		p.Fatalf("before: %s; after %d more objects: %s", before, objects, after)
	}
}

func noLeaks(p *Proc) {
	a := p.Context().Attr()
	n := min(p.Objects, a.MaxQP/2, a.MaxMR/2, a.MaxCQ/4)
	x := p.newSide(spec{})
	p.nothingLeft(n, func() {
		for range n / 20 {
			batch(p, x, 20)
		}
	})
}

// batch makes n QPs, CQs and MRs at once and closes them.
func batch(p *Proc, x *side, n int) {
	var qps []*verbs.QP
	var cqs []*verbs.CQ
	var mrs []*verbs.MR
	for range n {
		cq, err := p.Context().CreateCQ(verbs.CQConfig{Depth: 4})
		p.Must("cq", err)
		qp, err := x.pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, RecvCQ: cq,
			SendDepth: 2, RecvDepth: 2})
		p.Must("qp", err)
		mr, err := x.pd.AllocMR(8192, verbs.AccessAll, verbs.MROptions{})
		p.Must("mr", err)
		qps, cqs, mrs = append(qps, qp), append(cqs, cq), append(mrs, mr)
	}
	for i := range qps {
		p.Must("close qp", qps[i].Close())
		p.Must("close cq", cqs[i].Close())
		p.Must("close mr", mrs[i].Close())
	}
}

// noLeaksConnected makes and closes whole connections with a peer, which therefore fetches what
// belongs to them as well.
func noLeaksConnected(p *Proc) {
	n := p.Scaled(60)
	q := p.Peer()
	p.nothingLeft(n, func() {
		for range n {
			sub := p.with(p.Context())
			x := sub.pairWith(q, spec{MRBytes: 4096, Channel: true}, spec{MRBytes: 4096})
			x.succeed(x.target(verbs.OpWrite, 0, 64))
			sub.cleanup()
			q.ask(request{Do: "drop"})
		}
	})
}
