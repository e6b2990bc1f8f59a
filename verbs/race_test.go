package verbs

import (
	"errors"
	"sync"
	"syscall"
	"testing"
)

// allowed fails unless err is nil or one of those that the contract names for calls that race
// with closing.
func allowed(t *testing.T, what string, err error) {
	for _, ok := range []error{nil, ErrClosed, syscall.ENOMEM, syscall.EINVAL, syscall.EBUSY} {
		if errors.Is(err, ok) {
			return
		}
	}
	t.Errorf("%s: %v", what, err)
}

// TestControlBesideData runs posts, polls, ToError and Close of one QP at once. The fake QP
// notes calls that come after its end (rig's clean-up looks), the race detector sees the rest.
func TestControlBesideData(t *testing.T) {
	for range 100 {
		r := newRig(t, rigConfig{})
		var g sync.WaitGroup
		start := make(chan struct{})
		race := func(f func()) {
			g.Go(func() {
				<-start
				f()
			})
		}
		race(func() {
			for range 20 {
				_, err := r.qp.PostSend(writes(1, 2))
				allowed(t, "post", err)
			}
		})
		race(func() {
			for range 20 {
				_, err := r.qp.PostRecv([]RecvWR{{}})
				allowed(t, "post of a receive", err)
			}
		})
		race(func() {
			var wcs [4]WC
			for range 20 {
				_, err := r.scq.Poll(wcs[:])
				allowed(t, "poll", err)
				_, err = r.rcq.Poll(wcs[:])
				allowed(t, "poll", err)
			}
		})
		race(func() { allowed(t, "to error", r.qp.ToError()) })
		race(func() { r.d.sink(DriverEvent{Event: Event{Type: EventQPFatal, QPN: r.fq.qpn}}) })
		race(func() { allowed(t, "close", r.qp.Close()) })
		race(func() { allowed(t, "close", r.qp.Close()) })
		close(start)
		g.Wait()
		if r.qp.State() != StateClosed {
			t.Fatalf("the QP is in %s", r.qp.State())
		}
	}
}

// TestMakingBesideClosing makes objects while what they stand on is closed.
func TestMakingBesideClosing(t *testing.T) {
	for range 100 {
		d := newFakeDriver()
		ctx, err := NewContext(d, ContextOptions{})
		check(t, err)
		pd, err := ctx.AllocPD()
		check(t, err)
		cq, err := ctx.CreateCQ(CQConfig{Depth: 8})
		check(t, err)
		ch, err := ctx.CreateChannel()
		check(t, err)
		var g sync.WaitGroup
		for _, f := range []func() error{
			func() error {
				_, err := pd.CreateQP(QPConfig{Type: RC, SendCQ: cq, RecvCQ: cq, SendDepth: 1,
					RecvDepth: 1})
				return err
			},
			func() error { _, err := pd.AllocMR(8, 0, MROptions{}); return err },
			func() error { _, err := ctx.CreateCQ(CQConfig{Depth: 8, Channel: ch}); return err },
			func() error { _, err := ctx.Port(1); return err },
			cq.Close, ch.Close, pd.Close, ctx.Close,
		} {
			g.Go(func() { allowed(t, "a call beside closing", f()) })
		}
		g.Wait()
		check(t, ctx.Close())
		made, closed := map[string]int{}, map[string]int{}
		afterEnd := false
		for _, call := range d.calls {
			if afterEnd {
				t.Fatalf("%s after the device was closed", call)
			}
			switch call {
			case "create qp", "alloc mr", "create cq", "create channel", "alloc pd":
				made[call[len(call)-2:]]++
			case "close qp", "close mr", "close cq", "close channel", "close pd":
				closed[call[len(call)-2:]]++
			case "close device":
				afterEnd = true
			}
		}
		for what, n := range made {
			if closed[what] != n {
				t.Fatalf("%d of %d objects %q were closed: %v", closed[what], n, what, d.calls)
			}
		}
	}
}

// TestPostsOfManyGoroutines shares one QP and one CQ.
func TestPostsOfManyGoroutines(t *testing.T) {
	const goroutines, posts = 4, 200
	r := newRig(t, rigConfig{config: QPConfig{SendDepth: goroutines}})
	var g sync.WaitGroup
	var mu sync.Mutex
	seen := map[uint64]int{}
	for i := range goroutines {
		g.Go(func() {
			for j := range posts {
				if _, err := r.qp.PostSend(writes(uint64(i*posts+j), 1)); err != nil {
					t.Errorf("post: %v", err)
					return
				}
				r.fq.complete(0, WC{})
				var wcs [1]WC
				for n := 0; n == 0; {
					var err error
					if n, err = r.scq.Poll(wcs[:]); err != nil {
						t.Errorf("poll: %v", err)
						return
					}
				}
				mu.Lock()
				seen[wcs[0].ID]++
				mu.Unlock()
			}
		})
	}
	g.Wait()
	if len(seen) != goroutines*posts || r.scq.due != 0 {
		t.Fatalf("%d different completions of %d, due %d", len(seen), goroutines*posts, r.scq.due)
	}
}
