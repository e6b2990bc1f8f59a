package fasst_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/occ"
	"drtmd/proto/occ/fasst"
	"drtmd/proto/option"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/fiber"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shape is a transaction of r reads and w writes on so many other nodes.
type shape struct{ reads, writes, nodes int }

// TestMessages: the table of the package comment, for Xenic's O(0,1) and O(4,2) (§2.2.2), in both
// ways to lock.
func TestMessages(t *testing.T) {
	for _, lock := range []string{occ.LockEarly, occ.LockLate} {
		for _, s := range []shape{{0, 1, 1}, {1, 0, 1}, {4, 2, 1}, {4, 2, 2}} {
			got := measure(t, lock, s)
			for _, p := range occ.Phases() {
				if want := s.want(lock, p); got[p] != want {
					t.Errorf("lock at %s, %d reads and %d writes on %d nodes, %v: %+v, want %+v", lock, s.reads,
						s.writes, s.nodes, p, got[p], want)
				}
			}
		}
	}
}

// want is the table. Reads and writes are on all of the nodes.
func (s shape) want(lock string, p occ.Phase) (x occ.Traffic) {
	traffic := func(records, each int) occ.Traffic {
		if records == 0 {
			return occ.Traffic{}
		}
		return occ.Traffic{Requests: uint64(s.nodes), Trips: 1, Bytes: uint64(48*s.nodes + each*records)}
	}
	switch p {
	case occ.Execute:
		return traffic(s.reads+s.writes, 40+micro.ValueBytes)
	case occ.Lock:
		if lock == occ.LockLate {
			return traffic(s.writes, 40)
		}
	case occ.Validate:
		if s.reads+s.writes > 1 {
			return traffic(s.reads, 24)
		}
	case occ.Commit:
		return traffic(s.writes, 24+micro.ValueBytes)
	}
	return x
}

// measure runs one transaction from node 0 in the simulator.
func measure(t *testing.T, lock string, s shape) map[occ.Phase]occ.Traffic {
	t.Helper()
	o := micro.Default(3)
	m, err := micro.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	c, err := node.NewSimulated(ctx, node.SimulatedConfig{Config: node.Config{Protocol: fasst.Protocol(), Workload: m,
		Nodes: 3, Options: option.Settings{occ.OptLock: lock}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	got := map[occ.Phase]occ.Traffic{}
	err = c.Start("one", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 0 {
			return nil
		}
		d := &proto.Decl{Kind: 1}
		for i := range s.reads + s.writes {
			a := proto.Access{Table: micro.Items, Mode: proto.ModeRead, Key: key(t, m, 1+i%s.nodes, i)}
			if i >= s.reads {
				a.Mode = proto.ModeWrite
			}
			d.Accesses = append(d.Accesses, a)
		}
		tx, err := w.Engine.Begin(f, d, 0)
		if err != nil {
			return err
		}
		for _, a := range d.Accesses {
			value := make([]byte, micro.ValueBytes)
			if err := tx.Read(a.Table, a.Key, value); err != nil {
				return err
			}
			if a.Mode == proto.ModeWrite {
				if err := tx.Write(a.Table, a.Key, value); err != nil {
					return err
				}
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		for _, p := range occ.Phases() {
			got[p] = w.Engine.(*occ.Engine).Traffic(p)
		}
		return nil
	}).Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// key is one of a node that has a value.
func key(t *testing.T, m *micro.Micro, home, i int) proto.Key {
	t.Helper()
	k := proto.Key(home)<<48 | proto.Key(2*i)
	if n := m.Placement().Locate(micro.Items, k).Primary; int(n) != home {
		t.Fatalf("key %#x is on node %d, not %d", k, n, home)
	}
	return k
}
