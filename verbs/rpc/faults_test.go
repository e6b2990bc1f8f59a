package rpc

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs/fiber"
)

func TestWindowBoundsWhatIsInFlightToASlowReceiver(t *testing.T) {
	raceskip.Simulated(t)
	n := newFakeNet(t, 1)
	server := n.node(Config{Window: 4, Peers: 8})
	server.port.Handle(typeEcho, echo)
	live := 0
	for range 8 {
		client := n.node(Config{Window: 4, NoBatch: true, PeerTimeout: time.Minute})
		s := client.session(server)
		for range 32 {
			live++
			client.w.Submit("caller", func(f *fiber.Fiber) error {
				for i := range 20 {
					if err := checkEcho(f, s, 3000, i); err != nil {
						return err
					}
				}
				return nil
			}, func(err error) {
				live--
				n.must(err)
			})
		}
	}
	// The server's core is busy nine tenths of the time, 100 us at a time.
	server.w.Submit("hog", func(f *fiber.Fiber) error {
		for live > 0 {
			f.Charge(100_000_000)
			if err := f.Sleep(10 * time.Microsecond); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	if !n.run(10*time.Minute, func() bool { return live == 0 }) {
		t.Fatalf("%d callers wait", live)
	}
	if n.starved > 0 || n.most > 4+recvSlack {
		t.Errorf("%d datagrams found no buffer, %d were in flight at most", n.starved, n.most)
	}
	if n.nodes[1].port.Stats.Stalls == 0 {
		t.Error("the window held nothing back: the test shows nothing")
	}
}

func TestStalledReceiverIsNotFlooded(t *testing.T) {
	for _, noBatch := range []bool{false, true} {
		n := newFakeNet(t, 1)
		cfg := Config{NoBatch: noBatch}
		client, server := n.node(cfg), n.node(cfg)
		server.port.Handle(typeEcho, echo)
		s := client.session(server)
		client.run(func(f *fiber.Fiber) error { return checkEcho(f, s, 10, 0) })
		server.w.Submit("hog", func(f *fiber.Fiber) error {
			f.Charge(int64(100*time.Millisecond) * 1000)
			return nil
		}, nil)
		live := defaultSlots
		for i := range live {
			client.w.Submit("caller", func(f *fiber.Fiber) error {
				return checkEcho(f, s, 500+i, i)
			}, func(err error) {
				live--
				n.must(err)
			})
		}
		n.most = 0
		if !n.run(time.Second, func() bool { return live == 0 }) {
			t.Fatalf("%d callers wait", live)
		}
		if n.starved > 0 || n.most > defaultWindow+recvSlack {
			t.Errorf("%d datagrams found no buffer, %d were in flight at most", n.starved, n.most)
		}
		if server.port.Stats.Requests != defaultSlots+1 {
			t.Errorf("%d requests ran", server.port.Stats.Requests)
		}
		if client.port.Stats.Retransmissions == 0 {
			t.Error("nothing was sent twice: the test shows nothing")
		}
	}
}

// TestACallerThatStoodStillGivesItsPeerTime: a machine that is paused stops both for longer than any timeout. What the caller
// has not heard then is no silence of the peer; but a peer that goes on to say nothing is gone as soon as ever.
func TestACallerThatStoodStillGivesItsPeerTime(t *testing.T) {
	for _, dead := range []bool{false, true} {
		n := newFakeNet(t, 1)
		client, server := n.node(Config{}), n.node(Config{})
		server.port.Handle(typeEcho, echo)
		s := client.session(server)
		client.run(func(f *fiber.Fiber) error { return checkEcho(f, s, 10, 0) })
		ended, result := false, error(nil)
		pause := func(x *fakeNode, d time.Duration) {
			x.w.Submit("pause", func(f *fiber.Fiber) error {
				f.Charge(int64(d) * 1000)
				return nil
			}, nil)
		}
		if dead {
			server.crash()
		} else {
			pause(server, 5*time.Second+time.Millisecond)
		}
		client.w.Submit("caller", func(f *fiber.Fiber) error { return checkEcho(f, s, 10, 1) },
			func(err error) { ended, result = true, err })
		n.run(100*time.Microsecond, func() bool { return false })
		pause(client, 5*time.Second)
		begun := n.Now()
		if !n.run(time.Minute, func() bool { return ended }) {
			t.Fatal("the caller waits for ever")
		}
		took := n.Now() - begun
		switch {
		case !dead && result != nil:
			t.Errorf("the caller got %v", result)
		case dead && (!errors.Is(result, ErrPeerGone) || took > 5*time.Second+defaultPeerTimeout+defaultRTOMax):
			t.Errorf("the caller of a dead peer got %v in %v", result, took)
		}
	}
}

func TestPeerThatRestartedResetsCallersAndRunsNoOldRequest(t *testing.T) {
	n := newFakeNet(t, 1)
	n.keep = true
	a, b := n.node(Config{}), n.node(Config{})
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, _ []byte) (int, error) {
		return 0, f.Sleep(time.Hour)
	})
	s := a.session(b)
	ended, result := false, error(nil)
	a.w.Submit("caller", func(f *fiber.Fiber) error {
		_, err := s.Call(f, typeSlow, []byte("old"), nil, 0)
		return err
	}, func(err error) { ended, result = true, err })
	n.run(time.Millisecond, func() bool { return b.port.Stats.Requests == 1 })
	address := b.port.Address()
	b.crash()
	again := n.nodeAt(Config{}, b.gid, address.QPN)
	ran := 0
	again.port.Handle(typeSlow, func(req, resp []byte) (int, error) {
		ran++
		return 0, nil
	})
	at := n.Now()
	if !n.run(time.Minute, func() bool { return ended }) || !errors.Is(result, ErrPeerReset) {
		t.Fatalf("the caller got %v", result)
	}
	if took := n.Now() - at; took > defaultRTOMax+defaultRTOFirst {
		t.Errorf("the caller learned of it after %v", took)
	}
	if err := a.do(func(f *fiber.Fiber) error { return checkEcho(f, s, 1, 0) }); !errors.Is(err,
		ErrPeerReset) {
		t.Errorf("a call on the old session: %v", err)
	}
	err := a.do(func(f *fiber.Fiber) error {
		_, err := a.port.Connect(f, address, 0)
		return err
	})
	if !errors.Is(err, ErrPeerReset) {
		t.Errorf("connecting to the old incarnation: %v", err)
	}
	// Everything that was ever sent to the old one comes once more.
	n.keep = false
	for _, d := range n.datagrams {
		n.deliver([2]uint32{a.port.qp.QPN(), address.QPN}, defaultQKey, d)
	}
	n.run(time.Second, func() bool { return false })
	if ran > 0 {
		t.Errorf("the new incarnation ran %d old requests", ran)
	}
	fresh := a.session(again)
	a.run(func(f *fiber.Fiber) error {
		_, err := fresh.Call(f, typeSlow, nil, nil, 0)
		return err
	})
}

func TestPeerThatIsGoneIsAnErrorWithinTheTimeout(t *testing.T) {
	n := newFakeNet(t, 1)
	cfg := Config{PeerTimeout: 300 * time.Millisecond}
	a, b := n.node(cfg), n.node(cfg)
	b.port.Handle(typeEcho, echo)
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error { return checkEcho(f, s, 10, 0) })
	b.crash()
	for _, c := range []struct {
		name string
		call func(*fiber.Fiber) error
	}{
		{"call", func(f *fiber.Fiber) error { return checkEcho(f, s, 10, 0) }},
		{"connect", func(f *fiber.Fiber) error {
			_, err := a.port.Connect(f, b.port.Address(), 0)
			return err
		}},
	} {
		before := n.sent
		at := n.Now()
		err := a.do(c.call)
		if !errors.Is(err, ErrPeerGone) {
			t.Errorf("%s: %v", c.name, err)
		}
		if took := n.Now() - at; took < cfg.PeerTimeout || took > cfg.PeerTimeout*3/2 {
			t.Errorf("%s took %v", c.name, took)
		}
		if k := n.sent - before; k > 12 {
			t.Errorf("%s sent %d datagrams to nobody", c.name, k)
		}
	}
}

