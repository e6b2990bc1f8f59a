package fiber_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// Each test runs on every host that this machine has: see hosts_test.go.

func TestQueueKeepsOrderAndBound(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		q := fiber.NewQueue[int](3)
		var got []int
		most := 0
		h.run(func(f *fiber.Fiber) error {
			producer := f.Worker().Go("producer", nil, func(f *fiber.Fiber) error {
				for i := range 100 {
					if err := q.Put(f, i, 0); err != nil {
						return err
					}
					most = max(most, q.Len())
				}
				q.Close()
				return nil
			})
			for {
				v, err := q.Get(f, 0)
				if errors.Is(err, fiber.ErrQueueClosed) {
					return f.Join(producer, 0)
				}
				if err != nil {
					return err
				}
				got = append(got, v)
				if v%7 == 0 {
					f.Yield()
				}
			}
		})
		if len(got) != 100 || !slices.IsSorted(got) || most != 3 {
			t.Fatalf("got %v, at most %d waited", got, most)
		}
	})
}

func TestMutexExcludesAcrossAwaitsAndIsFair(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		var m fiber.Mutex
		inside, worst := 0, 0
		var order []int
		h.run(func(f *fiber.Fiber) error {
			var tasks []*fiber.Task
			for i := range 5 {
				tasks = append(tasks, f.Worker().Go("locker", nil, func(f *fiber.Fiber) error {
					for range 3 {
						if err := m.Lock(f); err != nil {
							return err
						}
						inside++
						worst = max(worst, inside)
						order = append(order, i)
						f.Yield()
						inside--
						m.Unlock(f)
					}
					return nil
				}))
			}
			for _, x := range tasks {
				if err := f.Join(x, 0); err != nil {
					return err
				}
			}
			return nil
		})
		if worst != 1 {
			t.Fatalf("%d fibers held the mutex at once", worst)
		}
		want := []int{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}
		if !slices.Equal(order, want) {
			t.Fatalf("order %v", order)
		}
	})
}

func TestMutexDeadlineLeavesItUsable(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		var m fiber.Mutex
		h.run(func(f *fiber.Fiber) error {
			if err := m.Lock(f); err != nil {
				return err
			}
			late := f.Worker().Go("late", nil, func(f *fiber.Fiber) error {
				return m.LockUntil(f, f.Now()+h.unit)
			})
			if err := f.Join(late, 0); !errors.Is(err, fiber.ErrDeadline) {
				return fmt.Errorf("second lock: %v", err)
			}
			m.Unlock(f)
			return m.LockUntil(f, f.Now()+h.unit)
		})
	})
}

// A task that has ended can be started again, and then allocates nothing.
func TestATaskIsStartedAgain(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		runs, perRun := 0, 0.0
		h.run(func(f *fiber.Fiber) error {
			errOdd := errors.New("odd")
			task := f.Worker().Go("again", nil, func(*fiber.Fiber) error {
				if runs++; runs%2 == 1 {
					return errOdd
				}
				return nil
			})
			again := func() {
				want := error(nil)
				if runs%2 == 0 {
					want = errOdd
				}
				if err := f.Join(task, 0); err != want {
					t.Errorf("run %d ends with %v, want %v", runs, err, want)
				}
				f.Worker().Restart(task)
			}
			if h.virtual || raceEnabled {
				again()
			} else {
				perRun = testing.AllocsPerRun(100, again)
			}
			return f.Join(task, 0)
		})
		if runs < 2 || perRun != 0 {
			t.Errorf("%d runs, %.1f allocations per run", runs, perRun)
		}
	})
}

func TestSleepLastsAtLeastItsTime(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			var order []string
			sleeper := func(name string, d time.Duration) *fiber.Task {
				return f.Worker().Go(name, nil, func(f *fiber.Fiber) error {
					start := f.Now()
					if err := f.Sleep(d); err != nil {
						return err
					}
					if slept := f.Now() - start; slept < d {
						return fmt.Errorf("slept %v of %v", slept, d)
					}
					order = append(order, name)
					return nil
				})
			}
			long, short := sleeper("long", 5*h.unit), sleeper("short", h.unit)
			if err := errors.Join(f.Join(long, 0), f.Join(short, 0)); err != nil {
				return err
			}
			if got := strings.Join(order, " "); got != "short long" {
				return fmt.Errorf("woke up as %q", got)
			}
			return nil
		})
	})
}

