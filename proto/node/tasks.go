package node

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Tasks are fibers that were started together.
type Tasks struct {
	host host
	done chan struct{} // closed when all have ended

	mu   sync.Mutex
	left int
	errs []error
}

// maxErrors bounds the errors that are kept of a set of tasks, each once.
const maxErrors = 8

func newTasks(h host, n int) *Tasks {
	t := &Tasks{host: h, done: make(chan struct{}), left: n}
	if n == 0 {
		close(t.done)
	}
	return t
}

// ended takes the end of one task, on its worker.
func (t *Tasks) ended(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := func(e error) bool { return e.Error() == err.Error() }
	if err != nil && len(t.errs) < maxErrors && !slices.ContainsFunc(t.errs, known) {
		t.errs = append(t.errs, err)
	}
	if t.left--; t.left == 0 {
		close(t.done)
	}
}

// err joins the errors so far.
func (t *Tasks) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(t.errs...)
}

// Failed reports whether a task has ended with an error.
func (t *Tasks) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.errs) > 0
}

// Wait waits until all have ended, and gives their errors; or that of ctx, or what ended the
// thread of one of them.
func (t *Tasks) Wait(ctx context.Context) error { return t.host.wait(ctx, t) }
