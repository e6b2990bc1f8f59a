package bench

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/cmd/drtmd/internal/exchange"
	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/shm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stations are two of a fabric of their own.
func stations(t *testing.T) (*Station, *Station) {
	t.Helper()
	p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "run")})
	var st [2]*Station
	for i := range st {
		s, err := Open(Device{Provider: p, GIDIndex: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		st[i] = s
	}
	return st[0], st[1]
}

func TestEveryCaseIsMeasuredAndVerified(t *testing.T) {
	a, b := stations(t)
	var begun []string
	rows, err := Self(t.Context(), a, b, Options{Iters: 300, Inline: -1, Sizes: []int{0, 7, 4096}},
		Progress{Begin: func(n, total int, c Case, p Phase) {
			begun = append(begun, p.String()+" of "+c.String())
		}})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 4*3+2 || len(begun) != 2*len(rows) || begun[0] != "latency of read 0 B" {
		t.Errorf("%d rows, begun %q", len(rows), begun)
	}
	for _, r := range rows {
		if r.Latency.Samples != 300 || r.Rate.Messages != 300 || r.Rate.Lost != 0 {
			t.Errorf("%s: %+v, %+v", r.Case, r.Latency, r.Rate)
		}
		if r.Latency.Median <= 0 || r.Latency.P99 < r.Latency.Median ||
			r.Latency.P999 < r.Latency.P99 || r.Latency.Max < r.Latency.P999 {
			t.Errorf("%s: latencies out of order: %+v", r.Case, r.Latency)
		}
		if want := r.Rate.PerSecond * float64(r.Case.Size); r.Rate.BytesPerSecond != want {
			t.Errorf("%s: %g bytes per second, not %g", r.Case, r.Rate.BytesPerSecond, want)
		}
		if inline := r.Case.Op != Read && !r.Case.Op.atomic() && r.Case.Size == 7; r.Inline != inline {
			t.Errorf("%s: inline %t", r.Case, r.Inline)
		}
	}
}

func TestDepthsAndBatches(t *testing.T) {
	deepest := 65536 // what shm takes
	if invariant.Enabled {
		deepest = 4096 // the race detector makes the rest too slow
	}
	for _, o := range []Options{
		{Depth: 1}, {Depth: 2, Batch: 1}, {Depth: 3, Batch: 2}, {Depth: 16, Batch: 16},
		{Depth: 100, Batch: 7}, {Depth: deepest, Batch: deepest},
	} {
		for _, iters := range []int{1, 2, 250} {
			a, b := stations(t)
			o.Iters, o.Phases, o.Sizes = iters, []Phase{Rate}, []int{8}
			rows, err := Self(t.Context(), a, b, o, Progress{})
			if err != nil {
				t.Fatalf("depth %d, batch %d, %d operations: %v", o.Depth, o.Batch, iters, err)
			}
			for _, r := range rows {
				if r.Rate.Messages != uint64(iters) {
					t.Errorf("%s, depth %d, batch %d: %d of %d", r.Case, o.Depth, o.Batch,
						r.Rate.Messages, iters)
				}
			}
		}
	}
}

func TestDurationBoundsAMeasurement(t *testing.T) {
	a, b := stations(t)
	start := time.Now()
	rows, err := Self(t.Context(), a, b, Options{Ops: []Op{FAA, Send}, Sizes: []int{8},
		Duration: 50 * time.Millisecond}, Progress{})
	if err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("4 measurements of 50 ms took %s", d)
	}
	for _, r := range rows {
		if d := time.Duration(r.Rate.ElapsedNs); d < 40*time.Millisecond {
			t.Errorf("%s: rate over %s only", r.Case, d)
		}
	}
}

