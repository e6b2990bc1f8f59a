package tpcc

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// ErrInconsistent: a condition of clause 3.3.2 does not hold.
var ErrInconsistent = errors.New("tpcc: inconsistent")

// broken is the error of a condition.
//
// That of a whole warehouse says district 0.
func broken(condition, warehouse, district int, format string, args ...any) error {
	return fmt.Errorf("%w: condition 3.3.2.%d, warehouse %d, district %d: %s", ErrInconsistent, condition, warehouse,
		district, fmt.Sprintf(format, args...))
}

// Sums that Check gives.
const (
	sumPayments = iota
	sumStock
)

// weight of a record in a sum: if the sum over all nodes is 0, what belongs to each record is, but for a chance of
// one in 2^64 (SplitMix64's finalizer).
func weight(t proto.TableID, k proto.Key) int64 {
	x := uint64(k)*0x9e3779b97f4a7c15 + uint64(t)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int64(x ^ x>>31 | 1)
}

// books are what Check adds up of a warehouse.
type books struct {
	number    int
	ytd, paid int64 // W_YTD; of history
	districts [Districts]district
}

// district is what it adds up of one.
type district struct {
	next           int // D_NEXT_O_ID
	ytd, paid      int64
	orders, due    int // rows of order, and of new-order
	greatest       int // O_ID
	first, last    int // NO_O_ID; last 0: none
	lines, counted int // rows of order-line, and what orders say
	delivered      int // that customers say
	byOrder        []order
	customers      []customer
}

// order is an order with its lines.
type order struct {
	customer                int32
	lines, counted, shipped uint8 // rows of order-line, what the order says, and rows that are delivered
	amount                  int64 // of delivered lines
	is, carried, due        bool
}

// customer is one with its orders and payments.
type customer struct {
	is                   bool
	balance, ytd         int64
	shipped, paid, named int64 // amounts of delivered lines, of history; entries of customer-name
	orders, indexed      int   // rows of order, and of order-customer
}

// Check checks the conditions of clause 3.3.2.
func (w *TPCC) Check(node proto.NodeID, c workload.Contents) (initial, final workload.Quantities, err error) {
	x := inspection{w: w, first: int(node) * w.o.Warehouses, all: make([]books, w.o.Warehouses)}
	for i := range x.all {
		x.all[i].number = x.first + i
		for d := range Districts {
			x.all[i].districts[d].customers = make([]customer, w.o.Customers)
		}
	}
	for t := Warehouse; t < tableEnd; t++ {
		if t != Item {
			c.Each(t, func(k proto.Key, row []byte) { x.visit(t, k, row) })
		}
	}
	for i := range x.all {
		if err == nil {
			err = x.check(&x.all[i])
		}
	}
	return initial, x.sums, errors.Join(x.err, err)
}

// inspection is a look at all records of a node.
type inspection struct {
	w     *TPCC
	first int // warehouse
	all   []books
	sums  workload.Quantities
	err   error
}

// order finds an order's books.
func (d *district) order(o int) *order {
	for len(d.byOrder) <= o {
		d.byOrder = append(d.byOrder, make([]order, o+1-len(d.byOrder)+len(d.byOrder)/2)...)
	}
	return &d.byOrder[o]
}

func (x *inspection) visit(t proto.TableID, k proto.Key, row []byte) {
	if x.err != nil {
		return
	}
	i := warehouseOf(k) - x.first
	if i < 0 || i >= len(x.all) || t != Stock && t != History && districtOf(k) >= Districts {
		x.err = fmt.Errorf("%w: key %#x of table %d is not of this node", ErrInconsistent, k, t)
		return
	}
	b := &x.all[i]
	switch t {
	case WarehouseYTD:
		b.ytd = get64(row, 0)
		return
	case Stock:
		x.sums[sumStock] += weight(Stock, k) * int64(get32(row, stockYTD))
		return
	case History:
		x.history(b, row)
		return
	}
	d := &b.districts[districtOf(k)]
	switch t {
	case DistrictYTD:
		d.ytd = get64(row, 0)
	case DistrictNext:
		d.next = get32(row, 0)
	case Customer:
		c := x.customer(d, orderOf(k))
		c.is, c.balance, c.ytd = true, get64(row, customerBalance), get64(row, customerYTD)
		d.delivered += get16(row, customerDeliveries)
		x.sums[sumPayments] += weight(Customer, k) * c.ytd
	case CustomerName:
		x.customer(d, namedOf(k)).named++
	case Order:
		o := d.order(orderOf(k))
		o.is, o.customer, o.counted, o.carried = true, int32(get32(row, orderCustomer)), row[orderLines], row[orderCarrier] != 0
		d.orders++
		d.counted += int(row[orderLines])
		d.greatest = max(d.greatest, orderOf(k))
		x.customer(d, int(o.customer)).orders++
	case OrderCustomer:
		x.customer(d, int(k>>ownerShift&(maxCustomers-1))).indexed++
	case NewOrderTable:
		n := orderOf(k)
		if d.order(n).due = true; d.due == 0 || n < d.first {
			d.first = n
		}
		d.due++
		d.last = max(d.last, n)
	case OrderLine:
		x.line(d, k, row)
	}
}

