package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

const (
	flowExecute FlowID = iota + 1
	flowCommit
)

// 188 bytes is what ConnectX adapters send inline (Dandelion §5.2).
func TestALockRequestTakesSixteenBytes(t *testing.T) {
	const dandelionInline = 188
	lock := compactMessage{kind: compactRequest, typ: 9, id: 77, body: make([]byte, 13)}
	c := compactState{id: lock.id}
	if n := c.sizeOf(&lock); n > 16 || n != lockRequestBytes {
		t.Errorf("a lock request takes %d bytes", n)
	}
	b, n := make([]byte, compactHeaderBytes), 0
	for ; len(b)+c.sizeOf(&lock) <= dandelionInline; n++ {
		b = c.put(b, &lock)
		lock.id++
	}
	if n != 11 || len(b)-compactHeaderBytes != 16+14*(n-1) {
		t.Errorf("%d lock requests take %d bytes", n, len(b))
	}
	if average := float64(len(b)) / float64(n); average > 16.9 {
		t.Errorf("%.1f bytes per message, all headers included", average)
	}
}

func TestMessagesOfAFlowTravelTogether(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	b.port.Handle(typeEcho, echo)
	s := a.session(b)
	const each = 10
	start := func(f *fiber.Fiber, calls []Call) error {
		req := make([]byte, 13)
		for i := range calls {
			fl := s.Flow(flowExecute + FlowID(i%2))
			if err := fl.Start(f, &calls[i], typeEcho, req, make([]byte, 13)); err != nil {
				return err
			}
		}
		return nil
	}
	sent, back := a.port.Stats, b.port.Stats
	a.run(func(f *fiber.Fiber) error {
		var calls [2 * each]Call
		if err := start(f, calls[:]); err != nil {
			return err
		}
		for i := range calls {
			if _, err := calls[i].Await(f, 0); err != nil {
				return err
			}
		}
		return nil
	})
	there, came := a.port.Stats.DatagramsSent-sent.DatagramsSent, b.port.Stats.DatagramsSent-back.DatagramsSent
	bytes := a.port.Stats.BytesSent - sent.BytesSent
	want := uint64(2*compactHeaderBytes + 2*each*16 - 2*(each-1)*2)
	// IDs of the two flows alternate: each request but the first of its flow names its own.
	want += 2 * (each - 1) * idBytes
	if there != 2 || came != 2 || bytes != want || a.port.Stats.Doorbells-sent.Doorbells != 1 {
		t.Errorf("%d datagrams there, of %d bytes, not %d; %d back", there, bytes, want, came)
	}
	before := n.sent
	a.run(func(f *fiber.Fiber) error {
		var c [1]Call
		if err := start(f, c[:]); err != nil {
			return err
		}
		if n.sent != before {
			return errors.New("sent before the fiber waits")
		}
		s.Flow(flowExecute).Flush()
		if n.sent != before+1 {
			return errors.New("an explicit flush does not send")
		}
		_, err := c[0].Await(f, 0)
		return err
	})
}

// TestAnswersTravelApartIfAsked: a node that answers one request and asks on behalf of another does both in one datagram,
// or in two.
func TestAnswersTravelApartIfAsked(t *testing.T) {
	for _, apart := range []bool{false, true} {
		n := newFakeNet(t, 1)
		cfg := Config{AnswersApart: apart}
		a, b := n.node(cfg), n.node(cfg)
		fl := a.session(b).Flow(flowCommit)
		a.port.Handle(typeEcho, echo)
		b.port.Handle(typeEcho, echo)
		b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, req, resp []byte) (int, error) {
			return b.port.live()[0].Flow(flowCommit).Call(f, typeEcho, req, resp, 0)
		})
		n.keep = true
		a.run(func(f *fiber.Fiber) error {
			var calls [2]Call
			for i, typ := range []Type{typeEcho, typeSlow} {
				if err := fl.Start(f, &calls[i], typ, make([]byte, 13), make([]byte, 13)); err != nil {
					return err
				}
			}
			_, one := calls[0].Await(f, 0)
			_, two := calls[1].Await(f, 0)
			return errors.Join(one, two)
		})
		answers, mixed := 0, 0
		for _, d := range n.datagrams {
			has, _ := kindsOf(d)
			if has[compactResponse] {
				answers++
			}
			if has[compactResponse] && has[compactRequest] {
				mixed++
			}
		}
		if answers < 2 || (mixed == 0) != apart {
			t.Errorf("answers apart: %t; of %d datagrams %d have answers, %d of them requests, too", apart, len(n.datagrams), answers, mixed)
		}
	}
}

