package dandelion_test

import (
	"context"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/occ/dandelion"
	"drtmd/proto/occ/occtest"
	"drtmd/proto/option"
	"drtmd/proto/workload/micro"
	"drtmd/verbs/fiber"
	"drtmd/verbs/sim"
)

// look is what the clients of node 0 have looked up ahead, and when they were done.
type look struct {
	batches, records uint64
	took             sim.Time
}

// lookUps has clients of one node read a record of the own node and one of another at the same time.
func lookUps(t *testing.T, clients int, o option.Settings) (l look) {
	t.Helper()
	m, err := micro.New(micro.Default(3))
	if err != nil {
		t.Fatal(err)
	}
	cost, err := sim.Preset("cx5-100g")
	if err != nil {
		t.Fatal(err)
	}
	cost.CPU.Memory, cost.CPU.Overlap = sim.Microsecond, 8
	c, err := node.NewSimulated(t.Context(), node.SimulatedConfig{Cost: cost, Config: node.Config{Nodes: 3, Fibers: clients,
		Protocol: dandelion.Dnl4(), Workload: m, Options: o}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Start("look", clients, func(f *fiber.Fiber, w *node.Worker, i int) error {
		if w.Node != 0 {
			return nil
		}
		begin := f.Now()
		d := &proto.Decl{Kind: 1, Accesses: []proto.Access{occtest.Access(0, i%clients, false), occtest.Access(1, i%clients, false)}}
		tx, err := w.Engine.Begin(f, d, 0)
		if err != nil {
			return err
		}
		value := make([]byte, micro.ValueBytes)
		for _, a := range d.Accesses {
			if err := tx.Read(a.Table, a.Key, value); err != nil {
				return err
			}
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		l.took = max(l.took, sim.Time((f.Now()-begin).Nanoseconds())*sim.Nanosecond)
		s := w.Engine.Stats()
		l.batches, l.records = s.LookAheads, s.LookedAhead
		return nil
	}).Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	return l
}

// TestLookUpsAreBatched (§6): look-ups of all transactions of a pass, and those of the requests of a datagram, are made
// together. Their cache misses overlap; without batches each waits for its own.
func TestLookUpsAreBatched(t *testing.T) {
	const clients = 8
	with := lookUps(t, clients, option.Settings{dandelion.OptGather: "true"})
	without := lookUps(t, clients, nil)
	if with.batches == 0 || with.records < 4*with.batches {
		t.Errorf("%d records in %d batches, want several in each", with.records, with.batches)
	}
	if without.batches != 0 || without.took < with.took+clients*sim.Microsecond {
		t.Errorf("without batches it takes %v and there are %d, with them %v", without.took, without.batches, with.took)
	}
}

// TestRecordsAreReadAtPrimariesIfAsked: option backup-reads.
func TestRecordsAreReadAtPrimariesIfAsked(t *testing.T) {
	d := &proto.Decl{Accesses: []proto.Access{occtest.Access(1, 0, false)}}
	for reads, want := range map[string]uint64{"true": 0, "false": 1} {
		c := node.Config{Nodes: 3, Replicas: 3, Options: option.Settings{dandelion.OptBackupReads: reads}}
		got := occtest.MeasureOf(t, dandelion.Dnl2(), c, d)
		if n := got[proto.PhaseExecute].Requests; n != want {
			t.Errorf("backup-reads %s: %d requests, want %d", reads, n, want)
		}
	}
}

// TestARecordThatIsReadAloneIsReadAtItsPrimary: with Dnl-4, which would have to validate there what it reads at a backup,
// in one request; with the others at the backup, in none.
func TestARecordThatIsReadAloneIsReadAtItsPrimary(t *testing.T) {
	d := &proto.Decl{Accesses: []proto.Access{occtest.Access(1, 0, false)}}
	for _, r := range rows() {
		want := uint64(1)
		if r.locksAll {
			want = 0
		}
		got := occtest.MeasureOf(t, r.protocol, node.Config{Nodes: 3, Replicas: 3}, d)
		if n, v := got[proto.PhaseExecute].Requests, got[proto.PhaseValidate].Requests; n != want || v != 0 {
			t.Errorf("%s: %d requests to read, and %d to validate, want %d and none", r.protocol.Name, n, v, want)
		}
	}
}
