package rpc

import (
	"errors"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Details of the protocol that the storms seldom reach.

func TestRequestsAreAcknowledgedWhileTheirHandlersRun(t *testing.T) {
	n := newFakeNet(t, 1)
	cfg := Config{NoBatch: true, Window: 8}
	a, b := n.node(cfg), n.node(cfg)
	running, most := 0, 0
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, _ []byte) (int, error) {
		running++
		most = max(most, running)
		err := f.Sleep(4 * time.Millisecond) // less than any retransmission timeout
		running--
		return 0, err
	})
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error {
		var calls [defaultSlots]Call
		for i := range calls {
			if err := s.Start(f, &calls[i], typeSlow, nil, nil); err != nil {
				return err
			}
		}
		for i := range calls {
			if _, err := calls[i].Await(f, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if most != defaultSlots || a.port.Stats.Reclaimed > 0 || b.port.Stats.AcksSent == 0 {
		t.Errorf("%d handlers ran at a time; %+v", most, a.port.Stats)
	}
}

func TestRoundTripIsThatOfTheNetwork(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	b.port.Handle(typeEcho, echo)
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, _ []byte) (int, error) {
		return 0, f.Sleep(3 * time.Millisecond)
	})
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error {
		for i := range 50 {
			if err := checkEcho(f, s, 10, i); err != nil {
				return err
			}
			if _, err := s.Call(f, typeSlow, nil, nil, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if got := s.rtt.smooth; got < 2*n.latency || got > 3*n.latency {
		t.Errorf("measured a round trip of %v, one way takes %v", got, n.latency)
	}
	if s.rtt.rto != defaultRTOMin || a.port.Stats.Retransmissions > 0 {
		t.Errorf("timeout %v, %d retransmissions", s.rtt.rto, a.port.Stats.Retransmissions)
	}
}

func TestTimeoutFollowsTheRoundTripWithinBounds(t *testing.T) {
	cfg := Config{Incarnation: 1}
	cfg.fill()
	r := rtt{rto: cfg.RTOFirst}
	for range 100 {
		r.sample(20*time.Millisecond, &cfg)
	}
	if r.rto < 20*time.Millisecond || r.rto > 21*time.Millisecond {
		t.Errorf("timeout %v after even round trips of 20 ms", r.rto)
	}
	r.sample(40*time.Millisecond, &cfg)
	if r.rto < 40*time.Millisecond {
		t.Errorf("timeout %v after one of 40 ms", r.rto)
	}
	if a, b := r.timeout(1, &cfg), r.timeout(0, &cfg); a != 2*b {
		t.Errorf("timeout %v, then %v", b, a)
	}
	if d := r.timeout(1000, &cfg); d != cfg.RTOMax {
		t.Errorf("timeout %v after 1000 others", d)
	}
	r.sample(time.Hour, &cfg)
	if r.rto != cfg.RTOMax {
		t.Errorf("timeout %v after a round trip of an hour", r.rto)
	}
}

func TestOldHelloDoesNotEndTheSession(t *testing.T) {
	n := newFakeNet(t, 1)
	n.keep = true
	a, b := n.node(Config{}), n.node(Config{})
	b.port.Handle(typeEcho, echo)
	old := a.session(b)
	hello := n.datagrams[0]
	a.run(func(*fiber.Fiber) error { old.Close(); return nil })
	s := a.session(b)
	at := b.port.live()[0]
	key := [2]uint32{a.port.qp.QPN(), b.port.qp.QPN()}
	n.waiting[key]++
	n.deliver(key, defaultQKey, hello)
	a.run(func(f *fiber.Fiber) error { return checkEcho(f, s, 100, 0) })
	if len(b.port.live()) != 1 || b.port.live()[0] != at {
		t.Error("the hello of an earlier session replaced this one")
	}
}

func TestPeerThatOpensAnewEndsItsOldSession(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	b.port.Handle(typeEcho, echo)
	ran := 0
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, _ []byte) (int, error) {
		ran++
		return 0, f.Sleep(100 * time.Millisecond)
	})
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error {
		var c Call
		if err := s.Start(f, &c, typeSlow, nil, nil); err != nil {
			return err
		}
		if err := f.Sleep(time.Millisecond); err != nil {
			return err
		}
		s.fail(ErrPeerGone) // as after a long silence; b knows nothing of it
		return nil
	})
	fresh := a.session(b)
	a.run(func(f *fiber.Fiber) error { // while the handler of before still runs
		for i := range 100 {
			if err := checkEcho(f, fresh, 2000, i); err != nil {
				return err
			}
		}
		return nil
	})
	n.run(time.Second, func() bool { return false }) // its response goes nowhere
	if len(b.port.live()) != 1 || ran != 1 || a.port.Stats.Garbage != [ReasonCount]uint64{} {
		t.Errorf("%d sessions, %d runs, %v", len(b.port.live()), ran, a.port.Stats.Garbage)
	}
}

