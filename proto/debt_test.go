package proto_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// TestADebtIsOwedUntilItWasPaid looks at a debt from another fiber while it is paid: whoever waits until
// nothing is owed any more must not go in the middle of that.
func TestADebtIsOwedUntilItWasPaid(t *testing.T) {
	for _, broken := range []bool{false, true} {
		const locked, off = 0x7003, 64
		var debts proto.Debts
		var during int // looks that found the debt
		conn, worker, memory, drive := oneWorker(t)
		binary.LittleEndian.PutUint64(memory.Bytes()[off+layout.StateOffset:], locked)
		peers := []proto.Peer{{Conn: conn, Shares: []*proto.PeerShare{{Memory: memory.Remote(),
			Tables: []*remote.Table{remote.Open(store.For(1, "debts", 8, 1).Descriptor(0), memory.Remote())}}}}}
		debts.Owe(proto.Debt{Table: 1, Off: off, Word: locked})
		paid := false
		worker.Submit("pay", func(f *fiber.Fiber) error {
			if broken {
				if err := conn.QP().ToError(); err != nil {
					return err
				}
			}
			debts.Finish(f, worker, peers, 0, "test: finish")
			paid = true
			return nil
		}, func(err error) { must(t, err) })
		worker.Submit("look", func(f *fiber.Fiber) error {
			for !paid {
				if n := debts.Len(); n != 1 || debts.At(0) != 1 || debts.At(1) != 0 || len(debts.Orphans(nil, 0)) != 1 {
					return errors.New("the debt is not owed while it is paid")
				}
				during++
				if err := f.Sleep(100 * time.Nanosecond); err != nil {
					return err
				}
			}
			return nil
		}, func(err error) { must(t, err) })
		must(t, drive())
		left, want := debts.Len(), 0
		if broken {
			want = 1
		}
		if left != want || during < 1 || !broken && during < 2 {
			t.Errorf("broken %v: %d debts are left, want %d; %d looks in between", broken, left, want, during)
		}
		if free := binary.LittleEndian.Uint64(memory.Bytes()[off+layout.StateOffset:]) == 0; free == broken {
			t.Errorf("broken %v: the lock is gone: %v", broken, free)
		}
	}
}

// TestNoDebtIsRefused owes more than an outage leaves: each may be the update of a committed transaction.
func TestNoDebtIsRefused(t *testing.T) {
	const many = 10_000
	var debts proto.Debts
	for i := range many {
		debts.Owe(proto.Debt{Table: 1, Key: proto.Key(i), Entry: []byte{byte(i)}})
	}
	seen := 0
	debts.Each(func(d *proto.Debt) {
		if d.Key != proto.Key(seen) || len(d.Entry) != 1 || d.Entry[0] != byte(seen) {
			t.Fatalf("debt %d is of key %d with entry %x", seen, d.Key, d.Entry)
		}
		seen++
	})
	if seen != many || debts.Len() != many {
		t.Errorf("%d debts are left of %d", seen, many)
	}
}

// oneWorker is a simulated worker with a way to memory of its own node.
func oneWorker(t *testing.T) (*fiber.Conn, *fiber.Worker, *verbs.MR, func() error) {
	t.Helper()
	world, err := sim.New(sim.Config{Seed: 1, EventLimit: 1_000_000})
	must(t, err)
	n, err := world.AddNode(sim.NodeConfig{})
	must(t, err)
	context, err := n.Open()
	must(t, err)
	pd, err := context.AllocPD()
	must(t, err)
	core := fiber.NewCore(n.Timeline(0))
	worker, err := core.NewWorker(fiber.WorkerConfig{Name: "node 0", PD: pd, Conns: 2})
	must(t, err)
	var ends [2]*fiber.Conn
	for i := range ends {
		ends[i], err = worker.NewConn(verbs.AccessAll)
		must(t, err)
	}
	for i := range ends {
		must(t, ends[i].Connect(ends[1-i].Endpoint(), verbs.ConnectAttr{}))
	}
	memory, err := pd.AllocMR(4096, verbs.AccessAll, verbs.MROptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, core.Close())
		must(t, context.Close())
	})
	return ends[0], worker, memory, func() error { return errors.Join(world.Run(), worker.Fenced()) }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
