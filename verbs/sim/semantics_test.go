package sim

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"drtmd/verbs"
	"drtmd/verbs/lineword"
)

func TestWriteAndReadMoveBytes(t *testing.T) {
	for _, n := range []int{0, 1, 8, 63, 64, 65, 1000, 4096, 5000, 20000} {
		a, b := newPair(t, 1)
		for i := range n {
			a.mr.Bytes()[100+i] = byte(i*7 + 1)
		}
		a.want(oneSided(verbs.OpWrite, a, 100, b, 333, n), verbs.WCSuccess)
		if !bytes.Equal(b.mr.Bytes()[333:333+n], a.mr.Bytes()[100:100+n]) {
			t.Fatalf("WRITE of %d bytes: the target differs", n)
		}
		if b.mr.Bytes()[332] != 0 || b.mr.Bytes()[333+n] != 0 {
			t.Fatalf("WRITE of %d bytes went over its bounds", n)
		}
		a.want(oneSided(verbs.OpRead, a, 30000, b, 333, n), verbs.WCSuccess)
		if !bytes.Equal(a.mr.Bytes()[30000:30000+n], a.mr.Bytes()[100:100+n]) {
			t.Fatalf("READ of %d bytes: the answer differs", n)
		}
	}
}

func TestAtomicsGiveTheOldValue(t *testing.T) {
	a, b := newPair(t, 1)
	word := func(s *side, off int) uint64 {
		return binary.NativeEndian.Uint64(s.mr.Bytes()[off:])
	}
	wr := oneSided(verbs.OpFAA, a, 0, b, 64, 8)
	wr.CompareAdd = 5
	for i := range 3 {
		a.want(wr, verbs.WCSuccess)
		if old := word(a, 0); old != uint64(5*i) {
			t.Fatalf("FAA %d: old value %d", i, old)
		}
	}
	cas := oneSided(verbs.OpCAS, a, 8, b, 64, 8)
	cas.CompareAdd, cas.Swap = 15, 99
	line := b.mr.Lines()[1]
	a.want(cas, verbs.WCSuccess)
	if word(a, 8) != 15 || word(b, 64) != 99 {
		t.Fatalf("CAS: old %d, word %d", word(a, 8), word(b, 64))
	}
	if b.mr.Lines()[1] == line {
		t.Fatal("CAS did not change the line word")
	}
	line = b.mr.Lines()[1]
	a.want(cas, verbs.WCSuccess) // fails to compare
	if word(a, 8) != 99 || word(b, 64) != 99 || b.mr.Lines()[1] != line {
		t.Fatalf("failed CAS: old %d, word %d", word(a, 8), word(b, 64))
	}
}

func TestSendLandsInReceivesInOrder(t *testing.T) {
	a, b := newPair(t, 1)
	for i := range 3 {
		b.recv(uint64(i), i*100, 100)
		a.mr.Bytes()[i] = byte(i + 1)
	}
	for i := range 3 {
		wr := send(a, i, 1)
		if i == 1 {
			wr.Op, wr.Imm = verbs.OpSendImm, 77
		}
		a.post(wr)
	}
	for i := range 3 {
		wc := next(t, a.w, b.rcq)
		if wc.ID != uint64(i) || wc.ByteLen != 1 || wc.Op != verbs.WCOpcode(verbs.OpRecv) ||
			wc.QPN != b.qp.QPN() {
			t.Fatalf("receive %d: %+v", i, wc)
		}
		if (wc.Flags == verbs.WCWithImm && wc.Imm == 77) != (i == 1) {
			t.Fatalf("receive %d: immediate %+v", i, wc)
		}
		if b.mr.Bytes()[i*100] != byte(i+1) {
			t.Fatalf("receive %d has the wrong byte", i)
		}
	}
}

func TestWriteWithImmediateConsumesAReceive(t *testing.T) {
	a, b := newPair(t, 1)
	b.recv(9, 0, 0)
	a.mr.Bytes()[0] = 5
	wr := oneSided(verbs.OpWriteImm, a, 0, b, 500, 3)
	wr.Imm = 4711
	a.want(wr, verbs.WCSuccess)
	wc := next(t, a.w, b.rcq)
	if wc.Op != verbs.WCOpcode(verbs.OpRecvWriteImm) || wc.Imm != 4711 || wc.ID != 9 ||
		wc.ByteLen != 3 || b.mr.Bytes()[500] != 5 {
		t.Fatalf("%+v", wc)
	}
}

