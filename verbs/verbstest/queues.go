package verbstest

import (
	"errors"
	"sync"
	"syscall"

	"drtmd/verbs"
)

// queueCases: the accounting of send and receive queues.
func queueCases() []Case {
	return []Case{
		{Name: "queues/the send queue holds exactly its depth", Body: exactlyFull},
		{Name: "queues/a list is posted as far as there is room", Body: listTooLong},
		{Name: "queues/slots come back only with a later signaled completion", Body: slotsBack},
		{Name: "queues/a list stops at the first request that is refused", Body: badInTheMiddle},
		{Name: "queues/unsignaled requests complete silently", Body: unsignaled},
		{Name: "queues/signal-all signals every request", Body: signalAll},
		{Name: "queues/the receive queue holds exactly its depth", Body: recvExactlyFull},
		{Name: "queues/many times the depth passes through in batches", Body: throughput},
		{Name: "queues/a queue of one works", Body: depthOne},
		{Name: "queues/a single-threaded CQ works", Body: singleThreaded},
		{Name: "queues/several threads share one QP and CQ", Body: sharedQP},
	}
}

// write is a WRITE of 8 bytes with an ID.
func (x *pair) write(id uint64, flags verbs.Flags) verbs.WR {
	wr := x.target(verbs.OpWrite, 0, 8)
	wr.ID, wr.Flags = id, flags
	return wr
}

// writes is a list of n, of which only the last is signaled.
func (x *pair) writes(first uint64, n int) []verbs.WR {
	wrs := make([]verbs.WR, n)
	for i := range wrs {
		wrs[i] = x.write(first+uint64(i), 0)
	}
	wrs[n-1].Flags = verbs.FlagSignaled
	return wrs
}

// refused checks that the send queue takes nothing more.
func (x *pair) refused() {
	n, err := x.qp.PostSend([]verbs.WR{x.write(99, verbs.FlagSignaled)})
	x.p.MustBe("one request more than the queue holds", err, syscall.ENOMEM)
	if n != 0 {
		x.p.Fatalf("posted %d", n)
	}
}

func exactlyFull(p *Proc) {
	for _, depth := range []int{5, 8} { // whatever a device rounds it to
		x := p.pair(spec{SendDepth: depth}, spec{})
		for round := range 5 {
			x.post(x.writes(uint64(round*depth), depth)...)
			x.refused()
			x.refused()
			wc := p.wait(x.scq, 1)[0]
			if wc.ID != uint64(round*depth+depth-1) || wc.Status != verbs.WCSuccess {
				p.Fatalf("completion %+v", wc)
			}
			p.none("of refused or unsignaled requests", x.scq, 0)
		}
	}
}

func listTooLong(p *Proc) {
	x := p.pair(spec{SendDepth: 6}, spec{})
	wrs := x.writes(0, 10)
	for i := range wrs {
		wrs[i].Flags = verbs.FlagSignaled
	}
	n, err := x.qp.PostSend(wrs)
	p.MustBe("a list longer than the queue", err, syscall.ENOMEM)
	if n != 6 {
		p.Fatalf("posted %d of 10 to a queue of 6", n)
	}
	for i, wc := range p.wait(x.scq, 6) {
		if wc.ID != uint64(i) || wc.Status != verbs.WCSuccess {
			p.Fatalf("completion %d: %+v", i, wc)
		}
	}
	x.post(wrs[n:]...)
	for i, wc := range p.wait(x.scq, 4) {
		if wc.ID != uint64(6+i) || wc.Status != verbs.WCSuccess {
			p.Fatalf("completion %d: %+v", 6+i, wc)
		}
	}
}

