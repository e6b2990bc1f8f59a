package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/proto/workload/tpcc"
	"drtmd/verbs/fiber"
)

// durableLife in the environment counts the lives of the process that runs TPC-C.
const durableLife = "DRTMD_TEST_DURABLE_LIFE"

// durableChopped in the environment has it run in pieces: "true".
const durableChopped = "DRTMD_TEST_DURABLE_CHOPPED"

// durableTPCC is a warehouse on each of two nodes, in kept memory. Half of the items and payments are of the other.
func durableTPCC(dir string, attach bool, chopped string) (node.LocalConfig, error) {
	o := tpcc.Default(2)
	o.Items, o.Customers, o.Orders, o.RemoteItems, o.RemotePayments = 200, 30, 20_000, 50, 50
	w, err := tpcc.New(o)
	cfg := durable(dir, attach)
	cfg.Workload, cfg.Nodes, cfg.Threads = w, 2, 2
	cfg.Options["chopped"] = chopped
	return cfg, err
}

// runDurableTPCC is the process that is killed. It says when its clients run.
func runDurableTPCC(dir string, life int) error {
	ctx := context.Background()
	cfg, err := durableTPCC(dir, life > 0, os.Getenv(durableChopped))
	if err != nil {
		return err
	}
	c, err := node.NewLocal(ctx, cfg)
	if err != nil {
		return err
	}
	if life > 0 {
		if err := c.Begin(ctx); err != nil {
			return err
		}
	}
	fmt.Println("clients run")
	return c.Start("clients", durableClients, func(f *fiber.Fiber, w *node.Worker, i int) error {
		r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(int(w.Node)*durableClients+i)))
		var counts workload.Counts
		d := workload.Driver{Client: cfg.Workload.NewClient(w.Node, r), Counts: &counts, Over: func() bool { return false },
			Runner: proto.Runner{Engine: w.Engine, Rand: r}}
		return d.Run(f)
	}).Wait(ctx)
}

// TestTPCCKeepsItsConditions when its processes are killed in the middle of all of its transactions: in the end the
// conditions of TPC-C 3.3.2 hold, and ordered tables are as scans find them.
func TestTPCCKeepsItsConditions(t *testing.T) {
	if dir := os.Getenv(durableDir); dir != "" {
		life, _ := strconv.Atoi(os.Getenv(durableLife))
		if err := runDurableTPCC(dir, life); err != nil {
			fmt.Println(err)
			t.Fatal(err)
		}
		return
	}
	raceskip.Processes(t)
	for _, c := range []struct {
		name, chopped string
		kills         int
	}{{"whole", "false", 3}, {"in pieces", "true", 2}} {
		t.Run(c.name, func(t *testing.T) { killTPCC(t, c.chopped, c.kills) })
	}
}

func killTPCC(t *testing.T, chopped string, kills int) {
	if n, err := strconv.Atoi(os.Getenv(soakKills)); err == nil {
		kills = n
	}
	dir := filepath.Join(t.TempDir(), "run")
	for life := range kills {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTPCCKeepsItsConditions$")
		cmd.Env = append(os.Environ(), durableDir+"="+dir, durableChopped+"="+chopped, fmt.Sprintf("%s=%d", durableLife, life))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said string
		if _, err := fmt.Fscanln(out, &said, new(string)); err != nil || said != "clients" {
			t.Errorf("life %d says %q, %v", life, said, err)
		}
		time.Sleep(20*time.Millisecond + time.Duration(rand.Int64N(int64(150*time.Millisecond))))
		err = cmd.Process.Kill()
		_ = cmd.Wait() // killed
		if err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := durableTPCC(dir, true, chopped)
	if err != nil {
		t.Fatal(err)
	}
	c, err := node.NewLocal(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := recovery(c)
	err = c.Stop()
	tally := c.Verify()
	paid := 0 // payments: each has a record of its own, and those of the beginning count down
	for n := range proto.NodeID(cfg.Nodes) {
		c.Members[n].Contents(proto.ShardID(n)).Each(tpcc.History, func(proto.Key, []byte) { paid++ })
		err = errors.Join(err, cfg.Workload.Load(n, func(table proto.TableID, _ proto.Key, _ []byte) error {
			if table == tpcc.History {
				paid--
			}
			return nil
		}))
	}
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	if tally.Wrong != "" || paid <= 0 || s.Recovering > 0 {
		t.Errorf("%s; %d payments; %+v", tally.Wrong, paid, s)
	}
	t.Logf("%d payments; the last recovery: %d transactions completed, %d undone, %d chains finished", paid, s.Completed,
		s.Undone, s.Resumed)
}
