package rpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/verbs/fiber"
)

// ledger counts, at the server, how often each request was executed. A request is 8 bytes of its
// number and then a pattern, and so is its response.
type ledger struct {
	runs map[uint64]int
	bad  int
}

func (l *ledger) run(req, resp []byte) (int, error) {
	if len(req) < 8 {
		l.bad++
		return 0, errors.New("short")
	}
	l.runs[binary.LittleEndian.Uint64(req)]++
	return echo(req, resp)
}

// seeds is how many of n runs in virtual time a test makes: where the tests are run for the sake of
// a device, which such runs do not touch, few.
func seeds(n uint64) uint64 {
	if testing.Short() || raceEnabled || os.Getenv("DRTMD_REQUIRE") != "" {
		return min(n, 2)
	}
	return n
}

// storm has fibers of every node call every other node, and gives the number of each call that
// ended in an error. sizes are drawn from the net's randomness.
func storm(n *fakeNet, ls []*ledger, fibers, calls int, deadline time.Duration) map[uint64]error {
	for i, x := range n.nodes {
		x.port.Handle(typeEcho, ls[i].run)
		x.port.HandleFiber(typeSlow, func(f *fiber.Fiber, req, resp []byte) (int, error) {
			if err := f.Sleep(time.Duration(n.rng.IntN(500)) * time.Microsecond); err != nil {
				return 0, err
			}
			return ls[i].run(req, resp)
		})
	}
	failed := map[uint64]error{}
	live, number := 0, uint64(0)
	one := func(f *fiber.Fiber, s *Session) error {
		number++
		id := number
		size := 8 + n.rng.IntN(100)
		if n.rng.IntN(8) == 0 {
			size = 8 + n.rng.IntN(defaultMaxMessage-7)
		}
		req, resp := pattern(size, int(id)), make([]byte, size)
		binary.LittleEndian.PutUint64(req, id)
		t := typeEcho
		if n.rng.IntN(4) == 0 {
			t = typeSlow
		}
		limit := time.Duration(0)
		if deadline > 0 {
			limit = f.Now() + deadline
		}
		got, err := s.Call(f, t, req, resp, limit)
		if err != nil {
			failed[id] = err
			return nil
		}
		if got != size || string(resp) != string(plusOne(req)) {
			return fmt.Errorf("call %d of %d bytes got a wrong answer of %d", id, size, got)
		}
		return nil
	}
	for _, x := range n.nodes {
		for range fibers {
			live++
			x.w.Submit("caller", func(f *fiber.Fiber) error {
				for _, y := range n.nodes {
					for range calls {
						s, err := x.port.Connect(f, y.port.Address(), 0)
						for errors.Is(err, ErrPeerGone) {
							s, err = x.port.Connect(f, y.port.Address(), 0)
						}
						if err == nil {
							err = one(f, s)
						}
						if err != nil {
							return err
						}
					}
				}
				return nil
			}, func(err error) {
				live--
				if err != nil {
					n.t.Error(err)
				}
			})
		}
	}
	if !n.run(10*time.Minute, func() bool { return live == 0 }) {
		n.t.Fatalf("%d callers still wait at %v", live, n.Now())
	}
	n.run(time.Second, func() bool { return false }) // what is still under way
	return failed
}

