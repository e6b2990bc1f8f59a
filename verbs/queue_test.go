package verbs

import (
	"slices"
	"syscall"
	"testing"
)

func ids(wcs []WC) []uint64 {
	var list []uint64
	for _, wc := range wcs {
		list = append(list, wc.ID)
	}
	return list
}

func wantIDs(t *testing.T, wcs []WC, want ...uint64) {
	t.Helper()
	if !slices.Equal(ids(wcs), want) {
		t.Fatalf("completions of %v, want %v", ids(wcs), want)
	}
}

func TestSendQueueHoldsExactlyItsDepth(t *testing.T) {
	for _, depth := range []int{1, 5, 8} {
		r := newRig(t, rigConfig{config: QPConfig{SendDepth: depth}})
		for round := range 40 { // the counters wrap around the slots many times
			first := uint64(round * depth)
			r.post(first, depth)
			n, err := r.qp.PostSend(writes(999, 1))
			wantErr(t, "one more", err, syscall.ENOMEM)
			if n != 0 || len(r.fq.sends) != depth {
				t.Fatalf("posted %d, the driver has %d", n, len(r.fq.sends))
			}
			r.fq.complete(depth-1, WC{})
			wantIDs(t, r.poll(r.scq), first+uint64(depth)-1)
		}
	}
}

func TestSlotsComeBackWithALaterSignaledCompletion(t *testing.T) {
	r := newRig(t, rigConfig{config: QPConfig{SendDepth: 8}})
	wrs := writes(0, 8)
	wrs[2].Flags = FlagSignaled
	if n, err := r.qp.PostSend(wrs); n != 8 || err != nil {
		t.Fatal(n, err)
	}
	r.fq.complete(2, WC{})
	if _, err := r.qp.PostSend(writes(8, 1)); err == nil {
		t.Fatal("slots came back before the completion was polled")
	}
	wantIDs(t, r.poll(r.scq), 2)
	n, err := r.qp.PostSend(writes(8, 4))
	wantErr(t, "the fourth of three", err, syscall.ENOMEM)
	if n != 3 {
		t.Fatalf("posted %d, three slots are free", n)
	}
}

func TestAListIsPostedUpToTheRefusedRequest(t *testing.T) {
	r := newRig(t, rigConfig{})
	wrs := writes(0, 4)
	wrs[2] = WR{ID: 2, Op: OpFAA, RemoteAddr: 4, NumSGE: 1, SGE: [MaxSGE]SGE{{Length: 8}}}
	n, err := r.qp.PostSend(wrs)
	wantErr(t, "an unaligned atomic", err, syscall.EINVAL)
	if n != 2 || len(r.fq.sends) != 2 || r.scq.due != 2 {
		t.Fatalf("posted %d, the driver has %d, due are %d", n, len(r.fq.sends), r.scq.due)
	}
}

func TestADriverThatTakesFewerLosesNothing(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.fq.takes, r.fq.postErr = 3, syscall.EINVAL
	n, err := r.qp.PostSend(writes(0, 5))
	wantErr(t, "the driver's refusal", err, syscall.EINVAL)
	if n != 3 || r.scq.due != 3 || r.qp.sq.outstanding() != 3 {
		t.Fatalf("posted %d, due %d, outstanding %d", n, r.scq.due, r.qp.sq.outstanding())
	}
	r.fq.takes, r.fq.postErr = 0, nil
	if n, err := r.qp.PostSend(writes(5, 1)); n != 0 || err == nil {
		t.Fatalf("a driver that takes nothing and says nothing: %d, %v", n, err)
	}
	r.fq.takes = -1
	r.post(5, 5)
	r.fq.complete(7, WC{})
	wantIDs(t, r.poll(r.scq), 9)
	if r.scq.due != 0 {
		t.Fatalf("due are %d", r.scq.due)
	}
}

func TestReceiveQueueHoldsExactlyItsDepth(t *testing.T) {
	r := newRig(t, rigConfig{config: QPConfig{RecvDepth: 3}})
	list := []RecvWR{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}}
	n, err := r.qp.PostRecv(list)
	wantErr(t, "four of three", err, syscall.ENOMEM)
	if n != 3 {
		t.Fatalf("posted %d", n)
	}
	r.fq.receive(WC{ByteLen: 9, Imm: 5, SrcQPN: 6, VendorErr: 7, Raw: WCFatalErr})
	got := r.poll(r.rcq)
	want := WC{ID: 1, Op: WCOpcode(OpRecv), ByteLen: 9, QPN: r.qp.QPN()}
	if len(got) != 1 || got[0] != want {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if n, err := r.qp.PostRecv(list[3:]); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := r.qp.PostRecv([]RecvWR{{NumSGE: 2}}); err == nil {
		t.Fatal("a receive of two pieces was taken")
	}
}

func TestStaleAndDoubledCompletionsAreDropped(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.post(1, 3)
	old := slices.Clone(r.fq.sends)
	r.fs.put(WC{ID: old[2], QPN: r.fq.qpn}, WC{ID: old[2], QPN: r.fq.qpn},
		WC{ID: old[0], QPN: r.fq.qpn})
	wantIDs(t, r.poll(r.scq), 3)
	check(t, r.qp.Close())
	r.qp = r.newQP(QPConfig{}) // takes the same index
	r.fq = r.qp.drv.(*fakeQP)
	r.connect(r.qp, ConnectAttr{})
	r.post(11, 1)
	if token(r.fq.sends[0]).index() != token(old[0]).index() {
		t.Fatal("the new QP has another index: the test shows nothing")
	}
	r.fs.put(WC{ID: old[0]}, WC{ID: 1<<64 - 1}, WC{ID: uint64(tokenRecv)})
	r.fq.complete(0, WC{})
	wantIDs(t, r.poll(r.scq), 11)
	if r.scq.due != 0 || r.scq.ghosts != 0 {
		t.Fatalf("due %d, ghosts %d", r.scq.due, r.scq.ghosts)
	}
}

func TestTokensDoNotMixQPsAndQueues(t *testing.T) {
	r := newRig(t, rigConfig{})
	seen := map[uint64]bool{}
	for range 5 {
		qp := r.newQP(QPConfig{SendDepth: 16, RecvDepth: 16})
		r.connect(qp, ConnectAttr{})
		f := qp.drv.(*fakeQP)
		if _, err := qp.PostSend(writes(0, 4)); err != nil {
			t.Fatal(err)
		}
		if _, err := qp.PostRecv(make([]RecvWR, 4)); err != nil {
			t.Fatal(err)
		}
		for _, id := range append(slices.Clone(f.sends), f.recvs...) {
			if seen[id] {
				t.Fatalf("token %#x twice", id)
			}
			seen[id] = true
		}
	}
}

func TestSignalAll(t *testing.T) {
	r := newRig(t, rigConfig{config: QPConfig{SignalAll: true}})
	wrs := []WR{{Op: OpWrite}, {Op: OpWrite}}
	if n, err := r.qp.PostSend(wrs); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	for _, wr := range wrs {
		if wr.Flags&FlagSignaled == 0 {
			t.Fatal("a request went to the driver unsignaled")
		}
	}
}
