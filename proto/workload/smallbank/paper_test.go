package smallbank

import (
	"math"
	"testing"

	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/workload/workloadtest"
)

func bank(t *testing.T, change func(*Options)) *Bank {
	t.Helper()
	o := Default(5)
	o.Accounts = 400
	change(&o)
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// accesses are the records that transactions of each kind touch, by whether they are remote.
type accesses struct{ all, remote, transactions, distributed float64 }

func measure(t *testing.T, b *Bank) (by [kindEnd]accesses, homes map[proto.NodeID]float64) {
	t.Helper()
	homes = map[proto.NodeID]float64{}
	s, err := workloadtest.Load(b, b.o.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	const home = 2
	_, err = s.Run(b.NewClient(home, random()), 40_000, func(x *workloadtest.Transaction) {
		a := &by[x.Decl.Kind]
		a.transactions++
		remote := false
		for _, r := range x.Decl.Accesses {
			node := b.Placement().Locate(r.Table, r.Key).Primary
			homes[node]++
			a.all++
			if node != home {
				a.remote++
				remote = true
			}
		}
		if remote {
			a.distributed++
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return by, homes
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s: %.4f, want %.4f within %.4f", what, got, want, within)
	}
}

// TestOnlyPaymentsAndAmalgamationsAreDistributed (DrTM §8.1): with the probability that is asked for.
func TestOnlyPaymentsAndAmalgamationsAreDistributed(t *testing.T) {
	by, _ := measure(t, bank(t, func(o *Options) { o.Distributed = 0.1 }))
	for k := SendPayment; k < kindEnd; k++ {
		want := 0.0
		if k == SendPayment || k == Amalgamate {
			want = 0.1
		}
		near(t, k.String(), by[k].distributed/by[k].transactions, want, 0.02)
	}
}

// TestCustomersAnywhereAreOnAllNodesAlike (Xenic §5.5, HADES §VII, Dandelion §7): each record is remote
// with probability (n-1)/n, and transactions of one customer can be, too.
func TestCustomersAnywhereAreOnAllNodesAlike(t *testing.T) {
	by, homes := measure(t, bank(t, (*Options).PlaceAnywhere))
	sum := 0.0
	for k := SendPayment; k < kindEnd; k++ {
		near(t, k.String(), by[k].remote/by[k].all, 0.8, 0.02)
		sum += by[k].all
	}
	for n, c := range homes {
		near(t, "share of a node's records", c/sum, 0.2, 0.01)
		if n >= 5 {
			t.Errorf("node %d", n)
		}
	}
}

// TestCustomersOfOtherNodes: with the probability of option far, first customers included.
func TestCustomersOfOtherNodes(t *testing.T) {
	for percent, share := range map[string]float64{"20": 0.2, "100": 1} {
		spec := Spec()
		w, _, err := spec.Make(5, option.Settings{optAccounts: "1000", optFar: percent})
		if err != nil {
			t.Fatal(err)
		}
		by, _ := measure(t, w.(*Bank))
		for k := SendPayment; k < kindEnd; k++ {
			near(t, percent+" % of "+k.String(), by[k].remote/by[k].all, share, 0.02*(1-share))
		}
	}
}

// TestDandelionsShapes (Dandelion §7; paper-numbers: the message counts fit a balance of one key): keys
// written and read by kind, 15 % of the transactions read one key only.
func TestDandelionsShapes(t *testing.T) {
	b := bank(t, func(o *Options) { o.PlaceAnywhere(); o.OneKeyBalance = true; o.HotAccounts = 1 })
	want := [kindEnd][2]int{SendPayment: {2, 0}, Amalgamate: {3, 0}, Balance: {0, 1}, DepositChecking: {1, 0},
		WriteCheck: {1, 1}, TransactSavings: {1, 0}} // written, read
	err := workloadtest.Check(b, 5, 2000, 1, func(x *workloadtest.Transaction) {
		var got [2]int
		for _, a := range x.Decl.Accesses {
			if a.Mode == proto.ModeWrite {
				got[0]++
			} else {
				got[1]++
			}
		}
		if k := Kind(x.Decl.Kind); got != want[k] {
			t.Fatalf("%v: %v, want %v", k, got, want[k])
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestSizesOfPapers: DrTM's and Dandelion's values have 8 bytes, Xenic's 4 (§5.4: objects of 12 with
// their key of 8). The money is conserved with every size.
func TestSizesOfPapers(t *testing.T) {
	for paper, bytes := range map[string]int{"DrTM, Dandelion": 8, "Xenic": 4, "padded": 100} {
		b := bank(t, func(o *Options) { o.ValueBytes = bytes })
		for _, s := range b.Tables() {
			if s.ValueBytes != bytes {
				t.Errorf("%s: values of %d bytes, want %d", paper, s.ValueBytes, bytes)
			}
		}
		if err := workloadtest.Check(b, 5, 4000, 1, nil); err != nil {
			t.Errorf("%s: %v", paper, err)
		}
	}
}

// TestShortBalancesRollBackWhatDoesNotFit: nothing wraps around.
func TestShortBalancesRollBackWhatDoesNotFit(t *testing.T) {
	const a, b proto.Key = 1, 2
	const most = math.MaxInt32
	for _, kind := range []Kind{SendPayment, Amalgamate, DepositChecking} {
		x := &ledgerTx{touched: map[place]proto.Mode{}, records: map[place]int64{{Savings, a}: 5000,
			{Checking, a}: most, {Savings, b}: 0, {Checking, b}: most}}
		tx := newTransaction(ShortBytes, false)
		tx.kind, tx.a, tx.b = kind, a, b
		if err := tx.Execute(x); err != proto.ErrRollback {
			t.Errorf("%v: %v, want a rollback", kind, err)
		}
		if x.records[place{Checking, a}] != most || x.records[place{Checking, b}] != most {
			t.Errorf("%v wrote: %v", kind, x.records)
		}
	}
}
