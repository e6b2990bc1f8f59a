package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/shm"
)

// newNode makes a worker with a port on a device of its own.
func newNode(p verbs.Provider, t *fiber.Thread, incarnation uint64) (*verbs.Context, *fiber.Worker,
	*rpc.Port, error) {
	device, err := p.Open("")
	if err != nil {
		return nil, nil, nil, err
	}
	pd, err := device.AllocPD()
	if err != nil {
		return device, nil, nil, err
	}
	cfg := rpc.Config{Incarnation: incarnation}
	w, err := t.NewWorker(fiber.WorkerConfig{PD: pd, Extra: cfg.Completions()})
	if err != nil {
		return device, nil, nil, err
	}
	port, err := rpc.NewPort(w, cfg)
	return device, w, port, err
}

// One node calls another. Both are on one thread here; a port's address is all that a caller elsewhere
// needs.
func Example() {
	const typeUpper rpc.Type = 1
	provider := shm.New(shm.Options{})
	thread, err := fiber.NewThread(fiber.ThreadConfig{})
	if err != nil {
		log.Fatal(err)
	}
	defer thread.Close()
	there, _, server, err := newNode(provider, thread, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer there.Close()
	here, worker, client, err := newNode(provider, thread, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer here.Close()
	server.Handle(typeUpper, func(req, resp []byte) (int, error) {
		return copy(resp, bytes.ToUpper(req)), nil
	})
	worker.Submit("call", func(f *fiber.Fiber) error {
		defer thread.Stop()
		session, err := client.Connect(f, server.Address(), 0)
		if err != nil {
			return err
		}
		var resp [16]byte
		n, err := session.Call(f, typeUpper, []byte("hello"), resp[:], 0)
		fmt.Printf("%s %v\n", resp[:n], err)
		return err
	}, nil)
	if err := fiber.Threads(context.Background(), thread); err != nil {
		log.Fatal(err)
	}
	// Output: HELLO <nil>
}