// TestAnswersDoNotWaitForRequests: two nodes whose requests fill the window of each other answer at once, where answers
// travel apart, too.
func TestAnswersDoNotWaitForRequests(t *testing.T) {
	n := newFakeNet(t, 1)
	cfg := Config{AnswersApart: true, Window: 2}
	a, b := n.node(cfg), n.node(cfg)
	b.port.Handle(typeEcho, echo)
	a.port.Handle(typeEcho, echo)
	forth := a.session(b)
	back := b.port.live()[0]
	ask := func(s *Session) func(f *fiber.Fiber) error {
		return func(f *fiber.Fiber) error {
			var calls [16]Call
			for i := range calls {
				fl := s.Flow(FlowID(1 + i%2))
				if err := fl.Start(f, &calls[i], typeEcho, make([]byte, 900), make([]byte, 900)); err != nil {
					return err
				}
			}
			var all error
			for i := range calls {
				_, err := calls[i].Await(f, 0)
				all = errors.Join(all, err)
			}
			return all
		}
	}
	n.keep = true
	done := false
	b.w.Submit("asks", ask(back), func(err error) { done = true; n.must(err) })
	a.run(ask(forth))
	n.run(time.Second, func() bool { return done })
	var requests, answered [3]int // datagrams of each flow, and those before its first answer
	for _, d := range n.datagrams {
		has, flow := kindsOf(d)
		if has[compactRequest] {
			requests[flow]++
		}
		if has[compactResponse] && answered[flow] == 0 {
			answered[flow] = requests[flow]
		}
	}
	if again := a.port.Stats.Retransmissions + b.port.Stats.Retransmissions; !done || again > 0 {
		t.Errorf("%d datagrams were sent again; both are answered: %t", again, done)
	}
	for flow := 1; flow < len(answered); flow++ {
		if answered[flow] == 0 || answered[flow] > requests[flow]/4 {
			t.Errorf("flow %d: the first answer is behind %d of %d datagrams of requests", flow, answered[flow], requests[flow])
		}
	}
}

// kindsOf are the messages of a compact datagram, by kind, and its flow.
func kindsOf(d []byte) (has [compactEnd]bool, flow FlowID) {
	var h compactHeader
	var msgs [maxMessages]compactMessage
	if d[2]&compactMark == 0 || parseCompact(d, &h, &msgs) != 0 {
		return has, 0
	}
	for i := range h.count {
		has[msgs[i].kind] = true
	}
	return has, h.flow
}

func TestFlowsRefuseWhatTheyCannotCarry(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	b.port.Handle(typeEcho, echo)
	b.port.Handle(typeError, func(_, resp []byte) (int, error) { return 2000, nil })
	b.port.HandleFiber(typePanic, func(*fiber.Fiber, []byte, []byte) (int, error) { panic("x") })
	fl := a.session(b).Flow(1)
	for _, c := range []struct {
		typ       Type
		req, resp int
		want      error
		text      string
	}{
		{typeEcho, fl.Longest() + 1, 9, ErrTooLong, "use Session.Call"},
		{typeEcho, fl.Longest(), fl.Longest() - 1, ErrTooLong, "the buffer"},
		{typeError, 1, 3000, nil, "on a flow"},
		{typePanic, 1, 1, nil, "panicked"},
		{typeAbsent, 1, 1, ErrNoHandler, "no handler"},
	} {
		err := a.do(func(f *fiber.Fiber) error {
			_, err := fl.Call(f, c.typ, make([]byte, c.req), make([]byte, c.resp), 0)
			return err
		})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("type %d: %v", c.typ, err)
		}
	}
	a.run(func(f *fiber.Fiber) error {
		n, err := fl.Call(f, typeEcho, make([]byte, fl.Longest()), make([]byte, fl.Longest()), 0)
		if err == nil && n != fl.Longest() {
			err = fmt.Errorf("%d bytes", n)
		}
		return err
	})
}

