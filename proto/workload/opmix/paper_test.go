package opmix

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload/workloadtest"
)

// TestEachMixHasItsOperations (Dandelion §7): G gets and P puts of different records, uniform, on all
// nodes.
func TestEachMixHasItsOperations(t *testing.T) {
	for _, x := range []struct {
		name       string
		gets, puts int
	}{{"O(1,0)", 1, 0}, {"O(0,1)", 0, 1}, {"O(4,0)", 4, 0}, {"O(4,2)", 4, 2}} {
		o := Default(3)
		o.Keys, o.Gets, o.Puts = 500, x.gets, x.puts
		w, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Kinds()[0]; got != x.name {
			t.Errorf("called %s, want %s", got, x.name)
		}
		if s := w.Tables()[0]; s.ValueBytes != 16 {
			t.Errorf("values of %d bytes, want 16", s.ValueBytes)
		}
		homes := map[proto.NodeID]int{}
		err = workloadtest.Check(w, 3, 3000, 1, func(tx *workloadtest.Transaction) {
			gets, puts := 0, 0
			keys := map[proto.Key]bool{}
			for _, a := range tx.Touched {
				keys[a.Key] = true
				homes[w.Placement().Locate(a.Table, a.Key).Primary]++
				if a.Mode == proto.ModeRead {
					gets++
				} else {
					puts++
				}
			}
			if gets != x.gets || puts != x.puts || len(keys) != gets+puts {
				t.Fatalf("%s: %d gets and %d puts of %d keys", x.name, gets, puts, len(keys))
			}
		})
		if err != nil {
			t.Error(err)
		}
		for n, c := range homes {
			if want := 3 * 3000 * (x.gets + x.puts) / 3; c < want*9/10 || c > want*11/10 {
				t.Errorf("%s: node %d has %d of the accesses, want about %d", x.name, n, c, want)
			}
		}
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for why, change := range map[string]func(*Options){
		"0 gets and 0 puts":            func(o *Options) { o.Gets, o.Puts = 0, 0 },
		"100 gets":                     func(o *Options) { o.Gets = 100 },
		"too few":                      func(o *Options) { o.Keys = 2 },
		"take up to 100":               func(o *Options) { o.Remote = 101 },
		"without Zipf":                 func(o *Options) { o.Remote, o.Theta = 10, 0.9 },
		"multiple of 2":                func(o *Options) { o.Hot, o.Remote = 121, 10 },
		"120 hot records and no get":   func(o *Options) { o.Hot, o.Gets, o.Remote = 120, 0, 10 },
		"120 hot records and no share": func(o *Options) { o.Hot = 120 },
		"there is one node":            func(o *Options) { o.Nodes, o.Remote = 1, 10 },
	} {
		o := Default(2)
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want one with %q", err, why)
		}
	}
}

// TestRecordsOfOtherNodesAndHotOnes (DrTM §8.5): ten records, 10 % of another node, and one of ten of 120 hot ones.
func TestRecordsOfOtherNodesAndHotOnes(t *testing.T) {
	const nodes, hot = 6, 120
	o := Default(nodes)
	o.Keys, o.Gets, o.Puts, o.Remote, o.Hot = 1000, 4, 6, 10, hot
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	transactions, records, far := 0.0, 0.0, 0.0
	seen := map[proto.Key]bool{}
	c := w.NewClient(2, rand.New(rand.NewPCG(1, 2)))
	for range 5000 {
		d, _ := c.Next()
		transactions++
		if len(d.Accesses) != o.Gets+o.Puts || d.Accesses[0].Mode != proto.ModeRead {
			t.Fatalf("%d records, the first in mode %v", len(d.Accesses), d.Accesses[0].Mode)
		}
		seen[d.Accesses[0].Key] = true
		for _, a := range d.Accesses[1:] {
			if records++; a.Key<<16>>16 < hot/nodes {
				t.Fatalf("key %#x is hot", a.Key)
			}
			if w.Placement().Locate(a.Table, a.Key).Primary != 2 {
				far++
			}
		}
	}
	perNode := map[proto.NodeID]int{}
	for k := range seen {
		perNode[w.Placement().Locate(1, k).Primary]++
	}
	if len(seen) != hot || len(perNode) != nodes || perNode[0] != hot/nodes {
		t.Errorf("%d hot records on nodes %v, want %d of each", len(seen), perNode, hot/nodes)
	}
	if share := 100 * far / records; share < 9 || share > 11 {
		t.Errorf("%.1f %% of the records are of another node, want 10 %%", share)
	}
}

// TestInteractiveTransactionsDoTheSame (Dandelion §3): without declarations the same client reads and writes the same.
func TestInteractiveTransactionsDoTheSame(t *testing.T) {
	var contents []map[proto.Key]string
	for _, interactive := range []bool{false, true} {
		o := Default(2)
		o.Keys, o.Interactive = 50, interactive
		w, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		s := &mapTxn{records: map[proto.Key]string{}}
		for n := range proto.NodeID(2) {
			err = errors.Join(err, w.Load(n, func(_ proto.TableID, k proto.Key, v []byte) error {
				s.records[k] = string(v)
				return nil
			}))
		}
		c := w.NewClient(0, rand.New(rand.NewPCG(1, 2)))
		for range 300 {
			d, p := c.Next()
			if declared := len(d.Accesses) > 0; declared == interactive {
				t.Fatalf("interactive %v: %d records are declared", interactive, len(d.Accesses))
			}
			err = errors.Join(err, p.Execute(s))
			c.Done(proto.Committed)
		}
		if err != nil {
			t.Fatal(err)
		}
		contents = append(contents, s.records)
		if s.reads != 300*o.Gets {
			t.Errorf("interactive %v: %d records are read, want %d", interactive, s.reads, 300*o.Gets)
		}
	}
	if !maps.Equal(contents[0], contents[1]) {
		t.Error("the records differ in the end")
	}
}

// mapTxn is a transaction on a map.
type mapTxn struct {
	proto.Txn
	records map[proto.Key]string
	reads   int // of records that the client looks at
}

func (x *mapTxn) Read(_ proto.TableID, k proto.Key, dst []byte) error {
	copy(dst, x.records[k])
	x.reads++
	return nil
}

func (x *mapTxn) ReadMany(gets []proto.Get) error {
	for i := range gets {
		copy(gets[i].Value, x.records[gets[i].Key])
	}
	if len(gets) == 4 { // the others are read before they are put blindly
		x.reads += len(gets)
	}
	return nil
}

func (x *mapTxn) Write(_ proto.TableID, k proto.Key, v []byte) error {
	x.records[k] = string(v)
	return nil
}
