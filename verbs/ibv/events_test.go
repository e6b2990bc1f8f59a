//go:build cgo && linux

package ibv

import (
	"runtime"
	"testing"
	"time"

	"drtmd/verbs"
)

// A worker that is locked to its thread waits in an epoll call of its own.
func TestLockedThreadWaitsWithAPoller(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := requireDevice(t)
	ch, err := c.CreateChannel()
	check(t, err)
	o := defaultConfig(verbs.RC)
	o.Channel = ch
	a, b := newPair(t, c, o)
	p, err := verbs.NewPoller(ch)
	check(t, err)
	defer func() { check(t, p.Close()) }()
	for i := range uint64(20) {
		check(t, a.cq.Arm(false))
		a.post(at(a.wr(verbs.OpWrite, i, 0, 8), b, 64))
		for {
			woken, err := p.Wait(patience)
			check(t, err)
			if !woken {
				t.Fatalf("round %d: not woken", i)
			}
			seen := 0
			check(t, ch.Consume(func(cq *verbs.CQ) {
				if cq == a.cq {
					seen++
				}
			}))
			if seen > 0 {
				break
			}
		}
		a.ok(1)
	}
	start := time.Now()
	if woken, err := p.Wait(30 * time.Millisecond); woken || err != nil {
		t.Fatalf("woken for nothing (%v)", err)
	}
	if took := time.Since(start); took < 25*time.Millisecond {
		t.Fatalf("waited %s", took)
	}
}
