package tpcc

import (
	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// planDelivery finds the oldest new order of each district, and whose it is; if sums, also what its lines amount to.
func (t *transaction) planDelivery(f *fiber.Fiber, peek proto.Peeker, sums bool) error {
	x, err := rangePeeker(peek)
	if err != nil {
		return err
	}
	w := t.warehouse
	for d := range Districts {
		t.due[d] = due{}
		n, err := x.PeekRange(f, NewOrderTable, orderKey(w, d, 0), orderKey(w, d, maxOrder), t.keys[:1])
		if err != nil {
			return err
		}
		if n == 0 {
			continue // clause 2.7.4.2: it is skipped
		}
		o, order := orderOf(t.keys[0]), t.row[:orderBytes]
		if err := peek.Peek(f, Order, orderKey(w, d, o), order); err != nil {
			return missing(err)
		}
		t.due[d] = due{order: o, customer: get32(order, orderCustomer), lines: int(order[orderLines])}
		if t.district = d; !sums {
			continue
		}
		t.seen = 0
		if err := t.peekLines(f, peek, lineKey(w, d, o, 0), lineKey(w, d, o, mostLines), t.sum); err != nil {
			return err
		}
		if t.seen != t.due[d].lines {
			return outdated() // the others are still written: no attempt looks at this again
		}
	}
	return nil
}

// addSum adds what a line of the order of the district amounts to, and addItem the item of a line.
func (t *transaction) addSum(line []byte) {
	t.seen++
	t.due[t.district].sum += get64(line, lineAmount)
}

func (t *transaction) addItem(line []byte) {
	i := uint32(get32(line, lineItem))
	if word := int(i / 64); word < len(t.isStocked) && !t.hasStocked(i) {
		t.stocked = append(t.stocked, i)
		t.isStocked[word] |= 1 << (i % 64)
	}
}

// hasStocked reports whether an item is one that stock-level has planned.
func (t *transaction) hasStocked(i uint32) bool {
	return int(i/64) < len(t.isStocked) && t.isStocked[i/64]>>(i%64)&1 == 1
}

// peekChunk is how many keys of a range are looked for at once, before their records are: an engine then still knows
// where these are.
const peekChunk = 32

// peekLines peeks at the order lines of a range.
func (t *transaction) peekLines(f *fiber.Fiber, peek proto.Peeker, from, to proto.Key, each func(line []byte)) error {
	x, err := rangePeeker(peek)
	if err != nil {
		return err
	}
	for keys, line := t.keys[:peekChunk], t.row[:lineBytes]; ; {
		n, err := x.PeekRange(f, OrderLine, from, to, keys)
		if err != nil {
			return err
		}
		for _, k := range keys[:n] {
			if err := peek.Peek(f, OrderLine, k, line); err != nil {
				return missing(err)
			}
			each(line)
		}
		if n < len(keys) || keys[n-1] == to {
			return nil
		}
		from = keys[n-1] + 1
	}
}

// MostWritten implements workload.Bounded: by a delivery as a whole, in each of whose districts an order is due, or by
// all pieces of a new order, which are together more than any piece of a delivery.
func (w *TPCC) MostWritten(chopped bool) (records, valueBytes int) {
	if chopped {
		return 3 + 2*mostLines, placeBytes + ytdBytes + nextBytes + orderBytes + newOrderBytes + mostLines*(stockBytes+lineBytes)
	}
	return Districts * (3 + mostLines), Districts * (customerBytes + orderBytes + mostLines*lineBytes)
}

// declareDue declares the oldest new order of a district and its customer: what decides which delivery it is of.
func (t *transaction) declareDue(d int) {
	if due := &t.due[d]; due.order > 0 {
		t.declare(NewOrderTable, proto.ModeDelete, orderKey(t.warehouse, d, due.order))
		t.declareFields(Customer, proto.ModeWrite, customerKey(t.warehouse, d, due.customer), balanceField)
	}
}

// declareDelivered declares the order and its lines.
func (t *transaction) declareDelivered(d int) {
	w, due := t.warehouse, &t.due[d]
	if due.order == 0 {
		return
	}
	t.declare(Order, proto.ModeWrite, orderKey(w, d, due.order))
	for line := range due.lines {
		t.declareFields(OrderLine, proto.ModeWrite, lineKey(w, d, due.order, line+1), deliveredField)
	}
}

// delivery is clause 2.7.4.
func (t *transaction) delivery(tx proto.Txn) error {
	for d := range Districts {
		if err := t.takeDue(tx, d); err != nil {
			return err
		}
		sum, err := t.deliver(tx, d)
		if err != nil {
			return err
		}
		if err := t.charge(tx, d, sum); err != nil {
			return err
		}
	}
	return nil
}

// takeDue takes the oldest order of a district off those to be delivered.
func (t *transaction) takeDue(tx proto.Txn, d int) error {
	w, due := t.warehouse, &t.due[d]
	t.found = 0
	if err := tx.Scan(NewOrderTable, orderKey(w, d, 0), orderKey(w, d, maxOrder), t.oldest); err != nil {
		return err
	}
	switch {
	case t.found != due.order:
		return outdated()
	case due.order == 0:
		return nil
	}
	return missing(tx.Delete(NewOrderTable, orderKey(w, d, due.order)))
}

// deliver notes on an order and its lines that they are delivered. It returns what they amount to.
func (t *transaction) deliver(tx proto.Txn, d int) (sum int64, err error) {
	w, due := t.warehouse, &t.due[d]
	if due.order == 0 {
		return 0, nil
	}
	order := t.row[:orderBytes]
	if err := tx.GetForUpdate(Order, orderKey(w, d, due.order), order); err != nil {
		return 0, missing(err)
	}
	if get32(order, orderCustomer) != due.customer || int(order[orderLines]) != due.lines {
		return 0, outdated()
	}
	order[orderCarrier] = byte(t.carrier)
	if err := tx.Write(Order, orderKey(w, d, due.order), order); err != nil {
		return 0, err
	}
	line := t.row[:lineBytes]
	for i := range due.lines {
		k := lineKey(w, d, due.order, i+1)
		if err := read(tx, OrderLine, k, deliveredField, line); err != nil {
			return 0, missing(err)
		}
		sum += get64(line, lineAmount)
		put64(line, lineDelivered, t.date)
		if err := write(tx, OrderLine, k, deliveredField, line, t.other[:lineBytes]); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// charge adds what an order amounts to to its customer's balance.
func (t *transaction) charge(tx proto.Txn, d int, sum int64) error {
	due := &t.due[d]
	if due.order == 0 {
		return nil
	}
	customer, k := t.row[:customerBytes], customerKey(t.warehouse, d, due.customer)
	if err := read(tx, Customer, k, balanceField, customer); err != nil {
		return err
	}
	add64(customer, customerBalance, sum)
	add16(customer, customerDeliveries, 1)
	return write(tx, Customer, k, balanceField, customer, t.other[:customerBytes])
}

func (t *transaction) takeOldest(k proto.Key, _ []byte) bool {
	t.found = orderOf(k)
	return false
}

// levelOrders is of how many orders stock-level looks at the items.
const levelOrders = 20

// planStock finds the items of the last orders.
func (t *transaction) planStock(f *fiber.Fiber, peek proto.Peeker) (err error) {
	if t.order, err = t.peekNumber(f, peek); err != nil {
		return err
	}
	w, d := t.warehouse, t.district
	from, to := t.lastOrders()
	for _, i := range t.stocked {
		t.isStocked[i/64] = 0
	}
	t.stocked = t.stocked[:0]
	if err := t.peekLines(f, peek, from, to, t.stock); err != nil {
		return err
	}
	t.declare(DistrictNext, proto.ModeRead, districtKey(w, d))
	for _, i := range t.stocked {
		t.declareFields(Stock, proto.ModeRead, stockKey(w, int(i)), levelField)
	}
	return nil
}

// lastOrders is the range of the lines of the last orders before the planned number.
func (t *transaction) lastOrders() (from, to proto.Key) {
	return lineKey(t.warehouse, t.district, max(t.order-levelOrders, 0), 0),
		lineKey(t.warehouse, t.district, t.order-1, mostLines)
}

// stockLevel is clause 2.8.2.
func (t *transaction) stockLevel(tx proto.Txn) error {
	w, d, next := t.warehouse, t.district, t.row[:nextBytes]
	if err := tx.Read(DistrictNext, districtKey(w, d), next); err != nil {
		return err
	}
	if get32(next, 0) != t.order {
		return outdated()
	}
	from, to := t.lastOrders()
	t.strange = false
	if err := tx.Scan(OrderLine, from, to, t.item); err != nil {
		return err
	}
	if t.strange {
		return outdated()
	}
	t.shown = 0
	stock := t.row[:stockBytes]
	for _, i := range t.stocked {
		if err := read(tx, Stock, stockKey(w, int(i)), levelField, stock); err != nil {
			return err
		}
		if quantityOf(stock) < t.threshold {
			t.shown++
		}
	}
	return nil
}

// takeItem looks whether a line's item was planned.
func (t *transaction) takeItem(_ proto.Key, row []byte) bool {
	t.strange = t.strange || !t.hasStocked(uint32(get32(row, lineItem)))
	return true
}
