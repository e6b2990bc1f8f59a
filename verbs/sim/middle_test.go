package sim

import (
	"bytes"
	"strings"
	"testing"

	"drtmd/verbs"
)

// until runs the world until ok holds.
func until(t *testing.T, w *World, ok func() bool) {
	t.Helper()
	for !ok() {
		if !w.RunOne(Second) {
			t.Fatalf("it did not happen by %s", w.Now())
		}
	}
}

// Memory that is deregistered while an operation is in the middle of it.
func TestMemoryThatGoesAwayInTheMiddle(t *testing.T) {
	const n = 2048
	setup := func() (a, b *side, target *verbs.MR) {
		a, b = newPair(t, 1)
		target, err := b.pd.AllocMR(n, verbs.AccessAll, verbs.MROptions{})
		must(t, err)
		for i := range n {
			a.mr.Bytes()[i] = 1
		}
		return a, b, target
	}
	t.Run("WRITE", func(t *testing.T) {
		a, _, target := setup()
		memory := target.Bytes()
		wr := oneSided(verbs.OpWrite, a, 0, a, 0, n)
		wr.RemoteAddr, wr.RKey, wr.Flags = target.Addr(), target.RKey(), verbs.FlagSignaled
		a.post(wr)
		until(t, a.w, func() bool { return memory[0] == 1 })
		must(t, target.Close())
		if wc := next(t, a.w, a.cq); wc.Status != verbs.WCRemAccessErr {
			t.Error(wc.Status)
		}
		if memory[n-1] != 0 {
			t.Error("memory was written after its deregistration")
		}
	})
	t.Run("SEND", func(t *testing.T) {
		a, b, target := setup()
		memory := target.Bytes()
		_, err := b.qp.PostRecv([]verbs.RecvWR{{ID: 5, NumSGE: 1,
			SGE: [4]verbs.SGE{target.SGE(0, n)}}})
		must(t, err)
		wr := send(a, 0, n)
		wr.Flags = verbs.FlagSignaled
		a.post(wr)
		until(t, a.w, func() bool { return memory[0] == 1 })
		must(t, target.Close())
		if wc := next(t, a.w, a.cq); wc.Status != verbs.WCRemOpErr {
			t.Error(wc.Status)
		}
		if wc := next(t, a.w, b.rcq); wc.Status != verbs.WCLocProtErr || wc.ID != 5 {
			t.Errorf("%+v", wc)
		}
	})
	t.Run("the buffer of a READ", func(t *testing.T) {
		a, b, _ := setup()
		buffer, err := a.pd.AllocMR(n, verbs.AccessAll, verbs.MROptions{})
		must(t, err)
		wr := oneSided(verbs.OpRead, a, 0, b, 0, n)
		wr.SGE[0], wr.Flags = buffer.SGE(0, n), verbs.FlagSignaled
		a.post(wr)
		a.w.After(Microsecond, func() { must(t, buffer.Close()) })
		if wc := next(t, a.w, a.cq); wc.Status != verbs.WCLocProtErr {
			t.Error(wc.Status)
		}
	})
}

// Whenever a receiver fails, every receive that was posted completes exactly once.
func TestEveryReceiveOfAFailedQPCompletesOnce(t *testing.T) {
	for at := Time(0); at < 8*Microsecond; at += 100 * Nanosecond {
		a, b := newPair(t, 1)
		for i := range 8 {
			b.recv(uint64(i), 4096*i, 4096)
		}
		for range 6 {
			a.post(send(a, 0, 4000))
		}
		a.w.After(at, func() { must(t, b.qp.ToError()) })
		must(t, a.w.Run())
		var wcs [16]verbs.WC
		n, err := b.rcq.Poll(wcs[:])
		must(t, err)
		if n != 8 {
			t.Fatalf("failed at %s: %d of 8 receives completed", at, n)
		}
		for i, wc := range wcs[:n] {
			flushed := wc.Status == verbs.WCWRFlushErr
			if wc.ID != uint64(i) || !flushed && wc.Status != verbs.WCSuccess ||
				i > 0 && !flushed && wcs[i-1].Status != verbs.WCSuccess {
				t.Fatalf("failed at %s: receive %d: %+v", at, i, wc)
			}
		}
	}
}

// Requests whose answers are lost are sent again, and executed once.
func TestLostAnswersAreGivenAgain(t *testing.T) {
	a, b := newPair(t, 1)
	copy(b.mr.Bytes()[4096:], "what is read")
	strike(t, a.w, "cut from=b to=a for=300us")
	add := oneSided(verbs.OpFAA, a, 0, b, 0, 8)
	add.CompareAdd = 1
	b.recv(1, 512, 64)
	for _, wr := range []verbs.WR{add, oneSided(verbs.OpRead, a, 64, b, 4096, 12),
		oneSided(verbs.OpRead, a, 64, b, 4096, 12), add, send(a, 256, 9)} {
		wr.Flags = verbs.FlagSignaled
		a.post(wr)
	}
	for range 5 {
		if wc := next(t, a.w, a.cq); wc.Status != verbs.WCSuccess {
			t.Fatal(wc.Status)
		}
	}
	if a.w.Now() < 300*Microsecond || a.w.Stats().Retransmits < 5 {
		t.Fatalf("done at %s after %d retransmits", a.w.Now(), a.w.Stats().Retransmits)
	}
	if b.mr.Bytes()[0] != 2 || a.mr.Bytes()[0] != 1 ||
		!bytes.Equal(a.mr.Bytes()[64:76], []byte("what is read")) {
		t.Errorf("sum %d, old value %d, %q", b.mr.Bytes()[0], a.mr.Bytes()[0], a.mr.Bytes()[64:76])
	}
	next(t, a.w, b.rcq)
	if wc, ok := nextWithin(t, a.w, b.rcq, Millisecond); ok {
		t.Errorf("the message came twice: %+v", wc)
	}
}

func TestTheTraceTellsWhatHappened(t *testing.T) {
	a, b := newPair(t, 1)
	a.want(oneSided(verbs.OpRead, a, 0, b, 0, 8), verbs.WCSuccess)
	a.w.Step(b.node, "a step")
	strike(t, a.w, "heal")
	var text strings.Builder
	for _, e := range a.w.Recent() {
		text.WriteString(e.String() + "\n")
	}
	for _, want := range []string{" send a qp=2", " wire a", " arrive a", " exec b", " memory b",
		" RDMA_READ request #0, 0 B\n",
		" RDMA_READ answer #0, done, 8 B\n", "step b \"a step\"", "fault at ", "heal"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestPeersOfNoWorldAreRefused(t *testing.T) {
	a, _ := newPair(t, 1)
	e := a.qp.Endpoint()
	e.GID[3] = 9
	if _, err := a.pd.CreateAHTo(e); err == nil || !strings.Contains(err.Error(), "EHOSTUNREACH") {
		t.Errorf("%v", err)
	}
	qp := a.newQP(verbs.RC)
	if err := qp.ToRTR(&e, verbs.RTRAttr{}); err == nil ||
		!strings.Contains(err.Error(), "no node of this world") {
		t.Errorf("%v", err)
	}
	if n := a.w.Node("a"); n != a.node || len(a.w.Nodes()) != 2 || n.Index() != 0 ||
		n.World() != a.w || a.w.Name() != "sim" {
		t.Error("nodes")
	}
}
