package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

const (
	typeEcho Type = iota + 1
	typeSlow      // a fiber that sleeps; the request says for how long
	typeError
	typePanic
	typeAbsent
)

// echo answers with the request, each byte plus one.
func echo(req, resp []byte) (int, error) {
	if len(resp) < len(req) {
		return 0, errors.New("no room")
	}
	for i, b := range req {
		resp[i] = b + 1
	}
	return len(req), nil
}

func pattern(n, salt int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + salt)
	}
	return b
}

func plusOne(b []byte) []byte {
	c := bytes.Clone(b)
	for i := range c {
		c[i]++
	}
	return c
}

// checkEcho calls echo and compares the answer.
func checkEcho(f *fiber.Fiber, s *Session, n, salt int) error {
	req, resp := pattern(n, salt), make([]byte, n+1)
	got, err := s.Call(f, typeEcho, req, resp, 0)
	if err != nil {
		return fmt.Errorf("%d bytes: %w", n, err)
	}
	if !bytes.Equal(resp[:got], plusOne(req)) {
		return fmt.Errorf("%d bytes came back as %d others", n, got)
	}
	return nil
}

// awaitAll awaits every call and returns the first error in their order.
func awaitAll(f *fiber.Fiber, deadline time.Duration, calls ...*Call) error {
	var first error
	for _, c := range calls {
		if _, err := c.Await(f, deadline); first == nil {
			first = err
		}
	}
	return first
}