func TestLimits(t *testing.T) {
	l := limits{device: "dev0", queue: 100, message: 1 << 20, datagram: 1024, inline: 64,
		atomics: true}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"depth", Options{Depth: 101}, "depth 101 is not in 1..100, what dev0 takes"},
		{"negative depth", Options{Depth: -1}, "depth -1"},
		{"batch", Options{Depth: 10, Batch: 11}, "batch 11 is not in 1..10"},
		{"inline", Options{Inline: 65}, "inline 65 is not in 0..64, what dev0 takes"},
		{"negative size", Options{Sizes: []int{-1}}, "size -1 is negative"},
		{"message", Options{Ops: []Op{Read}, Sizes: []int{1<<20 + 1}}, "at most 1048576 bytes"},
		{"message, all", Options{Sizes: []int{1<<20 + 1}}, "at most 1048576 bytes"},
		{"datagram", Options{Ops: []Op{Datagram}, Sizes: []int{1025}},
			"at most 1024 bytes, the path MTU"},
		{"atomic", Options{Ops: []Op{FAA}, Sizes: []int{0}}, "faa works on 8 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := newPlan(c.o, l)
			var limit *LimitError
			if !errors.As(err, &limit) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
	plain := l
	plain.atomics = false
	if _, err := newPlan(Options{Ops: []Op{CAS}}, plain); err == nil ||
		!strings.Contains(err.Error(), "has no remote atomics") {
		t.Errorf("%v", err)
	}
	if p, err := newPlan(Options{}, plain); err != nil || len(p.cases) != 3*5+2 {
		t.Errorf("%+v, %v", p, err)
	}
	p, err := newPlan(Options{Sizes: []int{2000}, Inline: -1}, l)
	if err != nil {
		t.Fatal(err)
	}
	if p.Depth != 100 || p.Batch != 16 || p.Inline != 64 || p.recvDepth != 100 {
		t.Errorf("defaults %+v", p)
	}
	for _, c := range p.cases { // all: what an operation cannot have is left out or its own
		if c.Op == Datagram || c.Op.atomic() != (c.Size == 8) {
			t.Errorf("case %s", c)
		}
	}
}

func TestOpenNamesWhatThereIs(t *testing.T) {
	p := shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "run")})
	var limit *LimitError
	if _, err := Open(Device{Provider: p, Port: 2, GIDIndex: -1}); !errors.As(err, &limit) ||
		!strings.Contains(err.Error(), "port 2 is not in 1..1") {
		t.Errorf("%v", err)
	}
	for _, index := range []int{5, -2} {
		if _, err := Open(Device{Provider: p, GIDIndex: index}); !errors.As(err, &limit) ||
			!strings.Contains(err.Error(), "\n*   0  memory") {
			t.Errorf("%v", err)
		}
	}
	if _, err := Open(Device{Provider: p, Name: "shm7"}); !errors.Is(err, verbs.ErrNoDevice) {
		t.Errorf("%v", err)
	}
}

// hostile is a responder's conversation with a test that plays the initiator.
func hostile(t *testing.T, silence time.Duration) (*exchange.Conn, *Station, <-chan error) {
	t.Helper()
	a, b := stations(t)
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() {
		conn, err := exchange.Accept(context.Background(), far, b.Hello())
		if err == nil {
			err = serve(context.Background(), b, conn, nil, silence)
			conn.Close()
		}
		served <- err
	}()
	conn, err := exchange.Dial(t.Context(), near, a.Hello())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn, a, served
}

func TestResponderRefusesBadSetups(t *testing.T) {
	good := exchange.Setup{Op: "send", Phase: "rate", Size: 8, SendDepth: 4, RecvDepth: 4,
		CreditEvery: 1}
	for _, c := range []struct {
		name   string
		change func(*exchange.Setup)
		want   string
	}{
		{"operation", func(s *exchange.Setup) { s.Op = "erase" }, `operation "erase"`},
		{"phase", func(s *exchange.Setup) { s.Phase = "" }, `phase ""`},
		{"size", func(s *exchange.Setup) { s.Size = 1 << 40 }, "at most"},
		{"negative size", func(s *exchange.Setup) { s.Size = -8 }, "negative"},
		{"send depth", func(s *exchange.Setup) { s.SendDepth = 1 << 30 }, "send depth"},
		{"receive depth", func(s *exchange.Setup) { s.RecvDepth = 0 }, "receive depth 0"},
		{"credit", func(s *exchange.Setup) { s.CreditEvery = 5 }, "credit every 5"},
		{"inline", func(s *exchange.Setup) { s.Inline = -1 }, "inline -1"},
		{"endpoint", func(s *exchange.Setup) {}, "bad endpoint description"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, _, served := hostile(t, exchange.AnswerTimeout)
			s := good
			c.change(&s)
			if err := conn.Send(exchange.KindSetup, s); err != nil {
				t.Fatal(err)
			}
			var ready exchange.Ready
			err := conn.Expect(t.Context(), exchange.KindReady, &ready, exchange.AnswerTimeout)
			if !errors.Is(err, exchange.ErrPeerFailed) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("told %v; want %q", err, c.want)
			}
			if err := <-served; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("served %v; want %q", err, c.want)
			}
		})
	}
}

func TestSilentInitiatorIsLeft(t *testing.T) {
	t.Parallel()
	_, _, served := hostile(t, exchange.AnswerTimeout)
	select {
	case err := <-served:
		if !errors.Is(err, exchange.ErrTimeout) {
			t.Errorf("served %v", err)
		}
	case <-time.After(2 * exchange.AnswerTimeout):
		t.Fatal("the responder waits for ever")
	}
}