// customer finds a customer's books.
func (x *inspection) customer(d *district, c int) *customer {
	if c >= len(d.customers) {
		x.err = fmt.Errorf("%w: there is no customer %d", ErrInconsistent, c)
		c = 0
	}
	return &d.customers[c]
}

// history adds a payment up.
func (x *inspection) history(b *books, row []byte) {
	amount, c := get64(row, historyAmount), get32(row, historyCustomer)
	in, d := int(row[historyIn]), int(row[historyDistrict])
	if get16(row, historyWarehouse) != b.number || in >= Districts || d >= Districts || c >= x.w.o.Customers {
		x.err = fmt.Errorf("%w: a history row of warehouse %d", ErrInconsistent, b.number)
		return
	}
	b.paid += amount
	b.districts[d].paid += amount
	of := get16(row, historyOf)
	x.sums[sumPayments] -= weight(Customer, customerKey(of, in, c)) * amount
	if i := of - x.first; i >= 0 && i < len(x.all) {
		x.all[i].districts[in].customers[c].paid += amount
	}
}

// line adds an order line up.
func (x *inspection) line(d *district, k proto.Key, row []byte) {
	n := orderOf(k)
	o := d.order(n)
	o.lines++
	d.lines++
	if get64(row, lineDelivered) != 0 {
		o.shipped++
		o.amount += get64(row, lineAmount)
	}
	if n > x.w.o.Customers { // not loaded
		x.sums[sumStock] -= weight(Stock, stockKey(get16(row, lineSupply), get32(row, lineItem))) * int64(row[lineQuantity])
	}
}

// check checks a warehouse.
func (x *inspection) check(b *books) error {
	w, sum := b.number, int64(0)
	for i := range b.districts {
		sum += b.districts[i].ytd
	}
	switch {
	case b.ytd != sum:
		return broken(1, w, 0, "W_YTD is %d, and the D_YTD are %d together", b.ytd, sum)
	case b.ytd != b.paid:
		return broken(8, w, 0, "W_YTD is %d, and the H_AMOUNT are %d together", b.ytd, b.paid)
	}
	for i := range b.districts {
		if err := x.checkDistrict(w, i, &b.districts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (x *inspection) checkDistrict(w, n int, d *district) error {
	switch {
	case d.next-1 != d.greatest || d.due > 0 && d.last != d.greatest:
		return broken(2, w, n, "D_NEXT_O_ID is %d, the greatest O_ID %d, the greatest NO_O_ID %d", d.next, d.greatest, d.last)
	case d.due > 0 && d.last-d.first+1 != d.due:
		return broken(3, w, n, "new orders from %d to %d are %d", d.first, d.last, d.due)
	case d.counted != d.lines:
		return broken(4, w, n, "the O_OL_CNT are %d together, and there are %d order lines", d.counted, d.lines)
	case d.ytd != d.paid:
		return broken(9, w, n, "D_YTD is %d, and the H_AMOUNT are %d together", d.ytd, d.paid)
	case d.orders-d.due != x.w.delivered()+d.delivered:
		return broken(11, w, n, "there are %d orders and %d new orders, where %d were delivered before and %d since", d.orders,
			d.due, x.w.delivered(), d.delivered)
	}
	for o := range d.byOrder {
		if err := x.checkOrder(w, n, o, &d.byOrder[o]); err != nil {
			return err
		}
		if d.byOrder[o].is {
			d.customers[d.byOrder[o].customer].shipped += d.byOrder[o].amount
		}
	}
	return x.checkCustomers(w, n, d)
}

func (x *inspection) checkOrder(w, n, number int, o *order) error {
	switch {
	case !o.is && !o.due && o.lines == 0:
	case !o.is:
		return broken(6, w, n, "there are %d lines or a new order of order %d, which there is not", o.lines, number)
	case o.carried == o.due:
		return broken(5, w, n, "order %d has a carrier: %v, and is new: %v", number, o.carried, o.due)
	case o.counted != o.lines:
		return broken(6, w, n, "order %d has %d lines, and O_OL_CNT %d", number, o.lines, o.counted)
	case o.carried && o.shipped != o.lines || !o.carried && o.shipped != 0:
		return broken(7, w, n, "order %d has a carrier: %v, and %d of its %d lines are delivered", number, o.carried, o.shipped,
			o.lines)
	}
	return nil
}

// checkCustomers checks what is about one customer each. Payments at other nodes are in the sum of all nodes only.
func (x *inspection) checkCustomers(w, n int, d *district) error {
	for i := range d.customers {
		c := &d.customers[i]
		switch {
		case !c.is || c.named != 1 || c.orders != c.indexed:
			return fmt.Errorf("%w: warehouse %d, district %d, customer %d: is there: %v, %d names, %d orders, %d of them in "+
				"the index", ErrInconsistent, w, n, i, c.is, c.named, c.orders, c.indexed)
		case x.w.o.Nodes == 1 && c.balance != c.shipped-c.paid:
			return broken(10, w, n, "customer %d has balance %d, delivered lines of %d, payments of %d", i, c.balance, c.shipped,
				c.paid)
		case c.balance+c.ytd != c.shipped:
			return broken(12, w, n, "customer %d has balance %d, paid %d, and has delivered lines of %d", i, c.balance, c.ytd,
				c.shipped)
		}
	}
	return nil
}
