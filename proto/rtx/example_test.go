package rtx_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// push adds a node to a list: next 8 | number 8. Its head is the first root.
func push(c *rtx.Client, f *fiber.Fiber, number uint64) error {
	le := binary.LittleEndian
	return c.Run(f, func(tx *rtx.Tx) error {
		head, err := tx.Update(c.Root(0))
		if head == nil && err == nil {
			head, err = tx.Write(c.Root(0), 0)
		}
		if err != nil {
			return err
		}
		p, node, err := tx.Alloc(0)
		if err != nil {
			return err
		}
		le.PutUint64(node, le.Uint64(head))
		le.PutUint64(node[8:], number)
		le.PutUint64(head, uint64(p))
		return nil
	})
}

// numbers reads the list.
func numbers(c *rtx.Client, f *fiber.Fiber) (list []uint64, err error) {
	err = c.Run(f, func(tx *rtx.Tx) error {
		list = nil
		b, err := tx.Read(c.Root(0))
		for err == nil && b != nil && binary.LittleEndian.Uint64(b) != 0 && len(list) < 10 {
			if b, err = tx.Read(rtx.Ptr(binary.LittleEndian.Uint64(b))); b != nil {
				list = append(list, binary.LittleEndian.Uint64(b[8:]))
			}
		}
		return err
	})
	return list, err
}

// A client builds a linked list and is killed in the middle of its third commit. Another one, which has never
// heard of it, finishes that commit and goes on.
func Example() {
	world, _ := sim.New(sim.Config{Seed: 1})
	shape := rtx.Shape{Owners: 2, Slots: 8, Roots: 1, Objects: 64, Classes: []rtx.Class{{Bytes: 64, Blocks: 128}}}
	memory, _ := world.AddNode(sim.NodeConfig{}) // n0
	context, _ := memory.Open()
	bytes, _ := shape.Bytes()
	server, err := memnode.NewServer(context, memnode.Config{Bytes: bytes, Format: shape.Format})
	if err != nil {
		panic(err)
	}
	var cores []*fiber.Core
	client := func(owner int, body func(*rtx.Client, *fiber.Fiber) error) {
		node, _ := world.AddNode(sim.NodeConfig{ClockOffset: 56 * 365 * 24 * time.Hour}) // since 1970
		context, _ := node.Open()
		pd, _ := context.AllocPD()
		core := fiber.NewCore(node.Timeline(0))
		cores = append(cores, core)
		node.OnCrash(core.Kill)
		worker, _ := core.NewWorker(fiber.WorkerConfig{PD: pd})
		way, err := memnode.Join(server.Admit, memnode.ClientID(owner+1), []*fiber.Worker{worker}, verbs.ConnectAttr{})
		if err != nil {
			panic(err)
		}
		worker.Submit("client", func(f *fiber.Fiber) error {
			c, err := rtx.Attach(f, rtx.Config{Conn: way.Conns[0], PD: pd, Memory: way.Memory, Owner: owner,
				Clock: node.Clock(), Rand: rand.New(rand.NewPCG(1, uint64(owner)))})
			if err != nil {
				return err
			}
			return body(c, f)
		}, func(err error) { fmt.Println("client", owner, "ends:", err) })
	}
	client(0, func(c *rtx.Client, f *fiber.Fiber) error { // n1
		for i := range uint64(5) {
			if err := push(c, f, i+1); err != nil {
				return err
			}
		}
		return nil
	})
	client(1, func(c *rtx.Client, f *fiber.Fiber) error { // n2
		if err := f.Sleep(20 * time.Millisecond); err != nil {
			return err
		}
		if err := push(c, f, 100); err != nil {
			return err
		}
		list, err := numbers(c, f)
		fmt.Println(list, "transactions of others finished:", c.Stats().Finished)
		return err
	})
	if err := world.Install(sim.Schedule{{Kind: sim.CrashNode, Node: "n1", Step: "rtx: log DOING", Count: 3}}); err != nil {
		panic(err)
	}
	if err := world.Run(); err != nil {
		panic(err)
	}
	for _, core := range cores {
		core.Kill()
	}
	// Output:
	// [100 3 2 1] transactions of others finished: 1
	// client 1 ends: <nil>
}
