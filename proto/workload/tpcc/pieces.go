package tpcc

import "drtmd/proto/chop"

// Columns that pieces name. A payment changes what a new order does not read of a customer, and the other way round.
const (
	customerBalanceColumns  = "customer.balance" // with the sums and counts beside it, and the data
	customerDiscountColumns = "customer.discount"
	orderCarrierColumn      = "order.carrier"
	lineDeliveredColumn     = "order-line.delivered"
	stockQuantityColumns    = "stock.quantity" // with the counts beside it
)

// pieces declares the operations of the transactions, by the letters of DrTM's Figure 7.
//
// S_QUANTITY, from 10 to 100, is reduced modulo 91, so that orders commute on stock. The paper does not use it: here,
// too, the stock is updated in the piece of the next order number.
func pieces() *chop.Workload {
	read := func(of string) chop.Access { return chop.Access{Of: of, Mode: chop.Read} }
	write := func(of string) chop.Access { return chop.Access{Of: of, Mode: chop.Write} }
	add := func(of string) chop.Access { return chop.Access{Of: of, Mode: chop.Add} }
	insert := func(of string) chop.Access { return chop.Access{Of: of, Mode: chop.Insert} }
	owned := func(a chop.Access) chop.Access { a.Owner = "N"; return a }
	all := func(a ...chop.Access) []chop.Access { return a }
	return &chop.Workload{
		Transactions: []chop.Transaction{
			{Name: NewOrder.String(), Short: "NEW", Ops: []chop.Op{
				{Name: "W", Accesses: all(read("warehouse"))},
				{Name: "D", Accesses: all(read("district"), write("district-next")), Index: "district-next"},
				{Name: "C", Accesses: all(read(customerDiscountColumns))},
				{Name: "I", Accesses: all(read("item")), Aborts: true}, // the unused item of clause 2.4.1.4
				{Name: "S", Accesses: all(write(stockQuantityColumns)), Index: "stock", After: []string{"I"}},
				{Name: "L", Accesses: all(owned(insert("order-line"))), After: []string{"I", "D", "S"}},
				{Name: "O", Accesses: all(owned(insert("order"))), After: []string{"I", "D"}},
				// The order can be delivered from here on.
				{Name: "N", Accesses: all(insert("new-order")), After: []string{"D", "L", "O"}},
				{Name: "O-IDX", Accesses: all(owned(insert("order-customer"))), After: []string{"O"}},
			}},
			{Name: Payment.String(), Short: "PAY", Ops: []chop.Op{
				{Name: "W", Accesses: all(read("warehouse"), add("warehouse-ytd")), Index: "warehouse-ytd"},
				{Name: "D", Accesses: all(read("district"), add("district-ytd")), Index: "district-ytd"},
				{Name: "C", Accesses: all(write(customerBalanceColumns)), Index: "customer-name"},
				{Name: "H", Accesses: all(chop.Access{Of: "history", Mode: chop.Append}), After: []string{"W", "D", "C"}},
			}},
			{Name: OrderStatus.String(), Short: "OS", ReadOnly: true, Ops: []chop.Op{
				{Name: "C", Accesses: all(read("customer-name"), read(customerBalanceColumns))},
				{Name: "O-IDX", Accesses: all(read("order-customer")), After: []string{"C"}},
				{Name: "O", Accesses: all(read("order")), After: []string{"O-IDX"}},
				{Name: "L", Accesses: all(read("order-line")), After: []string{"O"}},
			}},
			{Name: Delivery.String(), Short: "DLY", Ops: []chop.Op{
				{Name: "N", Accesses: all(chop.Access{Of: "new-order", Mode: chop.Delete})},
				{Name: "O", Accesses: all(owned(write(orderCarrierColumn))), After: []string{"N"}, Index: "order"},
				{Name: "L", Accesses: all(owned(write(lineDeliveredColumn))), After: []string{"O"}},
				{Name: "C", Accesses: all(add(customerBalanceColumns)), After: []string{"O", "L"}, Index: "customer"},
			}},
			{Name: StockLevel.String(), Short: "SL", ReadOnly: true, Ops: []chop.Op{
				{Name: "D", Accesses: all(read("district-next"))},
				{Name: "L", Accesses: all(read("order-line.item")), After: []string{"D"}},
				{Name: "S", Accesses: all(read(stockQuantityColumns)), After: []string{"L"}},
			}},
		},
		Deferrals: []chop.Deferral{{Publisher: Delivery.String(), Op: "C",
			Subscribers: []string{Payment.String(), OrderStatus.String()}}},
	}
}
