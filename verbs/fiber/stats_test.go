package fiber_test

import (
	"fmt"
	"testing"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

func TestStatsCountRequestsByOpcodeAndTheirPayload(t *testing.T) {
	eachHost(t, func(t *testing.T, h *host) {
		h.run(func(f *fiber.Fiber) error {
			r, w := h.remote, f.Worker()
			before := w.Stats
			var b fiber.Batch
			for range 3 {
				b.Read(f, h.conn, h.buffer.SGE(0, 16), r.Addr, r.RKey)
			}
			b.Write(f, h.conn, h.buffer.SGE(0, 32), r.Addr+256, r.RKey)
			b.CAS(f, h.conn, r.Addr+128, r.RKey, 1, 1)
			if err := b.Await(f); err != nil {
				return err
			}
			after := w.Stats
			for _, c := range []struct {
				op   verbs.Opcode
				want uint64
			}{{verbs.OpRead, 3}, {verbs.OpWrite, 1}, {verbs.OpCAS, 1}, {verbs.OpFAA, 0}} {
				if n := after.Ops[c.op] - before.Ops[c.op]; n != c.want {
					return fmt.Errorf("%d %s, want %d", n, c.op, c.want)
				}
			}
			if n := after.Posted - before.Posted; n != 5 {
				return fmt.Errorf("%d requests, want 5", n)
			}
			if n := after.Bytes - before.Bytes; n != 3*16+32+8 {
				return fmt.Errorf("%d bytes, want %d", n, 3*16+32+8)
			}
			return nil
		})
	})
}
