package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/verbs/fiber"
)

func TestHandlersKnowTheirCaller(t *testing.T) {
	n := newFakeNet(t, 1)
	self := Identity{Node: 513, Worker: 258, Life: 0x04030201}
	a, b := n.node(Config{Self: self}), n.node(Config{Self: Identity{Node: 7}})
	n.must(a.port.SetEpoch(9))
	n.must(b.port.SetEpoch(9))
	var got []Caller
	b.port.HandleFrom(typeEcho, func(c *Caller, req, resp []byte) (int, error) {
		got = append(got, *c)
		return echo(req, resp)
	})
	b.port.HandleFiberFrom(typeSlow, func(f *fiber.Fiber, c *Caller, req, resp []byte) (int, error) {
		if err := f.Sleep(time.Millisecond); err != nil {
			return 0, err
		}
		got = append(got, *c)
		return echo(req, resp)
	})
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error {
		_, err := s.Call(f, typeSlow, pattern(3000, 1), make([]byte, 3000), 0)
		return errors.Join(err, checkEcho(f, s, 10, 0))
	})
	want := Caller{Identity: self, Incarnation: a.port.cfg.Incarnation, Epoch: 9,
		Session: b.port.live()[0]}
	if len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("handlers saw %+v, not twice %+v", got, want)
	}
	if epoch := b.port.live()[0].peerEpoch; s.peerID != (Identity{Node: 7}) || epoch != 9 {
		t.Errorf("a knows its peer as %+v, b knows a's epoch as %d", s.peerID, epoch)
	}
}

func TestEpochIsOnlyRaised(t *testing.T) {
	x := newFakeNet(t, 1).node(Config{})
	x.net.must(x.port.SetEpoch(3))
	x.net.must(x.port.SetEpoch(3))
	if err := x.port.SetEpoch(2); err == nil || x.port.Epoch() != 3 {
		t.Errorf("epoch 2 after 3: %v, now %d", err, x.port.Epoch())
	}
}

// Whoever is behind is refused within a retransmission timeout, and heard again once it is not.
func TestPeerOfAnOlderEpochIsNotServed(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	ran := 0
	b.port.Handle(typeEcho, func(req, resp []byte) (int, error) { ran++; return echo(req, resp) })
	s := a.session(b)
	n.must(b.port.SetEpoch(1))
	at := n.Now()
	err := a.do(func(f *fiber.Fiber) error { return checkEcho(f, s, 10, 0) })
	if !errors.Is(err, ErrEpoch) || ran > 0 || n.Now()-at > 4*defaultRTOFirst {
		t.Errorf("after %v: %v; the handler ran %d times", n.Now()-at, err, ran)
	}
	if b.port.Stats.Garbage[ReasonEpoch] == 0 {
		t.Error("nothing was counted")
	}
	n.must(a.port.SetEpoch(1))
	a.run(func(f *fiber.Fiber) error { return checkEcho(f, s, 10, 0) })
}

func TestRaisingTheEpochEndsCallsAndAnswersOfBefore(t *testing.T) {
	n := newFakeNet(t, 1)
	n.keep = true
	a, b := n.node(Config{Slots: 1}), n.node(Config{Slots: 1})
	b.port.Handle(typeEcho, echo)
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, resp []byte) (int, error) {
		return copy(resp, "late"), f.Sleep(3 * time.Millisecond)
	})
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error {
		var c Call
		if err := s.Start(f, &c, typeSlow, nil, make([]byte, 10)); err != nil {
			return err
		}
		if err := f.Sleep(time.Millisecond); err != nil {
			return err
		}
		if err := errors.Join(a.port.SetEpoch(1), b.port.SetEpoch(1)); err != nil {
			return err
		}
		if _, err := c.Await(f, 0); !errors.Is(err, ErrEpoch) {
			return fmt.Errorf("the call of before: %v", err)
		}
		return checkEcho(f, s, 100, 0) // its slot, whose handler of before still runs
	})
	for _, d := range n.datagrams {
		if bytes.Contains(d, []byte("late")) {
			t.Error("an answer of before was sent")
		}
	}
}

// epochStorm has nodes call each other on a bad network while their epochs rise, each by itself, and
// counts the requests that were executed at a port whose epoch had passed the one in which they began.
func epochStorm(t *testing.T, seed uint64, m Mutation, call epochCall) (late int) {
	n := newFakeNet(t, seed)
	n.drop, n.dup, n.jitter = 0.1, 0.1, 2*time.Millisecond
	runs := map[uint64]int{}
	for range 3 {
		x := n.node(Config{Slots: 4, PeerTimeout: time.Minute, Tries: 1000, Mutation: m})
		x.port.HandleFrom(typeEcho, func(c *Caller, req, resp []byte) (int, error) {
			began := Epoch(binary.LittleEndian.Uint32(req[8:]))
			if began < x.port.Epoch() || c.Epoch < began {
				late++
			}
			runs[binary.LittleEndian.Uint64(req)]++
			return echo(req, resp)
		})
	}
	live, number := 0, uint64(0)
	for _, x := range n.nodes {
		live++
		x.w.Submit("epochs", func(f *fiber.Fiber) error {
			for e := range Epoch(20) {
				if err := errors.Join(x.port.SetEpoch(e+1),
					f.Sleep(time.Duration(n.rng.IntN(4000))*time.Microsecond)); err != nil {
					return err
				}
			}
			return nil
		}, func(err error) { live--; n.must(err) })
		for range 4 {
			live++
			x.w.Submit("caller", func(f *fiber.Fiber) error {
				for i := range 30 {
					y := n.nodes[(i+n.rng.IntN(3))%3]
					s, err := x.port.Connect(f, y.port.Address(), 0)
					if err != nil {
						return err
					}
					number++
					req, resp := make([]byte, 16), make([]byte, 16)
					binary.LittleEndian.PutUint64(req, number)
					binary.LittleEndian.PutUint32(req[8:], uint32(x.port.Epoch()))
					err = call(f, s, req, resp)
					if err == nil && string(resp) != string(plusOne(req)) {
						return errors.New("wrong answer")
					}
					if err != nil && !errors.Is(err, ErrEpoch) {
						return err
					}
				}
				return nil
			}, func(err error) { live--; n.must(err) })
		}
	}
	if !n.run(time.Minute, func() bool { return live == 0 }) {
		t.Fatalf("seed %d: %d fibers wait", seed, live)
	}
	for id, k := range runs {
		if k > 1 {
			t.Errorf("seed %d: request %d was executed %d times", seed, id, k)
		}
	}
	return late
}

type epochCall func(f *fiber.Fiber, s *Session, req, resp []byte) error

func plainCall(f *fiber.Fiber, s *Session, req, resp []byte) error {
	_, err := s.Call(f, typeEcho, req, resp, 0)
	return err
}

func TestNoRequestIsExecutedAfterItsEpoch(t *testing.T) {
	for seed := range seeds(6) {
		if late := epochStorm(t, seed, 0, plainCall); late > 0 {
			t.Fatalf("seed %d: %d requests were executed after their epoch", seed, late)
		}
	}
	for _, m := range []Mutation{OldEpochAccepted, RetryAcrossEpochs} {
		if epochStorm(t, 0, m, plainCall)+epochStorm(t, 1, m, plainCall) == 0 {
			t.Errorf("mutation %s was not caught", m)
		}
	}
}
