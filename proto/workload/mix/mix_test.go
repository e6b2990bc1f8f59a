package mix

import (
	"errors"
	"math/rand/v2"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/proto/workload/smallbank"
	"drtmd/proto/workload/tpcc"
	"drtmd/proto/workload/workloadtest"
	"drtmd/proto/workload/ycsb"
)

const nodes = 3

// parts are workloads with fields, plans, insertions, sums, ordered tables and additions.
func parts(t *testing.T) []workload.Workload {
	t.Helper()
	bank := smallbank.Default(nodes)
	bank.Accounts = 200
	b, err := smallbank.New(bank)
	if err != nil {
		t.Fatal(err)
	}
	store := ycsb.Default(nodes)
	store.Letter, store.Keys, store.ValueBytes = "F", 200, 24
	y, err := ycsb.New(store)
	if err != nil {
		t.Fatal(err)
	}
	orders := tpcc.Default(nodes)
	orders.Items, orders.Customers, orders.Orders = 100, 10, 1000
	c, err := tpcc.New(orders)
	if err != nil {
		t.Fatal(err)
	}
	return []workload.Workload{b, c, y}
}

func newMix(t *testing.T) *Mix {
	t.Helper()
	m, err := New(Options{Parts: parts(t), Nodes: nodes, Cores: 4, Fibers: 2})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestEachPartHasItsCores: of four cores of three parts the first two are the first part's.
func TestEachPartHasItsCores(t *testing.T) {
	m := newMix(t)
	for n := range proto.NodeID(nodes) {
		for i, want := range []uint8{1, 1, 1, 1, 2, 2, 3, 3, 1} { // and the next run's begins anew
			d, _ := m.NewClient(n, rand.New(rand.NewPCG(1, uint64(i)))).Next()
			if d.Kind != want {
				t.Errorf("node %d, client %d is of part %d, want %d", n, i, d.Kind, want)
			}
		}
	}
}

// TestPartsKeepTheirSums, in tables of their own; a record of one part that is damaged is noticed, with the part.
func TestPartsKeepTheirSums(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		m := newMix(t)
		s, err := workloadtest.Load(m, nodes)
		if err != nil {
			t.Fatal(err)
		}
		var all workload.Ledger
		touched := map[proto.TableID]bool{}
		for i := range 8 {
			c := m.NewClient(1, rand.New(rand.NewPCG(1, uint64(i))))
			did, err := s.Run(c, 200, func(x *workloadtest.Transaction) {
				for _, a := range x.Decl.Accesses {
					touched[a.Table] = true
					if m.part[a.Table] != int(x.Decl.Kind)-1 {
						t.Fatalf("part %d declares table %d", x.Decl.Kind, a.Table)
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			all.Add(&did)
		}
		if len(touched) < len(m.Tables())-2 {
			t.Errorf("of %d tables %d were declared", len(m.Tables()), len(touched))
		}
		if damaged {
			last := m.Tables()[len(m.Tables())-1].ID
			for at := range s.Records {
				if at.Table == last {
					s.Records[at][12]++
				}
			}
		}
		first, last, err := s.Count(nodes)
		if err == nil {
			err = all.Explains(first, last, m.Sums()...)
		}
		if damaged != (err != nil) {
			t.Errorf("damaged %v: %v", damaged, err)
		}
	}
}

func TestPartsThatDoNotFitAreRefused(t *testing.T) {
	p := parts(t)
	for name, o := range map[string]Options{
		"no part": {Nodes: 1, Cores: 1, Fibers: 1}, "few cores": {Parts: p, Nodes: 1, Cores: 2, Fibers: 1},
		"no node": {Parts: p, Cores: 3, Fibers: 1}, "no fiber": {Parts: p, Nodes: 1, Cores: 3},
		"many": {Parts: make([]workload.Workload, workload.MaxKinds), Nodes: 1, Cores: 100, Fibers: 1},
	} {
		if _, err := New(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDrawingDoesNotAllocate(t *testing.T) {
	m := newMix(t)
	for range 8 {
		c := m.NewClient(0, rand.New(rand.NewPCG(1, 1)))
		c.Next()
		if n := testing.AllocsPerRun(200, func() {
			c.Next()
			c.Done(proto.RolledBack)
		}); n > 0 {
			t.Errorf("%v allocations for a transaction", n)
		}
	}
}