// A call that was given up leaves its slot to one on another flow.
func TestAbandonedCallOfAFlowFreesItsSlot(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{Slots: 1}), n.node(Config{})
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, resp []byte) (int, error) {
		return copy(resp, "late"), f.Sleep(50 * time.Millisecond)
	})
	b.port.Handle(typeEcho, echo)
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error {
		at := f.Now()
		_, err := s.Flow(1).Call(f, typeSlow, nil, make([]byte, 10), at+time.Millisecond)
		if !errors.Is(err, fiber.ErrDeadline) {
			return fmt.Errorf("the call that was to give up: %v", err)
		}
		var c Call // given up before it was sent
		if err := s.Flow(1).Start(f, &c, typeEcho, make([]byte, 3), make([]byte, 3)); err != nil {
			return err
		}
		if _, err := c.Await(f, f.Now()); !errors.Is(err, fiber.ErrDeadline) {
			return fmt.Errorf("the second: %v", err)
		}
		resp := make([]byte, 3)
		if _, err := s.Flow(2).Call(f, typeEcho, []byte("abc"), resp, 0); err != nil ||
			string(resp) != "bcd" {
			return fmt.Errorf("%q, %v", resp, err)
		}
		if f.Now()-at < 50*time.Millisecond {
			return errors.New("two requests of a slot ran at a time")
		}
		return nil
	})
}

// flowNet is a bad network of ports that count what they execute.
type flowNet struct {
	n      *fakeNet
	runs   map[uint64]int // requests, by number
	ones   map[uint64]int // one-way messages
	wrong  int            // answers that are another request's
	number uint64
}

func newFlowNet(t *testing.T, seed uint64, cfg Config) *flowNet {
	x := &flowNet{n: newFakeNet(t, seed), runs: map[uint64]int{}, ones: map[uint64]int{}}
	for i := range 3 {
		cfg.Self.Node = uint16(i)
		w := x.n.node(cfg)
		run := func(req, resp []byte) (int, error) {
			x.runs[binary.LittleEndian.Uint64(req)]++
			return echo(req, resp)
		}
		w.port.Handle(typeEcho, run)
		w.port.HandleFiber(typeSlow, func(f *fiber.Fiber, req, resp []byte) (int, error) {
			if err := f.Sleep(time.Duration(x.n.rng.IntN(500)) * time.Microsecond); err != nil {
				return 0, err
			}
			return run(req, resp)
		})
		w.port.Handle(typeError, func(req, _ []byte) (int, error) {
			x.ones[binary.LittleEndian.Uint64(req)]++
			return 0, nil
		})
	}
	return x
}

// body makes a message of a number of its own.
func (x *flowNet) body() []byte {
	x.number++
	b := pattern(8+x.n.rng.IntN(60), int(x.number))
	binary.LittleEndian.PutUint64(b, x.number)
	return b
}

func (x *flowNet) check(req, resp []byte, n int) {
	if string(resp[:n]) != string(plusOne(req)) {
		x.wrong++
	}
}

