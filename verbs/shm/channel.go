//go:build linux && amd64

package shm

import (
	"sync"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/shm/internal/fabric"
)

// channel is a completion channel: an eventfd that peers signal too.
type channel struct {
	dev *device
	id  uint32
	ev  *fabric.EventFD

	mu  sync.Mutex
	cqs map[*cq]struct{} // guarded by mu
}

// CreateChannel makes a channel and lets peers signal it.
func (d *device) CreateChannel() (verbs.DriverChannel, error) {
	ev, err := fabric.NewEventFD()
	if err != nil {
		return nil, err
	}
	ch := &channel{dev: d, ev: ev, cqs: map[*cq]struct{}{}}
	d.mu.Lock()
	d.nextChan++
	ch.id = d.nextChan
	d.channels[ch.id] = ch
	d.mu.Unlock()
	d.fab.ExportFD(uint64(ch.id), ev)
	return ch, nil
}

// signal is what peers of this process call.
func (d *device) signal(id uint32) {
	d.mu.Lock()
	ch := d.channels[id]
	d.mu.Unlock()
	if ch != nil {
		ch.signal()
	}
}

func (ch *channel) signal() { _ = ch.ev.Signal() } // only a closed one fails

func (ch *channel) add(c *cq) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.cqs[c] = struct{}{}
}

func (ch *channel) remove(c *cq) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.cqs, c)
}

func (ch *channel) FD() int { return ch.ev.FD() }

// Consume takes the signals and tells which CQs made them. A signal that comes in between is
// found by the next call.
func (ch *channel) Consume(each func(cqID uint32)) error {
	ch.ev.Drain()
	var fired []uint32
	ch.mu.Lock()
	for c := range ch.cqs {
		again := c.unconsumed.Swap(false)
		if c.entry.armed.CompareAndSwap(armFired, armIdle) || again {
			fired = append(fired, c.id)
		}
	}
	ch.mu.Unlock()
	for _, id := range fired {
		each(id)
	}
	return nil
}

func (ch *channel) Close() error {
	ch.dev.fab.UnexportFD(uint64(ch.id))
	ch.dev.mu.Lock()
	delete(ch.dev.channels, ch.id)
	ch.dev.mu.Unlock()
	return ch.ev.Close()
}

// tickEvery is how often pending requests are tried whose owner does not poll.
const tickEvery = time.Millisecond

// deadTicks is how many ticks an owner sleeps that waits for a sender which may be dead.
const deadTicks = 10

// ticker goes on with the pending requests of CQs, and wakes owners that must look again by
// themselves. Its goroutine runs only while there are any.
type ticker struct {
	mu      sync.Mutex
	cqs     map[*cq]struct{} // with pending requests; guarded by mu
	wakes   map[*cq]int      // ticks until the owner is woken; guarded by mu
	running bool             // guarded by mu
}

func (t *ticker) add(c *cq) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cqs == nil {
		t.cqs = map[*cq]struct{}{}
	}
	t.cqs[c] = struct{}{}
	t.startLocked(c)
}

// wake makes the event of an armed CQ after a while.
func (t *ticker) wake(c *cq, s settling) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wakes == nil {
		t.wakes = map[*cq]int{}
	}
	ticks := deadTicks
	if s == waitsBehind {
		ticks = 1
	}
	if left, ok := t.wakes[c]; !ok || ticks < left {
		t.wakes[c] = ticks
	}
	t.startLocked(c)
}

func (t *ticker) startLocked(c *cq) {
	if !t.running {
		t.running = true
		c.dev.wg.Go(func() { t.run(c.dev.done) })
	}
}

func (t *ticker) forget(c *cq) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.cqs, c)
	delete(t.wakes, c)
}

func (t *ticker) run(done <-chan struct{}) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-done:
			return
		}
		for _, c := range t.take() {
			if c.help() {
				t.add(c)
			}
		}
		if t.over() {
			return
		}
	}
}

// take empties the set of the pending, so that who is added meanwhile is not lost, and wakes
// whose time has come.
func (t *ticker) take() []*cq {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*cq
	for c := range t.cqs {
		all = append(all, c)
	}
	clear(t.cqs)
	for c, left := range t.wakes {
		if t.wakes[c] = left - 1; left <= 1 {
			delete(t.wakes, c)
			c.fire()
		}
	}
	return all
}

func (t *ticker) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = len(t.cqs)+len(t.wakes) > 0
	return !t.running
}
