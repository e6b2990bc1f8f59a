package verbstest

import (
	"bytes"
	"encoding/binary"
	"syscall"

	"drtmd/verbs"
)

// opcodeCases: each opcode's effect and the valid fields of its completions.
func opcodeCases() []Case {
	return []Case{
		{Name: "opcodes/SEND fills the receive buffer", Body: sendEffect},
		{Name: "opcodes/SEND with immediate gives it to the receiver", Body: sendImm},
		{Name: "opcodes/WRITE puts the bytes and no others", Body: writeEffect},
		{Name: "opcodes/WRITE with immediate takes a receive", Body: writeImm},
		{Name: "opcodes/READ brings the bytes and no others", Body: readEffect},
		{Name: "opcodes/CAS swaps on equality only and gives the old value", Body: casEffect},
		{Name: "opcodes/FAA adds, wraps, and gives the old value", Body: faaEffect},
		{Name: "opcodes/the other direction works as well", Body: bothDirections},
		{Name: "opcodes/a QP connected to one of its own process works", Alone: true,
			Body: loopback},
		{Name: "opcodes/what no QP can post is refused", Alone: true, Body: badOpcodes},
	}
}

// pattern fills b with bytes that differ by seed and place.
func pattern(b []byte, seed byte) []byte {
	for i := range b {
		b[i] = byte(i*7+i>>8) ^ seed
	}
	return b
}

func testData(n int, seed byte) []byte { return pattern(make([]byte, n), seed) }

func (p *Proc) equal(what string, got, want []byte) {
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		p.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			p.Fatalf("%s: byte %d is %#x, want %#x", what, i, got[i], want[i])
		}
	}
}

// word reads and setWord stores the native 64-bit words that atomics work on.
func word(b []byte) uint64       { return binary.NativeEndian.Uint64(b) }
func wordBytes(v uint64) []byte  { return binary.NativeEndian.AppendUint64(nil, v) }
func setWord(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, v) }

func sendEffect(p *Proc) {
	x := p.pair(spec{}, spec{})
	x.far.poke(0, testData(300, 9))
	x.far.recv(5, 1, 100, 120)
	msg := pattern(x.bytes(0, 77), 1)
	x.succeed(verbs.WR{ID: 3, Op: verbs.OpSend, NumSGE: 1, SGE: x.sge(0, 77)})
	want := verbs.WC{ID: 5, Op: verbs.WCOpcode(verbs.OpRecv), ByteLen: 77,
		QPN: x.far.endpoint.QPN}
	if wc := x.far.received(1)[0]; wc != want {
		p.Fatalf("receive completion %+v, want %+v", wc, want)
	}
	p.equal("received", x.far.peek(100, 77), msg)
	rest := testData(300, 9)
	p.equal("before the buffer", x.far.peek(0, 100), rest[:100])
	p.equal("after the message", x.far.peek(177, 123), rest[177:])
}

func sendImm(p *Proc) {
	x := p.pair(spec{}, spec{})
	for i, imm := range []uint32{0x01020304, 0, 0xffffffff} {
		x.far.recv(5, 1, 0, 64)
		msg := pattern(x.bytes(0, 64), byte(i))
		x.succeed(verbs.WR{ID: 3, Op: verbs.OpSendImm, Imm: imm, NumSGE: 1, SGE: x.sge(0, 64)})
		want := verbs.WC{ID: 5, Op: verbs.WCOpcode(verbs.OpRecv), ByteLen: 64, Imm: imm,
			QPN: x.far.endpoint.QPN, Flags: verbs.WCWithImm}
		if wc := x.far.received(1)[0]; wc != want {
			p.Fatalf("receive completion %+v, want %+v", wc, want)
		}
		p.equal("received", x.far.peek(0, 64), msg)
	}
}

func writeEffect(p *Proc) {
	x := p.pair(spec{}, spec{})
	rest := testData(400, 9)
	x.far.poke(0, rest)
	for _, at := range []struct{ offset, length int }{{0, 1}, {63, 2}, {100, 200}, {321, 64}} {
		msg := pattern(x.bytes(0, at.length), byte(at.offset))
		x.succeed(x.target(verbs.OpWrite, at.offset, at.length))
		copy(rest[at.offset:], msg)
		p.equal("memory after the WRITE", x.far.peek(0, 400), rest)
	}
}

func writeImm(p *Proc) {
	x := p.pair(spec{}, spec{})
	x.far.recv(8, 1, 1000, 16)
	rest := testData(16, 4)
	x.far.poke(1000, rest)
	msg := pattern(x.bytes(0, 90), 3)
	wr := x.target(verbs.OpWriteImm, 128, 90)
	wr.Imm = 0xfffefdfc
	x.succeed(wr)
	want := verbs.WC{ID: 8, Op: verbs.WCOpcode(verbs.OpRecvWriteImm), ByteLen: 90,
		Imm: 0xfffefdfc, QPN: x.far.endpoint.QPN, Flags: verbs.WCWithImm}
	if wc := x.far.received(1)[0]; wc != want {
		p.Fatalf("receive completion %+v, want %+v", wc, want)
	}
	p.equal("memory after the WRITE", x.far.peek(128, 90), msg)
	p.equal("the receive buffer that it took", x.far.peek(1000, 16), rest)
}

