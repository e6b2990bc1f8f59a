package fiber_test

import (
	"context"
	"fmt"
	"log"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/shm"
)

// A fiber takes a lock in another node's memory, adds to what it guards, and gives it back: a program
// from top to bottom, while the worker runs other fibers as long as this one waits.
func Example() {
	provider := shm.New(shm.Options{})
	near, err := provider.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer near.Close()
	far, err := provider.Open("")
	if err != nil {
		log.Fatal(err)
	}
	defer far.Close()

	thread, err := fiber.NewThread(fiber.ThreadConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer thread.Close()
	pd, err := near.AllocPD()
	if err != nil {
		log.Fatal(err)
	}
	worker, err := thread.NewWorker(fiber.WorkerConfig{Name: "node 0", PD: pd, Conns: 1})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := worker.NewConn(0)
	if err != nil {
		log.Fatal(err)
	}
	buffer, err := pd.AllocMR(64, verbs.AccessAll, verbs.MROptions{})
	if err != nil {
		log.Fatal(err)
	}
	memory, peer, err := passiveSide(far, conn.Endpoint()) // the other node: memory, and a queue pair
	if err != nil {
		log.Fatal(err)
	}
	if err := conn.Connect(peer.Endpoint(), verbs.ConnectAttr{}); err != nil {
		log.Fatal(err)
	}

	remote := memory.Remote()
	worker.Submit("add", func(f *fiber.Fiber) error {
		defer thread.Stop()
		for { // the lock is the word at 0
			old, err := conn.CAS(f, remote.Addr, remote.RKey, 0, 1)
			if err != nil {
				return err
			}
			if old == 0 {
				break
			}
		}
		if err := conn.Read(f, buffer.SGE(0, 8), remote.Addr+64, remote.RKey); err != nil {
			return err
		}
		buffer.Bytes()[0] += 5
		if err := conn.Write(f, buffer.SGE(0, 8), remote.Addr+64, remote.RKey); err != nil {
			return err
		}
		_, err := conn.CAS(f, remote.Addr, remote.RKey, 1, 0)
		return err
	}, nil)
	if err := fiber.Threads(context.Background(), thread); err != nil {
		log.Fatal(err)
	}
	fmt.Println(memory.Bytes()[64], memory.Bytes()[0])
	// Output: 5 0
}
