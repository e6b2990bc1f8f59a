package fiber

import (
	"errors"
)

// Scope cancels fibers together. Everything of it belongs to the worker's thread.
type Scope struct {
	w     *Worker
	cause error
	tasks []*Task // live ones, in the order of their start
}

// NewScope makes a scope of the worker.
func (w *Worker) NewScope() *Scope { return &Scope{w: w} }

// Cancel ends every wait of the scope's fibers with an error that is ErrCancelled and cause.
// Cleanups (Fiber.Defer) still run, and may await.
func (s *Scope) Cancel(cause error) {
	if s.cause != nil {
		return
	}
	s.cause = errors.Join(ErrCancelled, cause)
	for _, t := range s.tasks {
		if t.fiber != nil && !t.fiber.cleaning {
			s.w.ready(t.fiber)
		}
	}
}

func (s *Scope) add(t *Task) { s.tasks = append(s.tasks, t) }

func (s *Scope) drop(t *Task) {
	for i, x := range s.tasks {
		if x == t {
			s.tasks = append(s.tasks[:i], s.tasks[i+1:]...)
			return
		}
	}
}

// cancelled is the reason why the fiber must not wait any longer, or nil.
func (f *Fiber) cancelled() error {
	switch {
	case f.w.dead:
		return errKilled
	case f.cleaning:
		return nil
	case f.w.stopCause != nil:
		return f.w.stopCause
	case f.w.fenced != nil:
		return f.w.fenced
	case f.task.scope != nil && f.task.scope.cause != nil:
		return f.task.scope.cause
	}
	return nil
}

// Err is nil, or why the fiber should stop: long loops without awaits ask it.
func (f *Fiber) Err() error { return f.cancelled() }
