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

// TestAWatchLooksWhenItsLineChanges, and not after it was stopped.
func TestAWatchLooksWhenItsLineChanges(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			seen, other := uint64(0), 0
			var found fiber.Cond
			x := f.Worker().NewWatch(func() bool {
				was := seen
				if seen = binary.NativeEndian.Uint64(h.memory.Bytes()[520:]); seen == was {
					return false
				}
				found.Broadcast()
				return true
			})
			stopped := f.Worker().NewWatch(func() bool { other++; return false })
			if err := errors.Join(x.Set(h.memory, 8), stopped.Set(h.memory, 8)); err != nil {
				return err
			}
			stopped.Stop()
			stopped.Stop()
			for v := range uint64(3) {
				binary.NativeEndian.PutUint64(h.buffer.Bytes(), v+1)
				for _, offset := range []uint64{512, 576, 520} { // another word of the line, another line
					if seen != v {
						return fmt.Errorf("saw %d before it was written", seen)
					}
					if err := h.conn.Write(f, h.buffer.SGE(0, 8), h.remote.Addr+offset, h.remote.RKey); err != nil {
						return err
					}
				}
				for seen != v+1 {
					if err := found.Wait(f, f.Now()+10*time.Second); err != nil {
						return err
					}
				}
			}
			x.Stop()
			if err := errors.Join(h.conn.Write(f, h.buffer.SGE(8, 8), h.remote.Addr+520, h.remote.RKey),
				f.Sleep(h.unit)); err != nil || seen != 3 || other != 0 {
				return fmt.Errorf("after it was stopped it has seen %d; the other has looked %d times, %w", seen, other, err)
			}
			for _, line := range []int{-1, h.memory.Len() / verbs.LineBytes} {
				if err := x.Set(h.memory, line); err == nil {
					return fmt.Errorf("line %d is watched", line)
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
			full, ended := 0, 0
			for i := 0; i < 300; {
				at := i % 100 * 8
				binary.NativeEndian.PutUint64(h.buffer.Bytes()[at:], uint64(i))
				ok, err := h.conn.TryPost(&verbs.WR{Op: verbs.OpWrite, NumSGE: 1,
					SGE:        [verbs.MaxSGE]verbs.SGE{h.buffer.SGE(at, 8)},
					RemoteAddr: h.remote.Addr + uint64(1024+at), RKey: h.remote.RKey}, func(err error) {
					if err == nil {
						ended++
					}
				})
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
			if full == 0 || ended != 300 || h.conn.Err() != nil {
				return fmt.Errorf("the queue was full %d times, %d requests have succeeded, %w", full, ended,
					h.conn.Err())
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
