package fiber_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"drtmd/internal/invariant"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// recorder is a part that posts nothing.
type recorder struct {
	flush         func()
	fenced        error
	closed        int
	closedInOrder bool // before the worker's own queue was
	cq            *verbs.CQ
}

func (r *recorder) Completed(*verbs.WC) {}
func (r *recorder) Flush() {
	if r.flush != nil {
		r.flush()
	}
}
func (r *recorder) Fence(cause error) { r.fenced = cause }
func (r *recorder) Close() error {
	r.closed++
	var wcs [1]verbs.WC
	_, err := r.cq.Poll(wcs[:])
	r.closedInOrder = err == nil
	return nil
}

func TestPartIsFlushedAfterEveryFiberOfThePassAndClosedWithTheWorker(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		ran, seen := 0, []int{}
		r := &recorder{cq: h.worker.CQ(), flush: func() { seen = append(seen, ran) }}
		if _, err := h.worker.AddPart(r, 0); err != nil {
			t.Fatal(err)
		}
		h.run(func(f *fiber.Fiber) error {
			seen = seen[:0]
			var tasks []*fiber.Task
			for range 5 {
				tasks = append(tasks, f.Worker().Go("one of five", nil, func(*fiber.Fiber) error {
					ran++
					return nil
				}))
			}
			for _, x := range tasks {
				if err := f.Join(x, 0); err != nil {
					return err
				}
			}
			if len(seen) > 0 {
				return fmt.Errorf("flushed amid a pass: after %v fibers", seen)
			}
			if err := f.Sleep(h.unit); err != nil {
				return err
			}
			if len(seen) == 0 || seen[0] != 5 {
				return fmt.Errorf("flushed after %v fibers", seen)
			}
			return nil
		})
		if err := h.worker.Close(); err != nil {
			t.Fatal(err)
		}
		if r.closed != 1 || !r.closedInOrder {
			t.Errorf("closed %d times, before the queue: %t", r.closed, r.closedInOrder)
		}
	})
}

func TestPartThatWantsMoreCompletionsThanThereAreIsRefused(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		_, err := h.worker.AddPart(&recorder{}, 1)
		if err == nil || !strings.Contains(err.Error(), "raise WorkerConfig.Extra") {
			t.Error(err)
		}
		h.run(func(*fiber.Fiber) error { return nil })
	})
}

func TestPartIsFencedWithTheWorker(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		r := &recorder{cq: h.worker.CQ()}
		if _, err := h.worker.AddPart(r, 0); err != nil {
			t.Fatal(err)
		}
		why := invariant.Violation{What: "of the test"}
		err := h.start(func(f *fiber.Fiber) error {
			f.Worker().Fence(why)
			return f.Sleep(h.unit)
		})
		if !errors.Is(err, why) || !errors.Is(r.fenced, why) {
			t.Errorf("the worker says %v, the part heard %v", err, r.fenced)
		}
	})
}

func TestTimerFiresOnceAtItsLastSettingUnlessStopped(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		var fired []string
		h.run(func(f *fiber.Fiber) error {
			w, now := f.Worker(), f.Now()
			timer := func(name string) *fiber.Timer {
				return w.NewTimer(func() { fired = append(fired, name) })
			}
			moved, stopped, last := timer("moved"), timer("stopped"), timer("last")
			moved.Set(now + 5*h.unit)
			stopped.Set(now + 2*h.unit)
			last.Set(now + 3*h.unit)
			moved.Set(now + h.unit)
			stopped.Stop()
			stopped.Stop()
			return f.Sleep(8 * h.unit)
		})
		if got := strings.Join(fired, " "); got != "moved last" {
			t.Errorf("fired: %s", got)
		}
	})
}