func readEffect(p *Proc) {
	x := p.pair(spec{}, spec{})
	all := testData(1000, 5)
	x.far.poke(0, all)
	for _, at := range []struct{ offset, length int }{{0, 1}, {63, 2}, {100, 200}, {321, 640}} {
		rest := pattern(x.bytes(0, 1000), 6)
		want := append([]byte(nil), rest...)
		copy(want, all[at.offset:at.offset+at.length])
		x.succeed(x.target(verbs.OpRead, at.offset, at.length))
		p.equal("local memory after the READ", x.bytes(0, 1000), want)
	}
	p.equal("remote memory", x.far.peek(0, 1000), all)
}

// atomic runs a CAS or FAA on the far word at offset and gives the old value.
func (x *pair) atomic(op verbs.Opcode, offset int, compareAdd, swap uint64) uint64 {
	wr := x.target(op, offset, 8)
	wr.CompareAdd, wr.Swap = compareAdd, swap
	setWord(x.bytes(0, 8), 0xbad)
	x.succeed(wr)
	return word(x.bytes(0, 8))
}

func casEffect(p *Proc) {
	x := p.pair(spec{}, spec{})
	around := testData(24, 7)
	x.far.poke(56, around)
	x.far.poke(64, wordBytes(10))
	for _, c := range []struct{ old, compare, swap, after uint64 }{
		{10, 10, 1 << 63, 1 << 63},
		{1 << 63, 10, 5, 1 << 63},
		{1 << 63, 1 << 63, 1 << 63, 1 << 63},
		{1 << 63, 1 << 63, 0x0102030405060708, 0x0102030405060708},
		{0x0102030405060708, 0x0102030405060709, 0, 0x0102030405060708},
	} {
		if old := x.atomic(verbs.OpCAS, 64, c.compare, c.swap); old != c.old {
			p.Fatalf("CAS(%#x -> %#x) gave %#x, want %#x", c.compare, c.swap, old, c.old)
		}
		if after := word(x.far.peek(64, 8)); after != c.after {
			p.Fatalf("CAS(%#x -> %#x) left %#x, want %#x", c.compare, c.swap, after, c.after)
		}
	}
	p.equal("the word before", x.far.peek(56, 8), around[:8])
	p.equal("the word after", x.far.peek(72, 8), around[16:])
}

func faaEffect(p *Proc) {
	x := p.pair(spec{}, spec{})
	sum := uint64(1<<64 - 5)
	x.far.poke(128, wordBytes(sum))
	for _, add := range []uint64{2, 0, 7, 1 << 40, 1<<64 - 1} {
		if old := x.atomic(verbs.OpFAA, 128, add, 0); old != sum {
			p.Fatalf("FAA of %#x gave %#x, want %#x", add, old, sum)
		}
		sum += add
		if after := word(x.far.peek(128, 8)); after != sum {
			p.Fatalf("FAA of %#x left %#x, want %#x", add, after, sum)
		}
	}
}

func bothDirections(p *Proc) {
	x := p.pair(spec{}, spec{})
	msg := testData(512, 8)
	x.far.poke(0, msg)
	x.far.post(verbs.WR{ID: 1, Op: verbs.OpWrite, Flags: verbs.FlagSignaled,
		RemoteAddr: x.mr.Addr() + 256, RKey: x.mr.RKey(), NumSGE: 1,
		SGE: x.far.sge(0, 512)})
	if wc := x.far.sent(1)[0]; wc.Status != verbs.WCSuccess {
		p.Fatalf("WRITE by the peer: %s", wc.Status)
	}
	p.equal("what the peer wrote", x.bytes(256, 512), msg)
	x.works()
}

func loopback(p *Proc) {
	a, b := p.newSide(spec{}), p.newSide(spec{})
	p.join(a, b)
	msg := pattern(a.bytes(0, 100), 1)
	a.succeed(verbs.WR{ID: 1, Op: verbs.OpWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
		NumSGE: 1, SGE: a.sge(0, 100)})
	p.equal("memory after the WRITE", b.bytes(0, 100), msg)
	b.postRecv(9, 200, 100)
	a.succeed(verbs.WR{ID: 2, Op: verbs.OpSend, NumSGE: 1, SGE: a.sge(0, 100)})
	if wc := p.wait(b.rcq, 1)[0]; wc.ID != 9 || wc.ByteLen != 100 {
		p.Fatalf("receive completion %+v", wc)
	}
	p.equal("received", b.bytes(200, 100), msg)
}

// join connects two sides of this node.
func (p *Proc) join(a, b *side) {
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	p.Must("connect", a.qp.Connect(&eb, a.spec.Connect))
	p.Must("connect", b.qp.Connect(&ea, b.spec.Connect))
}

func badOpcodes(p *Proc) {
	a, b := p.newSide(spec{}), p.newSide(spec{})
	p.join(a, b)
	for _, op := range []verbs.Opcode{0, verbs.OpRecv, verbs.OpRecvWriteImm, 99, 255} {
		n, err := a.qp.PostSend([]verbs.WR{{Op: op, Flags: verbs.FlagSignaled}})
		p.MustBe(op.String(), err, syscall.EINVAL)
		if n != 0 {
			p.Fatalf("%s: %d requests posted", op, n)
		}
	}
	a.succeed(verbs.WR{ID: 1, Op: verbs.OpWrite, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
}