func TestAtMostOnceUnderLossDuplicationAndReordering(t *testing.T) {
	raceskip.Simulated(t)
	const nodes = 3
	for _, c := range []struct {
		name      string
		drop, dup float64
		jitter    time.Duration
		deadline  time.Duration
	}{
		{"clean", 0, 0, 0, 0},
		{"loss", 0.1, 0, 0, 0},
		{"duplication", 0, 0.3, 0, 0},
		{"reordering", 0, 0, 200 * time.Microsecond, 0},
		{"everything", 0.1, 0.1, 5 * time.Millisecond, 0},
		{"everything with callers that give up", 0.2, 0.1, 5 * time.Millisecond,
			8 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range seeds(12) {
				n := newFakeNet(t, seed)
				n.drop, n.dup, n.jitter = c.drop, c.dup, c.jitter
				var ls []*ledger
				for range nodes {
					n.node(Config{Slots: 4, PeerTimeout: time.Minute, Tries: 1000})
					ls = append(ls, &ledger{runs: map[uint64]int{}})
				}
				const fibers, calls = 6, 10
				failed := storm(n, ls, fibers, calls, c.deadline)
				total := nodes * fibers * nodes * calls
				if c.deadline == 0 && len(failed) > 0 || len(failed) == total {
					t.Errorf("%d of %d calls failed: %v", len(failed), total, failed)
				}
				executed := 0
				for _, l := range ls {
					if l.bad > 0 {
						t.Errorf("%d requests were damaged", l.bad)
					}
					for id, k := range l.runs {
						executed++
						if k != 1 {
							t.Errorf("request %d was executed %d times", id, k)
						}
					}
				}
				if executed < total-len(failed) || executed > total {
					t.Errorf("%d of %d requests were executed, %d failed", executed, total,
						len(failed))
				}
				checkStats(t, n)
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// Peers take each other for gone and open sessions anew, while requests, responses and resets of
// before are under way.
func TestAtMostOnceAcrossBlackouts(t *testing.T) {
	raceskip.Simulated(t)
	for seed := range seeds(10) {
		n := newFakeNet(t, seed)
		n.drop, n.dup, n.jitter = 0.02, 0.05, 3*time.Millisecond
		n.filter = func(from, to uint32, _ []byte) bool { // a third of the time, in one direction
			slot := uint64(n.Now() / (70 * time.Millisecond))
			return rand.New(rand.NewPCG(slot, uint64(from)<<32|uint64(to))).IntN(3) > 0
		}
		var ls []*ledger
		for range 3 {
			n.node(Config{Slots: 4, PeerTimeout: 60 * time.Millisecond})
			ls = append(ls, &ledger{runs: map[uint64]int{}})
		}
		const fibers, calls = 4, 150
		failed := storm(n, ls, fibers, calls, 0)
		total, executed := 3*3*fibers*calls, 0
		for _, l := range ls {
			for id, k := range l.runs {
				executed++
				if k != 1 {
					t.Errorf("request %d was executed %d times", id, k)
				}
			}
		}
		for id, err := range failed {
			if !errors.Is(err, ErrPeerGone) && !errors.Is(err, ErrPeerReset) {
				t.Errorf("call %d: %v", id, err)
			}
		}
		if len(failed) == 0 || len(failed) > total/2 || executed < total-len(failed) {
			t.Errorf("of %d calls %d failed, %d were executed", total, len(failed), executed)
		}
		for i, x := range n.nodes {
			if len(x.port.live()) > 3 {
				t.Errorf("node %d has %d sessions with 3 peers", i, len(x.port.live()))
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// checkStats: nothing of this protocol is garbage, and without reordering windows hold.
func checkStats(t *testing.T, n *fakeNet) {
	t.Helper()
	for i, x := range n.nodes {
		if x.port.Stats.Garbage != [ReasonCount]uint64{} {
			t.Errorf("node %d took for garbage: %v", i, x.port.Stats.Garbage)
		}
	}
	if n.jitter == 0 && n.drop == 0 && n.dup == 0 && (n.starved > 0 ||
		n.most > defaultWindow+recvSlack) {
		t.Errorf("%d datagrams found no buffer, at most %d were in flight", n.starved, n.most)
	}
}

func TestSameSeedSameRun(t *testing.T) {
	var first string
	for range 2 {
		n := newFakeNet(t, 7)
		n.drop, n.dup, n.jitter = 0.1, 0.1, time.Millisecond
		var ls []*ledger
		for range 3 {
			n.node(Config{PeerTimeout: time.Minute})
			ls = append(ls, &ledger{runs: map[uint64]int{}})
		}
		storm(n, ls, 4, 5, 0)
		run := fmt.Sprint(n.now, n.seq, n.sent)
		for _, x := range n.nodes {
			run += fmt.Sprintf(" %+v", x.port.Stats)
		}
		if first == "" {
			first = run
		}
		if run != first {
			t.Fatalf("two runs of a seed:\n%s\n%s", first, run)
		}
	}
}
