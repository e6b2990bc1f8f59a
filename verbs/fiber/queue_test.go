package fiber_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"drtmd/verbs/fiber"
)

// The queue against the obvious model, a slice, under fibers that put, take, give up at a deadline,
// are cancelled and close it, in drawn order: what is taken is what was put, in order, once; no
// more waits in it than the bound; nobody waits for what is there, and nobody waits for ever.
func TestQueueIsASliceThatFibersWaitFor(t *testing.T) {
	h := newSimHost(t) // one world for all drawn programs: each ends with every fiber
	rapid.Check(t, func(t *rapid.T) {
		m := &queueModel{h: h, bound: rapid.IntRange(1, 4).Draw(t, "bound")}
		m.q = fiber.NewQueue[int](m.bound)
		putters := rapid.IntRange(1, 3).Draw(t, "putters")
		takers := rapid.IntRange(1, 3).Draw(t, "takers")
		var programs [][]queueAction
		for i := range putters + takers {
			programs = append(programs, drawActions(t, i < putters))
		}
		cancelAt := h.unit * time.Duration(rapid.IntRange(1, 40).Draw(t, "cancel at"))
		closeAt := h.unit * time.Duration(rapid.SampledFrom([]int{5, 20, settled}).Draw(t, "close at"))
		ended := false
		err := h.start(func(f *fiber.Fiber) error {
			doomed := f.Worker().NewScope()
			var tasks []*fiber.Task
			for i, actions := range programs {
				scope := doomed
				if i%2 == 0 {
					scope = nil
				}
				tasks = append(tasks, f.Worker().Go("program", scope, func(f *fiber.Fiber) error {
					return m.run(f, actions)
				}))
			}
			tasks = append(tasks, f.Worker().Go("canceller", nil, func(f *fiber.Fiber) error {
				err := f.Sleep(cancelAt)
				if err == nil && !m.closed && len(m.content) < m.bound {
					err = m.put(f, 0) // who is woken by it may be cancelled before it runs
				}
				doomed.Cancel(errors.New("of the test"))
				return err
			}))
			if err := f.Sleep(closeAt); err != nil {
				return err
			}
			if err := m.settle(closeAt); err != nil {
				return err
			}
			m.q.Close()
			m.closed = true
			for _, x := range tasks {
				if err := f.Join(x, 0); err != nil && !errors.Is(err, fiber.ErrCancelled) {
					return err
				}
			}
			ended = true
			return m.drain(f)
		})
		if !ended && err == nil {
			err = errors.New("a fiber waits for ever")
		}
		if err != nil {
			t.Fatal(err)
		}
		if m.taken+m.left != m.count {
			t.Fatalf("%d put, %d taken, %d left", m.count, m.taken, m.left)
		}
	})
}

// settled is when every sleep and deadline of the drawn programs is over, in units.
const settled = 200

// queueAction is a put or a take with a deadline (0: none), after a sleep.
type queueAction struct {
	put             bool
	sleep, deadline time.Duration
}

func drawActions(t *rapid.T, put bool) []queueAction {
	unit := func(most int, what string) time.Duration {
		return 20 * time.Microsecond * time.Duration(rapid.IntRange(0, most).Draw(t, what))
	}
	var out []queueAction
	for range rapid.IntRange(1, 12).Draw(t, "actions") {
		out = append(out, queueAction{put, unit(3, "sleep"), unit(5, "deadline")})
	}
	return out
}

// queueModel is what the queue should hold. Fibers of one worker share it: nothing runs between a
// call of the queue that returns and the model's turn.
type queueModel struct {
	h           *host
	q           *fiber.Queue[int]
	bound       int
	content     []int
	closed      bool
	value       int // the last that was tried to put
	count       int // values put
	taken, left int
	waiting     [2]int // fibers inside Get and Put
}

// settle checks, when everything that can go on has gone on, that nobody waits for what is there.
func (m *queueModel) settle(at time.Duration) error {
	if at < settled*m.h.unit {
		return nil
	}
	if m.waiting[0] > 0 && len(m.content) > 0 || m.waiting[1] > 0 && len(m.content) < m.bound {
		return fmt.Errorf("%d wait to take and %d to put, and %d of %d are in the queue",
			m.waiting[0], m.waiting[1], len(m.content), m.bound)
	}
	return nil
}

func (m *queueModel) run(f *fiber.Fiber, actions []queueAction) error {
	for _, a := range actions {
		if a.sleep > 0 {
			if err := f.Sleep(a.sleep); err != nil {
				return err
			}
		}
		deadline := time.Duration(0)
		if a.deadline > 0 {
			deadline = f.Now() + a.deadline
		}
		var err error
		if a.put {
			err = m.put(f, deadline)
		} else {
			err = m.take(f, deadline)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put gives nil for a refusal that the model agrees with.
func (m *queueModel) put(f *fiber.Fiber, deadline time.Duration) error {
	m.value++
	v := m.value
	m.waiting[1]++
	err := m.q.Put(f, v, deadline)
	m.waiting[1]--
	if err == nil {
		if m.closed || len(m.content) >= m.bound {
			return fmt.Errorf("put into a queue of %d of %d, closed %t", len(m.content), m.bound,
				m.closed)
		}
		m.content = append(m.content, v)
		m.count++
	}
	return m.refused(f, err, deadline)
}

func (m *queueModel) take(f *fiber.Fiber, deadline time.Duration) error {
	m.waiting[0]++
	v, err := m.q.Get(f, deadline)
	m.waiting[0]--
	if err == nil {
		if len(m.content) == 0 || m.content[0] != v {
			return fmt.Errorf("took %d of %v", v, m.content)
		}
		m.content = m.content[1:]
		m.taken++
	}
	if errors.Is(err, fiber.ErrQueueClosed) && len(m.content) > 0 {
		return fmt.Errorf("closed for the taker, with %v in it", m.content)
	}
	return m.refused(f, err, deadline)
}

// refused checks an error against the model; cancellations are the caller's.
func (m *queueModel) refused(f *fiber.Fiber, err error, deadline time.Duration) error {
	switch {
	case errors.Is(err, fiber.ErrDeadline):
		if deadline == 0 || f.Now() < deadline {
			return fmt.Errorf("at %s: deadline %s exceeded", f.Now(), deadline)
		}
	case errors.Is(err, fiber.ErrQueueClosed):
		if !m.closed {
			return errors.New("it says that it is closed")
		}
	case err != nil:
		return err
	}
	return m.agree()
}

func (m *queueModel) agree() error {
	if m.q.Len() != len(m.content) || m.q.Len() > m.bound {
		return fmt.Errorf("%d wait, the model has %v, the bound is %d", m.q.Len(), m.content, m.bound)
	}
	return nil
}

// drain takes what is left of a closed queue: it ends with ErrQueueClosed.
func (m *queueModel) drain(f *fiber.Fiber) error {
	for len(m.content) > 0 {
		before := m.taken
		if err := m.take(f, 0); err != nil {
			return err
		}
		m.left += m.taken - before
		m.taken = before
	}
	if _, err := m.q.Get(f, 0); !errors.Is(err, fiber.ErrQueueClosed) {
		return fmt.Errorf("an empty closed queue: %v", err)
	}
	if err := m.q.Put(f, 0, 0); !errors.Is(err, fiber.ErrQueueClosed) {
		return fmt.Errorf("put into a closed queue: %v", err)
	}
	return nil
}
