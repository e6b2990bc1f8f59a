package verbstest

import (
	"errors"
	"os"
	"syscall"
	"time"

	"drtmd/verbs"
)

// eventCases: completion channels.
func eventCases() []Case {
	return []Case{
		{Name: "events/a completion after arming wakes the waiter", Body: wakes},
		{Name: "events/without arming nothing wakes", Body: notArmed},
		{Name: "events/one arming gives one event", Body: oneEvent},
		{Name: "events/arm, poll, wait misses nothing", Body: armRace},
		{Name: "events/several QPs and bursts on one CQ miss nothing", Body: armRaceBursts},
		{Name: "events/one channel tells its CQs apart", Alone: true, Body: twoCQs},
		{Name: "events/a solicited completion wakes, another does not", Body: solicited},
		{Name: "events/a failure wakes a waiter for solicited ones", Body: failureWakes},
		{Name: "events/a waiter sleeps while its request is retried", Body: sleepsOverRetries},
		{Name: "events/a waiter is woken when the retries are over", Body: wokenByTimeout},
		{Name: "events/a waiter's deadline ends the wait", Alone: true, Body: waitDeadline},
		{Name: "events/a CQ with unread events closes at once", Body: unreadEvents},
		{Name: "events/arming needs a channel", Alone: true, Body: armWithoutChannel},
	}
}

// consume takes the events of a channel and counts them by CQ.
func (x *side) consume() map[*verbs.CQ]int {
	seen := map[*verbs.CQ]int{}
	x.p.Must("consume", x.ch.Consume(func(cq *verbs.CQ) { seen[cq]++ }))
	return seen
}

// quiet checks that no event comes for a while.
func (x *side) quiet(what string) {
	err := x.p.WaitEvent(x.ch, x.p.Now()+x.p.quietTime())
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		x.p.Fatalf("%s: woken (%v)", what, err)
	}
}

func (x *side) awake() {
	x.p.Must("wait for an event", x.p.WaitEvent(x.ch, x.p.Deadline()))
}

// farSend has the peer SEND count empty messages.
func (x *pair) farSend(count int, flags verbs.Flags) {
	list := make([]verbs.WR, count)
	for i := range list {
		list[i] = verbs.WR{ID: 1, Op: verbs.OpSend, Flags: flags | verbs.FlagSignaled}
	}
	x.far.post(list...)
	for _, wc := range x.far.sent(count) {
		if wc.Status != verbs.WCSuccess {
			x.p.Fatalf("SEND by the peer: %s", wc.Status)
		}
	}
}

func wakes(p *Proc) {
	x := p.pair(spec{Channel: true}, spec{})
	for i := range uint64(5) {
		x.postRecv(i, 0, 64)
		p.Must("arm", x.rcq.Arm(false))
		x.farSend(1, 0)
		x.awake()
		if seen := x.consume(); seen[x.rcq] != 1 || len(seen) != 1 {
			p.Fatalf("events by CQ: %v", seen)
		}
		if wc := p.wait(x.rcq, 1)[0]; wc.ID != i {
			p.Fatalf("completion %+v", wc)
		}
		// The own operations' completions wake as well.
		p.Must("arm", x.scq.Arm(false))
		x.post(x.write(i, verbs.FlagSignaled))
		x.awake()
		if seen := x.consume(); seen[x.scq] != 1 {
			p.Fatalf("events by CQ: %v", seen)
		}
		p.wait(x.scq, 1)
	}
}

func notArmed(p *Proc) {
	x := p.pair(spec{Channel: true}, spec{})
	x.postRecv(1, 0, 64)
	x.farSend(1, 0)
	x.quiet("an unarmed CQ")
	p.wait(x.rcq, 1)
}

func oneEvent(p *Proc) {
	x := p.pair(spec{Channel: true}, spec{})
	for i := range uint64(4) {
		x.postRecv(i, 0, 64)
	}
	p.Must("arm", x.rcq.Arm(false))
	p.Must("arm twice", x.rcq.Arm(false))
	x.farSend(4, 0)
	x.awake()
	if seen := x.consume(); seen[x.rcq] != 1 {
		p.Fatalf("events by CQ: %v", seen)
	}
	x.quiet("a CQ armed once")
	p.wait(x.rcq, 4)
}