// Each wrong request has the specification's status, and breaks the QP.
func TestWrongRequestsHaveTheSpecifiedStatus(t *testing.T) {
	cases := []struct {
		name   string
		make   func(a, b *side) verbs.WR
		status verbs.WCStatus
		peer   verbs.WCStatus // of a receive at the peer
	}{
		{"bad lkey", func(a, b *side) verbs.WR {
			wr := oneSided(verbs.OpWrite, a, 0, b, 0, 8)
			wr.SGE[0].LKey ^= 1 << 20
			return wr
		}, verbs.WCLocProtErr, 0},
		{"local bounds", func(a, b *side) verbs.WR {
			return oneSided(verbs.OpWrite, a, testBytes-7, b, 0, 8)
		}, verbs.WCLocProtErr, 0},
		{"bad rkey", func(a, b *side) verbs.WR {
			wr := oneSided(verbs.OpWrite, a, 0, b, 0, 8)
			wr.RKey ^= 1 << 20
			return wr
		}, verbs.WCRemAccessErr, 0},
		{"remote bounds", func(a, b *side) verbs.WR {
			return oneSided(verbs.OpRead, a, 0, b, testBytes-7, 8)
		}, verbs.WCRemAccessErr, 0},
		{"before the region", func(a, b *side) verbs.WR {
			return oneSided(verbs.OpRead, a, 0, b, -1, 8)
		}, verbs.WCRemAccessErr, 0},
		{"right missing", func(a, b *side) verbs.WR {
			mr, err := b.pd.AllocMR(64, verbs.AccessRemoteRead, verbs.MROptions{})
			must(a.t, err)
			wr := oneSided(verbs.OpWrite, a, 0, b, 0, 8)
			wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
			return wr
		}, verbs.WCRemAccessErr, 0},
		{"deregistered", func(a, b *side) verbs.WR {
			mr, err := b.pd.AllocMR(64, verbs.AccessAll, verbs.MROptions{})
			must(a.t, err)
			wr := oneSided(verbs.OpWrite, a, 0, b, 0, 8)
			wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
			must(a.t, mr.Close())
			return wr
		}, verbs.WCRemAccessErr, 0},
		{"other domain", func(a, b *side) verbs.WR {
			pd, err := b.ctx.AllocPD()
			must(a.t, err)
			mr, err := pd.AllocMR(64, verbs.AccessAll, verbs.MROptions{})
			must(a.t, err)
			wr := oneSided(verbs.OpFAA, a, 0, b, 0, 8)
			wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey()
			return wr
		}, verbs.WCRemAccessErr, 0},
		{"receive too small", func(a, b *side) verbs.WR {
			b.recv(1, 0, 7)
			return send(a, 0, 8)
		}, verbs.WCRemInvReqErr, verbs.WCLocLenErr},
		{"receive with a bad lkey", func(a, b *side) verbs.WR {
			sge := b.mr.SGE(0, 8)
			sge.LKey ^= 1 << 20
			_, err := b.qp.PostRecv([]verbs.RecvWR{{NumSGE: 1, SGE: [4]verbs.SGE{sge}}})
			must(a.t, err)
			return send(a, 0, 8)
		}, verbs.WCRemOpErr, verbs.WCLocProtErr},
		{"no receive", func(a, b *side) verbs.WR { return send(a, 0, 8) },
			verbs.WCRNRRetryExcErr, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, b := newPair(t, 1)
			a.t, b.t = t, t
			wr := c.make(a, b)
			before := append([]byte(nil), b.mr.Bytes()...)
			wr.Flags |= verbs.FlagSignaled
			a.post(wr)
			a.post(oneSided(verbs.OpWrite, a, 0, b, 4096, 8)) // unsignaled: is flushed
			if wc := next(t, a.w, a.cq); wc.Status != c.status {
				t.Fatalf("%s, want %s", wc.Status, c.status)
			}
			if wc := next(t, a.w, a.cq); wc.Status != verbs.WCWRFlushErr {
				t.Fatalf("the request behind it: %s, want a flush", wc.Status)
			}
			if a.qp.State() != verbs.StateErr {
				t.Fatalf("QP is in %s", a.qp.State())
			}
			if c.peer != 0 {
				if wc := next(t, a.w, b.rcq); wc.Status != c.peer {
					t.Fatalf("the peer's receive: %s, want %s", wc.Status, c.peer)
				}
			}
			must(t, a.w.Run())
			if !bytes.Equal(before, b.mr.Bytes()) {
				t.Fatal("a refused request changed memory")
			}
			connect(a, b, fast)
			a.want(oneSided(verbs.OpWrite, a, 0, b, 0, 8), verbs.WCSuccess)
		})
	}
}

