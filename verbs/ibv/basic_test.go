//go:build cgo && linux

package ibv

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"drtmd/verbs"
)

func TestOneSidedOperationsAndSend(t *testing.T) {
	a, b := newPair(t, requireDevice(t), defaultConfig(verbs.RC))
	copy(a.mr.Bytes(), "written")
	a.post(at(a.wr(verbs.OpWrite, 1, 0, 7), b, 100))
	if wc := a.ok(1)[0]; wc.ID != 1 || wc.Op != verbs.WCOpcode(verbs.OpWrite) || wc.ByteLen != 0 ||
		wc.QPN != a.qp.QPN() {
		t.Fatalf("write completed as %+v", wc)
	}
	if got := b.mr.Bytes()[100:107]; string(got) != "written" {
		t.Fatalf("the peer sees %q", got)
	}
	a.post(at(a.wr(verbs.OpRead, 2, 200, 7), b, 100))
	a.ok(1)
	if got := a.mr.Bytes()[200:207]; string(got) != "written" {
		t.Fatalf("read gave %q", got)
	}

	word := b.mr.Bytes()[8:16]
	binary.NativeEndian.PutUint64(word, 40)
	faa := at(a.wr(verbs.OpFAA, 3, 16, 8), b, 8)
	faa.CompareAdd = 2
	cas := at(a.wr(verbs.OpCAS, 4, 24, 8), b, 8)
	cas.CompareAdd, cas.Swap = 42, 7
	lost := at(a.wr(verbs.OpCAS, 5, 32, 8), b, 8)
	lost.CompareAdd, lost.Swap = 42, 9
	a.post(faa, cas, lost)
	a.ok(3)
	for i, want := range []uint64{40, 42, 7} {
		if got := binary.NativeEndian.Uint64(a.mr.Bytes()[16+8*i:]); got != want {
			t.Errorf("atomic %d gave the old value %d, want %d", i, got, want)
		}
	}
	if got := binary.NativeEndian.Uint64(word); got != 7 {
		t.Errorf("the word is %d, want 7", got)
	}

	b.postRecv(b.recv(6, 1000, 64), b.recv(7, 2000, 64))
	send := a.wr(verbs.OpSendImm, 8, 0, 7)
	send.Imm = 0x01020304
	a.post(send)
	a.ok(1)
	wc := b.ok(1)[0]
	if wc.ID != 6 || wc.ByteLen != 7 || wc.Imm != 0x01020304 || wc.Flags&verbs.WCWithImm == 0 ||
		wc.Op != verbs.WCOpcode(verbs.OpRecv) {
		t.Fatalf("receive completed as %+v", wc)
	}
	if !bytes.Equal(b.mr.Bytes()[1000:1007], []byte("written")) {
		t.Fatal("the message is not in the buffer")
	}
	write := at(a.wr(verbs.OpWriteImm, 9, 0, 7), b, 300)
	write.Imm = 5
	a.post(write)
	a.ok(1)
	wc = b.ok(1)[0]
	if wc.ID != 7 || wc.Imm != 5 || wc.Op != verbs.WCOpcode(verbs.OpRecvWriteImm) {
		t.Fatalf("receive of a write with immediate completed as %+v", wc)
	}
}

func TestDatagrams(t *testing.T) {
	a, b := newPair(t, requireDevice(t), defaultConfig(verbs.UD))
	ah, err := a.pd.CreateAHTo(b.qp.Endpoint())
	check(t, err)
	defer func() { check(t, ah.Close()) }()
	b.postRecv(b.recv(1, 0, 2048), b.recv(2, 2048, 2048))
	send := func(key uint32, text string) {
		copy(a.mr.Bytes(), text)
		wr := a.wr(verbs.OpSendImm, 3, 0, len(text))
		wr.Imm, wr.AH, wr.RemoteQPN, wr.RemoteQKey = 77, ah.Handle(), b.qp.QPN(), key
		a.post(wr)
		a.ok(1)
	}
	send(testQKey+1, "wrong key")
	send(testQKey, "datagram")
	wc := b.ok(1)[0]
	if wc.ID != 1 || wc.ByteLen != verbs.GRHBytes+8 || wc.SrcQPN != a.qp.QPN() || wc.Imm != 77 {
		t.Fatalf("receive completed as %+v", wc)
	}
	if got := b.mr.Bytes()[verbs.GRHBytes : verbs.GRHBytes+8]; string(got) != "datagram" {
		t.Fatalf("payload %q", got)
	}
	b.quiet(50 * time.Millisecond)
}