// TestAnOpeningIsAsPatientAsItsDeadline: a peer that gets no CPU for longer than PeerTimeout is waited for while a
// session is opened, and one that stays silent is gone at the deadline, not before.
func TestAnOpeningIsAsPatientAsItsDeadline(t *testing.T) {
	const patience = 5 * defaultPeerTimeout
	for _, c := range []struct {
		name           string
		silent, wait   time.Duration
		says           string
		earliest, most time.Duration
	}{
		{"answers late", 3 * defaultPeerTimeout, patience, "", 3 * defaultPeerTimeout, patience},
		{"stays silent", time.Hour, patience, "silent for 10s", patience, patience + defaultRTOMax},
		{"without a deadline", 3 * defaultPeerTimeout, 0, "silent for 2s", defaultPeerTimeout, 2 * defaultPeerTimeout},
	} {
		n := newFakeNet(t, 1)
		a, b := n.node(Config{}), n.node(Config{})
		n.filter = func(_, to uint32, _ []byte) bool { return to != b.port.qp.QPN() || n.Now() >= c.silent }
		err := a.do(func(f *fiber.Fiber) error {
			deadline := c.wait
			if deadline > 0 {
				deadline += f.Now()
			}
			_, err := a.port.Connect(f, b.port.Address(), deadline)
			return err
		})
		if took := n.Now(); took < c.earliest || took > c.most {
			t.Errorf("%s: %v after %v", c.name, err, took)
		}
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, ErrPeerGone) ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

func TestLongHandlerIsNoSilence(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{PeerTimeout: 100 * time.Millisecond, Tries: 3}), n.node(Config{})
	runs := 0
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, req, resp []byte) (int, error) {
		runs++
		if err := f.Sleep(5 * time.Second); err != nil {
			return 0, err
		}
		return copy(resp, req), nil
	})
	s := a.session(b)
	for _, size := range []int{5, 5000} {
		a.run(func(f *fiber.Fiber) error {
			got, err := s.Call(f, typeSlow, make([]byte, size), make([]byte, size), 0)
			if err == nil && got != size {
				err = fmt.Errorf("%d bytes", got)
			}
			return err
		})
	}
	if runs != 2 {
		t.Errorf("the handler ran %d times", runs)
	}
	most := uint64(10*time.Second/a.port.cfg.RTOMax) + 10
	if k := a.port.Stats.Retransmissions; k < 2 || k > most {
		t.Errorf("asked %d times, at most %d are due", k, most)
	}
	if got := s.rtt.smooth; got > time.Second {
		t.Errorf("the handler's time was taken for a round trip: %v", got)
	}
}

