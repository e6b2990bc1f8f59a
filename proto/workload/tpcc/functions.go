package tpcc

import (
	"drtmd/proto"
	"drtmd/proto/workload"
)

// Layout of the argument of a new order:
//
//	warehouse 2 | district 1 | customer 4 | order 4 | date 8 | local 1 | lines 1 | lines: item 4 | supply 2 | quantity 1
//
// and of a payment:
//
//	warehouse 2 | district 1 | its warehouse 2 | its district 1 | customer 4 | amount 8 | date 8 | history key 8
const (
	orderHeadBytes   = 2 + 1 + 4 + 4 + 8 + 1 + 1
	orderLineBytes   = 4 + 2 + 1
	paymentBytes     = 2 + 1 + 2 + 1 + 4 + 8 + 8 + 8
	orderResultBytes = 8
)

// functions declares the transactions that Xenic ships (§5.3). Their numbers are those of their kinds.
func functions() []workload.Function {
	some := func(table string, m proto.Mode, least, most int, doc string) workload.FunctionRecords {
		return workload.FunctionRecords{Table: table, Mode: m, Least: least, Most: most, Doc: doc}
	}
	one := func(table string, m proto.Mode, doc string) workload.FunctionRecords {
		return some(table, m, 1, 1, doc)
	}
	const read, write, insert = proto.ModeRead, proto.ModeWrite, proto.ModeInsert
	order := []workload.FunctionRecords{one("warehouse", read, "the client's"), one("district", read, "the order's"),
		one("district-next", write, "the order's"), one("customer", read, "who orders"),
		some("item", read, leastLines, mostLines, "one of a line; the last may be of none"),
		some("stock", write, leastLines-1, mostLines, "of the items, of any warehouse"),
		some("order-line", insert, leastLines-1, mostLines, "of the order"),
		one("order", insert, "the next number of the district"), one("order-customer", insert, "its index"),
		one("new-order", insert, "of the order")}
	return []workload.Function{
		{Number: uint16(NewOrder), Name: NewOrder.String(), Doc: "the result is the amount of the order",
			Records: order, ArgumentBytes: orderHeadBytes + mostLines*orderLineBytes, ResultBytes: orderResultBytes,
			New: executes(NewOrder)},
		{Number: uint16(Payment), Name: Payment.String(), Doc: "of a customer that is known by its number",
			Records: []workload.FunctionRecords{one("warehouse", read, "the client's"),
				one("warehouse-ytd", write, "the client's"), one("district", read, "where is paid"),
				one("district-ytd", write, "where is paid"), one("customer", write, "who pays, of any warehouse"),
				one("history", insert, "the client's next number")},
			ArgumentBytes: paymentBytes, New: executes(Payment)},
	}
}

// executes makes what executes a kind.
func executes(k Kind) func(workload.Workload) workload.Shipped {
	return func(w workload.Workload) workload.Shipped { return &transaction{w: w.(*TPCC), kind: k} }
}

// Call implements workload.Shippable: new orders and payments are shipped.
func (t *transaction) Call(dst []byte) (uint16, []byte) {
	at := len(dst)
	switch t.kind {
	case NewOrder:
		dst = grown(dst, orderHeadBytes+t.count*orderLineBytes)
		b := dst[at:]
		put16(b, 0, t.warehouse)
		b[2] = byte(t.district)
		put32(b, 3, t.customer)
		put32(b, 7, t.order)
		put64(b, 11, t.date)
		if t.local {
			b[19] = 1
		}
		b[20] = byte(t.count)
		for i, l := range t.lines[:t.count] {
			b := b[orderHeadBytes+i*orderLineBytes:]
			put32(b, 0, l.item)
			put16(b, 4, l.supply)
			b[6] = byte(l.quantity)
		}
	case Payment:
		dst = grown(dst, paymentBytes)
		b := dst[at:]
		put16(b, 0, t.warehouse)
		b[2] = byte(t.district)
		put16(b, 3, t.ofWarehouse)
		b[5] = byte(t.ofDistrict)
		put32(b, 6, t.customer)
		put64(b, 10, t.amount)
		put64(b, 18, t.date)
		put64(b, 26, int64(t.history))
	default:
		return 0, dst
	}
	return uint16(t.kind), dst
}

// grown is a slice with n more bytes, all 0.
func grown(b []byte, n int) []byte {
	for range n {
		b = append(b, 0)
	}
	return b
}

// Take implements workload.Shipped. The argument has all keys; there are as many records as it needs.
func (t *transaction) Take(records []proto.Access, b []byte) error {
	if t.kind == Payment {
		if len(b) != paymentBytes || len(records) != 6 {
			return workload.ErrCall
		}
		t.warehouse, t.district = get16(b, 0), int(b[2])
		t.ofWarehouse, t.ofDistrict, t.customer = get16(b, 3), int(b[5]), get32(b, 6)
		t.amount, t.date, t.history = get64(b, 10), get64(b, 18), proto.Key(get64(b, 26))
		return nil
	}
	if len(b) < orderHeadBytes || b[20] < leastLines || b[20] > mostLines ||
		len(b) != orderHeadBytes+int(b[20])*orderLineBytes {
		return workload.ErrCall
	}
	t.warehouse, t.district, t.customer = get16(b, 0), int(b[2]), get32(b, 3)
	t.order, t.date, t.local, t.count = get32(b, 7), get64(b, 11), b[19] == 1, int(b[20])
	needed := 4 + 3
	for i := range t.count {
		b := b[orderHeadBytes+i*orderLineBytes:]
		t.lines[i] = line{item: get32(b, 0), supply: get16(b, 4), quantity: int(b[6])}
		if needed++; t.lines[i].item < t.w.o.Items {
			needed += 2
		}
	}
	if len(records) != needed {
		return workload.ErrCall
	}
	return nil
}

// Result implements workload.Shippable and workload.Shipped: the amount of an order.
func (t *transaction) Result(dst []byte) []byte {
	if t.kind != NewOrder {
		return dst
	}
	at := len(dst)
	dst = grown(dst, orderResultBytes)
	put64(dst[at:], 0, t.shown)
	return dst
}

// Return implements workload.Shippable.
func (t *transaction) Return(result []byte) error {
	switch {
	case t.kind == NewOrder && len(result) == orderResultBytes:
		t.shown = get64(result, 0)
	case t.kind == NewOrder || len(result) > 0:
		return workload.ErrCall
	}
	return nil
}

// Call, Return and Result are those of the transaction.
func (p *planned) Call(dst []byte) (uint16, []byte) { return (*transaction)(p).Call(dst) }

func (p *planned) Return(result []byte) error { return (*transaction)(p).Return(result) }

func (p *planned) Result(dst []byte) []byte { return (*transaction)(p).Result(dst) }
