package node_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/proto/workload/smallbank"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// TestADamagedReplicaIsFoundAndNamed: by the audit, and by the check of the history.
func TestADamagedReplicaIsFoundAndNamed(t *testing.T) {
	const shard, nodes = 1, 3 // on the nodes 1 and 2
	const key = shard << 48
	checking := proto.TableID(smallbank.Checking)
	for _, x := range []struct {
		name    string
		damage  func(record []byte)
		node    int
		want    string
		checked string
	}{
		{"none", func([]byte) {}, 2, "", ""},
		{"value", func(r []byte) { r[layout.ValueOffset]++ }, 2,
			"shard 1 on node 2, table checking, key 281474976710656: version 1.0 with value", "of shard 1 is at version 1.0"},
		{"version", func(r []byte) { r[layout.VersionOffset]++ }, 2,
			"shard 1 on node 2, table checking, key 281474976710656: version 1.1, and 1.0 on node 1", "of shard 1 is at version 1.0"},
		{"record lost", func(r []byte) { r[layout.VersionOffset+4] = 2 }, 2,
			"shard 1 on node 2, table checking, key 281474976710656:", "and deleted with version 2.0 on node 2"},
		{"lock of the primary", func(r []byte) { r[layout.StateOffset] = 1 }, 1,
			"shard 1 on node 1, table checking, key 281474976710656: locked by node ", ""},
		{"lock of the backup", func(r []byte) { r[layout.StateOffset] = 1 }, 2,
			"shard 1 on node 2, table checking, key 281474976710656: locked by node ", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: node.Config{
				Protocol: replicating(t), Workload: bank(t, nodes), Nodes: nodes, Replicas: 2,
				Record: &node.Recording{}}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.Stop(); err != nil {
				t.Fatal(err)
			}
			s := c.Members[x.node].Workers[0].Shares[shard]
			at, ok := s.Tables[checking-1].Find(uint64(key))
			if !ok {
				t.Fatal("no such record")
			}
			x.damage(s.Memory.Bytes[at:])
			err = c.Audit()
			if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
				t.Errorf("%v, want %q", err, x.want)
			}
			h, err := c.History()
			if err != nil {
				t.Fatal(err)
			}
			r, err := check.History(context.Background(), h, check.Options{})
			if err = errors.Join(err, h.Close()); err != nil {
				t.Fatal(err)
			}
			if r.Replicas != nodes*2 || (r.Verdict == check.Serializable) != (x.checked == "") {
				t.Errorf("%v of %d replicas", r.Verdict, r.Replicas)
			}
			if x.checked != "" && (len(r.Violations) == 0 || !strings.Contains(r.Violations[0].Text, x.checked)) {
				t.Errorf("%+v, want %q", r.Violations, x.checked)
			}
		})
	}
}

// TestReplicasOfARunThatIsNotSettledAreNotJudged: a backup that has not applied its log is no lost write.
func TestReplicasOfARunThatIsNotSettledAreNotJudged(t *testing.T) {
	const nodes, shard, checking = 3, 1, 2
	key := int64(shard) << 48
	c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: node.Config{Protocol: replicating(t),
		Workload: bank(t, nodes), Nodes: nodes, Replicas: 2, Record: &node.Recording{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	s := c.Members[2].Workers[0].Shares[shard]
	at, ok := s.Tables[checking-1].Find(uint64(key))
	if !ok {
		t.Fatal("no such record")
	}
	s.Memory.Bytes[at+layout.VersionOffset]++
	h, err := c.HistoryUnsettled()
	if err != nil {
		t.Fatal(err)
	}
	r, err := check.History(context.Background(), h, check.Options{})
	if err = errors.Join(err, h.Close()); err != nil {
		t.Fatal(err)
	}
	if r.Verdict != check.Serializable || r.FinalKeys != nil || r.InitialKeys == nil || *r.InitialKeys == 0 {
		t.Errorf("%v, final %v, initial %v", r.Verdict, r.FinalKeys, r.InitialKeys)
	}
}

// TestSettleSaysWhatBackupsHaveNotApplied: when the last client has ended, nothing is owed, and replicas differ until
// backups have applied their logs.
func TestSettleSaysWhatBackupsHaveNotApplied(t *testing.T) {
	ctx := context.Background()
	c, err := node.NewSimulated(ctx, node.SimulatedConfig{Config: node.Config{Protocol: replicating(t),
		Workload: bank(t, 3), Nodes: 3, Replicas: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	err = c.Start("client", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		r := rand.New(rand.NewPCG(uint64(w.Node), 1))
		left := 8
		d := workload.Driver{Client: c.Config.Workload.NewClient(w.Node, r), Counts: &workload.Counts{},
			Over: func() bool { left--; return left < 0 }, Runner: proto.Runner{Engine: w.Engine, Rand: r}}
		return d.Run(f)
	}).Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithCancel(ctx)
	cancel()
	left, err := c.Settle(late)
	if err != nil || left.Unapplied == 0 || left.Owed > 0 {
		t.Errorf("at once: %+v, %v", left, err)
	}
	if err := c.Audit(); err == nil {
		t.Error("the replicas are equal: nothing is shown")
	}
	if left, err := c.Settle(ctx); err != nil || left != (node.Unsettled{}) {
		t.Errorf("in the end: %+v, %v", left, err)
	}
	if err := c.Audit(); err != nil {
		t.Error(err)
	}
}

// TestTablesOfARunThatIsNotSettledAreJudgedWhereLocksTell: with one replica, a record that may lack its last write is
// locked; the host of a NIC that has committed may have applied nothing, without a lock.
func TestTablesOfARunThatIsNotSettledAreJudgedWhereLocksTell(t *testing.T) {
	for name, p := range map[string]node.Protocol{"one replica": replicating(t), "chips": protocol(t, "hades")} {
		c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: node.Config{Protocol: p,
			Workload: bank(t, 2), Nodes: 2, Record: &node.Recording{}}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		h, err := c.HistoryUnsettled()
		if err != nil {
			t.Fatal(err)
		}
		if known, _ := h.Knows(history.Final); known != (p.Chips == nil) {
			t.Errorf("%s: the tables are in the history: %t", name, known)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
