package fiber_test

import (
	"errors"
	"testing"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/verbs/fiber"
)

// TestPostingInsideARegionAbortsIt is DrTM §2.1: I/O in a transaction aborts it.
func TestPostingInsideARegionAbortsIt(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		r := htm.NewRegion(htm.Config{Flag: h.worker.RegionFlag()})
		posts := []struct {
			name string
			post func(f *fiber.Fiber) error
		}{
			{"read", func(f *fiber.Fiber) error {
				return h.conn.Read(f, h.buffer.SGE(0, 8), h.remote.Addr, h.remote.RKey)
			}},
			{"cas", func(f *fiber.Fiber) error {
				_, err := h.conn.CAS(f, h.remote.Addr, h.remote.RKey, 0, 1)
				return err
			}},
			{"batch", func(f *fiber.Fiber) error {
				var b fiber.Batch
				b.FAA(f, h.conn, h.remote.Addr, h.remote.RKey, 1)
				return b.Await(f)
			}},
		}
		h.run(func(f *fiber.Fiber) error {
			for _, p := range posts {
				r.Begin()
				if err := p.post(f); !errors.Is(err, fiber.ErrInRegion) {
					t.Errorf("%s in a region: %v", p.name, err)
				}
				if r.Commit(nil) {
					t.Errorf("%s: the region committed", p.name)
				}
				if c, _ := r.Aborted(); c != htm.System {
					t.Errorf("%s: aborted by %s", p.name, c)
				}
				r.Begin()
				if !r.Commit(nil) {
					t.Errorf("after %s no region commits", p.name)
				}
			}
			old, err := h.conn.FAA(f, h.remote.Addr, h.remote.RKey, 1)
			if err == nil && old != 0 {
				t.Errorf("an operation of a region was posted: the word is %d", old)
			}
			return err
		})
	})
}

func TestWaitingInsideARegionFencesTheWorker(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		r := htm.NewRegion(htm.Config{Flag: h.worker.RegionFlag()})
		err := h.start(func(f *fiber.Fiber) error {
			r.Begin()
			return f.Yield()
		})
		if v := (invariant.Violation{}); !errors.As(err, &v) {
			t.Errorf("a fiber waited in a region: %v", err)
		}
	})
}
