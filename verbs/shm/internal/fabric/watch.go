//go:build linux && amd64

package fabric

import "time"

// watchPoll is how often a watcher looks at the lock when it has no connection to wait on.
const watchPoll = 20 * time.Millisecond

// Watch returns a channel that is closed when p has died, or when f is closed (then Alive is
// false too). One goroutine and one connection serve all watchers of one peer: the connection's
// end wakes it, the lock decides.
func (f *Fabric) Watch(p ProcID) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ch, ok := f.watches[p]; ok {
		return ch
	}
	ch := make(chan struct{})
	switch {
	case f.closed || !f.slots.alive(p):
		close(ch)
		return ch
	case p == f.self:
		return f.done
	}
	f.watches[p] = ch
	f.wg.Go(func() { f.watch(p, ch) })
	return ch
}

func (f *Fabric) watch(p ProcID, ch chan struct{}) {
	// A process that is stopped still gets connections while its backlog has room; without one
	// the polling below does.
	if c, err := f.dial(p, time.Now()); err == nil {
		_ = c.receive(false, func(frame, []int) error { return nil }) // ends with p or with f
		f.forget(c)
	}
	for f.Alive(p) {
		select {
		case <-f.done:
		case <-time.After(watchPoll):
		}
	}
	f.mu.Lock()
	delete(f.watches, p)
	f.mu.Unlock()
	close(ch)
}
