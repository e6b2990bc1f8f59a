package rtx_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"drtmd/proto/rtx"
	"drtmd/proto/rtx/rtxtest"
	"drtmd/verbs/fiber"
)

// A client builds a linked list and is killed in the middle of its third commit. Another one, which has never
// heard of it, finishes that commit and goes on. A node of the list is next 8 | number 8, and root 0 is its head.
func Example() {
	number := binary.LittleEndian
	push := func(c *rtx.Client, f *fiber.Fiber, n uint64) error {
		return c.Run(f, func(tx *rtx.Tx) error {
			head, err := tx.Update(c.Root(0))
			if head == nil && err == nil {
				head, err = tx.Write(c.Root(0), 0) // its first value
			}
			if err != nil {
				return err
			}
			p, node, err := tx.Alloc(0)
			if err == nil {
				copy(node[:8], head)
				number.PutUint64(node[8:], n)
				number.PutUint64(head, uint64(p))
			}
			return err
		})
	}
	world, err := rtxtest.NewWorld(rtx.Shape{Owners: 2, Slots: 8, Roots: 1, Objects: 64,
		Classes: []rtx.Class{{Bytes: 64, Blocks: 128}}})
	if err != nil {
		panic(err)
	}
	first := world.Client(func(c *rtx.Client, f *fiber.Fiber) error { // n1
		return errors.Join(push(c, f, 1), push(c, f, 2), push(c, f, 3), push(c, f, 4))
	})
	second := world.Client(func(c *rtx.Client, f *fiber.Fiber) error { // n2
		err := errors.Join(f.Sleep(20*time.Millisecond), push(c, f, 100))
		if err != nil {
			return err
		}
		return c.Run(f, func(tx *rtx.Tx) error {
			b, err := tx.Read(c.Root(0))
			for p := number.Uint64(b); p != 0 && err == nil; p = number.Uint64(b) {
				if b, err = tx.Read(rtx.Ptr(p)); err == nil {
					fmt.Println(number.Uint64(b[8:]))
				}
			}
			return err
		})
	})
	fmt.Println(errors.Join(first, second, world.Run("n1", "rtx: log DOING", 3)))
	// Output:
	// 100
	// 3
	// 2
	// 1
	// <nil>
}