// one does one thing of the storm on a session.
func (x *flowNet) one(f *fiber.Fiber, s *Session, deadline time.Duration) error {
	limit := time.Duration(0)
	if deadline > 0 {
		limit = f.Now() + deadline
	}
	rng := x.n.rng
	fl := s.Flow(1 + FlowID(rng.IntN(3)))
	req, resp := x.body(), make([]byte, 100)
	typ := typeEcho
	if rng.IntN(4) == 0 {
		typ = typeSlow
	}
	switch rng.IntN(4) {
	case 0:
		return fl.Send(f, typeError, req, limit)
	case 1: // answered to this port, as if to a third node
		var a Answer
		var c Call
		target, err := s.port.Expect(&a, resp)
		if err != nil {
			return err
		}
		err = fl.StartForward(f, &c, typ, req, target)
		n, err2 := a.Await(f, limit)
		if err2 == nil {
			x.check(req, resp, n)
		}
		_, err3 := c.Await(f, limit)
		return errors.Join(err, err2, err3)
	default:
		n, err := fl.Call(f, typ, req, resp, limit)
		if err == nil {
			x.check(req, resp, n)
		}
		return err
	}
}

// storm has fibers of every node do things to every node.
func (x *flowNet) storm(deadline time.Duration) (failed int) {
	n := x.n
	live := 0
	for _, w := range n.nodes {
		for range 5 {
			live++
			w.w.Submit("caller", func(f *fiber.Fiber) error {
				for i := range 45 {
					s, err := w.port.Connect(f, n.nodes[i%3].port.Address(), 0)
					if err != nil {
						return err
					}
					switch err := x.one(f, s, deadline); {
					case errors.Is(err, fiber.ErrDeadline):
						failed++
					case err != nil && w.port.cfg.Mutation != 0:
						x.wrong++
					case err != nil:
						return err
					}
				}
				return nil
			}, func(err error) { live--; n.must(err) })
		}
	}
	if !n.run(10*time.Minute, func() bool { return live == 0 }) {
		n.t.Fatalf("%d callers wait at %v", live, n.Now())
	}
	n.run(time.Second, func() bool { return false })
	return failed
}

// twice counts what was executed more than once.
func twice(runs map[uint64]int) (k int) {
	for _, r := range runs {
		if r > 1 {
			k++
		}
	}
	return k
}

func (x *flowNet) sent() (sum Stats) {
	for _, w := range x.n.nodes {
		sum.OneWays += w.port.Stats.OneWays
		sum.Undelivered += w.port.Stats.Undelivered
	}
	return sum
}

func TestFlowsExecuteAtMostOnce(t *testing.T) {
	raceskip.Simulated(t)
	for _, c := range []struct {
		name      string
		drop, dup float64
		jitter    time.Duration
		deadline  time.Duration
	}{
		{"clean", 0, 0, 0, 0},
		{"loss", 0.1, 0, 0, 0},
		{"partitions", 0.02, 0.05, 3 * time.Millisecond, 0},
		{"duplication and reordering", 0, 0.3, 300 * time.Microsecond, 0},
		{"everything", 0.1, 0.1, 5 * time.Millisecond, 0},
		{"everything with callers that give up", 0.2, 0.1, 5 * time.Millisecond, 8 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range seeds(6) {
				x := newFlowNet(t, seed, Config{Slots: 4, PeerTimeout: time.Minute, Tries: 1000})
				x.n.drop, x.n.dup, x.n.jitter = c.drop, c.dup, c.jitter
				if c.name == "partitions" { // a third of the time, in one direction
					x.n.filter = func(from, to uint32, _ []byte) bool {
						slot := uint64(x.n.Now() / (70 * time.Millisecond))
						return rand.New(rand.NewPCG(slot, uint64(from)<<32|uint64(to))).IntN(3) > 0
					}
				}
				failed := x.storm(c.deadline)
				if k := twice(x.runs) + twice(x.ones); k > 0 || x.wrong > 0 {
					t.Errorf("seed %d: %d executed twice, %d wrong answers", seed, k, x.wrong)
				}
				if c.deadline == 0 && failed > 0 || c.jitter == 0 && c.drop == 0 && uint64(len(x.ones)) != x.sent().OneWays {
					t.Errorf("seed %d: %d failed; of %d one-way messages %d came", seed, failed,
						x.sent().OneWays, len(x.ones))
				}
				if c.deadline == 0 && x.sent().Undelivered > 0 {
					t.Errorf("seed %d: %d answers were not delivered", seed, x.sent().Undelivered)
				}
				checkStats(t, x.n)
			}
		})
	}
}

