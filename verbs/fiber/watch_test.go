package fiber_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// TestAWatchFiresOnceWhenItsWordChanges: not for another word of its line, nor after it was stopped.
func TestAWatchFiresOnceWhenItsWordChanges(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			fired, other := 0, 0
			var fire fiber.Cond
			x := f.Worker().NewWatch(func() { fired++; fire.Broadcast() })
			stopped := f.Worker().NewWatch(func() { other++ })
			write := func(offset int, v uint64) error {
				binary.NativeEndian.PutUint64(h.buffer.Bytes(), v)
				return h.conn.Write(f, h.buffer.SGE(0, 8), h.remote.Addr+uint64(offset), h.remote.RKey)
			}
			if err := errors.Join(x.Set(h.memory, 520, 0), stopped.Set(h.memory, 520, 0)); err != nil {
				return err
			}
			stopped.Stop()
			stopped.Stop()
			if err := errors.Join(write(512, 5), f.Sleep(h.unit)); err != nil || fired != 0 {
				return fmt.Errorf("after a write of another word of the line: fired %d times, %w", fired, err)
			}
			if err := write(520, 6); err != nil {
				return err
			}
			for fired == 0 {
				if err := fire.Wait(f, f.Now()+10*time.Second); err != nil {
					return err
				}
			}
			if err := errors.Join(write(520, 7), f.Sleep(h.unit)); err != nil || fired != 1 || other != 0 {
				return fmt.Errorf("fired %d times, one that was stopped %d times, %w", fired, other, err)
			}
			// A word that differs already.
			if err := x.Set(h.memory, 520, 6); err != nil {
				return err
			}
			if err := f.Sleep(h.unit); err != nil || fired != 2 {
				return fmt.Errorf("fired %d times, %w", fired, err)
			}
			for _, offset := range []int{-8, 4, h.memory.Len()} {
				if err := x.Set(h.memory, offset, 0); err == nil {
					return fmt.Errorf("the word at %d is watched", offset)
				}
			}
			return nil
		})
	})
}

// TestARequestThatNobodyAwaitsIsCarriedOut, as many as the queue takes and more in the passes behind.
func TestARequestThatNobodyAwaitsIsCarriedOut(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			full := 0
			for i := 0; i < 300; {
				at := i % 100 * 8
				binary.NativeEndian.PutUint64(h.buffer.Bytes()[at:], uint64(i))
				ok, err := h.conn.TryPost(&verbs.WR{Op: verbs.OpWrite, NumSGE: 1,
					SGE:        [verbs.MaxSGE]verbs.SGE{h.buffer.SGE(at, 8)},
					RemoteAddr: h.remote.Addr + uint64(1024+at), RKey: h.remote.RKey})
				if err != nil {
					return err
				}
				if !ok {
					full++
					if err := f.Sleep(h.unit / 10); err != nil {
						return err
					}
					continue
				}
				i++
			}
			if err := h.conn.Quiesce(f); err != nil {
				return err
			}
			if full == 0 || h.conn.Err() != nil {
				return fmt.Errorf("the queue was full %d times, %w", full, h.conn.Err())
			}
			if err := h.conn.Read(f, h.buffer.SGE(2048, 800), h.remote.Addr+1024, h.remote.RKey); err != nil {
				return err
			}
			for i := range 100 {
				if v := binary.NativeEndian.Uint64(h.buffer.Bytes()[2048+8*i:]); v != uint64(200+i) {
					return fmt.Errorf("word %d is %d", i, v)
				}
			}
			return nil
		})
	})
}