func TestCallAtSegmentBordersBothWaysAndToSelf(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	a.port.Handle(typeEcho, echo)
	b.port.Handle(typeEcho, echo)
	ab := a.session(b)
	seg := ab.segment
	if seg != 968 {
		t.Fatalf("a segment is %d bytes at MTU 1024", seg)
	}
	sizes := []int{0, 1, 7, 8, 9, seg - 1, seg, seg + 1, 2*seg - 1, 2 * seg, 2*seg + 1,
		8 * seg, 8*seg + 1, 9 * seg, defaultMaxMessage - 1, defaultMaxMessage}
	for _, c := range []struct {
		name string
		from *fakeNode
		s    *Session
	}{{"a to b", a, ab}, {"b to a", b, b.session(a)}, {"a to itself", a, a.session(a)}} {
		t.Run(c.name, func(t *testing.T) {
			c.from.run(func(f *fiber.Fiber) error {
				for i, size := range sizes {
					if err := checkEcho(f, c.s, size, i); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	for _, x := range n.nodes {
		if x.port.Stats.Retransmissions > 0 || x.port.Stats.Garbage != [ReasonCount]uint64{} {
			t.Errorf("on a fabric without faults: %+v", x.port.Stats)
		}
	}
	if again := a.session(b); again != ab || len(b.port.live()) != 1 {
		t.Error("a second connect made a second session")
	}
	if n.starved > 0 {
		t.Errorf("%d datagrams found no receive buffer", n.starved)
	}
}

func TestErrorsOfHandlersReachTheCaller(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{}), n.node(Config{})
	long := strings.Repeat("x", 500)
	b.port.Handle(typeEcho, echo)
	b.port.Handle(typeError, func(req, _ []byte) (int, error) { return 0, errors.New(long) })
	b.port.Handle(typePanic, func(_, resp []byte) (int, error) { panic("boom") })
	b.port.HandleFiber(typeSlow, func(*fiber.Fiber, []byte, []byte) (int, error) { panic("bang") })
	b.port.Handle(100, func(_, resp []byte) (int, error) { return len(resp) + 1, nil })
	b.port.Handle(101, func(_, resp []byte) (int, error) { return 300, nil })
	s := a.session(b)
	buf := make([]byte, 200)
	for _, c := range []struct {
		typ  Type
		req  int
		want error // nil: a RemoteError
		text string
	}{
		{typeError, 1, nil, long[:maxErrorBytes]},
		{typePanic, 1, nil, "handler panicked: boom"},
		{typeSlow, 1, nil, "handler panicked"},
		{typeAbsent, 1, ErrNoHandler, "no handler for this type"},
		{100, 1, nil, "handler returned a length of 16385 for a buffer of 16384 bytes"},
		{101, 1, ErrTooLong, "the response has 300 bytes, the buffer 200"},
		{typeEcho, defaultMaxMessage + 1, ErrTooLong, "raise Config.MaxMessage"},
	} {
		err := a.do(func(f *fiber.Fiber) error {
			_, err := s.Call(f, c.typ, make([]byte, c.req), buf, 0)
			return err
		})
		var remote *RemoteError
		if err == nil || c.want == nil && !errors.As(err, &remote) ||
			c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("type %d: %v, want %v with %q", c.typ, err, c.want, c.text)
		}
		a.run(func(f *fiber.Fiber) error { return checkEcho(f, s, 100, 0) })
	}
}

func TestBatchLeavesInOneDatagramEachWay(t *testing.T) {
	for _, c := range []struct {
		name    string
		noBatch bool
		want    int // datagrams each way for 20 calls
	}{{"on", false, 1}, {"off", true, 20}} {
		t.Run(c.name, func(t *testing.T) {
			n := newFakeNet(t, 1)
			cfg := Config{NoBatch: c.noBatch, Window: 32}
			a, b := n.node(cfg), n.node(cfg)
			b.port.Handle(typeEcho, echo)
			s := a.session(b)
			sent, returned := a.port.Stats, b.port.Stats
			a.run(func(f *fiber.Fiber) error {
				calls := make([]Call, 20)
				resp := make([][8]byte, len(calls))
				all := make([]*Call, len(calls))
				for i := range calls {
					req := []byte{byte(i), 0, 0, 0, 0, 0, 0, 0}
					if err := s.Start(f, &calls[i], typeEcho, req, resp[i][:]); err != nil {
						return err
					}
					all[i] = &calls[i]
				}
				if err := awaitAll(f, 0, all...); err != nil {
					return err
				}
				for i := range resp {
					if n, err := calls[i].Result(); n != 8 || err != nil ||
						resp[i][0] != byte(i+1) {
						return fmt.Errorf("call %d: %d bytes, %v, %v", i, n, err, resp[i])
					}
				}
				return nil
			})
			there := int(a.port.Stats.DatagramsSent - sent.DatagramsSent - a.port.Stats.AcksSent)
			back := int(b.port.Stats.DatagramsSent - returned.DatagramsSent)
			bells := int(a.port.Stats.Doorbells - sent.Doorbells - a.port.Stats.AcksSent)
			if there != c.want || back != c.want || bells != 1 {
				t.Errorf("%d datagrams there, %d back, %d doorbells", there, back, bells)
			}
		})
	}
}

// One call at a time pays neither for posting its receive nor for the completion of its send:
// these are shared by many.
func TestCallsShareReceivePostsAndSendCompletions(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{SendDepth: 40}), n.node(Config{SendDepth: 40})
	b.port.Handle(typeEcho, echo)
	s := a.session(b)
	const calls = 320
	completed, posts := a.w.Stats.Completed, n.qps[b.port.qp.QPN()].recvPosts
	a.run(func(f *fiber.Fiber) error {
		for i := range calls {
			if err := checkEcho(f, s, 8, i); err != nil {
				return err
			}
		}
		return nil
	})
	completed = a.w.Stats.Completed - completed - calls // answers
	posts = n.qps[b.port.qp.QPN()].recvPosts - posts
	if completed < calls/10-1 || completed > calls/10+1 {
		t.Errorf("%d sends completed, not every tenth of %d", completed, calls)
	}
	if posts < calls/repostBatch-1 || posts > calls/repostBatch+1 {
		t.Errorf("%d posts of receives, not one for %d of %d", posts, repostBatch, calls)
	}
	if n.starved > 0 {
		t.Errorf("%d datagrams found no buffer", n.starved)
	}
}

func TestMoreCallsThanSlotsWaitTheirTurn(t *testing.T) {
	n := newFakeNet(t, 1)
	a, b := n.node(Config{Slots: 3}), n.node(Config{Slots: 200})
	running, most := 0, 0
	b.port.HandleFiber(typeSlow, func(f *fiber.Fiber, _, _ []byte) (int, error) {
		running++
		most = max(most, running)
		err := f.Sleep(100 * time.Microsecond)
		running--
		return 0, err
	})
	s := a.session(b)
	a.run(func(f *fiber.Fiber) error {
		var tasks []*fiber.Task
		for range 20 {
			tasks = append(tasks, a.w.Go("caller", nil, func(f *fiber.Fiber) error {
				_, err := s.Call(f, typeSlow, nil, nil, 0)
				return err
			}))
		}
		for _, x := range tasks {
			if err := f.Join(x, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if most != 3 || b.port.Stats.Requests != 20 {
		t.Errorf("%d handlers ran at a time, %d in all", most, b.port.Stats.Requests)
	}
}

func TestConfigIsChecked(t *testing.T) {
	n := newFakeNet(t, 1)
	x := n.node(Config{})
	for _, c := range []struct {
		cfg  Config
		text string
	}{
		{Config{}, "incarnation is zero"},
		{Config{Incarnation: 1, QKey: 1 << 31}, "privileged"},
		{Config{Incarnation: 1, Peers: 5000}, "peers 5000 is not in 1..4096"},
		{Config{Incarnation: 1, Slots: 257}, "slots 257"},
		{Config{Incarnation: 1, Window: -1}, "window -1"},
		{Config{Incarnation: 1, MaxMessage: 10}, "longest message 10"},
		{Config{Incarnation: 1, MaxMessage: 2 << 20}, "longest message"},
		{Config{Incarnation: 1, RTOMin: -1}, "must ascend"},
		{Config{Incarnation: 1, RTOMax: time.Second}, "at least four times"},
		{Config{Incarnation: 1, Window: 1000, Peers: 4000}, "lower Peers or Window"},
		{Config{Incarnation: 1}, "raise WorkerConfig.Extra"},
	} {
		if _, err := NewPort(x.w, c.cfg); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.text)
		}
	}
	bad := x.port.Address()
	bad.Provider = "other"
	for _, a := range []Address{{}, bad} {
		err := x.do(func(f *fiber.Fiber) error {
			_, err := x.port.Connect(f, a, 0)
			return err
		})
		if !errors.Is(err, verbs.ErrBadEndpoint) {
			t.Errorf("connect to %+v: %v", a, err)
		}
	}
}

func TestAddressSurvivesTheWayAndNothingElseDoes(t *testing.T) {
	n := newFakeNet(t, 1)
	a := n.node(Config{}).port.Address()
	b, err := a.MarshalBinary()
	n.must(err)
	var back Address
	n.must(back.UnmarshalBinary(b))
	if len(b) != AddressBytes || back != a {
		t.Errorf("%+v came back as %+v", a, back)
	}
	rc := a
	rc.Type = verbs.RC
	rcBytes, err := rc.Endpoint.MarshalBinary()
	n.must(err)
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"empty", nil},
		{"an endpoint alone", b[:verbs.EndpointBytes]},
		{"no incarnation", append(bytes.Clone(b[:verbs.EndpointBytes]), make([]byte, 8)...)},
		{"damaged", append([]byte{'X'}, b[1:]...)},
		{"of an RC queue pair", append(rcBytes, b[verbs.EndpointBytes:]...)},
	} {
		before := back
		if err := back.UnmarshalBinary(c.b); !errors.Is(err, verbs.ErrBadEndpoint) ||
			back != before {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := rc.MarshalBinary(); err == nil {
		t.Error("the address of an RC queue pair was encoded")
	}
}