func TestReceiverNotReadyIsRetried(t *testing.T) {
	a, b := newPair(t, 1)
	a.mr.Bytes()[0] = 42
	wr := send(a, 0, 8)
	wr.Flags = verbs.FlagSignaled
	a.post(wr)
	a.post(send(a, 8, 8)) // waits behind it
	a.w.After(15*Microsecond, func() {
		b.recv(1, 0, 8)
		b.recv(2, 8, 8)
	})
	if wc := next(t, a.w, a.cq); wc.Status != verbs.WCSuccess {
		t.Fatal(wc.Status)
	}
	if wc := next(t, a.w, b.rcq); wc.ID != 1 || b.mr.Bytes()[0] != 42 {
		t.Fatalf("%+v", wc)
	}
	if wc := next(t, a.w, b.rcq); wc.ID != 2 {
		t.Fatalf("%+v", wc)
	}
	if a.w.Stats().Retransmits == 0 {
		t.Fatal("nothing was sent again")
	}
}

func TestDatagramRules(t *testing.T) {
	w := newWorld(t, 1)
	a, b := addSide(t, w, "a"), addSide(t, w, "b")
	a.qp, b.qp = a.newQP(verbs.UD), b.newQP(verbs.UD)
	must(t, a.qp.Connect(nil, fast))
	must(t, b.qp.Connect(nil, fast))
	ah, err := a.pd.CreateAHTo(b.qp.Endpoint())
	must(t, err)
	datagram := func(n int, qkey uint32) verbs.WR {
		wr := send(a, 0, n)
		wr.AH, wr.RemoteQPN, wr.RemoteQKey, wr.Flags = ah.Handle(), b.qp.QPN(), qkey,
			verbs.FlagSignaled
		return wr
	}
	copy(a.mr.Bytes(), "payload!")
	b.recv(1, 0, verbs.GRHBytes+8)
	a.want(datagram(8, 6), verbs.WCSuccess) // wrong key
	a.want(datagram(9, 7), verbs.WCSuccess) // too long
	a.want(datagram(8, 7), verbs.WCSuccess) // right
	a.want(datagram(8, 7), verbs.WCSuccess) // no receive left
	bad := datagram(8, 7)                   // no such QP
	bad.RemoteQPN += 1000                   //
	a.want(bad, verbs.WCSuccess)            //
	must(t, w.Run())
	wc := next(t, w, b.rcq)
	if wc.ID != 1 || wc.ByteLen != verbs.GRHBytes+8 || wc.SrcQPN != a.qp.QPN() ||
		string(b.mr.Bytes()[verbs.GRHBytes:][:8]) != "payload!" {
		t.Fatalf("%+v %q", wc, b.mr.Bytes()[:48])
	}
	// A handle that is closed after the post has served its purpose.
	b.recv(2, 0, verbs.GRHBytes+8)
	a.post(datagram(8, 7))
	must(t, ah.Close())
	if wc := next(t, w, b.rcq); wc.ID != 2 {
		t.Fatalf("%+v", wc)
	}
	if got := w.Stats().Dropped; got != 4 {
		t.Fatalf("%d datagrams dropped, want 4", got)
	}
	if a.qp.State() != verbs.StateRTS || b.qp.State() != verbs.StateRTS {
		t.Fatal("a lost datagram broke a QP")
	}
}

func TestInlinePayloadIsFreeAtOnce(t *testing.T) {
	a, b := newPair(t, 1)
	a.mr.Bytes()[0] = 1
	wr := oneSided(verbs.OpWrite, a, 0, b, 0, 1)
	wr.Flags = verbs.FlagInline | verbs.FlagSignaled
	a.post(wr)
	a.mr.Bytes()[0] = 2
	if wc := next(t, a.w, a.cq); wc.Status != verbs.WCSuccess || b.mr.Bytes()[0] != 1 {
		t.Fatalf("%+v, byte %d", wc, b.mr.Bytes()[0])
	}
}

func TestLaterOperationsOfAQPSeeEarlierOnes(t *testing.T) {
	a, b := newPair(t, 1)
	for round := range 50 {
		for i := range 2048 {
			a.mr.Bytes()[i] = byte(round + 1)
		}
		write := oneSided(verbs.OpWrite, a, 0, b, 0, 2048)
		read := oneSided(verbs.OpRead, a, 8192, b, 0, 2048)
		read.Flags = verbs.FlagSignaled
		_, err := a.qp.PostSend([]verbs.WR{write, read})
		must(t, err)
		if wc := next(t, a.w, a.cq); wc.Status != verbs.WCSuccess {
			t.Fatal(wc.Status)
		}
		if !bytes.Equal(a.mr.Bytes()[8192:8192+2048], a.mr.Bytes()[:2048]) {
			t.Fatalf("round %d: a READ did not see the WRITE before it", round)
		}
	}
}

