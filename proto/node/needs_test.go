package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	described "drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/store/layout"
)

// TestClustersThatLackWhatAProtocolNeedsAreRefused: in words, before anything runs.
func TestClustersThatLackWhatAProtocolNeedsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *node.Protocol)
		words  bool // the device has line words
		want   string
	}{
		{"line words that are there", func(p *node.Protocol) { p.LineWords = true }, true, ""},
		{"line words", func(p *node.Protocol) { p.LineWords = true }, false,
			"protocol twopl runs on memory with line words, which device n0 does not have: use shared memory or"},
		{"replicas", func(p *node.Protocol) { p.Replicas = 3 }, true,
			"protocol twopl runs with at least 3 copies of each record, and there are 1"},
		{"another layout", func(p *node.Protocol) { p.Layout = layout.KindLineVersions }, true, ""},
		{"a layout that nobody knows", func(p *node.Protocol) { p.Layout = 77 }, true,
			"protocol twopl keeps records in layout(77), which this program does not know"},
		{"an index that tables do not have", func(p *node.Protocol) { p.Index = layout.GrowingClusters }, true,
			"protocol twopl finds records by growing-clusters, and tables of a cluster have cluster-chaining, hopscotch, robinhood or dlht"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := protocol(t, "twopl")
			c.change(&p)
			cluster, err := node.NewSimulated(context.Background(), node.SimulatedConfig{
				Config: node.Config{Protocol: p, Workload: bank(t, 2), Nodes: 2}, WithoutLineWords: !c.words})
			if err == nil {
				defer cluster.Close()
			}
			if c.want == "" && err != nil ||
				c.want != "" && (!errors.Is(err, described.ErrNeeds) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestAnEngineThatOffersSomethingElseIsRefused: a method whose signature has changed is no method of the
// interface any more, and whoever asks for it finds nothing.
func TestAnEngineThatOffersSomethingElseIsRefused(t *testing.T) {
	p := protocol(t, "twopl")
	inner := p.New
	p.New = func(e *node.Env) (proto.Engine, error) {
		engine, err := inner(e)
		return struct{ proto.Engine }{engine}, err
	}
	c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{
		Config: node.Config{Protocol: p, Workload: bank(t, 2), Nodes: 2}})
	if err == nil {
		defer c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "declares the optional interfaces debts, orphans, but its engine "+
		"has nothing") {
		t.Errorf("error %v", err)
	}
}

// TestProtocolsThatKnowTheirEntriesRefuseOthers: whatever somebody writes into their needs.
func TestProtocolsThatKnowTheirEntriesRefuseOthers(t *testing.T) {
	for _, name := range []string{"drtm", "nocc"} {
		for what, change := range map[string]func(n *node.Protocol){
			"layout": func(p *node.Protocol) { p.Layout = layout.KindLineVersions },
			"index":  func(p *node.Protocol) { p.Index, p.Layout = layout.HopscotchInline, layout.KindOneVersion },
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				p := protocol(t, name)
				change(&p)
				c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{
					Config: node.Config{Protocol: p, Workload: bank(t, 1)}})
				if err == nil {
					err = c.Close()
				}
				want := "protocol " + name + ": the cluster lacks what its protocol needs: it knows the bytes of entries"
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			})
		}
	}
}

// TestMembersThatKeepRecordsOtherwiseAreRefused: in words, before they are connected.
func TestMembersThatKeepRecordsOtherwiseAreRefused(t *testing.T) {
	c, err := node.NewSimulated(context.Background(), node.SimulatedConfig{
		Config: node.Config{Protocol: protocol(t, "twopl"), Workload: bank(t, 2), Nodes: 2}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, x := range []struct {
		name   string
		change func(d *layout.Descriptor)
		want   string
	}{
		{"layout", func(d *layout.Descriptor) { d.Layout = layout.KindLineVersions },
			"in layout line-versions and index cluster-chaining, want table"},
		{"index", func(d *layout.Descriptor) { d.Index = layout.GrowingClusters },
			"in layout one-version and index growing-clusters, want table"},
		{"value size", func(d *layout.Descriptor) { d.ValueBytes++ }, "all members must run the same protocol"},
		{"id", func(d *layout.Descriptor) { d.Table++ }, "all members must run the same protocol"},
	} {
		t.Run(x.name, func(t *testing.T) {
			all := []node.Descriptor{c.Members[0].Describe(), c.Members[1].Describe()}
			x.change(&all[0].Shares[0].Tables[0])
			if err := c.Members[0].Connect(all); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
}

// wide is a workload whose transactions write more than some backups take.
type wide struct{ workload.Workload }

func (wide) MostWritten(bool) (records, valueBytes int) { return 180, 15_000 }

// TestTransactionsThatBackupsCannotTakeAreRefused: before the first one ends the run.
func TestTransactionsThatBackupsCannotTakeAreRefused(t *testing.T) {
	for _, c := range []struct {
		protocol string
		replicas int
		want     string
	}{{"dnl2", 3, "takes log records of up to 8192 bytes"}, {"dnl2", 1, ""}, {"farm", 3, ""}} {
		cfg := node.Config{Protocol: protocol(t, c.protocol), Workload: wide{bank(t, 3)}, Nodes: 3, Replicas: c.replicas}
		err := cfg.Complete()
		if c.want == "" && err != nil ||
			c.want != "" && (!errors.Is(err, described.ErrNeeds) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %d replicas: %v, want %q", c.protocol, c.replicas, err, c.want)
		}
	}
}
