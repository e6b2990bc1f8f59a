package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/sim"
)

const (
	typeEcho rpc.Type = iota + 1
	typeFail
	typeNone
)

// echo answers with the request, each byte one more, and the caller's node in front.
func echo(c *Caller, req, resp []byte) (int, error) {
	if len(resp) < len(req)+1 {
		return 0, errors.New("no room")
	}
	resp[0] = byte(c.Node)
	for i, b := range req {
		resp[i+1] = b + 1
	}
	return len(req) + 1, nil
}

func (c *cluster) handle(t rpc.Type, h Handler) {
	for _, n := range c.nodes {
		n.port.Handle(t, h)
	}
}

// talk has a node call others, several calls at a time, and checks every answer.
func (c *cluster) talk(f *fiber.Fiber, i, rounds int, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, uint64(i)))
	var calls [4]Call
	var req, resp [4][600]byte
	var n, to [4]int
	for round := range rounds {
		for k := range calls {
			to[k] = random.IntN(len(c.nodes) - 1)
			if to[k] >= i {
				to[k]++
			}
			n[k] = random.IntN(250)
			if random.IntN(3) == 0 {
				n[k] = random.IntN(20)
			}
			for j := range n[k] {
				req[k][j] = byte(random.Uint32())
			}
			err := c.nodes[i].port.Link(to[k]).Start(f, &calls[k], typeEcho, req[k][:n[k]], resp[k][:n[k]+1+random.IntN(20)])
			if err != nil {
				return fmt.Errorf("round %d, call %d: %w", round, k, err)
			}
		}
		for k := range calls {
			got, err := calls[k].Await(f, 0)
			if err != nil {
				return fmt.Errorf("round %d, call %d: %w", round, k, err)
			}
			want := make([]byte, n[k]+1)
			_, _ = echo(&Caller{Node: i}, req[k][:n[k]], want)
			if !bytes.Equal(resp[k][:got], want) {
				return fmt.Errorf("round %d, call %d to %d: answer %x, want %x", round, k, to[k], resp[k][:got], want)
			}
		}
	}
	return nil
}

// crowd is talk by several fibers of each node.
func (c *cluster) crowd(fibers, rounds int) error {
	var bodies []func(*fiber.Fiber) error
	for i := range c.nodes {
		bodies = append(bodies, func(f *fiber.Fiber) error {
			var tasks []*fiber.Task
			for k := range fibers {
				tasks = append(tasks, f.Worker().Go("talk", nil, func(f *fiber.Fiber) error {
					return c.talk(f, i, rounds, uint64(k))
				}))
			}
			var all error
			for _, t := range tasks {
				all = errors.Join(all, f.Join(t, 0))
			}
			return all
		})
	}
	return c.try(bodies...)
}

// TestCallsAreAnsweredThroughSmallRings: everybody calls everybody, with rings that are full most of the time.
func TestCallsAreAnsweredThroughSmallRings(t *testing.T) {
	eachCluster(t, 3, Config{Bytes: 1024, Calls: 8}, func(t *testing.T, c *cluster) {
		c.handle(typeEcho, echo)
		if err := c.crowd(6, 100); err != nil {
			t.Fatal(err)
		}
		for i, n := range c.nodes {
			s := n.port.Stats
			// How often a peer is told with a WRITE of its own depends on threads: messages tell it as well.
			if s.Told == 0 && c.world != nil {
				t.Errorf("node %d told nobody how far it had read", i)
			}
			if s.Waits == 0 || s.Requests != 2400 || s.Down != 0 && c.world != nil || s.Opened != 2 {
				t.Errorf("node %d: %+v", i, s)
			}
			for _, l := range n.port.links {
				if l != nil && (l.busy != 0 || l.reqRoom != 0 || l.respRoom != 0 || len(l.free) != 8) {
					t.Errorf("node %d: %d calls, %d and %d bytes, %d free slots are left", i, l.busy, l.reqRoom,
						l.respRoom, len(l.free))
				}
			}
		}
	})
}