func TestMutationsOfFlowsAreCaught(t *testing.T) {
	raceskip.Simulated(t)
	for _, m := range []Mutation{OneWayTwice, AnyResponse, AnyTicket} {
		caught := 0
		for seed := range uint64(6) {
			x := newFlowNet(t, seed, Config{Slots: 4, PeerTimeout: time.Minute, Tries: 1000, Mutation: m})
			x.n.drop, x.n.dup, x.n.jitter = 0.2, 0.1, 5*time.Millisecond
			x.storm(8 * time.Millisecond)
			caught += twice(x.ones) + x.wrong
		}
		if caught == 0 {
			t.Errorf("mutation %s was not caught", m)
		}
	}
	x := newFlowNet(t, 1, Config{Slots: 4, PeerTimeout: time.Minute, Tries: 1000, ForgetServed: true})
	x.n.dup = 0.3
	if x.storm(0); twice(x.runs) == 0 {
		t.Error("requests that were answered and executed again were not caught")
	}
}

func TestNoRequestOfAFlowIsExecutedAfterItsEpoch(t *testing.T) {
	call := func(f *fiber.Fiber, s *Session, req, resp []byte) error {
		_, err := s.Flow(flowCommit).Call(f, typeEcho, req, resp, 0)
		return err
	}
	for seed := range seeds(6) {
		if late := epochStorm(t, seed, 0, call); late > 0 {
			t.Fatalf("seed %d: %d requests were executed after their epoch", seed, late)
		}
	}
	for _, m := range []Mutation{OldEpochAccepted, RetryAcrossEpochs} {
		if epochStorm(t, 0, m, call)+epochStorm(t, 1, m, call) == 0 {
			t.Errorf("mutation %s was not caught", m)
		}
	}
}

// A commit over several hops: the first node has the second execute, which has the others log; these
// answer the first.
func multiHop(f *fiber.Fiber, p *Port, to []Address, round int) error {
	s, err := p.Connect(f, to[1], 0)
	if err != nil {
		return err
	}
	var logs [2]Answer
	var resp [2][16]byte
	req := make([]byte, 0, 2*targetBytes+1)
	for i := range logs {
		target, err := p.Expect(&logs[i], resp[i][:])
		if err != nil {
			return err
		}
		req = binary.LittleEndian.AppendUint16(req, target.Node)
		req = binary.LittleEndian.AppendUint16(req, target.Worker)
		req = binary.LittleEndian.AppendUint64(req, uint64(target.Ticket))
	}
	req = append(req, byte(round))
	if _, err := s.Flow(flowExecute).Call(f, typeSlow, req, nil, 0); err != nil {
		return err
	}
	for i := range logs {
		n, err := logs[i].Await(f, 0)
		if err != nil {
			return err
		}
		if from := logs[i].From().Node; n != 2 || int(from) != 2+i || resp[i][0] != byte(round+1) ||
			resp[i][1] != byte(from+1) {
			return fmt.Errorf("round %d: answer %d is %v from node %d", round, i, resp[i][:n], from)
		}
	}
	return nil
}

