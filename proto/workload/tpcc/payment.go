package tpcc

import "drtmd/proto"

func (t *transaction) declarePayment() {
	t.declareSums()
	t.declarePayer()
}

// declareSums declares what payments add up to, and the payment.
func (t *transaction) declareSums() {
	w, d := t.warehouse, t.district
	t.declare(Warehouse, proto.ModeRead, warehouseKey(w))
	t.declare(WarehouseYTD, proto.ModeWrite, warehouseKey(w))
	t.declare(District, proto.ModeRead, districtKey(w, d))
	t.declare(DistrictYTD, proto.ModeWrite, districtKey(w, d))
	t.declare(History, proto.ModeInsert, t.history)
}

func (t *transaction) declarePayer() {
	t.declare(Customer, proto.ModeWrite, customerKey(t.ofWarehouse, t.ofDistrict, t.customer))
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
	if err := tx.Read(Warehouse, warehouseKey(w), warehouse); err != nil {
		return err
	}
	if err := proto.Add(tx, WarehouseYTD, warehouseKey(w), t.amount); err != nil {
		return err
	}
	if err := tx.Read(District, districtKey(w, d), district); err != nil {
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
	if err := tx.GetForUpdate(Customer, k, customer); err != nil {
		return err
	}
	add64(customer, customerBalance, -t.amount)
	add64(customer, customerYTD, t.amount)
	add16(customer, customerPayments, 1)
	if isBadCredit(customer) {
		t.noteBadCredit(customer)
	}
	return tx.Write(Customer, k, customer)
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
