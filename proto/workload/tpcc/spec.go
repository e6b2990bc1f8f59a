package tpcc

import (
	"fmt"

	"drtmd/proto/option"
	"drtmd/proto/workload"
)

// Options by name.
const (
	optWarehouses     = "warehouses"
	optItems          = "items"
	optCustomers      = "customers"
	optOrders         = "orders"
	optRemoteItems    = "remote-items"
	optRemotePayments = "remote-payments"
)

// Spec describes the workload.
func Spec() workload.Spec {
	d := Default(1)
	docs := [...]string{NewOrder: "orders 5 to 15 items; 1 % is rolled back", Payment: "pays an amount, 60 % by last name",
		OrderStatus: "reads a customer's newest order", Delivery: "delivers the oldest order of each district",
		StockLevel: "counts items of the last 20 orders that are low"}
	var list []workload.Transaction
	for k := NewOrder; k < kindEnd; k++ {
		list = append(list, workload.Transaction{Name: k.String(), Percent: mix[k-1], Doc: docs[k],
			ReadOnly: k == OrderStatus || k == StockLevel})
	}
	return workload.Spec{
		Name: "tpcc",
		Doc:  "TPC-C, all five transactions",
		Options: option.List{
			option.Int(optWarehouses, d.Warehouses, 1, maxWarehouses, "`N` warehouses per node").Because(
				"a key has 16 bits for the warehouse"),
			option.Int(optItems, d.Items, 100, maxItems-1, "`N` items; the specification has 100,000"),
			option.Int(optCustomers, d.Customers, 10, maxCustomers-6, "`N` customers and first orders of each district, a "+
				"multiple of 10; the specification has 3,000"),
			option.Int(optOrders, d.Orders, 0, Districts*maxOrder/4, "room for `N` new orders of each warehouse, and as many "+
				"payments"),
			option.Float(optRemoteItems, d.RemoteItems, 0, 100, "`PERCENT` of the items come from another warehouse"),
			option.Float(optRemotePayments, d.RemotePayments, 0, 100, "`PERCENT` of the payments are by customers of another "+
				"warehouse"),
		},
		Transactions: list,
		Tables: []workload.Table{{Name: "warehouse", Doc: "name, address, tax"},
			{Name: "warehouse-ytd", Doc: "the sum of payments of a warehouse"},
			{Name: "district", Doc: "ten of a warehouse: name, address, tax"},
			{Name: "district-ytd", Doc: "the sum of payments of a district"},
			{Name: "district-next", Doc: "the next order number of a district"},
			{Name: "customer", Doc: "3,000 of a district"},
			{Name: "customer-name", Doc: "ordered: customers by last and first name"},
			{Name: "history", Doc: "payments"},
			{Name: "order", Doc: "orders"},
			{Name: "order-customer", Doc: "ordered: orders by customer"},
			{Name: "new-order", Doc: "ordered: orders that are not delivered"},
			{Name: "order-line", Doc: "ordered: 5 to 15 of an order"},
			{Name: "item", Doc: "the same on every node"},
			{Name: "stock", Doc: "one of an item and a warehouse"}},
		PerMinute: NewOrder.String(),
		Verify:    "the twelve consistency conditions of clause 3.3.2, stock against order lines, and scans against look-ups",
		Pieces:    pieces(),
		Functions: functions(),
		Words:     words,
		New: func(nodes int, v option.Values) (workload.Workload, error) {
			w, err := New(Options{Nodes: nodes, Warehouses: v.Int(optWarehouses), Items: v.Int(optItems),
				Customers: v.Int(optCustomers), Orders: v.Int(optOrders), RemoteItems: v.Float(optRemoteItems),
				RemotePayments: v.Float(optRemotePayments)})
			if err != nil {
				return nil, err
			}
			return w, nil
		},
	}
}

func words(nodes int, v option.Values) string {
	text := fmt.Sprintf("%d warehouses per node, %d in all, room for %d new orders each", v.Int(optWarehouses),
		nodes*v.Int(optWarehouses), v.Int(optOrders))
	text += scaled("items", v.Int(optItems), SpecItems) + scaled("customers per district", v.Int(optCustomers), SpecCustomers)
	return text + fmt.Sprintf(", %g %% of items and %g %% of payments of another warehouse", v.Float(optRemoteItems),
		v.Float(optRemotePayments))
}

// scaled says that a number is not that of the specification.
func scaled(what string, n, spec int) string {
	if n == spec {
		return ""
	}
	return fmt.Sprintf(", %d %s (scale %.4g)", n, what, float64(n)/float64(spec))
}
