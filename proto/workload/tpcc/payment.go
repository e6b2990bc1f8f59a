package tpcc

import "drtmd/proto"

func (t *transaction) declarePayment() {
	t.declareSums()
	t.declarePayer()
}

// declareSums declares what payments add up to, and the payment.
func (t *transaction) declareSums() {
	w, d := t.warehouse, t.district
	t.declareFields(Warehouse, proto.ModeRead, warehouseKey(w), nameField)
	t.declare(WarehouseYTD, proto.ModeWrite, warehouseKey(w))
	t.declareFields(District, proto.ModeRead, districtKey(w, d), nameField)
	t.declare(DistrictYTD, proto.ModeWrite, districtKey(w, d))
	t.declare(History, proto.ModeInsert, t.history)
}

func (t *transaction) declarePayer() {
	t.declareFields(Customer, proto.ModeWrite, customerKey(t.ofWarehouse, t.ofDistrict, t.customer), balanceField)
}

// payment is clause 2.5.2.
func (t *transaction) payment(tx proto.Txn) error {
	if err := t.receive(tx); err != nil {
		return err
	}
	return t.pay(tx)
}

// receive adds the payment to the sums of warehouse and district, and to history.
func (t *transaction) receive(tx proto.Txn) error {
	w, d := t.warehouse, t.district
	warehouse, district := t.other[:placeBytes], t.third[:placeBytes]
	if err := read(tx, Warehouse, warehouseKey(w), nameField, warehouse); err != nil {
		return err
	}
	if err := proto.Add(tx, WarehouseYTD, warehouseKey(w), t.amount); err != nil {
		return err
	}
	if err := read(tx, District, districtKey(w, d), nameField, district); err != nil {
		return err
	}
	if err := proto.Add(tx, DistrictYTD, districtKey(w, d), t.amount); err != nil {
		return err
	}
	// H_DATA is the names of both, with four blanks between them.
	row := t.row[:historyBytes]
	clear(row)
	putHistory(row, w, d, t.ofWarehouse, t.ofDistrict, t.customer, t.amount)
	put32(row, historyDate, int(t.date))
	data := text(row, historyData, 24)
	copy(data, warehouse[:10])
	copy(data[10:], "    ")
	copy(data[14:], district[:10])
	return inserted(tx.Insert(History, t.history, row))
}

// pay takes the payment off the customer's balance.
func (t *transaction) pay(tx proto.Txn) error {
	customer, k := t.row[:customerBytes], customerKey(t.ofWarehouse, t.ofDistrict, t.customer)
	if err := read(tx, Customer, k, balanceField, customer); err != nil {
		return err
	}
	add64(customer, customerBalance, -t.amount)
	add64(customer, customerYTD, t.amount)
	add16(customer, customerPayments, 1)
	spare := t.other[:customerBytes]
	if err := write(tx, Customer, k, balanceField, customer, spare); err != nil || !isBadCredit(customer) {
		return err
	}
	data := proto.Field{Offset: customerData, Bytes: customerBytes - customerData}
	if err := read(tx, Customer, k, data, customer); err != nil {
		return err
	}
	t.noteBadCredit(customer)
	return write(tx, Customer, k, data, customer, spare)
}

// noteBadCredit puts the payment before the customer's data (clause 2.5.2.2).
func (t *transaction) noteBadCredit(customer []byte) {
	const noteBytes = 24
	data := text(customer, customerData, 500)
	copy(data[noteBytes:], data)
	put32(data, 0, t.customer)
	put32(data, 4, t.ofDistrict)
	put32(data, 8, t.ofWarehouse)
	put32(data, 12, t.district)
	put32(data, 16, t.warehouse)
	put32(data, 20, int(t.amount))
}