// TestMessagesOfOnePassTravelTogether: the requests of a pass take one WRITE, and so do their answers.
func TestMessagesOfOnePassTravelTogether(t *testing.T) {
	c := newSimCluster(t, 1, 2, Config{})
	c.handle(typeEcho, echo)
	c.run(func(f *fiber.Fiber) error {
		var calls [5]Call
		var resp [5][8]byte
		for i := range calls {
			if err := c.nodes[0].port.Link(1).Start(f, &calls[i], typeEcho, []byte{byte(i)}, resp[i][:]); err != nil {
				return err
			}
		}
		for i := range calls {
			if n, err := calls[i].Await(f, 0); n != 2 || err != nil || resp[i][1] != byte(i)+1 {
				return fmt.Errorf("%d bytes, %v, %x", n, err, resp[i])
			}
		}
		return nil
	})
	a, b := c.nodes[0].port.Stats, c.nodes[1].port.Stats
	if a.Writes != 1 || b.Writes > 2 || // the lines arrive one by one
		a.Bytes != 5*64 || b.Bytes != 5*64 || a.Requests != 5 || b.Answers != 5 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// TestErrorsOfHandlersArrive.
func TestErrorsOfHandlersArrive(t *testing.T) {
	eachCluster(t, 2, Config{Bytes: 2048}, func(t *testing.T, c *cluster) {
		c.handle(typeEcho, echo)
		c.handle(typeFail, func(*Caller, []byte, []byte) (int, error) { return 0, errors.New("not today") })
		call := func(f *fiber.Fiber, l *Link, t rpc.Type, req, resp []byte) (int, error) {
			var x Call
			if err := l.Start(f, &x, t, req, resp); err != nil {
				return 0, err
			}
			return x.Await(f, 0)
		}
		c.run(func(*fiber.Fiber) error { return nil }, func(f *fiber.Fiber) error {
			l := c.nodes[1].port.Link(0)
			var failed *rpc.RemoteError
			if _, err := call(f, l, typeFail, nil, make([]byte, 30)); !errors.As(err, &failed) ||
				failed.Text != "not today" || failed.Type != typeFail {
				return fmt.Errorf("the handler's error is %v", err)
			}
			if _, err := call(f, l, typeNone, nil, nil); !errors.Is(err, rpc.ErrNoHandler) {
				return fmt.Errorf("without a handler: %v", err)
			}
			for _, n := range []int{769, 1 << 17} {
				if _, err := call(f, l, typeEcho, make([]byte, n), nil); !errors.Is(err, ErrTooLong) {
					return fmt.Errorf("a request of %d bytes: %v", n, err)
				}
				if _, err := call(f, l, typeEcho, nil, make([]byte, n)); !errors.Is(err, ErrTooLong) {
					return fmt.Errorf("an answer of %d bytes: %v", n, err)
				}
			}
			// The longest that fits.
			resp := make([]byte, 600)
			if n, err := call(f, l, typeEcho, make([]byte, 599), resp); n != 600 || err != nil {
				return fmt.Errorf("%d bytes, %v", n, err)
			}
			return nil
		})
	})
}

// TestACallThatNobodyAwaitsAnyMoreLeavesNothing: its room is free when the answer comes, which goes nowhere.
func TestACallThatNobodyAwaitsAnyMoreLeavesNothing(t *testing.T) {
	eachCluster(t, 2, Config{Bytes: 1024, Calls: 1}, func(t *testing.T, c *cluster) {
		c.handle(typeEcho, echo)
		c.run(func(f *fiber.Fiber) error {
			l := c.nodes[0].port.Link(1)
			var resp [8]byte
			for range 20 {
				var x Call
				if err := l.Start(f, &x, typeEcho, []byte{1, 2}, resp[:]); err != nil {
					return err
				}
				if _, err := x.Await(f, f.Now()+1); !errors.Is(err, fiber.ErrDeadline) {
					if err != nil {
						return err
					}
					continue // the answer was faster
				}
				resp = [8]byte{}
				var y Call // waits for the only slot
				var other [8]byte
				if err := l.Start(f, &y, typeEcho, []byte{7}, other[:]); err != nil {
					return err
				}
				if n, err := y.Await(f, 0); n != 2 || err != nil || other[1] != 8 || resp != [8]byte{} {
					return fmt.Errorf("%d bytes %x, %v; the answer to nobody %x", n, other, err, resp)
				}
			}
			return nil
		})
	})
}

// TestNothingOfAnOlderEpochIsExecuted.
func TestNothingOfAnOlderEpochIsExecuted(t *testing.T) {
	for _, m := range []Mutation{0, OldEpochTaken} {
		c := newSimCluster(t, 1, 2, Config{Mutation: m})
		executed := 0
		c.handle(typeEcho, func(x *Caller, req, resp []byte) (int, error) {
			executed++
			return echo(x, req, resp)
		})
		c.run(func(f *fiber.Fiber) error {
			a, b := c.nodes[0].port, c.nodes[1].port
			var x Call
			var resp [8]byte
			if err := errors.Join(b.SetEpoch(3), a.Link(1).Start(f, &x, typeEcho, []byte{1}, resp[:])); err != nil {
				return err
			}
			if _, err := x.Await(f, 0); m == 0 && (!errors.Is(err, ErrEpoch) || executed != 0) || m != 0 && err != nil {
				return fmt.Errorf("a request of epoch 0 at epoch 3: %w, executed %d times", err, executed)
			}
			// Raised here while it is in flight.
			if err := a.Link(1).Start(f, &x, typeEcho, []byte{1}, resp[:]); err != nil {
				return err
			}
			if err := a.SetEpoch(3); err != nil {
				return err
			}
			if _, err := x.Await(f, 0); !errors.Is(err, ErrEpoch) {
				return fmt.Errorf("after the epoch was raised: %w", err)
			}
			if err := a.Link(1).Start(f, &x, typeEcho, []byte{1}, resp[:]); err != nil {
				return err
			}
			if n, err := x.Await(f, 0); n != 2 || err != nil {
				return fmt.Errorf("under the new epoch: %d, %w", n, err)
			}
			if err := errors.Join(a.SetEpoch(3), b.SetEpoch(2)); err == nil {
				return errors.New("an epoch was lowered")
			}
			return nil
		})
		if l := c.nodes[0].port.Link(1); l.busy != 0 || l.reqRoom != 0 {
			t.Errorf("%v: %d calls and %d bytes are left", m, l.busy, l.reqRoom)
		}
	}
}

// TestALinkComesBackWithItsQueuePair: calls in flight end, and later ones go on a new link, whichever side calls
// first.
func TestALinkComesBackWithItsQueuePair(t *testing.T) {
	for _, first := range []int{0, 1} {
		c := newSimCluster(t, 1, 2, Config{Probe: 20 * time.Microsecond})
		c.handle(typeEcho, echo)
		joined := false
		c.run(func(f *fiber.Fiber) error {
			if err := c.talk(f, 0, 3, 1); err != nil {
				return err
			}
			var x Call
			if err := c.nodes[0].port.Link(1).Start(f, &x, typeEcho, []byte{1}, make([]byte, 8)); err != nil {
				return err
			}
			if err := c.nodes[1].conns[0].QP().ToError(); err != nil {
				return err
			}
			if _, err := x.Await(f, 0); !errors.Is(err, ErrDown) {
				return fmt.Errorf("the queue pair has failed at the peer: %w", err)
			}
			if err := c.talk(f, 0, 1, 1); !errors.Is(err, ErrDown) {
				return fmt.Errorf("a call without a queue pair: %w", err)
			}
			c.join(1, 0)
			joined = true
			if first != 0 {
				if err := f.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
			return c.talk(f, 0, 3, 1)
		}, func(f *fiber.Fiber) error {
			for !joined {
				if err := f.Sleep(10 * time.Microsecond); err != nil {
					return err
				}
			}
			if first != 1 {
				if err := f.Sleep(time.Millisecond); err != nil {
					return err
				}
			}
			return c.talk(f, 1, 3, 1)
		})
		if s := c.nodes[0].port.Stats; s.Opened != 2 || s.Down == 0 {
			t.Errorf("%+v", s)
		}
	}
}

// TestALinkHasOneQueuePair: while one side has another queue pair than the other's no link is opened: the side
// whose queue pair is replaced would end the link, and the other one call for ever.
func TestALinkHasOneQueuePair(t *testing.T) {
	for _, late := range []int{0, 1} {
		c := newSimCluster(t, 1, 2, Config{Probe: 20 * time.Microsecond})
		c.handle(typeEcho, echo)
		was := c.nodes[late].conns[1-late]
		c.join(1, 0)
		now := c.nodes[late].conns[1-late]
		c.nodes[late].conns[1-late] = was
		c.run(func(f *fiber.Fiber) error {
			if err := c.talk(f, 0, 1, 1); !errors.Is(err, ErrDown) {
				return fmt.Errorf("a call on two queue pairs: %w", err)
			}
			c.nodes[late].conns[1-late] = now
			return c.talk(f, 0, 3, 1)
		}, func(*fiber.Fiber) error { return nil })
	}
}

// TestCallsEndUnderFaults: a partition for a time, a peer that is paused, one that crashes. Whoever has called
// gets the right answer or ErrDown.
func TestCallsEndUnderFaults(t *testing.T) {
	us := sim.Microsecond
	for _, x := range []struct {
		name   string
		faults sim.Schedule
		down   bool
	}{
		{"short partition", sim.Schedule{{At: 300 * us, Kind: sim.Partition, Groups: [][]string{{"n0"}, {"n1", "n2"}}, For: 20 * us}}, false},
		{"long partition", sim.Schedule{{At: 300 * us, Kind: sim.Partition, Groups: [][]string{{"n0"}, {"n1", "n2"}}, For: 500 * sim.Millisecond}}, true},
		{"pause", sim.Schedule{{At: 300 * us, Kind: sim.PauseNode, Node: "n1", For: 20 * sim.Millisecond}}, false},
		{"slow memory", sim.Schedule{{At: 0, Kind: sim.StallMemory, Node: "n1", PPM: 300_000, By: 5 * us, For: 100 * sim.Millisecond}}, false},
		{"crash", sim.Schedule{{At: 300 * us, Kind: sim.CrashNode, Node: "n1"}}, true},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprintf("%s/%d", x.name, seed), func(t *testing.T) {
				c := newSimCluster(t, seed, 3, Config{Bytes: 1024, Probe: 50 * time.Microsecond})
				c.must(c.world.Install(x.faults))
				c.handle(typeEcho, echo)
				ended, failed := 0, 0
				for i, n := range c.nodes {
					n.worker.Submit("test", func(f *fiber.Fiber) error {
						if err := c.meet(f, i); err != nil {
							return err
						}
						for k := range 3 {
							f.Worker().Go("talk", nil, func(f *fiber.Fiber) error {
								err := c.talk(f, i, 60, uint64(k))
								if ended++; errors.Is(err, ErrDown) {
									failed++
								} else if err != nil {
									t.Errorf("node %d: %v", i, err)
								}
								return nil
							})
						}
						return nil
					}, nil)
				}
				c.must(c.world.Run())
				want := 9
				if x.name == "crash" {
					want = 6
				}
				if ended != want || (failed > 0) != x.down {
					t.Errorf("%d of %d fibers have ended, %d with an error", ended, want, failed)
				}
			})
		}
	}
}

