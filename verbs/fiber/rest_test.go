package fiber_test

import (
	"fmt"
	"testing"

	"drtmd/verbs/fiber"
)

// Fibers that rest run in turn, and whoever was readied meanwhile runs before the next of them.
func TestRestingFibersGoInTurnAndAfterEveryoneElse(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		const resting, rounds = 8, 100
		h.run(func(f *fiber.Fiber) error {
			w := f.Worker()
			var cond fiber.Cond
			signalled, over := false, false
			waiter := w.Go("waiter", nil, func(f *fiber.Fiber) error {
				for !over {
					signalled = false
					if err := cond.Wait(f, 0); err != nil {
						return err
					}
				}
				return nil
			})
			if err := f.Yield(); err != nil {
				return err
			}
			var tasks []*fiber.Task
			turn := 0
			for i := range resting {
				tasks = append(tasks, w.Go("resting", nil, func(f *fiber.Fiber) error {
					for range rounds {
						if turn%resting != i {
							return fmt.Errorf("fiber %d has turn %d", i, turn)
						}
						if signalled {
							return fmt.Errorf("turn %d came before a fiber that was ready", turn)
						}
						turn++
						if err := f.Rest(); err != nil {
							return err
						}
						signalled = true
						cond.Signal()
						if err := f.Rest(); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			for _, t := range tasks {
				if err := f.Join(t, 0); err != nil {
					return err
				}
			}
			over = true
			cond.Signal()
			return f.Join(waiter, 0)
		})
	})
}

func TestRestingFiberIsCancelled(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			scope := f.Worker().NewScope()
			task := f.Worker().Go("resting", scope, func(f *fiber.Fiber) error {
				for {
					if err := f.Rest(); err != nil {
						return nil
					}
				}
			})
			if err := f.Yield(); err != nil {
				return err
			}
			scope.Cancel(fmt.Errorf("enough"))
			return f.Join(task, 0)
		})
	})
}