func TestCancelEndsEveryWaitAndRunsCleanups(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		reason := errors.New("enough")
		h.run(func(f *fiber.Fiber) error {
			w := f.Worker()
			s := w.NewScope()
			var m fiber.Mutex
			var c fiber.Cond
			q := fiber.NewQueue[int](1)
			if err := m.Lock(f); err != nil {
				return err
			}
			cleaned := 0
			sleeper := w.Go("sleeper", nil, func(f *fiber.Fiber) error { return f.Sleep(8 * h.unit) })
			var tasks []*fiber.Task
			for name, wait := range map[string]func(*fiber.Fiber) error{
				"mutex": m.Lock,
				"cond":  func(f *fiber.Fiber) error { return c.Wait(f, 0) },
				"queue": func(f *fiber.Fiber) error { _, err := q.Get(f, 0); return err },
				"full queue": func(f *fiber.Fiber) error {
					full := fiber.NewQueue[int](1)
					return errors.Join(full.Put(f, 1, 0), full.Put(f, 2, 0))
				},
				"join":  func(f *fiber.Fiber) error { return f.Join(sleeper, 0) },
				"sleep": func(f *fiber.Fiber) error { return f.Sleep(time.Hour) },
				"word": func(f *fiber.Fiber) error {
					_, err := f.AwaitWord(h.memory, 1024, 0, 0)
					return err
				},
				"receive that is never posted": func(f *fiber.Fiber) error {
					return h.conn.Send(f, h.buffer.SGE(0, 8))
				},
				"yield": func(f *fiber.Fiber) error {
					for {
						if err := f.Yield(); err != nil {
							return err
						}
					}
				},
			} {
				tasks = append(tasks, w.Go(name, s, func(f *fiber.Fiber) error {
					f.Defer(func(f *fiber.Fiber) {
						if err := f.Sleep(h.unit); err == nil { // a cleanup may await
							cleaned++
						}
					})
					return wait(f)
				}))
			}
			if err := f.Sleep(h.unit); err != nil {
				return err
			}
			s.Cancel(reason)
			for _, x := range tasks {
				err := f.Join(x, 0)
				if !errors.Is(err, fiber.ErrCancelled) || !errors.Is(err, reason) {
					return fmt.Errorf("wait ended with %v", err)
				}
			}
			if cleaned != len(tasks) {
				return fmt.Errorf("%d of %d cleanups ran", cleaned, len(tasks))
			}
			m.Unlock(f)
			if err := m.Lock(f); err != nil { // the cancelled waiter left the queue
				return err
			}
			return f.Join(sleeper, 0)
		})
	})
}

