package verbs

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func closings(d *fakeDriver) []string {
	return slices.DeleteFunc(slices.Clone(d.calls),
		func(s string) bool { return !strings.HasPrefix(s, "close") })
}

// furnished is a rig with one more of everything, made in an order that is no closing order.
func furnished(t *testing.T) (*rig, *Channel, *MR, *AH) {
	r := newRig(t, rigConfig{})
	mr, err := r.pd.AllocMR(100, AccessAll, MROptions{})
	check(t, err)
	ch, err := r.ctx.CreateChannel()
	check(t, err)
	_, err = r.ctx.CreateCQ(CQConfig{Depth: 4, Channel: ch})
	check(t, err)
	ah, err := r.pd.CreateAHTo(goodEndpoint())
	check(t, err)
	r.newQP(QPConfig{})
	return r, ch, mr, ah
}

func TestContextClosesInOrder(t *testing.T) {
	r, _, _, _ := furnished(t)
	check(t, r.ctx.Close())
	want := []string{"close qp", "close qp", "close ah", "close mr", "close cq", "close cq",
		"close cq", "close channel", "close pd", "close device"}
	if got := closings(r.d); !slices.Equal(got, want) {
		t.Fatalf("closed %v\nwant %v", got, want)
	}
	check(t, r.ctx.Close())
	if got := closings(r.d); len(got) != len(want) {
		t.Fatalf("closing twice did something: %v", got)
	}
	if _, open := <-r.ctx.Events(); open {
		t.Fatal("the channel of events is open")
	}
	r.d.sink(DriverEvent{Event: Event{Type: EventPortDown}}) // late, dropped
}

func TestCloseOfEachIsHarmlessTwice(t *testing.T) {
	r, ch, mr, ah := furnished(t)
	for _, c := range []struct {
		what  string
		close func() error
	}{{"qp", r.qp.Close}, {"mr", mr.Close}, {"ah", ah.Close}} {
		before := len(closings(r.d))
		check(t, c.close())
		check(t, c.close())
		if got := closings(r.d)[before:]; !slices.Equal(got, []string{"close " + c.what}) {
			t.Fatalf("%s twice: %v", c.what, got)
		}
	}
	_ = ch
}

func TestWhatIsInUseIsNamed(t *testing.T) {
	r, ch, _, _ := furnished(t)
	for _, c := range []struct {
		close func() error
		words string
	}{
		{r.pd.Close, "ibv_dealloc_pd on fake0: still used by 1 AH, 1 MR, 2 QP: EBUSY"},
		{r.scq.Close, "ibv_destroy_cq on fake0: still used by 2 QP: EBUSY"},
		{ch.Close, "ibv_destroy_comp_channel on fake0: still used by 1 CQ: EBUSY"},
	} {
		err := c.close()
		wantErr(t, c.words, err, syscall.EBUSY)
		if !strings.Contains(err.Error(), c.words) ||
			!strings.Contains(err.Error(), "close these first") {
			t.Errorf("%q does not say %q", err, c.words)
		}
	}
	if got := closings(r.d); len(got) != 0 {
		t.Fatalf("the driver closed %v", got)
	}
}

func TestABusyDriverIsAskedAgain(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.post(1, 3)
	r.d.fails["close qp"] = syscall.EBUSY
	wantErr(t, "close", r.qp.Close(), syscall.EBUSY)
	wantErr(t, "close again", r.qp.Close(), syscall.EBUSY)
	delete(r.d.fails, "close qp")
	check(t, r.qp.Close())
	if r.scq.ghosts != 3 {
		t.Fatalf("%d ghosts of 3 requests", r.scq.ghosts)
	}
	fresh := []*QP{r.newQP(QPConfig{}), r.newQP(QPConfig{})}
	if fresh[0].index == fresh[1].index {
		t.Fatal("the index was freed more than once")
	}
}

