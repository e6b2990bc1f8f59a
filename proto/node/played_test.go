package node_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/option"
	protocols "drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/xenic"
	"drtmd/verbs/fiber"
	"drtmd/verbs/rpc"
	"drtmd/verbs/smartnic"
)

// boards is a cluster of two nodes whose NICs are played, and these NICs, by node.
func boards(t *testing.T, r rpc.Config, mutation string) (*node.Cluster, []smartnic.Board, error) {
	t.Helper()
	spec := smallbank.Spec()
	w, _, err := spec.Make(2, option.Settings{"accounts": "10", "anywhere": "true"})
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
		Functions: spec.Functions, Nodes: 2, Workers: 1, Fibers: 2, Replicas: 2, RPC: r, Mutation: mutation,
		Record: &node.Recording{}}})
	return c, all, err
}

// TestNothingWaitsForAPeerThatWasRemoved: what a NIC that is played has for it is dropped, however much it is.
func TestNothingWaitsForAPeerThatWasRemoved(t *testing.T) {
	c, all, err := boards(t, rpc.Config{}, "")
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

// TestAPacketThatComesTwiceIsTakenOnce: every part is sent again behind others, as it is when an answer is lost with its
// session. A NIC that takes one again executes requests of transactions that are over: their locks stay, or their updates
// come again.
func TestAPacketThatComesTwiceIsTakenOnce(t *testing.T) {
	for _, mutation := range []string{"", "xenic-executes-again-on-duplicate"} {
		what := twice(t, mutation)
		if (what != "") != (mutation != "") {
			t.Errorf("with mutation %q: %q", mutation, what)
		}
	}
}

// twice runs transactions, and says what is wrong then; "": nothing.
func twice(t *testing.T, mutation string) (what string) {
	const each, most = 20, 4000 // transactions of a client; attempts of all, with a mutation
	c, all, err := boards(t, rpc.Config{}, mutation)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		node.PlayedTwice(b)
	}
	attempts := 0 // of one thread
	note := func(err error) {
		if err != nil && what == "" {
			what = err.Error()
		}
	}
	note(c.Start("client", 2, func(f *fiber.Fiber, w *node.Worker, i int) error {
		r, left := rand.New(rand.NewPCG(uint64(w.Node), uint64(i))), each
		over := func() bool { attempts++; return mutation != "" && attempts > most }
		d := workload.Driver{Client: c.Config.Workload.NewClient(w.Node, r), Counts: &workload.Counts{},
			Over:   func() bool { left--; return left < 0 || over() },
			Runner: proto.Runner{Engine: w.Engine, Rand: r, GiveUp: over}}
		return d.Run(f)
	}).Wait(context.Background()))
	if mutation != "" { // what stays locked is owed, and nobody shall wait for it
		if attempts > most {
			note(errors.New("transactions do not end: records stay locked"))
		}
		_ = c.Start("end", 1, func(_ *fiber.Fiber, w *node.Worker, _ int) error {
			w.Worker.Fence(invariant.Violation{What: "the test is over"})
			return nil
		}).Wait(context.Background())
		_ = c.Close()
		return what
	}
	note(c.Stop())
	note(c.Audit())
	h, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	result, err := check.History(context.Background(), h, check.Options{UserAborts: true})
	note(errors.Join(err, h.Close()))
	if err == nil && result.Verdict != check.Serializable {
		note(errors.New(result.Verdict.String()))
	}
	note(c.Close())
	return what
}

// TestShortMessagesForAPlayedNICAreRefused in words: its packets would never arrive.
func TestShortMessagesForAPlayedNICAreRefused(t *testing.T) {
	c, _, err := boards(t, rpc.Config{MaxMessage: 8 << 10}, "")
	if err == nil {
		t.Fatal("it is made", c.Close())
	}
	if !strings.Contains(err.Error(), "messages of 8204 bytes, and RPC.MaxMessage is 8192: raise it") {
		t.Error(err)
	}
}
