package tpcc

import (
	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// planOrder learns the number that the order is going to have.
func (t *transaction) planOrder(f *fiber.Fiber, peek proto.Peeker) (err error) {
	if t.order, err = t.peekNumber(f, peek); err != nil {
		return err
	}
	t.declareItems()
	t.declareOrder()
	t.declareIndex()
	return nil
}

// declareItems declares what is never changed.
func (t *transaction) declareItems() {
	w, d := t.warehouse, t.district
	t.declareFields(Warehouse, proto.ModeRead, warehouseKey(w), taxField)
	t.declareFields(District, proto.ModeRead, districtKey(w, d), taxField)
	for i := range t.count {
		t.declareFields(Item, proto.ModeRead, itemKey(t.lines[i].item), priceField)
	}
}

// declareOrder declares the order with all that others see at the same moment.
func (t *transaction) declareOrder() {
	w, d := t.warehouse, t.district
	t.declare(DistrictNext, proto.ModeWrite, districtKey(w, d))
	t.declareFields(Customer, proto.ModeRead, customerKey(w, d, t.customer), discountField)
	for i := range t.count {
		if l := &t.lines[i]; l.item < t.w.o.Items {
			t.declareFields(Stock, proto.ModeWrite, stockKey(l.supply, l.item), countsField, infoField(d))
			t.declare(OrderLine, proto.ModeInsert, lineKey(w, d, t.order, i+1))
		}
	}
	t.declare(Order, proto.ModeInsert, orderKey(w, d, t.order))
	t.declare(NewOrderTable, proto.ModeInsert, orderKey(w, d, t.order))
}

// declareIndex declares the order's record in the index of its customer.
func (t *transaction) declareIndex() {
	t.declare(OrderCustomer, proto.ModeInsert, ownerKey(t.warehouse, t.district, t.customer, t.order))
}

// newOrder is clause 2.4.2.
func (t *transaction) newOrder(tx proto.Txn) error {
	if err := t.readItems(tx); err != nil {
		return err
	}
	if err := t.placeOrder(tx); err != nil {
		return err
	}
	return t.indexOrder(tx)
}

// readItems reads the taxes and the prices of the items. An item that there is not rolls back.
func (t *transaction) readItems(tx proto.Txn) error {
	w, d, place, item := t.warehouse, t.district, t.row[:placeBytes], t.other[:itemBytes]
	if err := read(tx, Warehouse, warehouseKey(w), taxField, place); err != nil {
		return err
	}
	t.tax = get16(place, placeTax)
	if err := read(tx, District, districtKey(w, d), taxField, place); err != nil {
		return err
	}
	t.tax += get16(place, placeTax)
	for i := range t.count {
		l := &t.lines[i]
		switch err := read(tx, Item, itemKey(l.item), priceField, item); {
		case err == proto.ErrNotFound:
			return proto.ErrRollback
		case err != nil:
			return err
		}
		l.price = get32(item, itemPrice)
	}
	return nil
}

// placeOrder takes the next number, and adds the order with its lines.
func (t *transaction) placeOrder(tx proto.Txn) error {
	w, d := t.warehouse, t.district
	next, customer := t.other[:nextBytes], t.third[:customerBytes]
	if err := tx.GetForUpdate(DistrictNext, districtKey(w, d), next); err != nil {
		return err
	}
	if get32(next, 0) != t.order {
		return outdated()
	}
	put32(next, 0, t.order+1)
	if err := tx.Write(DistrictNext, districtKey(w, d), next); err != nil {
		return err
	}
	if err := read(tx, Customer, customerKey(w, d, t.customer), discountField, customer); err != nil {
		return err
	}
	discount := get32(customer, customerDiscount)
	t.shown = 0
	for i := range t.count {
		amount, err := t.orderLine(tx, i)
		if err != nil {
			return err
		}
		t.shown += amount
	}
	t.shown = t.shown * int64(10_000-discount) / 10_000 * int64(10_000+t.tax) / 10_000
	return t.insertOrder(tx)
}

// insertOrder adds the order, and that it is to be delivered.
func (t *transaction) insertOrder(tx proto.Txn) error {
	w, d, row := t.warehouse, t.district, t.row[:orderBytes]
	clear(row)
	put32(row, orderCustomer, t.customer)
	put64(row, orderDate, t.date)
	row[orderLines] = byte(t.count)
	if t.local {
		row[orderLocal] = 1
	}
	if err := tx.Insert(Order, orderKey(w, d, t.order), row); err != nil {
		return inserted(err)
	}
	due := t.third[:newOrderBytes]
	clear(due)
	putNewOrder(due, w, d, t.order)
	return inserted(tx.Insert(NewOrderTable, orderKey(w, d, t.order), due))
}

// indexOrder adds the order to the index of its customer's.
func (t *transaction) indexOrder(tx proto.Txn) error {
	owner := t.other[:ownerBytes]
	clear(owner)
	return inserted(tx.Insert(OrderCustomer, ownerKey(t.warehouse, t.district, t.customer, t.order), owner))
}

// inserted is the error of an insertion: that a record is there shows a plan that does not hold, before the
// transaction has seen so.
func inserted(err error) error {
	if err == proto.ErrExists {
		return outdated()
	}
	return err
}

// orderLine is one line of a new order.
func (t *transaction) orderLine(tx proto.Txn, i int) (amount int64, err error) {
	l := &t.lines[i]
	amount = int64(l.quantity) * int64(l.price)
	stock, k := t.other[:stockBytes], stockKey(l.supply, l.item)
	if err := read(tx, Stock, k, countsField, stock); err != nil {
		return 0, err
	}
	if err := read(tx, Stock, k, infoField(t.district), stock); err != nil {
		return 0, err
	}
	left := quantityOf(stock) - l.quantity
	if left < 10 {
		left += 91
	}
	setQuantity(stock, left)
	put32(stock, stockYTD, get32(stock, stockYTD)+l.quantity)
	add16(stock, stockOrders, 1)
	if l.supply != t.warehouse {
		add16(stock, stockRemote, 1)
	}
	if err := write(tx, Stock, k, countsField, stock, t.third[:stockBytes]); err != nil {
		return 0, err
	}
	row := t.row[:lineBytes]
	clear(row)
	put32(row, lineItem, l.item)
	put16(row, lineSupply, l.supply)
	row[lineQuantity] = byte(l.quantity)
	put64(row, lineAmount, amount)
	copy(row[lineInfo:], districtInfo(stock, t.district))
	return amount, inserted(tx.Insert(OrderLine, lineKey(t.warehouse, t.district, t.order, i+1), row))
}

// planStatus finds the customer's newest order.
func (t *transaction) planStatus(f *fiber.Fiber, peek proto.Peeker) error {
	x, err := rangePeeker(peek)
	if err != nil {
		return err
	}
	w, d, c := t.warehouse, t.district, t.customer
	n, err := x.PeekRange(f, OrderCustomer, ownerKey(w, d, c, maxOrder), ownerKey(w, d, c, 0), t.keys[:1])
	if err != nil {
		return err
	}
	t.order = 0
	t.declareFields(Customer, proto.ModeRead, customerKey(w, d, c), statusField)
	if n > 0 {
		t.order = newestOf(t.keys[0])
		t.declare(Order, proto.ModeRead, orderKey(w, d, t.order))
	}
	return nil
}

// orderStatus is clause 2.6.2.
func (t *transaction) orderStatus(tx proto.Txn) error {
	w, d, c := t.warehouse, t.district, t.customer
	if err := read(tx, Customer, customerKey(w, d, c), statusField, t.row[:customerBytes]); err != nil {
		return err
	}
	t.found = 0
	if err := tx.Scan(OrderCustomer, ownerKey(w, d, c, maxOrder), ownerKey(w, d, c, 0), t.newest); err != nil {
		return err
	}
	if t.found != t.order {
		return outdated()
	}
	if t.order == 0 {
		return nil
	}
	order := t.other[:orderBytes]
	if err := tx.Read(Order, orderKey(w, d, t.order), order); err != nil {
		return missing(err)
	}
	t.seen = 0
	if err := tx.Scan(OrderLine, lineKey(w, d, t.order, 0), lineKey(w, d, t.order, mostLines), t.line); err != nil {
		return err
	}
	if t.seen != int(order[orderLines]) {
		return outdated() // only a view that is doomed can be so
	}
	return nil
}

// missing is the error of a read of a record that the transaction has seen to be there.
func missing(err error) error {
	if err == proto.ErrNotFound {
		return outdated()
	}
	return err
}

func (t *transaction) takeNewest(k proto.Key, _ []byte) bool {
	t.found = newestOf(k)
	return false
}

func (t *transaction) takeLine(proto.Key, []byte) bool {
	t.seen++
	return true
}