// While a one-sided measurement runs, the responder knows by the heartbeats that the initiator
// does; one that stops, and keeps its connection, is left.
func TestStoppedInitiatorOfAOneSidedMeasurementIsLeft(t *testing.T) {
	const silence, alive = 400 * time.Millisecond, time.Second
	conn, a, served := hostile(t, silence)
	s, err := newSide(a, sideConfig{Case: Case{Read, 8}, sendDepth: 4, recvDepth: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	e, err := s.endpoint()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Send(exchange.KindSetup, exchange.Setup{Op: "read", Phase: "rate", Size: 8,
		SendDepth: 4, RecvDepth: 1, CreditEvery: 1, Endpoint: e, Memory: s.memory()}); err != nil {
		t.Fatal(err)
	}
	var ready exchange.Ready
	if err := conn.Expect(t.Context(), exchange.KindReady, &ready, exchange.AnswerTimeout); err != nil {
		t.Fatal(err)
	}
	stop := conn.Beat(silence / 8)
	select {
	case err := <-served:
		t.Fatalf("left in the middle of a measurement: %v", err)
	case <-time.After(alive):
	}
	stop()
	select {
	case err := <-served:
		if !errors.Is(err, exchange.ErrTimeout) || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("served %v", err)
		}
	case <-time.After(10 * silence):
		t.Fatal("the responder waits for an initiator that is stopped")
	}
}

func TestWrongDataIsNoticed(t *testing.T) {
	a, _ := stations(t)
	for _, c := range []struct {
		op   Op
		told exchange.Stopped
	}{
		{Read, exchange.Stopped{Checksum: 1}}, {Write, exchange.Stopped{Checksum: 1}},
		{CAS, exchange.Stopped{Word: 4}}, {FAA, exchange.Stopped{Word: 6}},
		{Send, exchange.Stopped{Received: 4}}, {Datagram, exchange.Stopped{Received: 5}},
	} {
		s, err := newSide(a, sideConfig{Case: Case{c.op, 8}, sendDepth: 1, recvDepth: 1})
		if err != nil {
			t.Fatal(err)
		}
		m := &measurement{s: s, issued: 5}
		if err := m.verify(&c.told); !errors.Is(err, ErrWrongResult) {
			t.Errorf("%s: %v", c.op, err)
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}
}

func TestInterruptKeepsTheRowsSoFar(t *testing.T) {
	a, b := stations(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rows, err := Self(ctx, a, b, Options{Ops: []Op{Read, Write}, Sizes: []int{8},
		Duration: 20 * time.Millisecond}, Progress{Begin: func(n, _ int, _ Case, _ Phase) {
		if n == 4 { // the rate of write
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if len(rows) != 2 || rows[0].Rate == nil || rows[1].Latency == nil || rows[1].Rate != nil {
		t.Errorf("rows %+v", rows)
	}
}

func TestStallEndsAWait(t *testing.T) {
	w := &waiter{clock: newClock(), limit: 30 * time.Millisecond, stop: func() bool { return false }}
	start := time.Now()
	for {
		if err := w.idle(); err != nil {
			if !errors.Is(err, errStalled) {
				t.Errorf("%v", err)
			}
			break
		}
	}
	if d := time.Since(start); d < 30*time.Millisecond || d > 5*time.Second {
		t.Errorf("stalled after %s", d)
	}
	w.stop = func() bool { return true }
	for {
		if err := w.idle(); err != nil {
			if !errors.Is(err, errStopped) {
				t.Errorf("%v", err)
			}
			return
		}
	}
}

// The measuring loops must not allocate: a collection in the middle of them would be measured.
func TestMeasuringDoesNotAllocate(t *testing.T) {
	for _, op := range []Op{Read, CAS} {
		a, b := stations(t)
		near, err := newSide(a, sideConfig{Case: Case{op, 8}, sendDepth: 4, recvDepth: 1})
		if err != nil {
			t.Fatal(err)
		}
		far, err := newSide(b, sideConfig{Case: Case{op, 8}, sendDepth: 4, recvDepth: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []struct{ s, peer *side }{{near, far}, {far, near}} {
			peer := e.peer.qp.Endpoint()
			if err := e.s.connect(&peer, e.peer.memory()); err != nil {
				t.Fatal(err)
			}
		}
		w := &waiter{clock: newClock(), limit: stallLimit, stop: func() bool { return false }}
		m := &measurement{s: near, w: w, send: newSender(near, w), clock: w.clock, stop: w.stop}
		r := newRecorder(m.clock, Completion)
		wr := []verbs.WR{near.request()}
		one := m.oneSided
		if n := testing.AllocsPerRun(100, func() {
			if err := m.repeat(r, budget{iters: 100}, wr, one); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %g allocations in 100 operations", op, n)
		}
		if err := errors.Join(near.close(), far.close()); err != nil {
			t.Error(err)
		}
	}
}
