package node_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/node"
	"drtmd/proto/workload"
	"drtmd/store"
	"drtmd/store/layout"
)

// replicating is a protocol that takes replicas, whatever it makes of them: nothing runs here.
func replicating(t *testing.T) node.Protocol {
	p := protocol(t, "fasst")
	p.Replicates = true
	return p
}

// TestEveryReplicaIsLoaded: each member holds the shards that the map says, with what the workload has
// for their home nodes, and reaches those of all peers; histories have each record of each.
func TestEveryReplicaIsLoaded(t *testing.T) {
	const nodes, replicas = 4, 3
	c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: node.Config{
		Protocol: replicating(t), Workload: bank(t, nodes), Nodes: nodes, Workers: 2, Replicas: replicas,
		Record: &node.Recording{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var content [nodes][replicas][]string
	for _, m := range c.Members {
		for s := range proto.ShardID(nodes) {
			holds := m.Map().Holds(m.ID, s)
			for _, w := range m.Workers {
				if (w.Shares[s] != nil) != holds {
					t.Fatalf("node %d, shard %d: %v, want %v", m.ID, s, w.Shares[s], holds)
				}
				if holds && (w.Shares[s].Memory == w.Memory) != (int(s) == int(m.ID)) {
					t.Errorf("node %d: shard %d shares its memory with another", m.ID, s)
				}
				for n := range w.Peers {
					x := w.Peers[n].Shares[s]
					if (x != nil) != m.Map().Holds(proto.NodeID(n), s) ||
						x != nil && (x.Memory.RKey == w.Peers[n].Memory.RKey) != (int(s) == n) {
						t.Fatalf("node %d reaches %+v of shard %d at node %d", m.ID, x, s, n)
					}
				}
			}
			if !holds {
				continue
			}
			m.Entries(s, func(t proto.TableID, h layout.Head, v []byte) bool {
				at := &content[s][(nodes+int(m.ID)-int(s))%nodes]
				*at = append(*at, fmt.Sprintf("%d %d %v %x", t, h.Key, h.Version, bytes.Clone(v)))
				return true
			})
		}
	}
	for s := range content {
		for r := range content[s] {
			if len(content[s][r]) == 0 || !slices.Equal(content[s][0], content[s][r]) {
				t.Errorf("shard %d: replica %d has %d entries, replica 0 %d", s, r, len(content[s][r]),
					len(content[s][0]))
			}
		}
	}
	if x := c.Verify(); x.Wrong != "" || x.Initial != x.Final || x.Records == 0 {
		t.Errorf("%+v", x)
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	h, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	keys := map[[2]uint64]int{}
	err = h.EachContent(history.Final, func(x history.Content) error {
		keys[[2]uint64{uint64(x.Table), uint64(x.Key)}]++
		return nil
	})
	want := 0
	for s := range content {
		want += len(content[s][0])
	}
	if err != nil || len(keys) != want {
		t.Errorf("%d records in the history, want %d: %v", len(keys), want, err)
	}
	for k, n := range keys {
		if n != replicas {
			t.Fatalf("record %d is %d times in the history", k, n)
		}
	}
}

func TestReplicasThatCannotBeAreRefused(t *testing.T) {
	for _, x := range []struct {
		name     string
		protocol node.Protocol
		replicas int
		want     string
	}{
		{"more than nodes", replicating(t), 3, "3 replicas of each record on 2 nodes"},
		{"less than one", replicating(t), -1, "-1 replicas of each record on 2 nodes"},
		{"of a protocol that keeps one", protocol(t, "twopl"), 2, "protocol twopl keeps one copy of each record, not 2"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := node.Config{Protocol: x.protocol, Workload: bank(t, 2), Nodes: 2, Replicas: x.replicas}
			if err := c.Complete(); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
}

// TestTablesHaveTheIndexThatTheProtocolNeeds: here and in the eyes of peers.
func TestTablesHaveTheIndexThatTheProtocolNeeds(t *testing.T) {
	for _, index := range []layout.Index{layout.ClusterChaining, layout.HopscotchInline} {
		t.Run(index.String(), func(t *testing.T) {
			p := replicating(t)
			p.Index, p.CPULocks = index, true
			p.New = func(*node.Env) (proto.Engine, error) { return nil, nil }
			p.Offers = 0
			c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{Config: node.Config{Protocol: p,
				Workload: bank(t, 2), Nodes: 2, Replicas: 2}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, w := range c.Workers() {
				_, chained := w.Tables[0].(*store.Table)
				if d := w.Peers[0].Tables[0].Descriptor(); d.Index != index || chained != (index == layout.ClusterChaining) {
					t.Errorf("node %d has a %T, and node 0 index %v", w.Node, w.Tables[0], d.Index)
				}
			}
			if x := c.Verify(); x.Wrong != "" || x.Initial != x.Final || x.Initial == (workload.Quantities{}) {
				t.Errorf("%+v", x)
			}
		})
	}
}