// A reader of another QP sees a WRITE's lines appear one by one, in ascending order.
func TestLinesOfAWriteBecomeVisibleInAscendingOrder(t *testing.T) {
	a, b := newPair(t, 1)
	const lines = 16
	for i := range lines * 64 {
		a.mr.Bytes()[i] = 1
	}
	a.post(oneSided(verbs.OpWrite, a, 0, b, 0, lines*64))
	partial := 0
	for a.w.RunOne(Second) {
		n := 0
		for n < lines && b.mr.Bytes()[n*64] == 1 {
			n++
		}
		for i := n; i < lines; i++ {
			if b.mr.Bytes()[i*64] != 0 || b.mr.Bytes()[i*64+63] != 0 {
				t.Fatalf("line %d is visible before line %d", i, n)
			}
		}
		if n > 0 && n < lines {
			partial++
		}
	}
	if partial < lines-1 {
		t.Fatalf("only %d states in between were seen", partial)
	}
}

func TestALockedLineHoldsOperationsBack(t *testing.T) {
	a, b := newPair(t, 1)
	word := lineword.Load(&b.mr.Lines()[0])
	if !lineword.TryLock(&b.mr.Lines()[0], word, 1) {
		t.Fatal("lock")
	}
	a.w.After(50*Microsecond, func() {
		b.mr.Bytes()[0] = 9
		lineword.Unlock(&b.mr.Lines()[0], word)
	})
	a.want(oneSided(verbs.OpRead, a, 0, b, 0, 8), verbs.WCSuccess)
	if a.mr.Bytes()[0] != 9 || a.w.Now() < 50*Microsecond {
		t.Fatalf("the READ saw a locked line at %s", a.w.Now())
	}
	// A line that stays locked fails the operation within the bound of its retries.
	word = lineword.Load(&b.mr.Lines()[0])
	lineword.TryLock(&b.mr.Lines()[0], word, 1)
	start := a.w.Now()
	a.want(oneSided(verbs.OpWrite, a, 8, b, 0, 8), verbs.WCRetryExcErr)
	if d := a.w.Now() - start; d > 2*Millisecond {
		t.Fatalf("it took %s to fail", d)
	}
}

// TestAccessesAreSeen: what touches an MR from elsewhere, and nothing that is refused.
func TestAccessesAreSeen(t *testing.T) {
	a, b := newPair(t, 1)
	var seen []Access
	a.w.cfg.OnAccess = func(x Access) { seen = append(seen, x) }
	a.want(oneSided(verbs.OpWrite, a, 0, b, 128, 300), verbs.WCSuccess)
	a.want(oneSided(verbs.OpRead, a, 0, b, 64, 8), verbs.WCSuccess)
	a.want(oneSided(verbs.OpCAS, a, 0, b, 72, 8), verbs.WCSuccess)
	wrong := oneSided(verbs.OpWrite, a, 0, b, 0, 8)
	wrong.RKey ^= 1 << 20
	a.want(wrong, verbs.WCRemAccessErr)
	want := []Access{{"b", b.mr.RKey(), verbs.OpWrite, 128, 300}, {"b", b.mr.RKey(), verbs.OpRead, 64, 8},
		{"b", b.mr.RKey(), verbs.OpCAS, 72, 8}}
	if !slices.Equal(seen, want) {
		t.Errorf("%+v, want %+v", seen, want)
	}
}

func TestLineChangesWakeWaiters(t *testing.T) {
	a, b := newPair(t, 1)
	var woken []Time
	wait := func() func() {
		cancel, err := b.mr.OnLineChange(2, b.mr.Lines()[2], func() {
			woken = append(woken, a.w.Now())
		})
		must(t, err)
		return cancel
	}
	wait()
	a.want(oneSided(verbs.OpWrite, a, 0, b, 64, 8), verbs.WCSuccess) // another line
	if len(woken) != 0 {
		t.Fatal("woken by another line")
	}
	a.want(oneSided(verbs.OpWrite, a, 0, b, 128, 8), verbs.WCSuccess)
	if len(woken) != 1 || woken[0] >= a.w.Now() {
		t.Fatalf("woken at %v, now %s", woken, a.w.Now())
	}
	cancel := wait()
	cancel()
	a.want(oneSided(verbs.OpWrite, a, 0, b, 128, 8), verbs.WCSuccess)
	if len(woken) != 1 {
		t.Fatal("a canceled wait was woken")
	}
	wait()
	word := lineword.Load(&b.mr.Lines()[2])
	lineword.TryLock(&b.mr.Lines()[2], word, 3)
	b.node.Touch(b.mr, 128, 8)
	must(t, a.w.Run())
	if len(woken) != 1 {
		t.Fatal("woken by a locked word")
	}
	lineword.Unlock(&b.mr.Lines()[2], word)
	b.node.Touch(b.mr, 128, 8)
	must(t, a.w.Run())
	if len(woken) != 2 {
		t.Fatal("not woken by Touch")
	}
}
