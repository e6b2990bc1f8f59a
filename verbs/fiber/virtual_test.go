package fiber_test

import (
	"testing"
	"time"

	"drtmd/verbs/fiber"
)

// A fiber that spends time looks at no queue, and a marked step is none of the program's work.
func TestNothingButChargeSpendsTheTimeOfAFiberInVirtualTime(t *testing.T) {
	for _, c := range []struct {
		name    string
		charges []time.Duration
		steps   int // after each charge
	}{
		{"charges", []time.Duration{time.Nanosecond, 70 * time.Nanosecond, time.Microsecond}, 0},
		{"steps", []time.Duration{0}, 10},
		{"both", []time.Duration{time.Microsecond, 0, 30 * time.Nanosecond}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newSimHost(t)
			h.run(func(f *fiber.Fiber) error {
				f.Charge(1000) // the pass that began the fiber is over
				begin, want := f.Now(), time.Duration(0)
				for _, d := range c.charges {
					f.Charge(d.Nanoseconds() * 1000)
					want += d
					for range c.steps {
						f.Step("test: step")
					}
				}
				if got := f.Now() - begin; got != want {
					t.Errorf("%s have passed, want %s", got, want)
				}
				return nil
			})
		})
	}
}

// The core looks at its queues when a fiber gives way, which takes time before anything else does.
func TestALookAtTheQueuesTakesTimeInVirtualTime(t *testing.T) {
	h := newSimHost(t)
	h.run(func(f *fiber.Fiber) error {
		f.Charge(1000)
		begin := f.Now()
		if err := f.Yield(); err != nil {
			return err
		}
		f.Charge(1000)
		if got := f.Now() - begin; got <= time.Nanosecond {
			t.Errorf("a look and 1ns of work take %s", got)
		}
		return nil
	})
}
