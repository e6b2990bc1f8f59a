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

// One program, a lock, a read, a write and an unlock on a remote node, unchanged on shared memory
// within a process and between two, on libibverbs, and in the simulator.
func TestLockReadWriteUnlock(t *testing.T) {
	test := func(t *testing.T, h *host) {
		const fibers, rounds = 8, 50
		h.run(func(f *fiber.Fiber) error {
			var tasks []*fiber.Task
			for i := range fibers {
				tasks = append(tasks, f.Worker().Go("client", nil, func(f *fiber.Fiber) error {
					for range rounds {
						if err := increment(f, h, i); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			for _, x := range tasks {
				if err := f.Join(x, 0); err != nil {
					return err
				}
			}
			r := h.remote
			if err := h.conn.Read(f, h.buffer.SGE(0, 8), r.Addr+64, r.RKey); err != nil {
				return err
			}
			if v := binary.NativeEndian.Uint64(h.buffer.Bytes()); v != fibers*rounds {
				return fmt.Errorf("counter is %d, want %d", v, fibers*rounds)
			}
			return nil
		})
	}
	eachHost(t, test)
	t.Run("shm between processes", func(t *testing.T) { test(t, newProcessHost(t)) })
}

// increment adds one to the word at 64 under the lock at 0, through a buffer of fiber i.
func increment(f *fiber.Fiber, h *host, i int) error {
	r := h.remote
	for {
		old, err := h.conn.CAS(f, r.Addr, r.RKey, 0, uint64(i)+1)
		if err != nil {
			return err
		}
		if old == 0 {
			break
		}
		if err := f.Yield(); err != nil {
			return err
		}
	}
	buf := h.buffer.Bytes()[64*i : 64*i+8]
	sge := h.buffer.SGE(64*i, 8)
	if err := h.conn.Read(f, sge, r.Addr+64, r.RKey); err != nil {
		return err
	}
	f.Step("test: read")
	binary.NativeEndian.PutUint64(buf, binary.NativeEndian.Uint64(buf)+1)
	if err := h.conn.Write(f, sge, r.Addr+64, r.RKey); err != nil {
		return err
	}
	old, err := h.conn.CAS(f, r.Addr, r.RKey, uint64(i)+1, 0)
	if err == nil && old != uint64(i)+1 {
		err = fmt.Errorf("the lock of fiber %d was held by %d", i, old)
	}
	return err
}

func TestBatchRingsOneDoorbellAndReportsEachError(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			r := h.remote
			w := f.Worker()
			before := w.Stats
			var b fiber.Batch
			for i := range 6 {
				b.FAA(f, h.conn, r.Addr+128, r.RKey, uint64(i))
			}
			if err := b.Await(f); err != nil {
				return err
			}
			for i, want := range []uint64{0, 0, 1, 3, 6, 10} {
				if b.Old(i) != want {
					return fmt.Errorf("operation %d found %d, want %d", i, b.Old(i), want)
				}
			}
			if n := w.Stats.Doorbells - before.Doorbells; n != 1 {
				return fmt.Errorf("%d doorbells", n)
			}
			// The fourth is refused by the target, which fails the QP: each has its own error.
			b.Reset()
			for i := range 6 {
				rkey := r.RKey
				if i == 3 {
					rkey ^= 0x5a5a5a
				}
				b.Write(f, h.conn, h.buffer.SGE(0, 8), r.Addr+256, rkey)
			}
			err := b.Await(f)
			if !errors.Is(err, verbs.WCRemAccessErr) {
				return fmt.Errorf("first error is %v", err)
			}
			for i := range 6 {
				var want error
				switch {
				case i == 3:
					want = verbs.WCRemAccessErr
				case i > 3:
					want = verbs.WCWRFlushErr
				}
				if !errors.Is(b.Err(i), want) {
					return fmt.Errorf("operation %d: %v, want %v", i, b.Err(i), want)
				}
			}
			if !errors.Is(h.conn.Err(), verbs.WCRemAccessErr) {
				return fmt.Errorf("the conn says %v", h.conn.Err())
			}
			return h.conn.Quiesce(f)
		})
	})
}

func TestMoreOperationsThanTheQueueHoldsWaitForRoom(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		const n = 1000 // the queue holds 64
		h.run(func(f *fiber.Fiber) error {
			r := h.remote
			var b fiber.Batch
			for range n {
				b.FAA(f, h.conn, r.Addr+128, r.RKey, 1)
			}
			return b.Await(f)
		})
		if v := binary.NativeEndian.Uint64(h.memory.Bytes()[128:]); v != n {
			t.Fatalf("counter is %d, want %d", v, n)
		}
	})
}

