package node_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/option"
	description "drtmd/proto/protocol"
	"drtmd/store/layout"
	"drtmd/store/log"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// logging is a protocol that takes replicas and has logs. Without transactions, only the test appends to them.
func logging(t *testing.T) node.Protocol { return protocol(t, "fasst") }

func logged(t *testing.T, replicas int, bytes string) node.Config {
	return node.Config{Protocol: logging(t), Workload: bank(t, 3), Nodes: 3, Workers: 2, Replicas: replicas,
		Options: option.Settings{description.OptLogBytes: bytes}}
}

// TestEveryWorkerHasALogAtEachOtherNode: what it WRITEs where its peer says is the next record of the log
// that the worker of its index has from it there, and of no other.
func TestEveryWorkerHasALogAtEachOtherNode(t *testing.T) {
	c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: logged(t, 2, "4KiB")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Start("append", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		buffer, err := w.Worker.PD().AllocMR(256, verbs.AccessLocalWrite, verbs.MROptions{})
		if err != nil {
			return err
		}
		for n := range w.Peers {
			p := &w.Peers[n]
			if n == int(w.Node) {
				if p.Log != (proto.PeerLog{}) || w.Logs[n] != nil {
					t.Errorf("node %d has a log at itself", n)
				}
				continue
			}
			writer, err := log.NewWriter(p.Log.Writer)
			if err != nil {
				return err
			}
			var room log.Reservation
			if err := writer.Reserve(f, &room, 0, 8); err != nil {
				return err
			}
			at, err := writer.Encode(&room, &log.Record{Type: 1, ID: id(w.Node, w.Index), Body: make([]byte, 8)},
				buffer.Bytes())
			if err != nil {
				return err
			}
			for _, piece := range at.Pieces {
				if piece.To == piece.From {
					continue
				}
				if err := p.Conn.Write(f, buffer.SGE(piece.From, piece.To-piece.From),
					p.Log.Addr+uint64(piece.Offset), p.Log.RKey); err != nil {
					return err
				}
			}
		}
		return f.Sleep(time.Millisecond)
	}).Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range c.Workers() {
		for n, l := range w.Logs {
			if l == nil {
				continue
			}
			var r log.Record
			if err := l.Next(&r); err != nil || r.ID != id(proto.NodeID(n), w.Index) {
				t.Errorf("node %d, worker %d: %+v, %v", w.Node, w.Index, r, err)
			}
			if err := l.Next(&r); err == nil {
				t.Errorf("node %d, worker %d: a second record: %+v", w.Node, w.Index, r)
			}
			at := l.MR.Bytes()[l.Line*verbs.LineBytes:]
			if got, err := log.Open(at[:log.Bytes(l.Capacity())]); err != nil || got.Generation() != l.Generation() {
				t.Errorf("node %d, worker %d: no log at line %d: %v", w.Node, w.Index, l.Line, err)
			}
		}
	}
}

func id(n proto.NodeID, worker int) uint64 { return uint64(n)<<8 | uint64(worker) + 1 }

// TestWithoutBackupsThereAreNoLogs: nor for a protocol without them.
func TestWithoutBackupsThereAreNoLogs(t *testing.T) {
	plain := logged(t, 2, "")
	plain.Protocol, plain.Options = protocol(t, "twopl"), nil
	plain.Protocol.Replicates = true
	for name, cfg := range map[string]node.Config{"one replica": logged(t, 1, "1MiB"), "no logs": plain} {
		t.Run(name, func(t *testing.T) {
			c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: cfg})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, w := range c.Workers() {
				if w.Logs != nil {
					t.Fatalf("worker %d of node %d has logs", w.Index, w.Node)
				}
			}
		})
	}
}

func TestMembersWithOtherLogsAreRefused(t *testing.T) {
	c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: logged(t, 3, "8KiB")})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var all []node.Descriptor
	for _, m := range c.Members {
		all = append(all, m.Describe())
	}
	all[0].Logs.Bytes += verbs.LineBytes
	want := "member 0 has 4 logs in 8384 bytes each, want 4 in 8320"
	if err := c.Members[0].Connect(all); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestKeptLogsAreFoundAgain: with the records in them, and the place where the next one goes; so are all
// shares. A damaged one is named.
func TestKeptLogsAreFoundAgain(t *testing.T) {
	cfg := logged(t, 2, "4KiB")
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	world, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	machine, err := world.AddNode(sim.NodeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	live := func(attach bool) (*node.Member, error) {
		dev, err := machine.Open()
		if err != nil {
			t.Fatal(err)
		}
		return node.NewMember(&cfg, node.MemberConfig{ID: 1, Context: dev, Keep: "kept", Attach: attach,
			NewWorker: func(i int, wc fiber.WorkerConfig) (*fiber.Worker, error) {
				return fiber.NewCore(machine.Timeline(i)).NewWorker(wc)
			},
			Clock: machine.Clock(), RecorderClock: machine.Clock(), Simulated: true, Incarnation: 7})
	}
	m, err := live(false)
	if err != nil {
		t.Fatal(err)
	}
	ring := m.Workers[1].Logs[2]
	w, err := log.NewWriter(log.WriterConfig{Capacity: ring.Capacity(), Generation: ring.Generation()})
	if err != nil {
		t.Fatal(err)
	}
	var room log.Reservation
	for i := range 3 {
		if ok, err := w.TryReserve(&room, 100); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if err := ring.Append(w, &room, &log.Record{Type: 1, ID: uint64(i), Body: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if m, err = live(true); err != nil {
		t.Fatal(err)
	}
	if ring = m.Workers[1].Logs[2]; ring.Tail != w.Tail() {
		t.Errorf("the tail is %d, want %d", ring.Tail, w.Tail())
	}
	s, err := ring.Scan(func(*log.Record) error { return nil })
	if err != nil || s.Records != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	entries := 0
	m.Entries(0, func(proto.TableID, layout.Head, []byte) bool { entries++; return true })
	if entries == 0 {
		t.Error("the backup of shard 0 is empty")
	}
	ring.MR.Bytes()[ring.Line*verbs.LineBytes+128+70] ^= 1 // in the second line of the first record
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	want := "log of worker 1 of node 2: record has a wrong checksum"
	if _, err = live(true); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
