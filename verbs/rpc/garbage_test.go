package rpc

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"drtmd/verbs/fiber"
)

// datagramOf makes a datagram of messages.
func datagramOf(h header, ms ...message) []byte {
	b := make([]byte, headerBytes, 4096)
	for i := range ms {
		at := len(b)
		b = b[:at+sizeOf(len(ms[i].body))]
		putMessage(b[at:], &ms[i])
	}
	putHeader(b, &h, len(ms))
	return b
}

// intruder is a fabric with two ports that know each other, and a third party that knows all.
type intruder struct {
	n    *fakeNet
	a, b *fakeNode
	s    *Session // a's session with b
	back *Session // the same at b
	ran  int
}

func newIntruder(t *testing.T) *intruder {
	n := newFakeNet(t, 1)
	x := &intruder{n: n, a: n.node(Config{}), b: n.node(Config{})}
	x.b.port.Handle(typeEcho, func(req, resp []byte) (int, error) {
		x.ran++
		return echo(req, resp)
	})
	x.s = x.a.session(x.b)
	x.back = x.b.port.live()[0]
	return x
}

// good is the header of a datagram from a to b that b takes.
func (x *intruder) good() header {
	return header{srcIncarnation: x.a.port.cfg.Incarnation,
		dstIncarnation: x.b.port.cfg.Incarnation, src: x.s.id, dst: x.back.id,
		number: x.back.got + 1, ack: uint16(x.s.got)}
}

// inject has a datagram arrive at b from a queue pair.
func (x *intruder) inject(from uint32, d []byte) {
	key := [2]uint32{from, x.b.port.qp.QPN()}
	x.n.waiting[key]++
	x.n.deliver(key, defaultQKey, d)
	x.n.run(time.Millisecond, func() bool { return false })
}

func TestGarbageIsCountedByReasonAndDropped(t *testing.T) {
	seq := uint32(1)
	request := func() message {
		return message{kind: kindRequest, typ: uint8(typeEcho), seq: seq, length: 4,
			body: []byte("good")}
	}
	patch := func(at int, v ...byte) func(*intruder) []byte {
		return func(x *intruder) []byte {
			d := datagramOf(x.good(), request())
			copy(d[at:], v)
			return d
		}
	}
	with := func(change func(*header, *message)) func(*intruder) []byte {
		return func(x *intruder) []byte {
			h, m := x.good(), request()
			change(&h, &m)
			return datagramOf(h, m)
		}
	}
	const message0 = headerBytes
	for _, c := range []struct {
		name string
		make func(*intruder) []byte
		want Reason
	}{
		{"empty", func(*intruder) []byte { return nil }, ReasonShort},
		{"half a header", func(x *intruder) []byte { return datagramOf(x.good())[:20] }, ReasonShort},
		{"magic", patch(0, 'x'), ReasonMagic},
		{"version", patch(2, 9), ReasonVersion},
		{"length", patch(4, 1), ReasonLength},
		{"more messages than there are", patch(3, 2), ReasonLength},
		{"fewer messages than there are", patch(3, 0), ReasonLength},
		{"no kind", patch(message0, 0), ReasonKind},
		{"unknown kind", patch(message0, byte(kindEnd)), ReasonKind},
		{"unknown flag", patch(message0+1, 0x80), ReasonKind},
		{"body beyond the end", patch(message0+14, 200), ReasonLength},
		{"body over the length", patch(message0+8, 1), ReasonLength},
		{"absurd length", patch(message0+8, 0xff, 0xff, 0xff, 0xff), ReasonSize},
		{"length over the limit", with(func(_ *header, m *message) {
			m.length, m.body = defaultMaxMessage+1, make([]byte, 968)
		}), ReasonSize},
		{"segment beyond the message", patch(message0+12, 1), ReasonSegment},
		{"segment too short", with(func(_ *header, m *message) {
			m.length = 2000
		}), ReasonSegment},
		{"slot", with(func(_ *header, m *message) { m.slot = 200 }), ReasonSlot},
		{"slot of a response", with(func(_ *header, m *message) {
			m.kind, m.slot = kindResponse, 200
		}), ReasonSlot},
		{"slot of a want", with(func(_ *header, m *message) {
			m.kind, m.slot, m.length, m.body = kindWant, 200, 0, nil
		}), ReasonSlot},
		{"want with a body", with(func(_ *header, m *message) { m.kind = kindWant }),
			ReasonLength},
		{"older epoch", func(x *intruder) []byte {
			x.n.must(x.a.port.SetEpoch(5))
			x.n.must(x.b.port.SetEpoch(5))
			h := x.good()
			h.epoch = 4
			return datagramOf(h, request())
		}, ReasonEpoch},
		{"other incarnation", with(func(h *header, _ *message) { h.dstIncarnation++ }),
			ReasonIncarnation},
		{"other source incarnation", with(func(h *header, _ *message) { h.srcIncarnation++ }),
			ReasonSession},
		{"other session", with(func(h *header, _ *message) { h.dst += 16 }), ReasonSession},
		{"other source session", with(func(h *header, _ *message) { h.src += 16 }),
			ReasonSession},
		{"no session", with(func(h *header, _ *message) { h.dst = 0 }), ReasonSession},
		{"acknowledges what was never sent", with(func(h *header, _ *message) { h.ack += 9 }),
			ReasonNumber},
		{"hello without an endpoint", func(x *intruder) []byte {
			h := x.good()
			h.dst = 0
			return datagramOf(h, message{kind: kindHello, body: make([]byte, helloBytes)})
		}, ReasonOpening},
		{"hello of another queue pair", func(x *intruder) []byte {
			h := x.good()
			h.dst, h.src = 0, 1<<20
			return datagramOf(h, message{kind: kindHello, body: x.b.port.opening[:]})
		}, ReasonOpening},
		{"hello from elsewhere than it says", func(x *intruder) []byte {
			h := x.good()
			h.dst, h.src = 0, 1<<20
			o := opening{endpoint: x.a.port.qp.Endpoint(), window: 1, slots: 1, maxMessage: 1000}
			o.endpoint.GID[15]++
			b := make([]byte, helloBytes)
			x.n.must(o.put(b))
			return datagramOf(h, message{kind: kindHello, body: b})
		}, ReasonOpening},
		{"reset of another session", func(x *intruder) []byte {
			return datagramOf(x.good(), message{kind: kindReset, typ: uint8(resetClosed),
				body: make([]byte, resetBytes)})
		}, ReasonSession},
		{"reset without a code", func(x *intruder) []byte {
			return datagramOf(x.good(), message{kind: kindReset, body: make([]byte, resetBytes)})
		}, ReasonKind},
		{"reset among others", func(x *intruder) []byte {
			return datagramOf(x.good(), message{kind: kindReset, typ: uint8(resetClosed),
				body: make([]byte, resetBytes)}, message{kind: kindWant, seq: 77})
		}, ReasonKind},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newIntruder(t)
			x.inject(x.a.port.qp.QPN(), c.make(x))
			want := [ReasonCount]uint64{}
			want[c.want] = 1
			if got := x.b.port.Stats.Garbage; got != want || x.ran > 0 {
				t.Errorf("counted %v, want one of %s; the handler ran %d times", got, c.want, x.ran)
			}
			x.a.run(func(f *fiber.Fiber) error { return checkEcho(f, x.s, 2000, 0) })
		})
	}
	t.Run("not from the peer", func(t *testing.T) {
		x := newIntruder(t)
		x.inject(x.a.port.qp.QPN()+100, datagramOf(x.good(), request()))
		if x.ran > 0 || x.b.port.Stats.Garbage[ReasonSession] != 1 {
			t.Errorf("the handler ran %d times; %v", x.ran, x.b.port.Stats.Garbage)
		}
	})
	t.Run("none", func(t *testing.T) { // that the others fail for their reason alone
		x := newIntruder(t)
		x.inject(x.a.port.qp.QPN(), datagramOf(x.good(), request()))
		if x.ran != 1 || x.b.port.Stats.Garbage != [ReasonCount]uint64{} {
			t.Errorf("the handler ran %d times; %v", x.ran, x.b.port.Stats.Garbage)
		}
	})
}

