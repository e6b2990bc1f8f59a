package verbstest

import (
	"syscall"

	"drtmd/verbs"
)

// atomicCases: CAS and FAA beyond their plain effect.
func atomicCases() []Case {
	return []Case{
		{Name: "atomics/an unaligned word is refused at post", Body: unaligned},
		{Name: "atomics/another size than 8 bytes is refused at post", Alone: true, Body: atomicSize},
		{Name: "atomics/FAA from several QPs and both nodes loses nothing", Body: contendedFAA},
		{Name: "atomics/CAS from several QPs and both nodes loses nothing", Body: contendedCAS},
		{Name: "atomics/both directions at once lose nothing", Body: crossedFAA},
		{Name: "atomics/a batch of atomics runs in order", Body: atomicBatch},
	}
}

func unaligned(p *Proc) {
	x := p.pair(spec{}, spec{})
	for _, op := range []verbs.Opcode{verbs.OpCAS, verbs.OpFAA} {
		for _, offset := range []int{1, 2, 4, 7, 63} {
			n, err := x.qp.PostSend([]verbs.WR{x.target(op, offset, 8)})
			p.MustBe(op.String(), err, syscall.EINVAL)
			if n != 0 {
				p.Fatalf("%s at %d: posted %d", op, offset, n)
			}
		}
	}
	if old := x.atomic(verbs.OpFAA, 8, 1, 0); old != 0 {
		p.Fatalf("FAA after the refused ones gave %d", old)
	}
}

func atomicSize(p *Proc) {
	a, b := p.newSide(spec{SGE: 2}), p.newSide(spec{})
	p.join(a, b)
	for _, op := range []verbs.Opcode{verbs.OpCAS, verbs.OpFAA} {
		for _, wr := range []verbs.WR{
			{NumSGE: 0},
			{NumSGE: 1, SGE: a.sge(0, 4)},
			{NumSGE: 1, SGE: a.sge(0, 16)},
			{NumSGE: 2, SGE: [verbs.MaxSGE]verbs.SGE{a.mr.SGE(0, 4), a.mr.SGE(4, 4)}},
		} {
			wr.Op, wr.RemoteAddr, wr.RKey = op, b.mr.Addr(), b.mr.RKey()
			_, err := a.qp.PostSend([]verbs.WR{wr})
			p.MustBe(op.String(), err, syscall.EINVAL)
		}
	}
}

// contenders connects several near sides, one per thread, to one far memory.
func (p *Proc) contenders(n int) []*pair {
	all := []*pair{p.pair(spec{}, spec{})}
	for range n - 1 {
		x := &pair{side: p.newSide(spec{}), far: all[0].far.beside()}
		x.connect(verbs.ConnectAttr{}, verbs.ConnectAttr{})
		all = append(all, x)
	}
	return all
}

// loop connects a new side of the peer to the far memory of its own, and gives the new side.
func (f *far) loop() *far {
	a, b := f.peer.newSide(spec{}), f.beside()
	a.connect(b.endpoint, verbs.ConnectAttr{})
	b.connect(a.endpoint, verbs.ConnectAttr{})
	return a
}

func contendedFAA(p *Proc) {
	const threads = 3
	rounds := p.Scaled(1000)
	all := p.contenders(threads)
	q, word0 := all[0].far.peer, all[0].far.mr
	loop := all[0].far.loop()
	q.begin(request{Do: "storm", Side: loop.id, Count: rounds, WRs: []verbs.WR{{Op: verbs.OpFAA,
		RemoteAddr: word0.Addr, RKey: word0.RKey, CompareAdd: 1, NumSGE: 1, SGE: loop.sge(8, 8)}}})
	var running []*Thread
	for _, x := range all {
		running = append(running, p.Thread(func(p *Proc) {
			x := x.on(p)
			last := uint64(0)
			for i := range rounds {
				wr := x.target(verbs.OpFAA, 0, 8)
				wr.RemoteAddr, wr.RKey, wr.CompareAdd = word0.Addr, word0.RKey, 1
				x.volleyed(wr, 8)
				for k := range volleySize {
					old := word(x.bytes(8*k, 8))
					if i+k > 0 && old <= last {
						p.Fatalf("FAA gave %d after %d", old, last)
					}
					last = old
				}
			}
		}))
	}
	for _, t := range running {
		t.Join()
	}
	if done := q.finish().Count; done != rounds {
		p.Fatalf("the peer did %d of %d", done, rounds)
	}
	want := uint64((threads + 1) * rounds * volleySize)
	if sum := word(all[0].far.peek(0, 8)); sum != want {
		p.Fatalf("%d FAAs made %d", want, sum)
	}
}

