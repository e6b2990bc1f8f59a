// Package rtxtest runs tests of indexes with one client of a simulated memory node.
package rtxtest

import (
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto/memnode"
	"drtmd/proto/rtx"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// Run runs a fiber with a client of a memory node of a shape, in virtual time, and returns the memory.
func Run(t *testing.T, shape rtx.Shape, onEvent func(sim.Event), body func(*rtx.Client, *fiber.Fiber) error) []byte {
	t.Helper()
	bytes, err := shape.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return RunOn(t, bytes, shape.Format, onEvent, func(f *fiber.Fiber, m Machine) error {
		c, err := rtx.Attach(f, rtx.Config{Conn: m.Conn, PD: m.PD, Memory: m.Memory, Clock: m.Clock, Rand: m.Rand})
		if err != nil {
			return err
		}
		return body(c, f)
	})
}

// Machine is what a client runs on.
type Machine struct {
	Conn   *fiber.Conn
	PD     *verbs.PD
	Memory verbs.RemoteMR
	Clock  verbs.Clock
	Rand   *rand.Rand
}

// RunOn is Run with a client of any kind, on memory of some bytes.
func RunOn(t *testing.T, bytes int, format func([]byte) error, onEvent func(sim.Event),
	body func(*fiber.Fiber, Machine) error) []byte {
	t.Helper()
	raceskip.Simulated(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	world, err := sim.New(sim.Config{Seed: 1, OnEvent: onEvent})
	must(err)
	var contexts []*verbs.Context
	var nodes []*sim.Node
	for range 2 {
		n, err := world.AddNode(sim.NodeConfig{ClockOffset: 56 * 365 * 24 * time.Hour})
		must(err)
		c, err := n.Open()
		must(err)
		nodes, contexts = append(nodes, n), append(contexts, c)
	}
	server, err := memnode.NewServer(contexts[0], memnode.Config{Bytes: bytes, Format: format})
	must(err)
	pd, err := contexts[1].AllocPD()
	must(err)
	core := fiber.NewCore(nodes[1].Timeline(0))
	t.Cleanup(func() { must(core.Close()) })
	w, err := core.NewWorker(fiber.WorkerConfig{PD: pd})
	must(err)
	way, err := memnode.Join(server.Admit, 1, []*fiber.Worker{w}, verbs.ConnectAttr{})
	must(err)
	var ended error
	w.Submit("test", func(f *fiber.Fiber) error {
		return body(f, Machine{Conn: way.Conns[0], PD: pd, Memory: way.Memory, Clock: nodes[1].Clock(),
			Rand: rand.New(rand.NewPCG(1, 2))})
	}, func(err error) { ended = err })
	must(world.Run())
	must(ended)
	return server.Memory().Bytes()
}
