package xenic_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tpcc"
	"drtmd/proto/xenic"
	"drtmd/verbs/fiber"
)

// played is three nodes on shared memory, whose NICs are played, and the bank with few accounts.
func played(t *testing.T, change func(*node.LocalConfig)) (*node.Cluster, error) {
	t.Helper()
	spec := smallbank.Spec()
	w, _, err := spec.Make(3, option.Settings{"accounts": "40", "anywhere": "true"})
	if err != nil {
		t.Fatal(err)
	}
	c := node.LocalConfig{Threads: 3, Config: node.Config{Protocol: xenic.Protocol(), Workload: w, Functions: spec.Functions,
		Nodes: 3, Workers: 2, Fibers: 3, Replicas: 3, Record: &node.Recording{}}}
	change(&c)
	return node.NewLocal(context.Background(), c)
}

// TestAWorkerPlaysTheNIC: the same programs on threads and shared memory, with line words and without, as on Soft-RoCE;
// with one thread of the host beside the NIC, and with several.
func TestAWorkerPlaysTheNIC(t *testing.T) {
	for name, change := range map[string]func(*node.LocalConfig){
		"everything on": func(*node.LocalConfig) {},
		"without batching and multi-hop": func(c *node.LocalConfig) {
			c.Options = option.Settings{xenic.OptBatching: "false", xenic.OptMultiHop: "false"}
		},
		"separate requests, all at NICs, four workers": func(c *node.LocalConfig) {
			c.Workers, c.Fibers = 4, 2
			c.Options = option.Settings{xenic.OptRequests: xenic.RequestsSeparate, xenic.OptLocal: "false"}
		},
		"one worker, without line words": func(c *node.LocalConfig) { c.Workers, c.WithoutLineWords = 1, true },
		"two workers, without line words, two threads for three nodes": func(c *node.LocalConfig) {
			c.Threads, c.WithoutLineWords = 2, true
		},
		"three workers, of which one runs transactions and two apply logs": func(c *node.LocalConfig) {
			c.Workers, c.Options = 3, option.Settings{xenic.OptApplications: "1", xenic.OptRobinhoods: "2"}
		},
		"messages of more than a packet": func(c *node.LocalConfig) {
			o := tpcc.Default(3)
			o.Items, o.Customers, o.Orders = 100, 10, 1000
			c.Functions = tpcc.Spec().Functions
			w, err := tpcc.New(o)
			if err != nil {
				t.Fatal(err)
			}
			c.Workload = w
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := played(t, change)
			if err != nil {
				t.Fatal(err)
			}
			if result := load(t, c, 8); result.Verdict != check.Serializable {
				t.Error(result)
			}
		})
	}
}

// TestThreadsOfPlayedNICs: a node's workers share a thread.
func TestThreadsOfPlayedNICs(t *testing.T) {
	c, err := played(t, func(c *node.LocalConfig) { c.Threads = 4 })
	if err == nil {
		t.Fatal("it is made", c.Close())
	}
	if !strings.Contains(err.Error(), "not in 1..3") {
		t.Error(err)
	}
}

// TestAWorkerThatPlaysTheNICOutlivesLostSessions, as an outage of the network leaves them: packets come once, and in order.
func TestAWorkerThatPlaysTheNICOutlivesLostSessions(t *testing.T) {
	c, err := played(t, func(*node.LocalConfig) {})
	if err != nil {
		t.Fatal(err)
	}
	var closed atomic.Int64
	c.Start("outages", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		for range 5 {
			for n := range w.Peers {
				if s := w.Peers[n].Session; s != nil && n != int(w.Node) {
					s.Close()
					closed.Add(1)
				}
			}
			if err := f.Sleep(2 * time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	})
	if result := load(t, c, 40); result.Verdict != check.Serializable || closed.Load() == 0 {
		t.Errorf("%d sessions closed: %v", closed.Load(), result)
	}
}

// TestStopDeliversWhatPlayedNICsOwe, counted on their threads, which go on meanwhile: the race detector looks on. What was
// committed when Stop began has arrived.
func TestStopDeliversWhatPlayedNICsOwe(t *testing.T) {
	for name, atRest := range map[string]bool{"clients at rest": true, "clients under way": false} {
		t.Run(name, func(t *testing.T) {
			c, err := played(t, func(*node.LocalConfig) {})
			if err != nil {
				t.Fatal(err)
			}
			var begun atomic.Int64
			var over atomic.Bool
			tasks := c.Start("client", 3, func(f *fiber.Fiber, w *node.Worker, i int) error {
				r := rand.New(rand.NewPCG(uint64(w.Node), uint64(3*w.Index+i)))
				d := workload.Driver{Client: c.Config.Workload.NewClient(w.Node, r), Counts: &workload.Counts{},
					Over: func() bool { begun.Add(1); return over.Load() }, Runner: proto.Runner{Engine: w.Engine, Rand: r}}
				return d.Run(f)
			})
			for begun.Load() < 200 {
				if err := c.Sleep(context.Background(), time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}
			over.Store(true)
			if atRest {
				err = tasks.Wait(context.Background())
			}
			if err = errors.Join(err, c.Stop()); err != nil {
				t.Error(err)
			}
			owed := 0
			for _, w := range c.Workers() {
				owed += w.Engine.(proto.Debtor).Debts()
			}
			if atRest && owed != 0 {
				t.Errorf("%d updates have not arrived", owed)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
