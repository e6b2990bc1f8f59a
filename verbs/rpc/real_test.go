package rpc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/ibv"
	"drtmd/verbs/shm"
)

// cluster is a few ports on a real transport, one node each.
type cluster struct {
	t       testing.TB
	threads []*fiber.Thread
	workers []*fiber.Worker
	ports   []*Port
}

// newCluster makes a port for each configuration; node i runs on thread i of as many threads.
func newCluster(t testing.TB, p verbs.Provider, threads int, cfgs ...Config) *cluster {
	c := &cluster{t: t}
	for range threads {
		x, err := fiber.NewThread(fiber.ThreadConfig{})
		c.must(err)
		c.threads = append(c.threads, x)
	}
	for i, cfg := range cfgs {
		cfg.Incarnation = uint64(i) + 1
		ctx, err := p.Open("")
		c.must(err)
		t.Cleanup(func() { c.must(ctx.Close()) })
		pd, err := ctx.AllocPD()
		c.must(err)
		w, err := c.threads[i%threads].NewWorker(fiber.WorkerConfig{Name: fmt.Sprint("node ", i),
			PD: pd, Extra: cfg.Completions()})
		c.must(err)
		port, err := NewPort(w, cfg)
		c.must(err)
		c.workers, c.ports = append(c.workers, w), append(c.ports, port)
	}
	t.Cleanup(func() {
		for _, x := range c.threads {
			c.must(x.Close())
		}
	})
	return c
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// run runs a fiber on each node that has a body, all threads until the last of them has ended.
func (c *cluster) run(bodies ...func(*fiber.Fiber) error) {
	c.t.Helper()
	ended := make(chan error, len(bodies))
	for i, body := range bodies {
		c.workers[i].Submit("test", body, func(err error) { ended <- err })
	}
	var first error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range bodies {
			if err := <-ended; first == nil {
				first = err
			}
		}
		for _, x := range c.threads {
			x.Stop()
		}
	}()
	err := fiber.Threads(c.t.Context(), c.threads...)
	<-done
	c.must(errors.Join(err, first))
}

// eachProvider runs a test on what this machine has.
func eachProvider(t *testing.T, test func(*testing.T, verbs.Provider)) {
	t.Run("shm", func(t *testing.T) {
		test(t, shm.New(shm.Options{Dir: filepath.Join(t.TempDir(), "run")}))
	})
	t.Run("ibv", func(t *testing.T) {
		p := ibv.New()
		devices, err := p.Devices()
		if err != nil || len(devices) == 0 {
			if os.Getenv("DRTMD_REQUIRE") == "ibv" {
				t.Fatalf("DRTMD_REQUIRE=ibv, but: %d devices, %v", len(devices), err)
			}
			t.Skipf("no RDMA device: %d devices, %v", len(devices), err)
		}
		test(t, p)
	})
}

// Every node calls every node, itself included, from several fibers, with short and long messages
// and with handlers of both sorts.
func TestCallsBetweenNodesOnRealTransports(t *testing.T) {
	for _, threads := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d threads", threads), func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p verbs.Provider) {
				const nodes, fibers, rounds = 3, 4, 30
				cfg := Config{PeerTimeout: 30 * time.Second}
				c := newCluster(t, p, threads, cfg, cfg, cfg)
				addresses := make([]Address, nodes)
				finished := make(chan struct{}, nodes)
				all := make(chan struct{})
				go func() {
					defer close(all)
					for range nodes {
						<-finished
					}
				}()
				bodies := make([]func(*fiber.Fiber) error, nodes)
				for i, port := range c.ports {
					addresses[i] = port.Address()
					port.Handle(typeEcho, echo)
					port.HandleFiber(typeSlow, func(f *fiber.Fiber, req, resp []byte) (int, error) {
						if err := f.Sleep(100 * time.Microsecond); err != nil {
							return 0, err
						}
						return echo(req, resp)
					})
					bodies[i] = func(f *fiber.Fiber) error {
						var tasks []*fiber.Task
						for k := range fibers {
							tasks = append(tasks, f.Worker().Go("caller", nil,
								func(f *fiber.Fiber) error {
									return callAll(f, port, addresses, rounds, k)
								}))
						}
						var first error
						for _, x := range tasks {
							if err := f.Join(x, 0); first == nil {
								first = err
							}
						}
						finished <- struct{}{}
						for { // serve until every node has its answers
							select {
							case <-all:
								return first
							default:
							}
							if err := f.Sleep(time.Millisecond); err != nil {
								return err
							}
						}
					}
				}
				c.run(bodies...)
				for i, port := range c.ports {
					if port.Stats.Garbage != [ReasonCount]uint64{} {
						t.Errorf("node %d took for garbage: %v", i, port.Stats.Garbage)
					}
					if want := uint64(nodes * fibers * rounds); port.Stats.Requests != want {
						t.Errorf("node %d ran %d requests, not %d", i, port.Stats.Requests, want)
					}
				}
			})
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
					if e := AwaitAll(f, 0, all...); e != nil {
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