func TestFailuresOfTheDriverAreTypedAndLeaveNothing(t *testing.T) {
	for call, make := range map[string]func(*rig) error{
		"alloc pd": func(r *rig) error { _, err := r.ctx.AllocPD(); return err },
		"create cq": func(r *rig) error {
			_, err := r.ctx.CreateCQ(CQConfig{Depth: 1})
			return err
		},
		"create channel": func(r *rig) error { _, err := r.ctx.CreateChannel(); return err },
		"alloc mr": func(r *rig) error {
			_, err := r.pd.AllocMR(8, 0, MROptions{})
			return err
		},
		"create ah": func(r *rig) error { _, err := r.pd.CreateAHTo(goodEndpoint()); return err },
		"create qp": func(r *rig) error {
			_, err := r.pd.CreateQP(QPConfig{Type: RC, SendCQ: r.scq, RecvCQ: r.rcq,
				SendDepth: 1, RecvDepth: 1})
			return err
		},
		"query port": func(r *rig) error { _, err := r.ctx.Port(1); return err },
	} {
		t.Run(call, func(t *testing.T) {
			r := newRig(t, rigConfig{})
			open, free := len(r.ctx.open), len(r.ctx.qpFree)
			r.d.fails[call] = syscall.ENOMEM
			err := make(r)
			var e *Error
			if !errors.As(err, &e) || e.Errno != syscall.ENOMEM || e.Device != "fake0" {
				t.Fatalf("%v", err)
			}
			if strings.HasPrefix(call, "alloc mr") && !strings.Contains(e.Hint, "memlock") ||
				strings.HasPrefix(call, "create qp") && !strings.Contains(e.Hint, "ulimit -l") {
				t.Errorf("no hint in %q", err)
			}
			if len(r.ctx.open) != open {
				t.Errorf("%d objects are open, before %d", len(r.ctx.open), open)
			}
			if call == "create qp" && len(r.ctx.qpFree) != free+1 {
				t.Errorf("the index was not freed")
			}
		})
	}
}

func TestOpenFailsWhereTheDriverDoes(t *testing.T) {
	d := newFakeDriver()
	d.fails["start"] = syscall.EACCES
	_, err := NewContext(d, ContextOptions{})
	wantErr(t, "open", err, syscall.EACCES)
	if !d.closed {
		t.Fatal("the driver was left open")
	}
}

func TestObjectsOfAnotherContextAreRefused(t *testing.T) {
	a, b := newRig(t, rigConfig{}), newRig(t, rigConfig{})
	_, err := a.pd.CreateQP(QPConfig{Type: RC, SendCQ: b.scq, RecvCQ: a.rcq, SendDepth: 1,
		RecvDepth: 1})
	wantErr(t, "a foreign CQ", err, syscall.EINVAL)
	ch, err := b.ctx.CreateChannel()
	check(t, err)
	_, err = a.ctx.CreateCQ(CQConfig{Depth: 1, Channel: ch})
	wantErr(t, "a foreign channel", err, syscall.EINVAL)
	ah, err := b.pd.CreateAHTo(goodEndpoint())
	check(t, err)
	ud := a.newQP(QPConfig{Type: UD})
	check(t, ud.Connect(nil, ConnectAttr{}))
	_, err = ud.PostSend([]WR{{Op: OpSend, RemoteQPN: 1, AH: ah.Handle()}})
	wantErr(t, "a foreign address handle", err, syscall.EINVAL)
}

func TestFenceMovesEveryQPAndGoesOnAfterAnError(t *testing.T) {
	r, _, _, _ := furnished(t)
	var qps []*QP
	peer := goodEndpoint()
	for range 3 {
		qp := r.newQP(QPConfig{Type: RC})
		check(t, qp.Connect(&peer, ConnectAttr{}))
		qps = append(qps, qp)
	}
	qps = append(qps, r.newQP(QPConfig{Type: UD})) // in RESET
	check(t, qps[1].Close())
	check(t, r.ctx.Fence())
	for i, want := range []QPState{StateErr, StateClosed, StateErr, StateErr} {
		if s := qps[i].State(); s != want {
			t.Errorf("QP %d is in %s, want %s", i, s, want)
		}
	}
	check(t, r.ctx.Fence())
	check(t, r.ctx.Close())
	wantErr(t, "fence of a closed context", r.ctx.Fence(), ErrClosed)
}

func TestMissingHooksAreUnsupported(t *testing.T) {
	r, _, mr, _ := furnished(t)
	_, err := mr.OnLineChange(0, 0, nil)
	wantErr(t, "on line change", err, ErrUnsupported)
	wantErr(t, "on arrival", r.scq.OnArrival(nil), ErrUnsupported)
	ch, err := r.ctx.CreateChannel()
	check(t, err)
	wantErr(t, "on arrival at a channel", ch.OnArrival(nil), ErrUnsupported)
	_, err = r.pd.AllocMR(64, 0, MROptions{Keep: "x"})
	wantErr(t, "kept memory", err, ErrUnsupported)
}
