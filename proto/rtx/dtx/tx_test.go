package dtx_test

import (
	"testing"
	"time"

	"drtmd/proto/rtx/dtx"
	"drtmd/proto/rtx/inplace"
	"drtmd/proto/rtx/rtxtest"
	"drtmd/verbs/fiber"
)

// TestNodesOfAbortedAttemptsAreUsedAgain: there is no other way to get them back.
func TestNodesOfAbortedAttemptsAreUsedAgain(t *testing.T) {
	const bytes = 1 << 18
	shape, err := dtx.Kind.ShapeFor(bytes, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	rtxtest.RunOn(t, bytes, shape.Format, nil, func(f *fiber.Fiber, m rtxtest.Machine) error {
		c, err := dtx.Attach(f, dtx.Config{Config: inplace.Config{Conn: m.Conn, PD: m.PD, Memory: m.Memory, Rand: m.Rand,
			Wait: time.Microsecond, MaxWait: time.Millisecond}})
		if err != nil {
			return err
		}
		for attempt := range 2 * shape.Nodes {
			tx, err := c.Begin(f, false)
			if err != nil {
				return err
			}
			p, v, err := tx.Alloc(1)
			if err != nil {
				return err
			}
			if v[0] != 0 {
				t.Errorf("attempt %d: object %d begins with %d", attempt, p, v[0])
			}
			v[0] = 1
			if err := tx.Abort(); err != nil {
				return err
			}
		}
		// What has committed stays.
		seen := map[any]bool{}
		for range 3 {
			tx, err := c.Begin(f, false)
			if err != nil {
				return err
			}
			root, err := tx.Write(c.Root(0), 0)
			if err != nil {
				return err
			}
			p, _, err := tx.Alloc(1)
			if err != nil {
				return err
			}
			if root[0] = byte(p); seen[p] {
				t.Errorf("object %d is given twice", p)
			}
			seen[p] = true
			if err := tx.Commit(); err != nil {
				return err
			}
		}
		return c.Close()
	})
}