func TestRefusedRequestFailsAloneAndTheConnGoesOn(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			r := h.remote
			var b fiber.Batch
			b.FAA(f, h.conn, r.Addr+128, r.RKey, 1)
			b.FAA(f, h.conn, r.Addr+129, r.RKey, 1) // unaligned: refused at post
			if err := b.Await(f); err == nil {
				return errors.New("an unaligned atomic was taken")
			}
			if b.Err(0) != nil {
				return fmt.Errorf("the request before it: %w", b.Err(0))
			}
			old, err := h.conn.FAA(f, r.Addr+128, r.RKey, 1)
			if err == nil && old != 1 {
				err = fmt.Errorf("counter was %d", old)
			}
			return err
		})
	})
}

func TestAwaitWordSeesARemoteWriteAndKeepsItsDeadline(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			v, err := f.AwaitWord(h.memory, 512, 0, f.Now()+h.unit)
			if !errors.Is(err, fiber.ErrDeadline) || v != 0 {
				return fmt.Errorf("without a write: %d, %v", v, err)
			}
			writer := f.Worker().Go("writer", nil, func(f *fiber.Fiber) error {
				if err := f.Sleep(h.unit); err != nil {
					return err
				}
				binary.NativeEndian.PutUint64(h.buffer.Bytes(), 77)
				r := h.remote
				return h.conn.Write(f, h.buffer.SGE(0, 8), r.Addr+512, r.RKey)
			})
			v, err = f.AwaitWord(h.memory, 512, 0, f.Now()+10*time.Second)
			if err != nil || v != 77 {
				return fmt.Errorf("after a write: %d, %v", v, err)
			}
			if err := f.Join(writer, 0); err != nil {
				return err
			}
			for _, offset := range []int{-8, 4, h.memory.Len()} {
				if _, err := f.AwaitWord(h.memory, offset, 0, 0); err == nil {
					return fmt.Errorf("the word at %d was waited for", offset)
				}
			}
			return nil
		})
	})
}

// SENDs, alone and in a batch, arrive in the peer's receives in order.
func TestSendArrivesInOrder(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		const receives = 4
		for i := range receives {
			h.receive(uint64(i), i*64, 8)
		}
		h.run(func(f *fiber.Fiber) error {
			for i := range receives {
				binary.NativeEndian.PutUint64(h.buffer.Bytes()[8*i:], uint64(i+1))
			}
			if err := h.conn.Send(f, h.buffer.SGE(0, 8)); err != nil {
				return err
			}
			var b fiber.Batch
			for i := 1; i < receives; i++ {
				b.Send(f, h.conn, h.buffer.SGE(8*i, 8))
			}
			if err := b.Await(f); err != nil {
				return err
			}
			for i := range receives {
				if v := binary.NativeEndian.Uint64(h.memory.Bytes()[i*64:]); v != uint64(i+1) {
					return fmt.Errorf("receive %d has %d", i, v)
				}
			}
			return nil
		})
	})
}

func TestOperationsDoNotAllocate(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		if h.virtual || raceEnabled {
			return
		}
		var perOp float64
		h.run(func(f *fiber.Fiber) error {
			r := h.remote
			var b fiber.Batch
			round := func() {
				b.Reset()
				for range 8 {
					b.FAA(f, h.conn, r.Addr+128, r.RKey, 1)
				}
				_ = b.Await(f)
				_, _ = h.conn.CAS(f, r.Addr+192, r.RKey, 0, 0)
				_ = h.conn.Read(f, h.buffer.SGE(0, 64), r.Addr, r.RKey)
				_ = f.Yield()
				_, _ = f.AwaitWord(h.memory, 512, 0, f.Now()+1) // it stays: the deadline ends it
			}
			round()
			perOp = testing.AllocsPerRun(200, round)
			return nil
		})
		if perOp != 0 {
			t.Fatalf("%.1f allocations per round", perOp)
		}
	})
}

// A conn that is closed has flushed what was in flight, and its place is free for another.
func TestClosedConnMakesRoomForAnother(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			w, r := f.Worker(), h.memory.Remote()
			if _, err := w.NewConn(0); err == nil {
				return errors.New("a second conn was made where there is room for one")
			}
			var b fiber.Batch
			for range 20 {
				b.FAA(f, h.conn, r.Addr+128, r.RKey, 1)
			}
			if err := h.conn.Close(f); err != nil {
				return err
			}
			_ = b.Await(f)
			for i := range b.Len() {
				if err := b.Err(i); err != nil && !errors.Is(err, verbs.WCWRFlushErr) {
					return fmt.Errorf("operation %d: %w", i, err)
				}
			}
			next, err := w.NewConn(0)
			if err != nil {
				return err
			}
			if err := next.Close(f); err != nil {
				return err
			}
			return next.Close(f) // closing twice is no error
		})
	})
}
