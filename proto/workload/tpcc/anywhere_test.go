package tpcc

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"drtmd/proto"
)

// eachAccess gives what the new orders and payments of a client access, that of n transactions.
func eachAccess(w *TPCC, node proto.NodeID, n int, do func(proto.Access)) {
	c := w.NewClient(node, rand.New(rand.NewPCG(3, 4))).(*client)
	for range n {
		c.Next()
		x := &c.tx
		x.decl.Accesses = x.accesses[:0]
		if x.kind == Payment {
			x.declarePayment()
		} else {
			x.declareItems()
			x.declareOrder()
			x.declareIndex()
		}
		for _, a := range x.decl.Accesses {
			do(a)
		}
	}
}

// TestAnywhereSpreadsAllRecords: of what new orders and payments access, a fifth is on the client's node of five, or the
// share Local; items are on one node each; and no two clients of the cluster give their payments the same number.
func TestAnywhereSpreadsAllRecords(t *testing.T) {
	const nodes, self = 5, 2
	for _, local := range []float64{0, 0.2, 0.5, 1} {
		o := small(nodes)
		o.Items, o.Warehouses, o.Anywhere, o.Local, o.Mix = 1000, 3, true, local, [5]int{50, 50}
		w := newTPCC(t, o)
		var own, all [tableEnd]float64
		eachAccess(w, self, 10_000, func(a proto.Access) {
			if all[a.Table]++; w.Placement().Locate(a.Table, a.Key).Primary == self {
				own[a.Table]++
			}
		})
		want := local
		if local == 0 {
			want = 1.0 / nodes
		}
		for _, table := range []proto.TableID{Warehouse, DistrictNext, Customer, OrderLine, Item, Stock, History} {
			share := own[table] / all[table]
			near := 0.03 // of 5,000 draws of a warehouse 3 sigma are 0.02
			if table == Item {
				near = 0.05 // NURand does not draw all with the same probability
			}
			if local == 1 {
				near = 0 // the items that there are not, too
			}
			if math.Abs(share-want) > near {
				t.Errorf("Local %v: of table %d, %.3f are on the client's node, want %.2f", local, table, share, want)
			}
		}
	}
}

// TestClientsAnywhereHaveNumbersOfTheirOwn, as they pay at the same warehouses; so a later life cannot go on.
func TestClientsAnywhereHaveNumbersOfTheirOwn(t *testing.T) {
	o := small(3)
	o.Anywhere = true
	w := newTPCC(t, o)
	seen := map[uint16]bool{}
	for i := range 12 {
		c := w.NewClient(proto.NodeID(i%3), rand.New(rand.NewPCG(1, 1))).(*client)
		if seen[c.number] {
			t.Errorf("two clients have number %d", c.number)
		}
		seen[c.number] = true
	}
	if err := w.GoOn(0, rows{}); err == nil || !strings.Contains(err.Error(), "load the tables anew") {
		t.Errorf("%v", err)
	}
}

// TestAnItemAnywhereIsLoadedOnce, by the node that has it.
func TestAnItemAnywhereIsLoadedOnce(t *testing.T) {
	o := small(3)
	o.Anywhere = true
	w := newTPCC(t, o)
	items := map[proto.Key]bool{}
	for n := range proto.NodeID(3) {
		err := w.Load(n, func(table proto.TableID, k proto.Key, _ []byte) error {
			if at := w.Placement().Locate(table, k).Primary; at != n {
				t.Fatalf("node %d loads key %#x of table %d, which is node %d's", n, k, table, at)
			}
			if table == Item && items[k] {
				t.Fatalf("item %d is loaded twice", k)
			}
			items[k] = items[k] || table == Item
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	count := 0
	for _, is := range items {
		if is {
			count++
		}
	}
	if count != o.Items {
		t.Errorf("%d of %d items", count, o.Items)
	}
}

// TestWithoutRemoteSharesAllIsLocal: with 0 % of the items (clause 2.4.1.5) and of the payments (clause 2.5.1.2) of other
// warehouses, what new orders and payments access is of the client's node, or everywhere; and with 1 % a supplying
// warehouse is another one for so many items, of all other warehouses alike.
func TestWithoutRemoteSharesAllIsLocal(t *testing.T) {
	const self = 1
	for _, percent := range []float64{0, 1} {
		o := small(3)
		o.RemoteItems, o.RemotePayments, o.Mix = percent, 0, [5]int{50, 50}
		w := newTPCC(t, o)
		specs := w.Tables()
		var elsewhere, all [tableEnd]float64
		eachAccess(w, self, 20_000, func(a proto.Access) {
			if all[a.Table]++; !specs[a.Table-1].Everywhere && w.Placement().Locate(a.Table, a.Key).Primary != self {
				elsewhere[a.Table]++
			}
		})
		for i := range specs {
			table := specs[i].ID
			want := 0.0
			if table == Stock {
				want = percent / 100
			}
			if share := elsewhere[table] / max(all[table], 1); math.Abs(share-want) > 0.2*want {
				t.Errorf("%v %%: of table %s, %.4f are elsewhere, want %.2f", percent, specs[i].Name, share, want)
			}
		}
	}
}