// TestEachStepOfARingIsNeeded: with it left out some answer is wrong, or none comes.
func TestEachStepOfARingIsNeeded(t *testing.T) {
	for _, m := range []Mutation{OverwriteUnread, TakenEarly, AnyAnswer} {
		caught := 0
		for seed := range uint64(5) {
			c := newSimClusterOf(t, sim.Config{Seed: seed, EventLimit: 300_000}, 3, Config{Bytes: 1024, Mutation: m})
			c.must(c.world.Install(sim.Schedule{{Kind: sim.StallMemory, Node: "n1", PPM: 300_000,
				By: 5 * sim.Microsecond, For: sim.Second}}))
			c.handle(typeEcho, echo)
			if err := c.crowd(8, 20); err != nil {
				caught++
			}
		}
		if caught == 0 {
			t.Errorf("nothing is wrong with %v", m)
		}
	}
}

// TestAPassLooksAtEveryRing: a worker that is busy gets less done, the more rings it has to look at.
func TestAPassLooksAtEveryRing(t *testing.T) {
	took := map[int]sim.Time{}
	for _, nodes := range []int{2, 4, 6} {
		c := newSimCluster(t, 1, nodes, Config{})
		c.handle(typeEcho, echo)
		c.run(func(f *fiber.Fiber) error {
			var x Call
			for n := range nodes - 1 { // open all
				if err := c.nodes[0].port.Link(n+1).Start(f, &x, typeEcho, []byte{1}, make([]byte, 8)); err != nil {
					return err
				}
				if _, err := x.Await(f, 0); err != nil {
					return err
				}
			}
			began := c.world.Now()
			var tasks []*fiber.Task
			for range 50 {
				tasks = append(tasks, f.Worker().Go("call", nil, func(f *fiber.Fiber) error {
					var x Call
					for range 100 {
						if err := c.nodes[0].port.Link(1).Start(f, &x, typeEcho, []byte{1}, make([]byte, 8)); err != nil {
							return err
						}
						if _, err := x.Await(f, 0); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			for _, x := range tasks {
				if err := f.Join(x, 0); err != nil {
					return err
				}
			}
			took[nodes] = c.world.Now() - began
			return nil
		})
	}
	t.Log(took)
	if took[4] <= took[2] || took[6] <= took[4] {
		t.Errorf("5,000 calls take %v", took)
	}
}

// TestCallsAllocateNothing.
func TestCallsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's own allocations count")
	}
	c := newShmCluster(t, 2, Config{})
	c.handle(typeEcho, echo)
	c.run(func(f *fiber.Fiber) (err error) {
		var calls [4]Call
		req := make([]byte, 100)
		var resp [4][128]byte
		round := func() {
			for i := range calls {
				binary.LittleEndian.PutUint64(req, uint64(i))
				err = errors.Join(err, c.nodes[0].port.Link(1).Start(f, &calls[i], typeEcho, req, resp[i][:]))
			}
			for i := range calls {
				if _, e := calls[i].Await(f, 0); e != nil {
					err = e
				}
			}
		}
		for range 100 {
			round()
		}
		if n := testing.AllocsPerRun(500, round); n != 0 && err == nil {
			return fmt.Errorf("%.2f allocations for four calls", n)
		}
		return err
	})
}
