package tpcc

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/workload/workloadtest"
)

// small is a workload that a test can run on a map.
func small(nodes int) Options {
	o := Default(nodes)
	o.Items, o.Customers, o.Orders = 100, 30, 5000
	return o
}

func newTPCC(t testing.TB, o Options) *TPCC {
	t.Helper()
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSizes are those of clause 4.2.2 in bytes, and those of clause 1.2.1 in rows. The columns of two records are
// counted together; WAREHOUSE takes 2 bytes more.
func TestSizes(t *testing.T) {
	w := newTPCC(t, Default(1))
	specs := w.Tables()
	bytes := func(ids ...proto.TableID) (n int) {
		for _, id := range ids {
			n += specs[id-1].ValueBytes
		}
		return n
	}
	for _, x := range []struct {
		name      string
		got, want int
	}{
		{"warehouse", bytes(Warehouse, WarehouseYTD), 89 + 2},
		{"district", bytes(District, DistrictYTD, DistrictNext), 95},
		{"customer", bytes(Customer), 655}, {"history", bytes(History), 46}, {"order", bytes(Order), 24},
		{"new-order", bytes(NewOrderTable), 8}, {"order-line", bytes(OrderLine), 54}, {"item", bytes(Item), 82},
		{"stock", bytes(Stock), 306},
	} {
		if x.got != x.want {
			t.Errorf("a row of %s has %d bytes, want %d", x.name, x.got, x.want)
		}
	}
	rows := map[proto.TableID]int{}
	err := w.Load(0, func(id proto.TableID, _ proto.Key, _ []byte) error { rows[id]++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[proto.TableID]int{Warehouse: 1, District: 10, Customer: 30_000, CustomerName: 30_000,
		History: 30_000, Order: 30_000, OrderCustomer: 30_000, NewOrderTable: 9_000, Item: 100_000, Stock: 100_000} {
		if rows[id] != want {
			t.Errorf("table %s has %d rows, want %d", specs[id-1].Name, rows[id], want)
		}
	}
	if n := rows[OrderLine]; n < 298_000 || n > 302_000 {
		t.Errorf("there are %d order lines, want 300,000 within 1 %%", n)
	}
}

// TestNURand is clause 2.1.6: numbers of their range, half of which are far more often drawn, and constants that
// differ as clause 2.1.6.1 wants it.
func TestNURand(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct{ a, constant, spec, n int }{
		{8191, constItem, SpecItems, SpecItems}, {1023, constCustomer, SpecCustomers, SpecCustomers},
		{255, constLast, 1000, 1000}, {8191, constItem, SpecItems, 100}, {1023, constCustomer, SpecCustomers, 10}} {
		u := newNURand(x.a, x.constant, x.spec, x.n)
		if x.n == x.spec && u.a != x.a || u.a*x.spec > x.a*x.n && u.a > 1 {
			t.Errorf("NURand's A for %d of %d is %d", x.n, x.spec, u.a)
		}
		drawn := make([]int, x.n)
		for range 100_000 {
			drawn[u.draw(r)]++
		}
	}
	if d := max(constLoadLast, constLast) - min(constLoadLast, constLast); d < 65 || d > 119 || d == 96 || d == 112 {
		t.Errorf("the constants of last names are %d apart, not in 65..119 without 96 and 112", d)
	}
	if constLast > 255 || constLoadLast > 255 || constCustomer > 1023 || constItem > 8191 {
		t.Error("a constant is above its A")
	}
	if got := lastName(371) + " " + lastName(0) + " " + lastName(999); got != "PRICALLYOUGHT BARBARBAR EINGEINGEING" {
		t.Errorf("last names: %s", got)
	}
}

// TestShares are the mix of clause 5.2.3 and DrTM's Table VII, and the draws of clauses 2.4.1 and 2.5.1: lines, remote items and payments, last names, unused items.
func TestShares(t *testing.T) {
	w := newTPCC(t, Default(4))
	c := w.NewClient(2, rand.New(rand.NewPCG(3, 4))).(*client)
	const draws = 200_000
	var kinds [kindEnd]float64
	var orders, lines, remote, unused, payments, far, named float64
	for range draws {
		c.Next()
		x := &c.tx
		kinds[x.kind] += 100.0 / draws
		switch x.kind {
		case NewOrder:
			orders++
			lines += float64(x.count)
			for _, l := range x.lines[:x.count] {
				if l.supply != c.home {
					remote++
				}
				if l.item == w.o.Items {
					unused++
				}
			}
			if x.count < leastLines || x.count > mostLines {
				t.Fatalf("%d lines", x.count)
			}
		case Payment:
			payments++
			if x.ofWarehouse != c.home {
				far++
			}
			if x.byName {
				named++
			}
			if x.amount < 100 || x.amount > 500_000 {
				t.Fatalf("an amount of %d cents", x.amount)
			}
		}
	}
	for _, x := range []struct {
		what            string
		got, want, near float64
	}{
		{"percent of new orders", kinds[NewOrder], 45, 0.4}, {"percent of payments", kinds[Payment], 43, 0.4},
		{"percent of order-status", kinds[OrderStatus], 4, 0.2}, {"percent of deliveries", kinds[Delivery], 4, 0.2},
		{"percent of stock-level", kinds[StockLevel], 4, 0.2},
		{"lines of an order", lines / orders, 10, 0.1}, {"percent of remote items", 100 * remote / lines, 1, 0.1},
		{"percent of orders with an unused item", 100 * unused / orders, 1, 0.15},
		{"percent of remote payments", 100 * far / payments, 15, 0.5},
		{"percent of payments by last name", 100 * named / payments, 60, 0.7},
	} {
		if math.Abs(x.got-x.want) > x.near {
			t.Errorf("%s: %.3f, want %g", x.what, x.got, x.want)
		}
	}
}

// TestEachConditionIsChecked: for each condition of clause 3.3.2 there is a content that breaks it, and Inspect
// says so.
func TestEachConditionIsChecked(t *testing.T) {
	const c, o = 3, 30 // a customer, and the newest order of the beginning
	at := func(id proto.TableID, k proto.Key) workloadtest.Place { return workloadtest.Place{Table: id, Key: k} }
	more := func(offset int) func([]byte) { return func(row []byte) { add64(row, offset, 1) } }
	change := func(id proto.TableID, k proto.Key, f func(row []byte)) func(*workloadtest.Store) {
		return func(s *workloadtest.Store) { f(s.Records[at(id, k)]) }
	}
	remove := func(id proto.TableID, k proto.Key) func(*workloadtest.Store) {
		return func(s *workloadtest.Store) { delete(s.Records, at(id, k)) }
	}
	all := func(list ...func(*workloadtest.Store)) func(*workloadtest.Store) {
		return func(s *workloadtest.Store) {
			for _, f := range list {
				f(s)
			}
		}
	}
	h := historyKey(0, noClient, c)
	for condition, f := range map[int]func(*workloadtest.Store){
		1: change(DistrictYTD, districtKey(0, 0), more(0)),
		2: change(DistrictNext, districtKey(0, 0), func(row []byte) { put32(row, 0, 32) }),
		3: remove(NewOrderTable, orderKey(0, 0, 25)),
		4: remove(OrderLine, lineKey(0, 0, o, 1)),
		5: change(Order, orderKey(0, 0, 1), func(row []byte) { row[orderCarrier] = 0 }),
		6: all(change(Order, orderKey(0, 0, 1), func(row []byte) { row[orderLines]++ }),
			change(Order, orderKey(0, 0, 2), func(row []byte) { row[orderLines]-- })),
		7: change(OrderLine, lineKey(0, 0, o, 1), func(row []byte) { put64(row, lineDelivered, 9) }),
		8: change(History, h, more(historyAmount)),
		9: all(change(History, h, more(historyAmount)), change(WarehouseYTD, warehouseKey(0), more(0)),
			change(DistrictYTD, districtKey(0, 1), more(0))),
		10: all(change(History, h, more(historyAmount)), change(WarehouseYTD, warehouseKey(0), more(0)),
			change(DistrictYTD, districtKey(0, 0), more(0))),
		11: all(remove(NewOrderTable, orderKey(0, 0, 22)), change(Order, orderKey(0, 0, 22), func(row []byte) { row[orderCarrier] = 1 })),
		12: change(Customer, customerKey(0, 0, c), more(customerYTD)),
	} {
		t.Run(fmt.Sprint(condition), func(t *testing.T) {
			w := newTPCC(t, small(1))
			s, err := workloadtest.Load(w, 1)
			if err != nil {
				t.Fatal(err)
			}
			if first, last, err := s.Count(1); err != nil || first != last {
				t.Fatalf("in the beginning: %v, %v, %v", first, last, err)
			}
			f(s)
			_, _, err = s.Count(1)
			if want := fmt.Sprintf("condition 3.3.2.%d,", condition); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// TestSumsOverNodesSeeWhatOneNodeDoesNot: a payment that another node's history does not have, and stock that was
// taken for no order.
func TestSumsOverNodesSeeWhatOneNodeDoesNot(t *testing.T) {
	for name, change := range map[string]func(*workloadtest.Store){
		"payment": func(s *workloadtest.Store) {
			row := s.Records[workloadtest.Place{Table: Customer, Key: customerKey(1, 0, 3)}]
			add64(row, customerYTD, 1)
			add64(row, customerBalance, -1)
		},
		"stock": func(s *workloadtest.Store) {
			put32(s.Records[workloadtest.Place{Table: Stock, Key: stockKey(1, 3)}], stockYTD, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := workloadtest.Load(newTPCC(t, small(2)), 2)
			if err != nil {
				t.Fatal(err)
			}
			change(s)
			first, last, err := s.Count(2)
			if err != nil || first == last {
				t.Errorf("%v, then %v, %v", first, last, err)
			}
		})
	}
}

// TestNewRefuses: options that cannot be, with what there is instead.
func TestNewRefuses(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no warehouse":        func(o *Options) { o.Warehouses = 0 },
		"too many warehouses": func(o *Options) { o.Warehouses, o.Nodes = 1<<16, 2 },
		"few items":           func(o *Options) { o.Items = 99 },
		"many items":          func(o *Options) { o.Items = maxItems },
		"no customers":        func(o *Options) { o.Customers = 0 },
		"odd customers":       func(o *Options) { o.Customers = 33 },
		"too many orders":     func(o *Options) { o.Orders = 1 << 30 },
		"percent of items":    func(o *Options) { o.RemoteItems = 101 },
		"percent of payments": func(o *Options) { o.RemotePayments = math.NaN() },
		"local warehouses":    func(o *Options) { o.Local = 0.5 },
		"all too local":       func(o *Options) { o.Anywhere, o.Local = true, 1.1 },
		"too few items":       func(o *Options) { o.Anywhere, o.Items, o.Nodes = true, 100, 7 },
	} {
		o := small(1)
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	if !errors.Is(broken(1, 0, 0, ""), ErrInconsistent) {
		t.Error("a broken condition is no ErrInconsistent")
	}
}
