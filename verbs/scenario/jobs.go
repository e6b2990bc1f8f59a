package scenario

import (
	"context"
	"sync"
)

// aheadOfOrder bounds the results that wait for an earlier one.
const aheadOfOrder = 4096

// inOrder makes the runs numbered first to last, several at a time, and hands over their results
// in ascending order, one at a time, until give returns false, a run has an error, or ctx ends:
// what is handed over does not depend on the number of jobs. Runs under way are ended then. It
// returns the error of the lowest run that has one, or the cause of ctx's end.
func inOrder[T any](ctx context.Context, first, last uint64, jobs int,
	run func(context.Context, uint64) (T, error), give func(T) bool) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	q := &ordered[T]{give: give, next: first, due: first, last: last, cancel: cancel,
		waiting: make([]slot[T], aheadOfOrder)}
	q.moved.L = &q.mu
	var wait sync.WaitGroup
	for range max(1, jobs) {
		wait.Go(func() {
			for {
				n, ok := q.take()
				if !ok {
					return
				}
				v, err := run(inner, n)
				q.put(n, slot[T]{v, err, true})
			}
		})
	}
	wait.Wait()
	if ctx.Err() != nil && !q.complete {
		return context.Cause(ctx)
	}
	return q.err
}

// slot is where the result of a run waits.
type slot[T any] struct {
	value T
	err   error
	here  bool
}

// ordered is what the jobs of inOrder share.
type ordered[T any] struct {
	give   func(T) bool
	last   uint64
	cancel context.CancelFunc

	mu       sync.Mutex // guards all below
	moved    sync.Cond  // due or ended has changed
	next     uint64     // to be run
	begun    bool       // next is beyond last, which may be the greatest number there is
	due      uint64     // to be handed over
	waiting  []slot[T]  // by number, modulo its length
	ended    bool
	complete bool // the end is that of the runs or of give
	err      error
}

// take gives the next run to make.
func (q *ordered[T]) take() (uint64, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.ended && !q.begun && q.next-q.due >= aheadOfOrder {
		q.moved.Wait()
	}
	if q.ended || q.begun {
		return 0, false
	}
	n := q.next
	q.next++
	q.begun = n == q.last
	return n, true
}

// put takes a result in and hands over all that are due.
func (q *ordered[T]) put(n uint64, o slot[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting[n%aheadOfOrder] = o
	for !q.ended && q.waiting[q.due%aheadOfOrder].here {
		o := q.waiting[q.due%aheadOfOrder]
		q.waiting[q.due%aheadOfOrder] = slot[T]{}
		switch {
		case o.err != nil:
			q.err, q.ended = o.err, true
		case !q.give(o.value) || q.due == q.last:
			q.complete, q.ended = true, true
		default:
			q.due++
		}
	}
	if q.ended {
		q.cancel()
	}
	q.moved.Broadcast()
}
