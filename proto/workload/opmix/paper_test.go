package opmix

import (
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
	for name, change := range map[string]func(*Options){
		"nothing to do": func(o *Options) { o.Gets, o.Puts = 0, 0 },
		"too much":      func(o *Options) { o.Gets = 100 },
		"few keys":      func(o *Options) { o.Keys = 2 },
	} {
		o := Default(2)
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