// Every wait that takes a deadline ends with it, not earlier, and what was waited for can be
// waited for again.
func TestDeadlineEndsEveryWait(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			var m fiber.Mutex
			var c fiber.Cond
			scope := f.Worker().NewScope()
			holder := f.Worker().Go("holder", scope, func(f *fiber.Fiber) error {
				if err := m.Lock(f); err != nil {
					return err
				}
				defer m.Unlock(f)
				return f.Sleep(time.Hour)
			})
			empty, full := fiber.NewQueue[int](1), fiber.NewQueue[int](1)
			if err := errors.Join(full.Put(f, 1, 0), f.Yield()); err != nil {
				return err
			}
			var op *fiber.Op
			for _, wait := range []struct {
				name string
				call func(deadline time.Duration) error
			}{
				{"mutex", func(d time.Duration) error { return m.LockUntil(f, d) }},
				{"cond", func(d time.Duration) error { return c.Wait(f, d) }},
				{"empty queue", func(d time.Duration) error { _, err := empty.Get(f, d); return err }},
				{"full queue", func(d time.Duration) error { return full.Put(f, 2, d) }},
				{"join", func(d time.Duration) error { return f.Join(holder, d) }},
				{"word", func(d time.Duration) error {
					_, err := f.AwaitWord(h.memory, 1024, 0, d)
					return err
				}},
				{"operation", func(d time.Duration) (err error) { // no receive is posted
					op, err = h.conn.Post(f, &verbs.WR{Op: verbs.OpSend})
					if err != nil {
						return err
					}
					return f.AwaitUntil(op, d)
				}},
				{"batch", func(d time.Duration) error {
					var b fiber.Batch
					b.Post(f, h.conn, &verbs.WR{Op: verbs.OpSend})
					return b.AwaitUntil(f, d)
				}},
			} {
				for range 2 {
					deadline := f.Now() + h.unit/4
					if err := wait.call(deadline); !errors.Is(err, fiber.ErrDeadline) {
						return fmt.Errorf("%s: %v", wait.name, err)
					}
					if now := f.Now(); now < deadline {
						return fmt.Errorf("%s: ended at %s, before %s", wait.name, now, deadline)
					}
				}
			}
			// What was abandoned in flight is still the device's, until the conn is quiet.
			if err := h.conn.QP().ToError(); err != nil {
				return err
			}
			if err := h.conn.Quiesce(f); err != nil {
				return err
			}
			scope.Cancel(errors.New("of the test"))
			if err := f.Join(holder, 0); !errors.Is(err, fiber.ErrCancelled) {
				return fmt.Errorf("the holder: %v", err)
			}
			return m.LockUntil(f, f.Now()+h.unit)
		})
	})
}

// A panic of a workload fails its fiber, and its locks are released, remote ones by operations that
// the cleanup awaits; the others go on.
func TestPanicFailsItsFiberOnlyWithItsStack(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			released, r := false, h.remote
			bad := f.Worker().Go("bad", nil, func(f *fiber.Fiber) error {
				if _, err := h.conn.CAS(f, r.Addr, r.RKey, 0, 7); err != nil {
					return err
				}
				f.Defer(func(f *fiber.Fiber) {
					old, err := h.conn.CAS(f, r.Addr, r.RKey, 7, 0)
					released = old == 7 && err == nil
				})
				var p *int
				*p = 1
				return nil
			})
			err := f.Join(bad, 0)
			var p *fiber.PanicError
			if !errors.As(err, &p) || !strings.Contains(string(p.Stack), "local_test.go") {
				return fmt.Errorf("joined with %v", err)
			}
			if !released {
				return errors.New("the cleanup did not run")
			}
			old, err := h.conn.CAS(f, r.Addr, r.RKey, 0, 8)
			if err == nil && old != 0 {
				err = fmt.Errorf("the remote lock is still held by %d", old)
			}
			return err
		})
	})
}

// A failed invariant takes the whole node out: its other QPs, by which peers reach its memory, are
// in error too.
func TestFailedInvariantFencesTheNode(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		cq, err := h.worker.PD().Context().CreateCQ(verbs.CQConfig{Depth: 4})
		h.must(err)
		passive, err := h.worker.PD().CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq,
			RecvCQ: cq, SendDepth: 1, RecvDepth: 1, Access: verbs.AccessAll})
		h.must(err)
		peer := h.conn.Endpoint() // any that is well formed
		h.must(passive.Connect(&peer, verbs.ConnectAttr{}))
		var other error
		err = h.start(func(f *fiber.Fiber) error {
			w := f.Worker()
			waiter := w.Go("waiter", nil, func(f *fiber.Fiber) error {
				other = f.Sleep(time.Hour)
				return other
			})
			f.Yield()
			w.Go("ours", nil, func(*fiber.Fiber) error {
				invariant.Assert(false, "deliberate")
				return nil
			})
			return f.Join(waiter, 0)
		})
		var v invariant.Violation
		if !errors.As(err, &v) || !errors.As(other, &v) {
			t.Fatalf("thread ended with %v, the other fiber with %v", err, other)
		}
		if s := h.conn.QP().State(); s != verbs.StateErr && s != verbs.StateClosed {
			t.Fatalf("the QP is in %s", s)
		}
		if s := passive.State(); s != verbs.StateErr {
			t.Fatalf("another QP of the node is in %s", s)
		}
	})
}