// sleepingWait takes n completions as an event-driven program does: poll, arm, poll, wait.
func (x *side) sleepingWait(cq *verbs.CQ, n int) {
	var buf [3]verbs.WC
	for got := 0; got < n; {
		k, err := cq.Poll(buf[:])
		x.p.Must("poll", err)
		if k == 0 {
			x.p.Must("arm", cq.Arm(false))
			k, err = cq.Poll(buf[:])
			x.p.Must("poll", err)
		}
		if k == 0 {
			if err := x.p.WaitEvent(x.ch, x.p.Deadline()); err != nil {
				x.p.Fatalf("after %d of %d completions: %v", got, n, err)
			}
			x.consume()
		}
		for _, wc := range buf[:k] {
			x.p.Must("completion", wc.Err())
		}
		got += k
	}
}

// armRace: every message races with the arming of the CQ that it completes on.
func armRace(p *Proc) {
	rounds := p.Scaled(2000)
	x := p.pair(spec{Channel: true, RecvDepth: 64}, spec{})
	x.far.peer.begin(request{Do: "pings", Side: x.far.id, Count: rounds})
	// The peer SENDs when it sees its word change, so that there is one message at a time,
	// each at another distance from the arming.
	for i := range rounds {
		x.postRecv(uint64(i), 64, 64)
		setWord(x.bytes(0, 8), uint64(i+1))
		x.post(x.write(uint64(i), 0))
		for range i % 50 {
			p.Pause()
		}
		x.sleepingWait(x.rcq, 1)
		if i%8 == 7 {
			x.post(x.write(1, verbs.FlagSignaled))
			x.sleepingWait(x.scq, 1)
		}
	}
	x.far.peer.finish()
}

// pings SENDs an empty message whenever the word at the MR's start has grown, count times.
func (x *side) pings(count int) {
	watch := x.watcher(0)
	for done := uint64(0); done < uint64(count); {
		x.p.WaitFor("the next word", func() bool { return watch() != done })
		done++
		x.succeed(verbs.WR{ID: done, Op: verbs.OpSend})
	}
}

// watcher gives a look at a word of the side's MR while a peer may be writing it. It READs the
// word over a connection of its own: a look by the CPU would be a data race.
func (x *side) watcher(offset int) (look func() uint64) {
	loop := x.p.newSide(spec{})
	x.p.join(loop, x.beside())
	return func() uint64 {
		loop.succeed(verbs.WR{ID: 1, Op: verbs.OpRead, RemoteAddr: x.mr.Addr() + uint64(offset),
			RKey: x.mr.RKey(), NumSGE: 1, SGE: loop.sge(0, 8)})
		return word(loop.bytes(0, 8))
	}
}

func armRaceBursts(p *Proc) {
	const qps, burst = 4, 4
	rounds := p.Scaled(200)
	q := p.Peer()
	first := p.pairWith(q, spec{Channel: true, CQDepth: 2 * qps * 16, OneCQ: true}, spec{})
	all := []*pair{first}
	for range qps - 1 {
		y := &pair{side: &side{p: p, pd: first.pd, mr: first.mr, ch: first.ch, scq: first.scq,
			rcq: first.rcq, spec: first.spec}, far: q.newSide(spec{})}
		y.qp = y.newQP(y.scq, y.rcq)
		y.connect(verbs.ConnectAttr{}, verbs.ConnectAttr{})
		all = append(all, y)
	}
	for round := range rounds {
		for _, x := range all {
			for i := range burst {
				x.postRecv(uint64(i), 0, 64)
			}
			q.begin(request{Do: "bursts", Side: x.far.id, Count: burst})
			x.post(x.write(uint64(round), verbs.FlagSignaled))
		}
		first.sleepingWait(first.rcq, qps*(burst+1))
		for range all {
			q.finish()
		}
	}
}

