package verbs

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"
)

// channelRig is a channel with one CQ.
func channelRig(t *testing.T) (*rig, *Channel, *CQ, *fakeChannel) {
	r := newRig(t, rigConfig{})
	ch, err := r.ctx.CreateChannel()
	check(t, err)
	cq, err := r.ctx.CreateCQ(CQConfig{Depth: 8, Channel: ch})
	check(t, err)
	return r, ch, cq, ch.drv.(*fakeChannel)
}

func TestWaitSeesEventsAndConsumeTakesThem(t *testing.T) {
	_, ch, cq, f := channelRig(t)
	f.event(cq.id)
	f.event(cq.id)
	f.event(999)  // of a CQ that is closed
	for range 2 { // it does not consume
		check(t, ch.Wait(context.Background()))
	}
	n := 0
	check(t, ch.Consume(func(got *CQ) {
		if got != cq {
			t.Errorf("event of %v", got)
		}
		n++
	}))
	if n != 2 {
		t.Fatalf("%d events, want 2", n)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	wantErr(t, "a wait after that", ch.Wait(ctx), context.DeadlineExceeded)
	check(t, ch.Consume(nil))
}

func TestWaitEndsWithItsContext(t *testing.T) {
	_, ch, cq, f := channelRig(t)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	wantErr(t, "a wait of a context that is done", ch.Wait(done), context.Canceled)

	waiting, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() { result <- ch.Wait(waiting) }()
	queued, cancelQueued := context.WithCancel(context.Background())
	second := make(chan error)
	go func() { second <- ch.Wait(queued) }()
	cancelQueued() // a waiter that queues behind another heeds its context too
	wantErr(t, "the queued one", <-second, context.Canceled)
	cancel()
	wantErr(t, "the other one", <-result, context.Canceled)

	f.event(cq.id)
	check(t, ch.Wait(context.Background()))
}

// A cancellation that comes late moves the descriptor's deadline into the next wait.
func TestALateCancellationDoesNotEndTheNextWait(t *testing.T) {
	_, ch, cq, f := channelRig(t)
	for range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		if err := ch.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		go f.event(cq.id)
		ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
		if err := ch.Wait(ctx); err != nil {
			t.Fatalf("the next wait: %v", err)
		}
		cancel()
		check(t, ch.Consume(nil))
	}
}

func TestCloseEndsAWait(t *testing.T) {
	_, ch, cq, _ := channelRig(t)
	wantErr(t, "close with a CQ", ch.Close(), syscall.EBUSY)
	check(t, cq.Close())
	result := make(chan error)
	started := make(chan struct{})
	go func() {
		close(started)
		result <- ch.Wait(context.Background())
	}()
	<-started
	check(t, ch.Close())
	wantErr(t, "the waiter", <-result, ErrClosed)
	wantErr(t, "a wait after that", ch.Wait(context.Background()), ErrClosed)
	wantErr(t, "consume after that", ch.Consume(nil), ErrClosed)
	check(t, ch.Close())
}

func TestPoller(t *testing.T) {
	r, ch, cq, f := channelRig(t)
	second, err := r.ctx.CreateChannel()
	check(t, err)
	p, err := NewPoller(ch)
	check(t, err)
	check(t, p.Add(second))
	wait := func(d time.Duration) bool {
		t.Helper()
		ok, err := p.Wait(d)
		check(t, err)
		return ok
	}
	before := time.Now()
	if wait(3*time.Millisecond) || time.Since(before) < 3*time.Millisecond {
		t.Fatal("an event of nothing, or too early")
	}
	f.event(cq.id)
	if !wait(-1) || !wait(0) { // it does not consume
		t.Fatal("no event")
	}
	check(t, ch.Consume(nil))
	if wait(0) {
		t.Fatal("an event after it was consumed")
	}
	second.drv.(*fakeChannel).event(1)
	if !wait(-1) {
		t.Fatal("no event of the second channel")
	}
	check(t, second.Consume(nil))
	go p.Wake()
	wait(-1) // ends
	if wait(0) {
		t.Fatal("one Wake ended two waits")
	}
	var g sync.WaitGroup
	for range 4 { // Wake beside Close: a descriptor that was freed must not be written to
		g.Go(func() {
			for range 100 {
				p.Wake()
			}
		})
	}
	check(t, p.Close())
	check(t, p.Close())
	g.Wait()
	if _, err := p.Wait(0); err == nil {
		t.Fatal("a closed poller waits")
	}
}