// on is the pair for use by a thread.
func (x *pair) on(p *Proc) *pair {
	near := *x.side
	near.p = p
	return &pair{side: &near, far: x.far}
}

func contendedCAS(p *Proc) {
	const threads = 2
	rounds := p.Scaled(1000)
	all := p.contenders(threads)
	q, target := all[0].far.peer, all[0].far.mr
	loop := all[0].far.loop()
	q.begin(request{Do: "increment", Side: loop.id, Count: rounds, WRs: []verbs.WR{{
		RemoteAddr: target.Addr, RKey: target.RKey}}})
	var running []*Thread
	for _, x := range all {
		running = append(running, p.Thread(func(p *Proc) {
			x.on(p).increment(target.Addr, target.RKey, rounds)
		}))
	}
	for _, t := range running {
		t.Join()
	}
	q.finish()
	want := uint64((threads + 1) * rounds)
	if sum := word(all[0].far.peek(0, 8)); sum != want {
		p.Fatalf("%d increments by CAS made %d", want, sum)
	}
}

// increment adds 1 to a remote word count times, by CAS.
func (x *side) increment(addr uint64, rkey uint32, count int) {
	guess := uint64(0)
	for done, tries := 0, 0; done < count; tries++ {
		if tries > 1000*count {
			x.p.Fatalf("%d of %d increments after %d tries", done, count, tries)
		}
		x.succeed(verbs.WR{ID: uint64(tries), Op: verbs.OpCAS, RemoteAddr: addr, RKey: rkey,
			CompareAdd: guess, Swap: guess + 1, NumSGE: 1, SGE: x.sge(0, 8)})
		old := word(x.bytes(0, 8))
		if old == guess {
			done++
			guess++
		} else {
			guess = old
		}
	}
}

func crossedFAA(p *Proc) {
	rounds := p.Scaled(1000)
	x := p.pair(spec{}, spec{})
	x.far.peer.begin(request{Do: "storm", Side: x.far.id, Count: rounds, WRs: []verbs.WR{{
		Op: verbs.OpFAA, RemoteAddr: x.mr.Addr() + 64, RKey: x.mr.RKey(), CompareAdd: 3,
		NumSGE: 1, SGE: x.far.sge(8, 8)}}})
	add := x.target(verbs.OpFAA, 64, 8)
	add.CompareAdd = 5
	for range rounds {
		x.volleyed(add, 0)
	}
	if done := x.far.peer.finish().Count; done != rounds {
		p.Fatalf("the peer did %d of %d", done, rounds)
	}
	if there := word(x.far.peek(64, 8)); there != uint64(5*rounds*volleySize) {
		p.Fatalf("%d volleys of FAAs of 5 made %d at the peer", rounds, there)
	}
	if here := word(x.bytes(64, 8)); here != uint64(3*rounds*volleySize) {
		p.Fatalf("%d volleys of FAAs of 3 made %d here", rounds, here)
	}
}

func atomicBatch(p *Proc) {
	const depth = 16
	x := p.pair(spec{SendDepth: depth}, spec{})
	for round := range p.Scaled(50) {
		var wrs []verbs.WR
		for i := range depth {
			wr := x.target(verbs.OpFAA, 0, 8)
			wr.ID, wr.CompareAdd, wr.SGE = uint64(i), 1, x.sge(8*i, 8)
			wrs = append(wrs, wr)
		}
		wrs[depth-1].Flags = verbs.FlagSignaled
		x.post(wrs...)
		if wc := p.wait(x.scq, 1)[0]; wc.ID != depth-1 || wc.Status != verbs.WCSuccess {
			p.Fatalf("completion %+v", wc)
		}
		for i := range depth {
			if old := word(x.bytes(8*i, 8)); old != uint64(round*depth+i) {
				p.Fatalf("FAA %d of batch %d gave %d", i, round, old)
			}
		}
	}
}