func twoCQs(p *Proc) {
	a, b := p.newSide(spec{Channel: true}), p.newSide(spec{})
	p.join(a, b)
	write := verbs.WR{ID: 1, Op: verbs.OpWrite, Flags: verbs.FlagSignaled,
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), NumSGE: 1, SGE: a.sge(0, 8)}
	a.postRecv(2, 0, 64)
	p.Must("arm", a.scq.Arm(false))
	p.Must("arm", a.rcq.Arm(false))
	a.post(write)
	b.succeed(verbs.WR{ID: 3, Op: verbs.OpSend})
	seen := map[*verbs.CQ]int{}
	p.WaitFor("both events", func() bool {
		if p.WaitEvent(a.ch, p.Deadline()) == nil {
			for cq, n := range a.consume() {
				seen[cq] += n
			}
		}
		return len(seen) == 2
	})
	if seen[a.scq] != 1 || seen[a.rcq] != 1 {
		p.Fatalf("events by CQ: %v", seen)
	}
	p.wait(a.scq, 1)
	p.wait(a.rcq, 1)
}

func solicited(p *Proc) {
	x := p.pair(spec{Channel: true}, spec{})
	for i := range uint64(3) {
		x.postRecv(i, 0, 64)
	}
	p.Must("arm", x.rcq.Arm(true))
	x.farSend(1, 0)
	x.quiet("an unsolicited message")
	x.farSend(1, verbs.FlagSolicited)
	x.awake()
	if seen := x.consume(); seen[x.rcq] != 1 {
		p.Fatalf("events by CQ: %v", seen)
	}
	p.wait(x.rcq, 2)
	// Arming for all completions includes the unsolicited.
	p.Must("arm", x.rcq.Arm(true))
	p.Must("arm", x.rcq.Arm(false))
	x.farSend(1, 0)
	x.awake()
	x.consume()
	p.wait(x.rcq, 1)
}

func failureWakes(p *Proc) {
	x := p.pair(spec{Channel: true}, spec{})
	x.postRecv(1, 0, 64)
	p.Must("arm", x.rcq.Arm(true))
	p.Must("to error", x.qp.ToError())
	x.awake()
	x.consume()
	x.failed(p.wait(x.rcq, 1)[0], 1, verbs.WCWRFlushErr)
	x.reconnect()
}

func sleepsOverRetries(p *Proc) {
	slow := verbs.ConnectAttr{RTR: verbs.RTRAttr{MinRNRTimer: 28}}
	x := p.pair(spec{Channel: true}, spec{Connect: slow})
	p.Must("arm", x.scq.Arm(false))
	x.post(verbs.WR{ID: 1, Op: verbs.OpSend, Flags: verbs.FlagSignaled})
	p.none("before there is a buffer", x.scq, 0)
	x.far.recv(2, 1, 0, 8)
	x.awake()
	x.consume()
	p.Must("SEND", p.wait(x.scq, 1)[0].Err())
}

func wokenByTimeout(p *Proc) {
	x := p.pair(spec{Channel: true, Connect: quick}, spec{})
	p.Must("arm", x.scq.Arm(false))
	x.post(verbs.WR{ID: 1, Op: verbs.OpSend}) // unsignaled: failures complete all the same
	p.none("before the retries are over", x.scq, 0)
	x.awake()
	x.consume()
	x.failed(p.wait(x.scq, 1)[0], 1, verbs.WCRNRRetryExcErr)
	x.reconnect()
}

func waitDeadline(p *Proc) {
	x := p.newSide(spec{Channel: true})
	p.Must("arm", x.rcq.Arm(false))
	for _, d := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} {
		before := p.Now()
		err := p.WaitEvent(x.ch, before+d)
		p.MustBe("a wait for nothing", err, os.ErrDeadlineExceeded)
		if took := p.Now() - before; took < d {
			p.Fatalf("the wait ended after %s, not %s", took, d)
		}
	}
}

func unreadEvents(p *Proc) {
	x := p.pair(spec{Channel: true}, spec{})
	x.postRecv(1, 0, 64)
	p.Must("arm", x.rcq.Arm(false))
	x.farSend(1, 0)
	x.awake()
	before := p.Now()
	p.Must("close qp", x.qp.Close())
	p.Must("close cq", x.rcq.Close())
	if took := p.Now() - before; took > p.Patience/2 {
		p.Fatalf("closing took %s", took)
	}
	if seen := x.consume(); len(seen) != 0 {
		p.Fatalf("events of a closed CQ: %v", seen)
	}
}

func armWithoutChannel(p *Proc) {
	x := p.newSide(spec{})
	p.MustBe("arm", x.scq.Arm(false), syscall.EINVAL)
}