func TestAcknowledgedRetransmissionKeepsItsTimeout(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, _ []byte) (int, error) {
		return 0, f.Sleep(time.Second)
	})
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error {
		var c Call
		if err := s.Start(f, &c, typeSlow, nil, nil); err != nil {
			return err
		}
		if err := f.Sleep(time.Millisecond); err != nil {
			return err
		}
		x := &s.calls[c.slot]
		s.tickCalls(x.due) // due: it waits to be sent again
		if x.due != 0 || !x.queued {
			t.Errorf("not queued again: %+v", x)
		}
		s.gotProgress(&message{kind: kindProgress, flags: flagRunning, slot: c.slot, seq: x.seq})
		if err := f.Sleep(time.Millisecond); err != nil {
			return err
		}
		if x.due == 0 || x.queued {
			t.Errorf("nothing would ever ask again: %+v", x)
		}
		_, err := c.Await(f, 0)
		return err
	})
}

func TestPeerThatIsAliveButDoesNotAnswerIsAnError(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{Tries: 5}), n.node(Config{})
	b.port.Handle(typeEcho, echo)
	s := a.session(b)
	long := sizeOf(100) + headerBytes
	n.filter = func(_, to uint32, d []byte) bool { // long datagrams never arrive
		return to != b.port.qp.QPN() || len(d) < long+helloBytes
	}
	err := a.do(func(f *fiber.Fiber) error {
		alive := a.w.Go("alive", nil, func(f *fiber.Fiber) error {
			for range 1000 {
				if err := f.Sleep(time.Millisecond); err != nil {
					return err
				}
				if err := checkEcho(f, s, 8, 0); err != nil {
					return err
				}
			}
			return nil
		})
		err := checkEcho(f, s, 900, 0)
		if e := f.Join(alive, 0); e != nil {
			t.Errorf("short calls: %v", e)
		}
		return err
	})
	if !errors.Is(err, ErrUnanswered) {
		t.Errorf("the long call: %v", err)
	}
}

func TestSourceIsReadFromEitherFormOfGRH(t *testing.T) {
	v4 := verbs.GID{10: 0xff, 11: 0xff, 12: 10, 13: 77, 14: 0, 15: 1}
	v6 := verbs.GID{0: 0xfd, 15: 9}
	var over4, over6 [verbs.GRHBytes]byte
	copy(over4[32:], []byte{10, 77, 0, 1}) // source of the IPv4 header in the last 20 bytes
	copy(over4[36:], []byte{10, 77, 0, 2}) // destination
	copy(over6[8:], v6[:])
	for _, c := range []struct {
		name string
		grh  []byte
		gid  verbs.GID
		want bool
	}{
		{"none", nil, v6, true},
		{"left zero", make([]byte, verbs.GRHBytes), v6, true},
		{"IPv4", over4[:], v4, true},
		{"IPv4, another", over4[:], v6, false},
		{"IPv6", over6[:], v6, true},
		{"IPv6, another", over6[:], v4, false},
	} {
		p := &Port{grh: c.grh}
		o := opening{endpoint: verbs.Endpoint{GID: c.gid, QPN: 5}}
		if got := p.isFrom(&o, 5); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		if p.isFrom(&o, 6) {
			t.Errorf("%s: from another queue pair", c.name)
		}
	}
}
