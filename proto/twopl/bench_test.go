package twopl_test

import (
	"context"
	"fmt"
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// transfer moves one between two records, allocating nothing.
type transfer struct {
	keys   [2]proto.Key
	values [2][8]byte
	decl   proto.Decl
}

func newTransfer(a, b proto.Key) *transfer {
	t := &transfer{keys: [2]proto.Key{a, b}}
	for _, k := range t.keys {
		t.decl.Accesses = append(t.decl.Accesses,
			proto.Access{Table: small, Mode: proto.ModeWrite, Key: k})
	}
	return t
}

func (t *transfer) Execute(tx proto.Txn) error {
	for i, k := range t.keys {
		if err := tx.Read(small, k, t.values[i][:]); err != nil {
			return err
		}
	}
	t.values[0][0]--
	t.values[1][0]++
	for i, k := range t.keys {
		if err := tx.Write(small, k, t.values[i][:]); err != nil {
			return err
		}
	}
	return nil
}

// routes are the ways that the records of a transfer can be reached.
var routes = []struct {
	name string
	keys [2]proto.Key
}{
	{"local", [2]proto.Key{keyOn(0, 1), keyOn(0, 2)}},
	{"distributed", [2]proto.Key{keyOn(0, 1), keyOn(1, 2)}},
	{"remote", [2]proto.Key{keyOn(1, 1), keyOn(1, 2)}},
}

// once runs an attempt of a transfer, as a Runner would.
func (t *transfer) once(f *fiber.Fiber, e proto.Engine) error {
	tx, err := e.Begin(f, &t.decl, 0)
	if err != nil {
		return err
	}
	if err := t.Execute(tx); err != nil {
		tx.Abort(err)
		return err
	}
	return tx.Commit()
}

// oneThread is shm with both nodes on one thread, where nothing else runs.
func oneThread(ctx context.Context, c node.Config) (*node.Cluster, error) {
	return node.NewLocal(ctx, node.LocalConfig{Config: c, Threads: 1})
}

func TestTransactionsDoNotAllocate(t *testing.T) {
	raceskip.Counted(t)
	for _, p := range protocols {
		for _, r := range routes {
			for _, recorded := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/recorded=%v", p.name, r.name, recorded), func(t *testing.T) {
					c := start(t, host{"shm", oneThread}, p.cpu, func(cfg *node.Config) {
						if !recorded {
							cfg.Record = nil
						}
					})
					x := newTransfer(r.keys[0], r.keys[1])
					c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
						var err error
						run := func() {
							if err == nil {
								err = x.once(f, e)
							}
						}
						for range 2000 { // recorders grow
							run()
						}
						// The other goroutines of the process rest meanwhile, the thread's peers not.
						if n := testing.AllocsPerRun(500, run); n > 0 {
							t.Errorf("%v allocations per transaction", n)
						}
						return err
					})
				})
			}
		}
	}
}

// BenchmarkTransfer is a transaction that reads and writes two records, on shared memory with both
// nodes on one thread: what a transaction costs in CPU time, without any latency to hide. The other
// protocols stand beside it, for comparison in one run.
func BenchmarkTransfer(b *testing.B) {
	for _, p := range node.Protocols() {
		if p.Chips != nil {
			continue // package enginetest tests that they are refused here
		}
		for _, r := range routes {
			b.Run(p.Name+"/"+r.name, func(b *testing.B) {
				c, err := oneThread(context.Background(), node.Config{Protocol: p,
					Workload: tables{}, Nodes: 2})
				if err != nil {
					b.Fatal(err)
				}
				defer func() {
					if err := c.Close(); err != nil {
						b.Error(err)
					}
				}()
				x := newTransfer(r.keys[0], r.keys[1])
				b.ReportAllocs()
				err = c.Start("bench", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
					if w.Node != 0 {
						return nil
					}
					for b.Loop() {
						if err := x.once(f, w.Engine); err != nil {
							return err
						}
					}
					return nil
				}).Wait(context.Background())
				if err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// TestEveryProtocolTransfersTheSame runs the benchmark's transactions once, with equal results.
func TestEveryProtocolTransfersTheSame(t *testing.T) {
	for _, p := range node.Protocols() {
		if p.Chips != nil {
			continue // package enginetest tests that they are refused here
		}
		t.Run(p.Name, func(t *testing.T) {
			c, err := oneThread(context.Background(), node.Config{Protocol: p, Workload: tables{},
				Nodes: 2, Record: &node.Recording{}})
			if err != nil {
				t.Fatal(err)
			}
			x := &cluster{c, t}
			defer func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}()
			x.on(0, func(f *fiber.Fiber, e proto.Engine) error {
				for _, r := range routes {
					if err := newTransfer(r.keys[0], r.keys[1]).once(f, e); err != nil {
						return err
					}
				}
				return nil
			})
			// Every protocol leaves the same behind.
			var got [2][8]byte
			for n := range got {
				if err := c.Read(small, keyOn(proto.NodeID(n), 1), got[n][:]); err != nil {
					t.Fatal(err)
				}
			}
			want := [2][8]byte{[8]byte(value(8, initial)), [8]byte(value(8, initial))}
			want[0][0] -= 2 // paid twice
			want[1][0]--
			if got != want {
				t.Errorf("%v, want %v", got, want)
			}
			if err := c.Stop(); err != nil {
				t.Fatal(err)
			}
			x.serializable()
		})
	}
}
