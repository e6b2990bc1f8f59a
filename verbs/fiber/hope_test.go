package fiber_test

import (
	"path/filepath"
	"testing"
	"time"

	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// switchesOf is how often a fiber parks in 100 READs that have completed when the post returns. with is called before, and
// what it returns after.
func switchesOf(t *testing.T, hopeful bool, with func(h *host, f *fiber.Fiber) (after func() error)) uint64 {
	t.Helper()
	return switchesOn(newHopeHost(t), hopeful, with)
}

func newHopeHost(t *testing.T) *host {
	return newRealHost(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "fabric")}))
}

// switchesOn is switchesOf on a host.
func switchesOn(h *host, hopeful bool, with func(h *host, f *fiber.Fiber) (after func() error)) uint64 {
	h.t.Helper()
	var n uint64
	h.run(func(f *fiber.Fiber) error {
		w := f.Worker()
		fiber.Hope(w, hopeful)
		after := with(h, f)
		before := w.Stats.Switches
		for range 100 {
			if err := h.conn.Read(f, h.buffer.SGE(0, 16), h.remote.Addr, h.remote.RKey); err != nil {
				return err
			}
		}
		n = w.Stats.Switches - before
		return after()
	})
	return n
}

func alone(*host, *fiber.Fiber) func() error { return func() error { return nil } }

// On Soft-RoCE an operation has often completed when the post returns, and takes so long that others must not wait for
// many of them: a fiber looks before it parks, unless somebody else wants to run. Where messages of peers may wait, in
// memory or for another worker of the thread, it parks more often.
func TestAFiberGoesOnWithoutASwitchIfNobodyWaits(t *testing.T) {
	if n := switchesOf(t, false, alone); n != 100 {
		t.Errorf("without a look at the completions: %d switches for 100 READs", n)
	}
	if n := switchesOf(t, true, alone); n > 100/fiber.MostHopes {
		t.Errorf("alone: %d switches for 100 READs", n)
	}
	others := switchesOf(t, true, func(_ *host, f *fiber.Fiber) func() error {
		over := false
		task := f.Worker().Go("other", nil, func(f *fiber.Fiber) error {
			for !over {
				if err := f.Yield(); err != nil {
					return err
				}
			}
			return nil
		})
		return func() error {
			over = true
			return f.Join(task, 0)
		}
	})
	if others < 100 {
		t.Errorf("beside a fiber that is ready: %d switches for 100 READs, of which it has some", others)
	}
	polled := switchesOf(t, true, func(h *host, f *fiber.Fiber) func() error {
		w := f.Worker().NewWatch(func() bool { return false })
		if err := w.Set(h.buffer, 0); err != nil {
			t.Error(err)
		}
		return func() error {
			w.Stop()
			return nil
		}
	})
	few(t, "while memory is watched", polled)
	h := newHopeHost(t)
	h.beside()
	few(t, "beside another worker", switchesOn(h, true, alone))
}

// few checks the switches for 100 READs of a fiber that parks after FewHopes.
func few(t *testing.T, what string, n uint64) {
	t.Helper()
	if n < 100/(fiber.FewHopes+1)-1 || n > 100/fiber.FewHopes {
		t.Errorf("%s: %d switches for 100 READs, want one after %d", what, n, fiber.FewHopes)
	}
}

// A fiber that goes on without a switch looks after timers and the inbox in between, and has the parts send what they
// have gathered: it ends its pass now and then.
func TestAFiberThatGoesOnEndsItsPassNowAndThen(t *testing.T) {
	ticks := 0
	switchesOf(t, true, func(_ *host, f *fiber.Fiber) func() error {
		over := false
		task := f.Worker().Go("timer", nil, func(f *fiber.Fiber) error {
			for ; !over; ticks++ {
				if err := f.Sleep(time.Microsecond); err != nil {
					return err
				}
			}
			return nil
		})
		return func() error {
			over = true
			return f.Join(task, 0)
		}
	})
	if ticks < 100/fiber.MostHopes-1 {
		t.Errorf("a timer was due all the time, and was looked at %d times in 100 READs", ticks)
	}
}