func multiHopCluster(t *testing.T, c *cluster) {
	var to []Address
	for _, p := range c.ports {
		to = append(to, p.Address())
		p.HandleFrom(typeEcho, func(_ *Caller, req, resp []byte) (int, error) {
			return echo(append(req[:1:1], byte(p.cfg.Self.Node)), resp)
		})
	}
	c.ports[1].HandleFiber(typeSlow, func(f *fiber.Fiber, req, _ []byte) (int, error) {
		var calls [2]Call
		round := append([]byte(nil), req[2*targetBytes:]...)
		for i := range calls {
			b := req[i*targetBytes:]
			target := Target{Node: binary.LittleEndian.Uint16(b), Worker: binary.LittleEndian.Uint16(b[2:]),
				Ticket: Ticket(binary.LittleEndian.Uint64(b[4:]))}
			s := c.ports[1].SessionTo(uint16(2+i), 0)
			if s == nil {
				return 0, errors.New("no session")
			}
			if err := s.Flow(flowCommit).StartForward(f, &calls[i], typeEcho, round, target); err != nil {
				return 0, err
			}
		}
		return 0, awaitAll(f, 0, &calls[0], &calls[1])
	})
	connect := func(p *Port) func(*fiber.Fiber) error {
		return func(f *fiber.Fiber) error {
			for _, a := range to {
				if _, err := p.Connect(f, a, 0); err != nil {
					return err
				}
			}
			return nil
		}
	}
	c.run(func(f *fiber.Fiber) error {
		if err := connect(c.ports[0])(f); err != nil {
			return err
		}
		if err := f.Sleep(20 * time.Millisecond); err != nil { // the others connect meanwhile
			return err
		}
		for round := range 50 {
			if err := multiHop(f, c.ports[0], to, round); err != nil {
				return err
			}
		}
		return nil
	}, connect(c.ports[1]))
	for i, p := range c.ports {
		if p.Stats.Garbage != [ReasonCount]uint64{} || p.Stats.Strays > 0 {
			t.Errorf("node %d: %+v", i, p.Stats)
		}
	}
}

func multiHopConfigs() (cfgs []Config) {
	for i := range 4 {
		cfgs = append(cfgs, Config{Self: Identity{Node: uint16(i)}, PeerTimeout: 30 * time.Second, Tries: 1000})
	}
	return cfgs
}

func TestAnswersToAThirdNode(t *testing.T) {
	eachProvider(t, func(t *testing.T, p verbs.Provider) {
		multiHopCluster(t, newCluster(t, p, 1, multiHopConfigs()...))
	})
	const us = sim.Time(1_000_000)
	faults := sim.Schedule{
		{Kind: sim.DropDatagrams, From: sim.AnyNode, To: sim.AnyNode, PPM: 50_000},
		{Kind: sim.DuplicateDatagrams, From: sim.AnyNode, To: sim.AnyNode, PPM: 100_000, By: 50 * us},
		{Kind: sim.ReorderDatagrams, From: sim.AnyNode, To: sim.AnyNode, PPM: 200_000, By: 100 * us}}
	for seed := range seeds(3) {
		multiHopCluster(t, newSimCluster(t, seed, nil, multiHopConfigs()...))
		multiHopCluster(t, newSimCluster(t, seed, faults, multiHopConfigs()...))
	}
}

func TestAnswerThatNobodyCanTakeIsAnErrorToItsSender(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{Self: Identity{Node: 1}}), n.node(Config{Self: Identity{Node: 2}})
	b.port.Handle(typeEcho, echo)
	fl := a.session(b).Flow(1)
	forward := func(target Target) error {
		return a.do(func(f *fiber.Fiber) error {
			var c Call
			if err := fl.StartForward(f, &c, typeEcho, []byte("x"), target); err != nil {
				return err
			}
			_, err := c.Await(f, 0)
			return err
		})
	}
	if err := forward(Target{Node: 9}); err == nil || !strings.Contains(err.Error(), "no session with") {
		t.Errorf("to an unknown node: %v", err)
	}
	if err := forward(Target{Node: 1, Ticket: 12345}); err != nil || a.port.Stats.Strays != 1 {
		t.Errorf("with an unknown ticket: %v, %d strays", err, a.port.Stats.Strays)
	}
	if err := forward(Target{Node: 2, Ticket: 1}); err != nil || b.port.Stats.Strays != 1 {
		t.Errorf("to the executor itself: %v, %d strays", err, b.port.Stats.Strays)
	}
}

func TestFlowsDoNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	eachProvider(t, func(t *testing.T, p verbs.Provider) {
		c := newCluster(t, p, 1, Config{}, Config{Self: Identity{Node: 1}})
		c.ports[1].Handle(typeEcho, echo)
		c.run(func(f *fiber.Fiber) error {
			s, err := c.ports[0].Connect(f, c.ports[1].Address(), 0)
			if err != nil {
				return err
			}
			fl := s.Flow(1)
			req, resp := make([]byte, 13), make([]byte, 13)
			var a Answer
			var call Call
			round := func() {
				_, e1 := fl.Call(f, typeEcho, req, resp, f.Now()+10*time.Second)
				e2 := fl.Send(f, typeEcho, req, 0)
				target, e3 := c.ports[0].Expect(&a, resp)
				e4 := fl.StartForward(f, &call, typeEcho, req, target)
				_, e5 := a.Await(f, 0)
				_, e6 := call.Await(f, 0)
				for _, e := range [...]error{e1, e2, e3, e4, e5, e6} {
					if e != nil {
						err = e
					}
				}
			}
			for range 300 {
				round()
			}
			if allocs := testing.AllocsPerRun(300, round); allocs != 0 && err == nil {
				err = fmt.Errorf("a round allocates %v times", allocs)
			}
			return err
		})
	})
}

// FuzzCompact has a port receive any compact datagram from its peer.
func FuzzCompact(f *testing.F) {
	const session, incarnation, peer = 16, 1, 2
	tag := tagOf(peer, incarnation, session, session)
	seed := func(ms ...compactMessage) {
		h := compactHeader{flow: 1, count: len(ms), dst: session, tag: tag, number: 1, id: 2}
		b, c := make([]byte, compactHeaderBytes), compactState{id: 2}
		h.put(b)
		for i := range ms {
			b = c.put(b, &ms[i])
		}
		f.Add(b)
	}
	for k := compactRequest; k < compactEnd; k++ {
		m := compactMessage{kind: k, typ: uint8(typeEcho), id: 2, body: []byte("12345678")}
		if k == compactRunning {
			m.body = nil
		}
		n := m
		n.id = 3
		seed(m)
		seed(m, n)
	}
	seed(compactMessage{kind: compactResponse, flags: compactError, id: 9, body: make([]byte, 300)})
	f.Fuzz(func(t *testing.T, d []byte) {
		if len(d) > 1024 || len(d) < compactHeaderBytes {
			return
		}
		var h compactHeader
		var msgs [maxMessages]compactMessage
		if parseCompact(d, &h, &msgs) == 0 {
			b, c := make([]byte, compactHeaderBytes), compactState{id: h.id}
			h.put(b)
			for i := range h.count {
				b = c.put(b, &msgs[i])
			}
			var again [maxMessages]compactMessage
			if r := parseCompact(append(b[:2:2], append([]byte{d[2]}, b[3:]...)...), &h, &again); r != 0 {
				t.Fatalf("%x\nencoded anew is %x: %s", d, b, r)
			}
			for i := range h.count {
				if fmt.Sprint(again[i]) != fmt.Sprint(msgs[i]) {
					t.Fatalf("message %d: %+v comes back as %+v", i, msgs[i], again[i])
				}
			}
		}
		n := newFakeNet(t, 1)
		x := n.node(Config{Incarnation: incarnation, Slots: 2})
		x.port.Handle(typeEcho, echo)
		a := x.port.Address()
		a.QPN, a.Incarnation = 4000, peer
		s, err := x.port.newSession(a)
		n.must(err)
		s.adopt(&opening{window: 8, slots: 2, maxMessage: 4096}, session)
		x.w.Submit("caller", func(f *fiber.Fiber) error {
			_, _ = s.Flow(1).Call(f, typeEcho, []byte("request"), make([]byte, 300), 0) // any end will do
			return nil
		}, nil)
		n.run(time.Millisecond, func() bool { return false })
		for range 2 {
			n.waiting[[2]uint32{4000, x.port.qp.QPN()}]++
			n.deliver([2]uint32{4000, x.port.qp.QPN()}, defaultQKey, d)
			n.run(time.Millisecond, func() bool { return false })
		}
		if x.w.Fenced() != nil || x.port.Err() != nil {
			t.Fatalf("the port is out: %v, %v", x.w.Fenced(), x.port.Err())
		}
		n.run(10*time.Second, func() bool { return false })
		if s.busy != 0 {
			t.Fatal("the call has not ended")
		}
	})
}
