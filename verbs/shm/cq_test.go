//go:build linux && amd64

package shm

import (
	"testing"
	"time"
)

// A helper that saw pending requests, and got the lock only after the owner had completed them,
// keeps its hands off: the owner takes no lock then, and may be entering a QP that would be lost.
func TestHelperThatComesLateLeavesTheCQToItsOwner(t *testing.T) {
	a, _ := newPair(t, nodeOptions{})
	_, q := a.inside(t)
	c := q.sendCQ
	c.mu.Lock()
	c.pending.Store(true)
	helped := make(chan bool)
	go func() { helped <- c.help() }()
	time.Sleep(50 * time.Millisecond) // it waits for the lock
	c.pending.Store(false)
	c.waiting = append(c.waiting, q) // as cq.wait does, just before it sets pending
	c.mu.Unlock()
	if <-helped {
		t.Error("the helper says that requests are pending")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) != 1 || c.waiting[0] != q {
		t.Error("the helper took out the QP that the owner had entered")
	}
	c.waiting = nil
}
