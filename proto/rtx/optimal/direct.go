package optimal

import (
	"fmt"

	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
)

// What an index uses that has operations of its own: race.Plain, with what package inplace has of it.

// Lock takes the lock of an object, Unlock gives it back.
func (c *Client) Lock(f *fiber.Fiber, p rtx.Ptr) error {
	for n := 0; ; n++ {
		c.B.Reset()
		i := c.CAS(f, c.lockAt(p), 0, c.Own())
		if err := c.Await(f); err != nil || c.B.Old(i) == 0 {
			return err
		}
		if err := c.Pause(f, n); err != nil {
			return err
		}
	}
}

// Unlock gives it back.
func (c *Client) Unlock(f *fiber.Fiber, p rtx.Ptr) error {
	c.B.Reset()
	i := c.CAS(f, c.lockAt(p), c.Own(), 0)
	if err := c.Await(f); err != nil {
		return err
	}
	if old := c.B.Old(i); old != c.Own() {
		return c.Fail(fmt.Errorf("%w: the lock of object %d has word %#x", rtx.ErrCorrupt, p, old))
	}
	return nil
}

// Node gives an object that is nobody's.
func (c *Client) Node(f *fiber.Fiber) (rtx.Ptr, error) { return c.Take(f) }