func slotsBack(p *Proc) {
	const depth = 8
	x := p.pair(spec{SendDepth: depth}, spec{})
	setWord(x.bytes(0, 8), 5)
	for i := range depth - 1 {
		x.post(x.write(uint64(i), 0))
	}
	x.far.await(0, 5)
	p.none("of unsignaled requests", x.scq, p.quietTime()/10)
	x.post(x.write(depth-1, verbs.FlagSignaled))
	p.Sleep(p.quietTime() / 10)
	x.refused() // all have been carried out, but no completion was polled
	if wc := p.wait(x.scq, 1)[0]; wc.ID != depth-1 {
		p.Fatalf("completion %+v", wc)
	}
	// A completion in the middle frees what was posted before it, and no more.
	x.post(x.write(0, 0), x.write(1, 0), x.write(2, verbs.FlagSignaled), x.write(3, 0),
		x.write(4, 0), x.write(5, 0), x.write(6, 0), x.write(7, 0))
	if wc := p.wait(x.scq, 1)[0]; wc.ID != 2 {
		p.Fatalf("completion %+v", wc)
	}
	x.post(x.write(8, 0), x.write(9, 0), x.write(10, verbs.FlagSignaled))
	x.refused()
	if wc := p.wait(x.scq, 1)[0]; wc.ID != 10 {
		p.Fatalf("completion %+v", wc)
	}
	x.post(x.writes(20, depth)...)
	p.wait(x.scq, 1)
}

func badInTheMiddle(p *Proc) {
	x := p.pair(spec{SendDepth: 8}, spec{})
	wrs := x.writes(0, 5)
	wrs[1].Flags = verbs.FlagSignaled
	wrs[2].Op, wrs[2].RemoteAddr = verbs.OpFAA, x.far.mr.Addr+1
	n, err := x.qp.PostSend(wrs)
	p.MustBe("a list with an unaligned atomic", err, syscall.EINVAL)
	if n != 2 {
		p.Fatalf("posted %d, the third request is the bad one", n)
	}
	if wc := p.wait(x.scq, 1)[0]; wc.ID != 1 || wc.Status != verbs.WCSuccess {
		p.Fatalf("completion %+v", wc)
	}
	p.none("of requests after the bad one", x.scq, p.quietTime()/10)
	x.post(x.writes(0, 8)...)
	p.wait(x.scq, 1)
	n, err = x.qp.PostSend(nil)
	if n != 0 || err != nil {
		p.Fatalf("an empty list: %d, %v", n, err)
	}
}

func unsignaled(p *Proc) {
	x := p.pair(spec{}, spec{})
	x.far.poke(64, wordBytes(7))
	add := x.target(verbs.OpFAA, 64, 8)
	add.CompareAdd, add.SGE = 1, x.sge(512, 8)
	get := x.target(verbs.OpRead, 64, 8)
	get.SGE = x.sge(1024, 8)
	x.far.recv(4, 1, 2048, 8)
	send := verbs.WR{ID: 5, Op: verbs.OpSend, NumSGE: 1, SGE: x.sge(0, 8)}
	x.post(add, get, send)
	if wc := x.far.received(1)[0]; wc.ID != 4 || wc.Status != verbs.WCSuccess {
		p.Fatalf("receive completion %+v", wc)
	}
	p.none("of unsignaled requests", x.scq, p.quietTime()/10)
	x.succeed(x.write(9, 0))
	if a, b := word(x.bytes(512, 8)), word(x.bytes(1024, 8)); a != 7 || b != 8 {
		p.Fatalf("unsignaled FAA and READ brought %d and %d", a, b)
	}
}

func signalAll(p *Proc) {
	x := p.pair(spec{SignalAll: true}, spec{})
	for i := range 5 {
		x.post(x.write(uint64(i), 0))
	}
	for i, wc := range p.wait(x.scq, 5) {
		if wc.ID != uint64(i) || wc.Status != verbs.WCSuccess {
			p.Fatalf("completion %d: %+v", i, wc)
		}
	}
}

