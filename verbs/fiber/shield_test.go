package fiber_test

import (
	"errors"
	"testing"
	"time"

	"drtmd/verbs/fiber"
)

func TestShieldedWaitsOutlastACancellation(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		cause := errors.New("enough")
		var inside, nested, after error
		h.run(func(f *fiber.Fiber) error {
			s := f.Worker().NewScope()
			x := f.Worker().Go("shielded", s, func(f *fiber.Fiber) error {
				was := f.Shield()
				inside = f.Sleep(5 * time.Millisecond)
				again := f.Shield()
				f.Unshield(again)
				nested = f.Sleep(time.Millisecond)
				f.Unshield(was)
				after = f.Sleep(time.Millisecond)
				return nil
			})
			if err := f.Sleep(time.Millisecond); err != nil {
				return err
			}
			s.Cancel(cause)
			return f.Join(x, 0)
		})
		if inside != nil || nested != nil {
			t.Errorf("shielded waits ended with %v and %v", inside, nested)
		}
		if !errors.Is(after, cause) {
			t.Errorf("the wait after Unshield ended with %v, want the cancellation", after)
		}
	})
}
