package node_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"drtmd/proto/node"
	"drtmd/proto/option"
	protocols "drtmd/proto/protocol"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/xenic"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/smartnic"
)

// boards is a cluster of two nodes whose NICs are played, and these NICs, by node.
func boards(t *testing.T, r rpc.Config) (*node.Cluster, []smartnic.Board, error) {
	t.Helper()
	spec := smallbank.Spec()
	w, _, err := spec.Make(2, option.Settings{"accounts": "10"})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]smartnic.Board, 2)
	p := xenic.Protocol()
	chips := *p.Chips
	made := chips.New
	chips.New = func(e *protocols.ChipEnv) (any, error) {
		attach := e.Board
		e.Board = func() (protocols.Board, error) {
			b, err := attach()
			all[e.Node] = b.Board
			return b, err
		}
		return made(e)
	}
	p.Chips = &chips
	c, err := node.NewLocal(context.Background(), node.LocalConfig{Threads: 1, Config: node.Config{Protocol: p, Workload: w,
		Functions: spec.Functions, Nodes: 2, Workers: 1, Fibers: 1, Replicas: 1, RPC: r}})
	return c, all, err
}

// TestNothingWaitsForAPeerThatWasRemoved: what a NIC that is played has for it is dropped, however much it is.
func TestNothingWaitsForAPeerThatWasRemoved(t *testing.T) {
	c, all, err := boards(t, rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Disconnect(1); err != nil {
		t.Fatal(err)
	}
	waiting := 0
	err = c.Start("send", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 0 {
			return nil
		}
		w.Peers[1].Session.Close() // its keeper opens no other
		for range 100 {
			all[0].Transmit(1, 0, make([]byte, 64))
			if err := f.Sleep(50 * time.Microsecond); err != nil {
				return err
			}
		}
		for range 2000 {
			if waiting = node.PlayedWaiting(all[0], 1); waiting == 0 {
				return nil
			}
			if err := f.Sleep(time.Millisecond); err != nil {
				return err
			}
		}
		return nil
	}).Wait(context.Background())
	if err != nil || waiting != 0 {
		t.Errorf("%d parts of packets wait: %v", waiting, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestShortMessagesForAPlayedNICAreRefused in words: its packets would never arrive.
func TestShortMessagesForAPlayedNICAreRefused(t *testing.T) {
	c, _, err := boards(t, rpc.Config{MaxMessage: 8 << 10})
	if err == nil {
		t.Fatal("it is made", c.Close())
	}
	if !strings.Contains(err.Error(), "messages of 8204 bytes, and RPC.MaxMessage is 8192: raise it") {
		t.Error(err)
	}
}
