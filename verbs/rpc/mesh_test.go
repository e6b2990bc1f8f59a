package rpc

import (
	"fmt"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

const (
	meshNodes  = 3
	meshFibers = 4
	meshRounds = 30
)

// mesh has every node call every node, itself included, from several fibers, with short and long
// messages and with handlers of both sorts. Each call is answered, and each request executed once.
func mesh(t *testing.T, c *cluster) {
	t.Helper()
	var addresses []Address
	for _, port := range c.ports {
		addresses = append(addresses, port.Address())
		port.Handle(typeEcho, echo)
		port.HandleFiber(typeSlow, func(f *fiber.Fiber, req, resp []byte) (int, error) {
			if err := f.Sleep(100 * time.Microsecond); err != nil {
				return 0, err
			}
			return echo(req, resp)
		})
	}
	var bodies []func(*fiber.Fiber) error
	for _, port := range c.ports {
		bodies = append(bodies, func(f *fiber.Fiber) error {
			var tasks []*fiber.Task
			for k := range meshFibers {
				tasks = append(tasks, f.Worker().Go("caller", nil, func(f *fiber.Fiber) error {
					return callAll(f, port, addresses, meshRounds, k)
				}))
			}
			var first error
			for _, x := range tasks {
				if err := f.Join(x, 0); first == nil {
					first = err
				}
			}
			return first
		})
	}
	c.run(bodies...)
	for i, port := range c.ports {
		if port.Stats.Garbage != [ReasonCount]uint64{} {
			t.Errorf("node %d took for garbage: %v", i, port.Stats.Garbage)
		}
		if want := uint64(len(c.ports) * meshFibers * meshRounds); port.Stats.Requests != want {
			t.Errorf("node %d ran %d requests, not %d", i, port.Stats.Requests, want)
		}
	}
}

func meshConfigs() (cfgs []Config) {
	for range meshNodes {
		cfgs = append(cfgs, Config{PeerTimeout: 30 * time.Second, Tries: 1000})
	}
	return cfgs
}

func TestMeshOnRealTransports(t *testing.T) {
	for _, threads := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d threads", threads), func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p verbs.Provider) {
				mesh(t, newCluster(t, p, threads, meshConfigs()...))
			})
		})
	}
}

func TestMeshInTheSimulator(t *testing.T) {
	everywhere := func(k sim.FaultKind, ppm int, by sim.Time) sim.Fault {
		return sim.Fault{Kind: k, From: sim.AnyNode, To: sim.AnyNode, PPM: ppm, By: by}
	}
	const us = sim.Time(1_000_000)
	for _, c := range []struct {
		name   string
		faults sim.Schedule
	}{
		{"no faults", nil},
		{"loss", sim.Schedule{everywhere(sim.DropDatagrams, 100_000, 0)}},
		{"duplication", sim.Schedule{everywhere(sim.DuplicateDatagrams, 200_000, 50*us)}},
		{"reordering", sim.Schedule{everywhere(sim.ReorderDatagrams, 300_000, 100*us)}},
		{"everything", sim.Schedule{everywhere(sim.DropDatagrams, 50_000, 0),
			everywhere(sim.DuplicateDatagrams, 100_000, 50*us),
			everywhere(sim.ReorderDatagrams, 200_000, 100*us)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range seeds(3) {
				x := newSimCluster(t, seed, c.faults, meshConfigs()...)
				mesh(t, x)
				if lost := x.world.Stats().Dropped; c.faults == nil && lost > 0 {
					t.Errorf("%d datagrams were lost without a fault", lost)
				}
			}
		})
	}
}

func callAll(f *fiber.Fiber, p *Port, to []Address, rounds, salt int) error {
	for _, a := range to {
		s, err := p.Connect(f, a, 0)
		if err != nil {
			return err
		}
		for i := range rounds {
			size := i * 7
			if i%10 == 9 {
				size = 5000 + i
			}
			t := typeEcho
			if i%5 == 4 {
				t = typeSlow
			}
			req, resp := pattern(size, salt+i), make([]byte, size)
			n, err := s.Call(f, t, req, resp, 0)
			if err != nil {
				return fmt.Errorf("call %d to %s: %w", i, a, err)
			}
			if string(resp[:n]) != string(plusOne(req)) {
				return fmt.Errorf("call %d to %s: wrong answer of %d bytes", i, a, n)
			}
		}
	}
	return nil
}

func TestCallDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	eachProvider(t, func(t *testing.T, p verbs.Provider) {
		c := newCluster(t, p, 1, Config{}, Config{})
		c.ports[1].Handle(typeEcho, echo)
		c.run(func(f *fiber.Fiber) error {
			s, err := c.ports[0].Connect(f, c.ports[1].Address(), 0)
			if err != nil {
				return err
			}
			for _, size := range []int{0, 8, 5000} {
				req, resp := make([]byte, size), make([]byte, size)
				call := func() {
					if _, e := s.Call(f, typeEcho, req, resp, f.Now()+10*time.Second); e != nil {
						err = e
					}
				}
				for range 300 { // every slot has its buffers
					call()
				}
				if allocs := testing.AllocsPerRun(500, call); allocs != 0 && err == nil {
					err = fmt.Errorf("a call of %d bytes allocates %v times", size, allocs)
				}
				calls := make([]Call, 8)
				all := make([]*Call, len(calls))
				for i := range calls {
					all[i] = &calls[i]
				}
				several := func() {
					for _, x := range all {
						if e := s.Start(f, x, typeEcho, req, resp); e != nil {
							err = e
						}
					}
					if e := awaitAll(f, 0, all...); e != nil {
						err = e
					}
				}
				for range 100 {
					several()
				}
				if allocs := testing.AllocsPerRun(100, several); allocs != 0 && err == nil {
					err = fmt.Errorf("eight calls of %d bytes allocate %v times", size, allocs)
				}
			}
			return err
		})
	})
}