func TestCallerThatGivesUpFreesItsSlotAndIsNotAnsweredLate(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{Slots: 1}), n.node(Config{})
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, resp []byte) (int, error) {
		return copy(resp, "late"), f.Sleep(50 * time.Millisecond)
	})
	b.port.Handle(typeEcho, echo)
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error {
		at := f.Now()
		_, err := s.Call(f, typeSlow, nil, make([]byte, 10), at+time.Millisecond)
		if !errors.Is(err, fiber.ErrDeadline) {
			return fmt.Errorf("the call that was to give up: %v", err)
		}
		// The slot's next request waits until the abandoned one has run.
		if err := checkEcho(f, s, 100, 0); err != nil {
			return err
		}
		if took := f.Now() - at; took < 50*time.Millisecond {
			return fmt.Errorf("two requests of a slot ran at a time, after %v", took)
		}
		scope := a.w.NewScope()
		task := a.w.Go("cancelled", scope, func(f *fiber.Fiber) error {
			_, err := s.Call(f, typeSlow, nil, make([]byte, 10), 0)
			return err
		})
		if err := f.Sleep(time.Millisecond); err != nil {
			return err
		}
		scope.Cancel(errors.New("enough"))
		if err := f.Join(task, 0); !errors.Is(err, fiber.ErrCancelled) {
			return fmt.Errorf("the cancelled call: %v", err)
		}
		return checkEcho(f, s, 100, 0)
	})
}