// FuzzDatagram has a port receive anything, from the queue pair of its peer.
func FuzzDatagram(f *testing.F) {
	const session, incarnation, peer = 16, 1, 2
	h := header{srcIncarnation: peer, dstIncarnation: incarnation, src: session, dst: session}
	ends := make([]byte, resetBytes)
	binary.LittleEndian.PutUint64(ends, peer)
	binary.LittleEndian.PutUint32(ends[8:], session)
	for k := kindRequest; k < kindEnd; k++ {
		m := message{kind: k, typ: uint8(typeEcho), seq: 1}
		switch k {
		case kindRequest, kindResponse:
			m.length, m.body = 4, []byte("body")
		case kindHello, kindWelcome:
			m.body = make([]byte, helloBytes)
		case kindReset:
			m.typ, m.body = 1, ends
		}
		f.Add(datagramOf(h, m))
		f.Add(datagramOf(h, m, m))
	}
	f.Add([]byte("dR"))
	f.Fuzz(func(t *testing.T, d []byte) {
		var parsed header
		var msgs [maxMessages]message
		if len(d) > 1024 {
			return // the device takes no such datagram
		}
		if n, r := parse(d, &parsed, &msgs); r == 0 {
			if again := datagramOf(parsed, msgs[:n]...); !samePadded(again, d, msgs[:n]) {
				t.Fatalf("%x\ncomes out as\n%x", d, again)
			}
		} else if r >= ReasonCount {
			t.Fatalf("reason %d", r)
		}
		n := newFakeNet(t, 1)
		x := n.node(Config{Incarnation: incarnation, Slots: 2})
		x.port.Handle(typeEcho, echo)
		// A peer whose session numbers the fuzzer knows, with a call to it in flight.
		a := x.port.Address()
		a.QPN, a.Incarnation = 4000, peer
		s, err := x.port.newSession(a)
		n.must(err)
		s.adopt(&opening{window: 8, slots: 2, maxMessage: 4096}, session)
		x.w.Submit("caller", func(f *fiber.Fiber) error {
			_, _ = s.Call(f, typeEcho, []byte("request"), make([]byte, 3000), 0) // any end will do
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

// samePadded compares datagrams without what stands in their padding.
func samePadded(a, b []byte, ms []message) bool {
	if len(a) != len(b) {
		return false
	}
	b = bytes.Clone(b)
	at := headerBytes
	for _, m := range ms {
		clear(b[at+messageBytes+len(m.body) : at+sizeOf(len(m.body))])
		at += sizeOf(len(m.body))
	}
	return bytes.Equal(a, b)
}