func TestInline(t *testing.T) {
	c := requireDevice(t)
	limit := c.Attr().MaxInline
	t.Logf("%s takes %d bytes inline", c.Attr().Name, limit)
	if limit == 0 {
		t.Skip("the device has no inline payload")
	}
	o := defaultConfig(verbs.RC)
	o.Inline = limit
	a, b := newPair(t, c, o)
	want := bytes.Repeat([]byte{7}, limit)
	copy(a.mr.Bytes(), want)
	wr := at(a.wr(verbs.OpWrite, 1, 0, limit), b, 0)
	wr.Flags |= verbs.FlagInline
	a.post(wr)
	clear(a.mr.Bytes())
	a.ok(1)
	if !bytes.Equal(b.mr.Bytes()[:limit], want) {
		t.Fatal("the payload was not copied at post")
	}
}

func TestErrorFlushesBothQueues(t *testing.T) {
	for _, q := range []verbs.QPType{verbs.RC, verbs.UD} {
		t.Run(q.String(), func(t *testing.T) {
			a, b := newPair(t, requireDevice(t), defaultConfig(q))
			for i := range 5 {
				a.postRecv(a.recv(uint64(i), 0, 1024))
			}
			check(t, a.qp.ToError())
			check(t, a.qp.ToError())
			flushed(t, a.wait(5))
			// What is posted in the error state is flushed as well, in both queues.
			wr := a.wr(verbs.OpSend, 100, 0, 8)
			if q == verbs.UD {
				ah, err := a.pd.CreateAHTo(b.qp.Endpoint())
				check(t, err)
				defer func() { check(t, ah.Close()) }()
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah.Handle(), b.qp.QPN(), testQKey
			}
			a.post(wr, wr, wr)
			flushed(t, a.wait(3))
			a.postRecv(a.recv(7, 0, 1024), a.recv(8, 0, 1024))
			flushed(t, a.wait(2))
			a.quiet(50 * time.Millisecond)
		})
	}
}

func flushed(t *testing.T, wcs []verbs.WC) {
	t.Helper()
	for _, wc := range wcs {
		if wc.Status != verbs.WCWRFlushErr {
			t.Fatalf("completed as %+v, not flushed", wc)
		}
	}
}

// woken polls a CQ, and waits for its event as long as it is empty: arm, poll again, wait.
func woken(t *testing.T, ch *verbs.Channel, cq *verbs.CQ, buf []verbs.WC) int {
	t.Helper()
	for {
		for _, armed := range []bool{false, true} {
			if armed {
				check(t, cq.Arm(false))
			}
			n, err := cq.Poll(buf)
			check(t, err)
			if n > 0 {
				return n
			}
		}
		check(t, ch.Wait(deadline(t)))
		check(t, ch.Consume(nil))
	}
}

func TestEventWakesUp(t *testing.T) {
	c := requireDevice(t)
	ch, err := c.CreateChannel()
	check(t, err)
	defer func() { check(t, ch.Close()) }()
	o := defaultConfig(verbs.RC)
	a := newSide(t, c, o)
	o.Channel = ch
	b := newSide(t, c, o)
	defer func() { check(t, b.qp.Close()); check(t, b.cq.Close()) }()
	ea, eb := a.qp.Endpoint(), b.qp.Endpoint()
	check(t, a.qp.Connect(&eb, verbs.ConnectAttr{}))
	check(t, b.qp.Connect(&ea, verbs.ConnectAttr{}))
	buf := make([]verbs.WC, 4)
	const rounds = 200
	for i := range uint64(rounds) {
		b.postRecv(b.recv(i, 0, 64))
		go func() {
			if _, err := a.qp.PostSend([]verbs.WR{a.wr(verbs.OpSend, i, 0, 8)}); err != nil {
				t.Error(err)
			}
		}()
		n := woken(t, ch, b.cq, buf)
		if n != 1 || buf[0].ID != i || buf[0].Status != verbs.WCSuccess {
			t.Fatalf("round %d: %d completions, %+v", i, n, buf[:n])
		}
		a.ok(1)
	}
}
