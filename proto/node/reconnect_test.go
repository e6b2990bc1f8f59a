package node_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// reconnecting is a cluster on threads that runs a load while its queue pairs are broken.
type reconnecting struct {
	*node.Cluster
	t     *testing.T
	did   workload.Ledger
	over  atomic.Bool
	tasks *node.Tasks
	mine  []workload.Client
}

func startLoad(t *testing.T, protocol node.Protocol, nodes int) *reconnecting {
	t.Helper()
	w := bank(t, nodes)
	cfg := node.Config{Protocol: protocol, Workload: w, Nodes: nodes, Workers: 1, Fibers: 4, Seed: 7,
		Record: &node.Recording{}}
	c, err := node.NewLocal(t.Context(), node.LocalConfig{Config: cfg, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	x := &reconnecting{Cluster: c, t: t}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	clients := map[*node.Worker][]workload.Client{}
	for _, w := range c.Workers() {
		for i := range cfg.Fibers {
			r := rand.New(rand.NewPCG(uint64(w.Node), uint64(i)))
			clients[w] = append(clients[w], cfg.Workload.NewClient(w.Node, r))
		}
		x.mine = append(x.mine, clients[w]...)
	}
	x.tasks = c.Start("load", cfg.Fibers, func(f *fiber.Fiber, w *node.Worker, i int) error {
		d := workload.Driver{Client: clients[w][i], Counts: &workload.Counts{}, Over: x.over.Load,
			Runner: proto.Runner{Engine: w.Engine, Rand: w.Rand, GiveUp: x.over.Load}}
		return d.Run(f)
	})
	return x
}

// linked waits until every queue pair between living members works again.
func (x *reconnecting) linked(gone ...proto.NodeID) {
	x.t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		all := true
		for n := range x.Config.Nodes {
			is := x.Linked(proto.NodeID(n))
			for _, g := range gone {
				is = is || g == proto.NodeID(n)
			}
			all = all && is
		}
		if all {
			return
		}
		if time.Now().After(end) {
			x.t.Fatalf("not connected again: %+v", x.QueuePairs())
		}
	}
}

// end ends the load, and checks that nothing is owed, lost or out of order.
func (x *reconnecting) end() {
	x.t.Helper()
	x.over.Store(true)
	if err := x.tasks.Wait(context.Background()); err != nil {
		x.t.Fatal(err)
	}
	late, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if left, err := x.Settle(late); left != (node.Unsettled{}) || err != nil {
		x.t.Errorf("not settled: %+v, %v", left, err)
	}
	if err := x.Stop(); err != nil {
		x.t.Fatal(err)
	}
	for _, c := range x.mine {
		c.AddTo(&x.did)
	}
	tally := x.Verify()
	if tally.Wrong != "" {
		x.t.Error(tally.Wrong)
	}
	if err := x.did.Explains(tally.Initial, tally.Final, x.Config.Workload.Sums()...); err != nil {
		x.t.Error(err)
	}
	for _, m := range x.Members {
		m.Entries(proto.ShardID(m.ID), func(id proto.TableID, h layout.Head, _ []byte) bool {
			if layout.Locked(h.State) {
				x.t.Errorf("node %d table %d: an entry stays locked: %+v", m.ID, id, h)
			}
			return true
		})
	}
	h, err := x.History()
	if err != nil {
		x.t.Fatal(err)
	}
	res, err := check.History(context.Background(), h, check.Options{UserAborts: true})
	if err = errors.Join(err, h.Close()); err != nil {
		x.t.Fatal(err)
	}
	if res.Verdict != check.Serializable || res.Committed == 0 {
		x.t.Errorf("history is %v, %d committed", res.Verdict, res.Committed)
	}
}

// TestBrokenQueuePairsAreMadeAnewInARun: what an outage of the network leaves behind. Nothing that was
// committed is lost, no lock stays, and transactions reach every member again.
func TestBrokenQueuePairsAreMadeAnewInARun(t *testing.T) {
	for _, name := range []string{"drtm", "twopl", "twopl-local"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := startLoad(t, protocol(t, name), 3)
			r := rand.New(rand.NewPCG(1, 1))
			for range 12 {
				time.Sleep(time.Duration(1+r.IntN(20)) * time.Millisecond)
				workers := x.Workers()
				a := workers[r.IntN(len(workers))]
				// One end, as the side that had nothing under way never learns of an outage; to itself, too.
				if err := a.BreakLink(proto.NodeID(r.IntN(3))); err != nil {
					t.Fatal(err)
				}
				if r.IntN(3) == 0 {
					x.linked()
				}
			}
			x.linked()
			x.end()
		})
	}
}

// TestAFencedMemberIsNeverConnectedAgain: not by whoever fenced it, and not by its own request.
func TestAFencedMemberIsNeverConnectedAgain(t *testing.T) {
	x := startLoad(t, protocol(t, "drtm"), 3)
	time.Sleep(10 * time.Millisecond)
	// Node 2 is removed by nodes 0 and 1. It does not know, and tries to reach them.
	for _, w := range x.Workers() {
		if w.Node != 2 {
			if err := w.Fence(2); err != nil {
				t.Fatal(err)
			}
		}
	}
	x.linked(0, 1, 2)
	for range 50 {
		time.Sleep(2 * time.Millisecond)
		for _, w := range x.Workers() {
			if w.Node != 2 && w.Linked(2) {
				t.Fatalf("node %d is connected to the member that it removed", w.Node)
			}
		}
	}
	for _, w := range x.Workers() {
		for n := range proto.NodeID(3) {
			if want := w.Node != 2 && n == 2; w.Fenced(n) != want {
				t.Errorf("node %d says that node %d is fenced: %v", w.Node, n, !want)
			}
			if w.HolderLives == nil || w.HolderLives(n) == w.Fenced(n) {
				t.Errorf("node %d does not tell its engine whether holder %d of a lock lives", w.Node, n)
			}
		}
	}
	x.over.Store(true)
	if err := x.tasks.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
