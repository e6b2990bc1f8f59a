package fiber

import (
	"errors"
	"time"
)

// What awaiting can end with beside the operation's own error.
var (
	// ErrDeadline: the deadline came first.
	ErrDeadline = errors.New("deadline exceeded")
	// ErrCancelled: the fiber's scope was cancelled; Scope.Cancel joins it with why.
	ErrCancelled = errors.New("fiber cancelled")
	// ErrStopped: the worker is shutting down.
	ErrStopped = errors.New("worker stopped")
)

// Mutex excludes fibers of one worker from each other; it is held across awaits and handed over
// in order. The zero value is unlocked. It never blocks the thread.
type Mutex struct {
	owner *Fiber
	queue fiberList
}

// Lock waits for the mutex. It fails only when the fiber is cancelled, and then does not hold it.
func (m *Mutex) Lock(f *Fiber) error { return m.LockUntil(f, 0) }

// LockUntil is Lock with a deadline on the node's clock; 0 is none.
func (m *Mutex) LockUntil(f *Fiber, deadline time.Duration) error {
	if m.owner == nil {
		m.owner = f
		return nil
	}
	m.queue.push(f)
	err := f.wait(deadline)
	if m.owner == f && err != nil { // handed over in the same moment
		m.Unlock(f)
	}
	return err
}

// Unlock gives the mutex to the fiber that waits longest. f must hold it.
func (m *Mutex) Unlock(f *Fiber) {
	if m.owner != f {
		panic("fiber: unlock of a mutex that the fiber does not hold")
	}
	m.owner = m.queue.pop()
	if m.owner != nil {
		m.owner.w.ready(m.owner)
	}
}

// Cond lets fibers of one worker wait for a condition.
type Cond struct{ queue fiberList }

// Wait waits for a Signal or Broadcast; deadline 0 is none. There are no spurious wake-ups, but
// the condition may have changed again: test it in a loop.
func (c *Cond) Wait(f *Fiber, deadline time.Duration) error {
	f.signaled = false
	c.queue.push(f)
	err := f.wait(deadline)
	if err == nil || !f.signaled {
		return err
	}
	if err == ErrDeadline { // both in the same moment: the signal counts
		return nil
	}
	c.Signal() // a cancelled fiber must not swallow it
	return err
}

// Signal wakes the fiber that waits longest.
func (c *Cond) Signal() {
	if f := c.queue.pop(); f != nil {
		f.signaled = true
		f.w.ready(f)
	}
}

// Broadcast wakes all.
func (c *Cond) Broadcast() {
	for !c.queue.empty() {
		c.Signal()
	}
}

// Queue is a bounded FIFO between fibers of one worker.
type Queue[T any] struct {
	ring             []T
	head, count      int
	closed           bool
	notFull, notEmpt Cond
}

// NewQueue makes a queue of at most bound elements.
func NewQueue[T any](bound int) *Queue[T] { return &Queue[T]{ring: make([]T, max(bound, 1))} }

// ErrQueueClosed: the queue was closed, and is empty if this came from Get.
var ErrQueueClosed = errors.New("queue closed")

// Put appends v, waiting for room until the deadline (0: none).
func (q *Queue[T]) Put(f *Fiber, v T, deadline time.Duration) error {
	for {
		if q.closed {
			return ErrQueueClosed
		}
		if q.count < len(q.ring) {
			break
		}
		if err := q.notFull.Wait(f, deadline); err != nil {
			return err
		}
	}
	q.ring[(q.head+q.count)%len(q.ring)] = v
	q.count++
	q.notEmpt.Signal()
	return nil
}

// Get takes the oldest element, waiting for one until the deadline (0: none).
func (q *Queue[T]) Get(f *Fiber, deadline time.Duration) (T, error) {
	var zero T
	for q.count == 0 {
		if q.closed {
			return zero, ErrQueueClosed
		}
		if err := q.notEmpt.Wait(f, deadline); err != nil {
			return zero, err
		}
	}
	v := q.ring[q.head]
	q.ring[q.head] = zero
	q.head = (q.head + 1) % len(q.ring)
	q.count--
	q.notFull.Signal()
	return v, nil
}

// Len is the number of elements that wait.
func (q *Queue[T]) Len() int { return q.count }

// Close ends the queue: what is in it can still be taken, nothing more be put.
func (q *Queue[T]) Close() {
	q.closed = true
	q.notFull.Broadcast()
	q.notEmpt.Broadcast()
}