func recvExactlyFull(p *Proc) {
	const depth = 5
	x := p.pair(spec{RecvDepth: depth}, spec{SendDepth: depth})
	buffer := verbs.RecvWR{NumSGE: 1, SGE: x.sge(0, 8)}
	full := func() {
		n, err := x.qp.PostRecv([]verbs.RecvWR{buffer})
		p.MustBe("one buffer more than the queue holds", err, syscall.ENOMEM)
		if n != 0 {
			p.Fatalf("posted %d", n)
		}
	}
	list := make([]verbs.RecvWR, depth+2)
	for i := range list {
		list[i] = buffer
		list[i].ID = uint64(i)
	}
	n, err := x.qp.PostRecv(list)
	p.MustBe("a list longer than the queue", err, syscall.ENOMEM)
	if n != depth {
		p.Fatalf("posted %d of %d to a queue of %d", n, len(list), depth)
	}
	full()
	send := verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled, NumSGE: 1,
		SGE: x.far.sge(0, 8)}
	x.far.post(send, send)
	x.far.sent(2)
	full() // not polled yet
	for i, wc := range p.wait(x.rcq, 2) {
		if wc.ID != uint64(i) || wc.Status != verbs.WCSuccess {
			p.Fatalf("receive completion %d: %+v", i, wc)
		}
	}
	x.postRecv(depth, 0, 8)
	x.postRecv(depth+1, 0, 8)
	full()
	x.far.post(send, send, send, send, send)
	for i, wc := range p.wait(x.rcq, depth) {
		if wc.ID != uint64(i+2) || wc.Status != verbs.WCSuccess {
			p.Fatalf("receive completion %d: %+v", i+2, wc)
		}
	}
	x.far.sent(5)
}

func throughput(p *Proc) { batches(p, spec{}) }

func singleThreaded(p *Proc) { batches(p, spec{Single: true}) }

func batches(p *Proc, near spec) {
	const depth, batch = 24, 8
	near.SendDepth = depth
	x := p.pair(near, spec{})
	batches := p.Scaled(1000)
	posted, polled := 0, 0
	for polled < batches {
		for ; posted < batches && posted-polled < depth/batch; posted++ {
			x.post(x.writes(uint64(posted*batch), batch)...)
		}
		for _, wc := range p.wait(x.scq, 1) {
			if wc.ID != uint64(polled*batch+batch-1) || wc.Status != verbs.WCSuccess {
				p.Fatalf("completion of batch %d: %+v", polled, wc)
			}
			polled++
		}
	}
}

// sharedQP: threads post and poll the same QP and CQ; whoever polls may get another's completion,
// but each comes exactly once.
func sharedQP(p *Proc) {
	const threads = 3
	rounds := p.Scaled(1000)
	x := p.pair(spec{SendDepth: 4}, spec{})
	var mu sync.Mutex
	seen := map[uint64]int{}
	take := func(p *Proc) {
		var buf [4]verbs.WC
		n, err := x.scq.Poll(buf[:])
		p.Must("poll", err)
		mu.Lock()
		defer mu.Unlock()
		for _, wc := range buf[:n] {
			p.Must("WRITE", wc.Err())
			seen[wc.ID]++
		}
	}
	var running []*Thread
	for t := range threads {
		running = append(running, p.Thread(func(p *Proc) {
			deadline := p.Deadline()
			for i := 0; i < rounds; {
				n, err := x.qp.PostSend([]verbs.WR{x.write(uint64(t*rounds+i), verbs.FlagSignaled)})
				if n == 0 && !errors.Is(err, syscall.ENOMEM) {
					p.Fatalf("post: %v", err)
				}
				i += n
				take(p)
				p.Pause()
				if p.Now() > deadline {
					p.Fatalf("%d of %d posts within %s", i, rounds, p.Patience)
				}
			}
		}))
	}
	for _, t := range running {
		t.Join()
	}
	p.WaitFor("the last completions", func() bool {
		take(p)
		return len(seen) == threads*rounds
	})
	for id, n := range seen {
		if n != 1 {
			p.Fatalf("request %d completed %d times", id, n)
		}
	}
}

func depthOne(p *Proc) {
	x := p.pair(spec{SendDepth: 1, RecvDepth: 1}, spec{SendDepth: 1, RecvDepth: 1})
	for range 10 {
		x.post(x.write(1, verbs.FlagSignaled))
		x.refused()
		p.wait(x.scq, 1)
		x.works()
	}
}