func TestFullPeerRefusesAndSilentSessionsMakeRoom(t *testing.T) {
	n := newFakeNet(t, 1)
	cfg := Config{Peers: 2, PeerTimeout: 100 * time.Millisecond}
	server := n.node(cfg)
	server.port.Handle(typeEcho, echo)
	var clients []*fakeNode
	for range 3 {
		clients = append(clients, n.node(cfg))
	}
	s := clients[0].session(server)
	clients[1].session(server)
	connect := func(f *fiber.Fiber) error {
		_, err := clients[2].port.Connect(f, server.port.Address(), 0)
		return err
	}
	if err := clients[2].do(connect); !errors.Is(err, ErrRefused) {
		t.Fatalf("the third of two sessions: %v", err)
	}
	own := server.do(func(f *fiber.Fiber) error {
		_, err := server.port.Connect(f, clients[2].port.Address(), 0)
		return err
	})
	if !errors.Is(own, ErrFull) {
		t.Errorf("connecting from a full port: %v", own)
	}
	n.run(200*time.Millisecond, func() bool { return false })
	clients[2].run(connect)
	if server.port.Stats.Evicted != 1 {
		t.Errorf("%d sessions were evicted", server.port.Stats.Evicted)
	}
	err := clients[0].do(func(f *fiber.Fiber) error { return checkEcho(f, s, 1, 0) })
	if !errors.Is(err, ErrPeerReset) {
		t.Errorf("a call on the session that made room: %v", err)
	}
}

func TestCloseEndsTheSessionOnBothSides(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	wait := func(f *fiber.Fiber, _, _ []byte) (int, error) { return 0, f.Sleep(time.Second) }
	a.port.HandleFiber(typeSlow, wait)
	b.port.HandleFiber(typeSlow, wait)
	ab, ba := a.session(b), b.session(a)
	var errs [2]error
	live := 2
	for i, s := range []*Session{ab, ba} {
		n.nodes[i].w.Submit("caller", func(f *fiber.Fiber) error {
			_, err := s.Call(f, typeSlow, nil, nil, 0)
			return err
		}, func(err error) { errs[i] = err; live-- })
	}
	n.run(time.Millisecond, func() bool { return false })
	a.run(func(*fiber.Fiber) error { ab.Close(); ab.Close(); return nil })
	n.run(10*time.Millisecond, func() bool { return live == 0 })
	if !errors.Is(errs[0], ErrClosed) || !errors.Is(errs[1], ErrPeerReset) {
		t.Errorf("a's call: %v; b's call: %v", errs[0], errs[1])
	}
	if len(a.port.live())+len(b.port.live()) > 0 {
		t.Error("sessions are left")
	}
	b.port.Handle(typeEcho, echo)
	fresh := a.session(b)
	a.run(func(f *fiber.Fiber) error { return checkEcho(f, fresh, 10, 0) })
}

func TestBrokenQueuePairFailsCallers(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, _ []byte) (int, error) {
		return 0, f.Sleep(time.Hour)
	})
	s := a.session(b)
	err := a.do(func(f *fiber.Fiber) error {
		var c Call
		if err := s.Start(f, &c, typeSlow, nil, nil); err != nil {
			return err
		}
		if err := f.Sleep(time.Millisecond); err != nil {
			return err
		}
		if err := a.port.qp.ToError(); err != nil {
			return err
		}
		_, err := c.Await(f, 0)
		return err
	})
	if !errors.Is(err, ErrBroken) || !errors.Is(a.port.Err(), ErrBroken) {
		t.Errorf("the call: %v; the port: %v", err, a.port.Err())
	}
}
