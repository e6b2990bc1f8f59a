package verbs

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestCompletionsKeepOnlyWhatMeansSomething(t *testing.T) {
	full := WC{Op: 77, ByteLen: 1, Imm: 2, SrcQPN: 3, VendorErr: 4, Flags: 7, Raw: WCFatalErr}
	r := newRig(t, rigConfig{})
	r.post(5, 1)
	r.fq.complete(0, full)
	want := WC{ID: 5, Op: WCOpcode(OpWrite), QPN: r.fq.qpn}
	if got := r.poll(r.scq); got[0] != want {
		t.Fatalf("success: %+v, want %+v", got[0], want)
	}
	r.post(6, 1)
	failed := full
	failed.Status, failed.Raw = WCRemAccessErr, 0
	r.fq.complete(0, failed)
	want = WC{ID: 6, Status: WCRemAccessErr, QPN: r.fq.qpn, VendorErr: 4, Raw: WCRemAccessErr}
	if got := r.poll(r.scq); got[0] != want {
		t.Fatalf("failure: %+v, want %+v", got[0], want)
	}
	if r.qp.State() != StateErr {
		t.Fatalf("after a failure the QP is in %s", r.qp.State())
	}
}

func TestReceiveCompletionsByType(t *testing.T) {
	full := WC{Op: WCOpcode(OpRecvWriteImm), ByteLen: 50, Imm: 2, SrcQPN: 3, Flags: 0xff}
	for _, c := range []struct {
		kind QPType
		in   WC
		want WC
	}{
		{RC, full, WC{Op: WCOpcode(OpRecvWriteImm), ByteLen: 50, Imm: 2, Flags: WCWithImm}},
		{RC, WC{ByteLen: 50, Imm: 2}, WC{Op: WCOpcode(OpRecv), ByteLen: 50}},
		{UD, WC{ByteLen: 50, Imm: 2, SrcQPN: 3, Flags: WCWithGRH},
			WC{Op: WCOpcode(OpRecv), ByteLen: 50, SrcQPN: 3, Flags: WCWithGRH}},
	} {
		r := newRig(t, rigConfig{config: QPConfig{Type: c.kind}, reset: true})
		check(t, r.qp.ToInit())
		if n, err := r.qp.PostRecv([]RecvWR{{ID: 9}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		r.fq.receive(c.in)
		c.want.ID, c.want.QPN = 9, r.fq.qpn
		if got := r.poll(r.rcq)[0]; got != c.want {
			t.Fatalf("%s: %+v, want %+v", c.kind, got, c.want)
		}
	}
}

func TestQuirksCorrectStatusesAndKeepTheRawOne(t *testing.T) {
	change := func(d *fakeDriver) {
		d.quirks = Quirks{RecvTooSmallLocal: WCLocQPOpErr, RecvTooSmallRemote: WCRemOpErr}
	}
	for _, c := range []struct {
		recv      bool
		raw, want WCStatus
	}{
		{false, WCRemOpErr, WCRemInvReqErr},
		{false, WCLocQPOpErr, WCLocQPOpErr},
		{true, WCLocQPOpErr, WCLocLenErr},
		{true, WCRemOpErr, WCRemOpErr},
		{false, WCRetryExcErr, WCRetryExcErr},
	} {
		r := newRig(t, rigConfig{change: change})
		cq := r.scq
		if c.recv {
			cq = r.rcq
			if _, err := r.qp.PostRecv([]RecvWR{{}}); err != nil {
				t.Fatal(err)
			}
			r.fq.receive(WC{Status: c.raw})
		} else {
			r.post(0, 1)
			r.fq.complete(0, WC{Status: c.raw})
		}
		got := r.poll(cq)[0]
		if got.Status != c.want || got.Raw != c.raw {
			t.Fatalf("recv %v, %s became %s (raw %s), want %s", c.recv, c.raw, got.Status,
				got.Raw, c.want)
		}
		wantErr(t, "the completion's error", got.Err(), c.want)
	}
	if (Quirks{}).status(WCSuccess, true) != WCSuccess {
		t.Fatal("no quirks turned a success into something else")
	}
}

func TestAFailureFlushesTheRest(t *testing.T) {
	r := newRig(t, rigConfig{})
	wrs := writes(1, 3)
	if n, _ := r.qp.PostSend(wrs); n != 3 {
		t.Fatal(n)
	}
	if _, err := r.qp.PostRecv([]RecvWR{{ID: 7}}); err != nil {
		t.Fatal(err)
	}
	r.fq.complete(0, WC{Status: WCRetryExcErr})
	wantIDs(t, r.poll(r.scq), 1)
	flushed := r.poll(r.scq)
	wantIDs(t, flushed, 2, 3)
	for _, wc := range append(flushed, r.poll(r.rcq)...) {
		if wc.Status != WCWRFlushErr {
			t.Fatalf("%+v", wc)
		}
	}
	// Posts in the error state are taken and flushed.
	r.post(10, 8)
	if _, err := r.qp.PostSend(writes(18, 1)); !errors.Is(err, syscall.ENOMEM) {
		t.Fatalf("the queue in error is as deep as before: %v", err)
	}
	if got := r.poll(r.scq); len(got) != 8 {
		t.Fatalf("%d of 8 flushed", len(got))
	}
}

func TestOverrunBreaksTheCQAndItsQPs(t *testing.T) {
	r := newRig(t, rigConfig{cqDepth: 3})
	second := r.newQP(QPConfig{})
	r.connect(second, ConnectAttr{})
	r.post(1, 2)
	if n, err := second.PostSend(writes(3, 1)); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	n, err := r.qp.PostSend(writes(4, 1))
	wantErr(t, "a fourth request towards a CQ of 3", err, ErrCQOverrun)
	wantErr(t, "the same", err, syscall.EIO)
	if n != 0 {
		t.Fatalf("posted %d", n)
	}
	for _, want := range []string{"fake0", "4 completions may come to a CQ of 3", "at least as deep"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if r.qp.State() != StateErr || second.State() != StateErr {
		t.Fatalf("the QPs are in %s and %s", r.qp.State(), second.State())
	}
	if e := <-r.ctx.Events(); e.Type != EventCQErr || e.CQ != r.scq {
		t.Fatalf("event %+v", e)
	}
	wantIDs(t, r.poll(r.scq), 1, 2, 3)
	_, err = r.scq.Poll(make([]WC, 1))
	wantErr(t, "poll of the broken CQ", err, ErrCQOverrun)
	_, err = second.PostSend(writes(5, 1))
	wantErr(t, "post towards the broken CQ", err, ErrCQOverrun)
	if len(r.ctx.Events()) != 0 {
		t.Fatal("the CQ broke twice")
	}
	_, err = r.qp.PostRecv([]RecvWR{{}, {}, {}})
	check(t, err) // the receive CQ is another one
	_, err = r.qp.PostRecv([]RecvWR{{}})
	wantErr(t, "a fourth receive towards a CQ of 3", err, ErrCQOverrun)
}

func TestAnEventOfTheDriverBreaksTheCQ(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.d.sink(DriverEvent{Event: Event{Type: EventCQErr}, CQID: r.scq.id})
	if r.qp.State() != StateErr {
		t.Fatalf("the QP is in %s", r.qp.State())
	}
	if e := <-r.ctx.Events(); e.CQ != r.scq {
		t.Fatalf("event %+v", e)
	}
	r.d.sink(DriverEvent{Event: Event{Type: EventCQErr}, CQID: 999})
	if e := <-r.ctx.Events(); e.CQ != nil {
		t.Fatalf("event of an unknown CQ: %+v", e)
	}
}

func TestClosedQPsGiveTheirRoomBack(t *testing.T) {
	r := newRig(t, rigConfig{cqDepth: 8})
	other := r.newQP(QPConfig{})
	r.connect(other, ConnectAttr{})
	if _, err := other.PostSend(writes(50, 2)); err != nil {
		t.Fatal(err)
	}
	r.post(1, 6)
	r.fq.complete(5, WC{})                // the completion of what will be closed
	other.drv.(*fakeQP).complete(1, WC{}) // and one that must not be lost
	check(t, r.qp.Close())
	if r.scq.ghosts != 6 || r.scq.due != 8 {
		t.Fatalf("ghosts %d, due %d", r.scq.ghosts, r.scq.due)
	}
	// The CQ seems full; a post must find that it is not.
	if n, err := other.PostSend(writes(60, 6)); n != 6 || err != nil {
		t.Fatalf("posted %d: %v", n, err)
	}
	wantIDs(t, r.poll(r.scq), 51)
	other.drv.(*fakeQP).complete(5, WC{})
	wantIDs(t, r.poll(r.scq), 65)
	if r.scq.due != 0 || r.scq.ghosts != 0 {
		t.Fatalf("due %d, ghosts %d", r.scq.due, r.scq.ghosts)
	}
}

// A poll that gives nothing is taken for an empty queue: an event-driven caller then sleeps.
func TestPollLooksBehindTheCompletionsOfClosedQPs(t *testing.T) {
	r := newRig(t, rigConfig{})
	wrs := writes(1, 3)
	for i := range wrs {
		wrs[i].Flags = FlagSignaled
	}
	if n, err := r.qp.PostSend(wrs); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	for range wrs {
		r.fq.complete(0, WC{})
	}
	check(t, r.qp.Close())
	r.qp = r.newQP(QPConfig{})
	r.connect(r.qp, ConnectAttr{})
	r.post(9, 1)
	r.qp.drv.(*fakeQP).complete(0, WC{})
	var one [1]WC
	n, err := r.scq.Poll(one[:])
	if n != 1 || err != nil || one[0].ID != 9 {
		t.Fatalf("%d completions (%v), first %+v", n, err, one[0])
	}
	if n, err = r.scq.Poll(one[:]); n != 0 || err != nil || r.scq.due != 0 {
		t.Fatalf("%d completions (%v), due %d", n, err, r.scq.due)
	}
}

func TestAClosedQPLeavesNothingInTheStash(t *testing.T) {
	r := newRig(t, rigConfig{cqDepth: 8})
	gone := r.newQP(QPConfig{})
	r.connect(gone, ConnectAttr{})
	other := r.newQP(QPConfig{})
	r.connect(other, ConnectAttr{})
	for i, qp := range []*QP{gone, other} {
		if _, err := qp.PostSend(writes(uint64(50+10*i), 1)); err != nil {
			t.Fatal(err)
		}
		qp.drv.(*fakeQP).complete(0, WC{})
	}
	r.post(1, 6)
	check(t, r.qp.Close())
	if n, err := other.PostSend(writes(70, 1)); n != 1 || err != nil { // reclaims into the stash
		t.Fatal(n, err)
	}
	if len(r.scq.stash) != 2 {
		t.Fatalf("the stash holds %v", r.scq.stash)
	}
	check(t, gone.Close())
	wantIDs(t, r.poll(r.scq), 60)
}

func TestAPollErrorOfTheDriverIsNamed(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.fs.fail = syscall.EIO
	_, err := r.scq.Poll(make([]WC, 1))
	wantErr(t, "poll", err, syscall.EIO)
	var e *Error
	if !errors.As(err, &e) || e.Op != "ibv_poll_cq" || e.Device != "fake0" {
		t.Fatalf("%#v", err)
	}
	r.fs.fail = nil
}

func TestEventsBeyondTheBacklogAreCounted(t *testing.T) {
	r := newRig(t, rigConfig{})
	for range eventBacklog + 7 {
		r.d.sink(DriverEvent{Event: Event{Type: EventGIDChange, Port: 1}})
	}
	if n := r.ctx.EventsDropped(); n != 7 {
		t.Fatalf("dropped %d, want 7", n)
	}
	if n := len(r.ctx.Events()); n != eventBacklog {
		t.Fatalf("%d events wait", n)
	}
}

func TestAQPEventFailsTheQP(t *testing.T) {
	for _, kind := range []EventType{EventQPFatal, EventQPAccessErr, EventQPReqErr} {
		r := newRig(t, rigConfig{})
		r.d.sink(DriverEvent{Event: Event{Type: kind, QPN: r.fq.qpn + 1}})
		if r.qp.State() != StateRTS {
			t.Fatal("the event of another QP failed this one")
		}
		r.d.sink(DriverEvent{Event: Event{Type: kind, QPN: r.fq.qpn}})
		if r.qp.State() != StateErr || !r.fq.inErr {
			t.Fatalf("%s left the QP in %s", kind, r.qp.State())
		}
		var got []EventType
		for len(r.ctx.Events()) > 0 {
			got = append(got, (<-r.ctx.Events()).Type)
		}
		if !slices.Equal(got, []EventType{kind, kind}) {
			t.Fatalf("events %v", got)
		}
	}
}
