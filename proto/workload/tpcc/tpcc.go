package tpcc

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// Kind is the type of a transaction: Decl.Kind.
type Kind uint8

// Kinds.
const (
	NewOrder Kind = iota + 1
	Payment
	OrderStatus
	Delivery
	StockLevel
	kindEnd // one past the last
)

func (k Kind) String() string {
	return [...]string{"new-order", "payment", "order-status", "delivery", "stock-level"}[k-1]
}

// mix is the share of each kind, in percent.
var mix = [kindEnd - 1]int{45, 43, 4, 4, 4}

// Scale of the specification.
const (
	SpecItems     = 100_000
	SpecCustomers = 3_000
)

// Options of New.
type Options struct {
	Nodes      int
	Warehouses int // per node
	Items      int
	Customers  int // per district
	Orders     int // that a warehouse has room for, beside those of the beginning
	// RemoteItems and RemotePayments are the shares of items and of customers of other warehouses, in percent.
	RemoteItems    float64
	RemotePayments float64
	// Anywhere has each transaction at any warehouse of the cluster, instead of those of its client's node. The warehouses
	// of its items and of its paying customer are drawn in the same way, and each item is a record of one node. Local is
	// the probability of one of the client's node; 0: all are equally probable. RemoteItems and RemotePayments are not
	// used then.
	Anywhere bool
	Local    float64
	// Mix is the share of each kind, in percent; all 0: that of clause 5.2.3.
	Mix [kindEnd - 1]int
}

// Default is one warehouse per node.
func Default(nodes int) Options {
	return Options{Nodes: nodes, Warehouses: 1, Items: SpecItems, Customers: SpecCustomers, Orders: 50_000,
		RemoteItems: 1, RemotePayments: 15}
}

// TPCC is the workload.
type TPCC struct {
	o       Options
	mix     workload.Mix
	names   int // last names
	texts   []byte
	clients []atomic.Uint32 // by node, that were made
}

// New checks the options and makes the workload.
func New(o Options) (*TPCC, error) {
	switch {
	case o.Nodes < 1 || o.Warehouses < 1 || o.Nodes > maxWarehouses/o.Warehouses:
		return nil, fmt.Errorf("tpcc: %d warehouses on each of %d nodes: there are 1 to %d in all", o.Warehouses,
			o.Nodes, maxWarehouses)
	case o.Items < 100 || o.Items >= maxItems:
		return nil, fmt.Errorf("tpcc: %d items are not in 100..%d: an order has up to %d different ones", o.Items,
			maxItems-1, mostLines)
	case o.Customers < 10 || o.Customers > maxCustomers-1 || o.Customers%10 != 0:
		return nil, fmt.Errorf("tpcc: %d customers per district: take a multiple of 10, from 10 to %d, since 70 %% of "+
			"their first orders are delivered", o.Customers, maxCustomers-6)
	case o.Orders < 0 || o.Orders/Districts+o.Customers > maxOrder/2:
		return nil, fmt.Errorf("tpcc: room for %d orders of a warehouse: a district has up to %d", o.Orders, maxOrder/2)
	case !(o.RemoteItems >= 0 && o.RemoteItems <= 100) || !(o.RemotePayments >= 0 && o.RemotePayments <= 100):
		return nil, fmt.Errorf("tpcc: %v %% of items and %v %% of payments of other warehouses are not in 0..100",
			o.RemoteItems, o.RemotePayments)
	case !(o.Local >= 0 && o.Local <= 1) || o.Local > 0 && !o.Anywhere:
		return nil, fmt.Errorf("tpcc: a share %v of local warehouses: it is from 0 to 1, and more than 0 only with Anywhere",
			o.Local)
	case o.Anywhere && o.Items < mostLines*o.Nodes:
		return nil, fmt.Errorf("tpcc: %d items on %d nodes: with Anywhere there are at least %d on each, as many as an order has "+
			"lines", o.Items, o.Nodes, mostLines)
	}
	w := &TPCC{o: o, names: min(1000, o.Customers), clients: make([]atomic.Uint32, o.Nodes)}
	var err error
	if o.Mix == [kindEnd - 1]int{} {
		o.Mix = mix
	}
	if w.mix, err = workload.NewMix(o.Mix[:]); err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	w.texts = make([]byte, 1<<14)
	for i := range w.texts {
		w.texts[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[r.IntN(62)]
	}
	return w, nil
}

// Name is "tpcc".
func (w *TPCC) Name() string { return "tpcc" }

// Kinds names the transactions.
func (w *TPCC) Kinds() (names []string) {
	for k := NewOrder; k < kindEnd; k++ {
		names = append(names, k.String())
	}
	return names
}

// all is how many warehouses there are.
func (w *TPCC) all() int { return w.o.Nodes * w.o.Warehouses }

// Tables are those of the package comment.
func (w *TPCC) Tables() []proto.TableSpec {
	n := w.o.Warehouses
	districts := n * Districts
	customers := districts * w.o.Customers
	orders := customers + n*w.o.Orders
	// A tenth of the mix more: orders of 5 to 15 lines, payments beside new orders.
	lines := orders*(leastLines+mostLines)/2 + orders/20 + 1000
	histories := orders + n*w.o.Orders/10 + 1000
	specs := [tableEnd - 1]proto.TableSpec{
		{Name: "warehouse", ValueBytes: placeBytes, Capacity: n},
		{Name: "warehouse-ytd", ValueBytes: ytdBytes, Capacity: n},
		{Name: "district", ValueBytes: placeBytes, Capacity: districts},
		{Name: "district-ytd", ValueBytes: ytdBytes, Capacity: districts},
		{Name: "district-next", ValueBytes: nextBytes, Capacity: districts},
		{Name: "customer", ValueBytes: customerBytes, Capacity: customers},
		{Name: "customer-name", ValueBytes: nameBytes, Capacity: customers, Ordered: true},
		{Name: "history", ValueBytes: historyBytes, Capacity: histories},
		{Name: "order", ValueBytes: orderBytes, Capacity: orders},
		{Name: "order-customer", ValueBytes: ownerBytes, Capacity: orders, Ordered: true},
		{Name: "new-order", ValueBytes: newOrderBytes, Capacity: orders, Ordered: true},
		{Name: "order-line", ValueBytes: lineBytes, Capacity: lines, Ordered: true},
		{Name: "item", ValueBytes: itemBytes, Capacity: w.o.Items, Everywhere: !w.o.Anywhere},
		{Name: "stock", ValueBytes: stockBytes, Capacity: n * w.o.Items},
	}
	for i := range specs {
		specs[i].ID = proto.TableID(i + 1)
		switch specs[i].ID {
		case Customer, CustomerName, Item, Stock: // remote payments and remote items
		default:
			specs[i].AtHome = !w.o.Anywhere
		}
	}
	return specs[:]
}

// Placement has the records of a warehouse on its node.
func (w *TPCC) Placement() proto.Placement {
	p := placement{perNode: w.o.Warehouses}
	if w.o.Anywhere {
		p.itemNodes = w.o.Nodes
	}
	return p
}

// Sums names what the nodes give that is 0 in all.
func (w *TPCC) Sums() []string {
	return []string{"payments of customers without their history (3.3.2.10)", "stock without its order lines"}
}
