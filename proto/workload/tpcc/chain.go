package tpcc

import (
	"encoding/binary"
	"errors"
	"fmt"

	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// The transactions as chains of pieces (DrTM §4), by the letters of Figure 7:
//
//	new-order   W D C I | D S L C O N | O-IDX
//	payment     W D H | C
//	delivery    N C | O L of a district, ten times
//
// with the static columns of W, D and I in the first piece of new-order, which may roll back. These are the pieces of
// drtmd chop, but for three things. A history has its conflicts by records and not by columns, so that the
// discount is read in the piece of the order. Pieces without conflicts are joined where that saves a region, and H
// comes before C, because it is the only piece of a payment whose table can be full. And delivery defers nothing: it
// looks before it begins what the lines of the oldest orders amount to, which never changes. So C needs no result of
// L, and is in the piece of N.
//
// Each transaction so has one piece that conflicts with pieces of others, and takes place there. Reads of order-status
// and stock-level conflict with more, and wait for chains in their district.

// Pieces of each kind.
const (
	newOrderPieces = 3
	paymentPieces  = 2
	deliveryPieces = 1 + Districts
)

// Pieces implements proto.Chain.
func (p *planned) Pieces() int {
	switch p.kind {
	case NewOrder:
		return newOrderPieces
	case Payment:
		return paymentPieces
	case Delivery:
		return deliveryPieces
	}
	return 1
}

// PlanPiece implements proto.Chain.
func (p *planned) PlanPiece(f *fiber.Fiber, peek proto.Peeker, piece int, d *proto.Decl) (err error) {
	t := (*transaction)(p)
	t.decl.Accesses = t.accesses[:0]
	switch {
	case t.kind == NewOrder && piece == 0:
		t.declareItems()
	case t.kind == NewOrder && piece == 1:
		t.order, err = t.peekNumber(f, peek)
		t.declareOrder()
	case t.kind == NewOrder:
		t.declareIndex()
	case t.kind == Payment && piece == 0:
		if t.byName {
			err = t.findByName(f, peek)
		}
		t.declareSums()
	case t.kind == Payment:
		t.declarePayer()
	case t.kind == Delivery && piece == 0:
		err = t.planDelivery(f, peek, true)
		for d := range Districts {
			t.declareDue(d)
		}
	default:
		t.declareDelivered(piece - 1)
	}
	d.Accesses, d.Groups = t.decl.Accesses, t.decl.Groups
	return err
}

// ExecutePiece implements proto.Chain.
func (p *planned) ExecutePiece(tx proto.Txn, piece int) error {
	t := (*transaction)(p)
	switch {
	case t.kind == NewOrder && piece == 0:
		return t.readItems(tx)
	case t.kind == NewOrder && piece == 1:
		return t.placeOrder(tx)
	case t.kind == NewOrder:
		return t.indexOrder(tx)
	case t.kind == Payment && piece == 0:
		return t.receive(tx)
	case t.kind == Payment:
		return t.pay(tx)
	case t.kind == Delivery && piece == 0:
		for d := range Districts {
			if err := t.takeDue(tx, d); err != nil {
				return err
			}
			if err := t.charge(tx, d, t.due[d].sum); err != nil {
				return err
			}
		}
		return nil
	}
	sum, err := t.deliver(tx, piece-1)
	invariant.Assertf(err != nil || sum == t.due[piece-1].sum, "the lines of order %d have changed", t.due[piece-1].order)
	return err
}

// group sets the groups of records in which readers wait for chains: those of districts, by number.
func (t *transaction) group() {
	number := func(w, d int) uint32 { return uint32(w*Districts + d) }
	groups := t.groups[:0]
	switch t.kind {
	case NewOrder, StockLevel:
		groups = append(groups, number(t.warehouse, t.district))
	case OrderStatus:
		groups = append(groups, number(t.ofWarehouse, t.ofDistrict))
	case Delivery:
		for d := range Districts {
			groups = append(groups, number(t.warehouse, d))
		}
	}
	t.decl.Groups = groups
}

// Parameters of pieces, little endian, in words of 32 and 64 bits.
//
//	new-order, O-IDX   warehouse 4 | district 4 | customer 4 | order 4
//	payment, C         warehouse 4 | district 4 | customer 4 | its warehouse 4 | its district 4 | amount 8
//	delivery, O L      warehouse 4 | carrier 4 | date 8 | and of each district that is left
//	                   order 4 | customer 4 | lines 4 | sum 8
const (
	indexBytes = 16
	payBytes   = 28
	shipBytes  = 16
	dueBytes   = 20
)

// AppendPieces implements proto.Chain.
func (p *planned) AppendPieces(b []byte, from int) []byte {
	t := (*transaction)(p)
	word := func(v int) { b = binary.LittleEndian.AppendUint32(b, uint32(v)) }
	long := func(v int64) { b = binary.LittleEndian.AppendUint64(b, uint64(v)) }
	word(t.warehouse)
	switch t.kind {
	case NewOrder:
		word(t.district)
		word(t.customer)
		word(t.order)
	case Payment:
		word(t.district)
		word(t.customer)
		word(t.ofWarehouse)
		word(t.ofDistrict)
		long(t.amount)
	case Delivery:
		word(t.carrier)
		long(t.date)
		for _, x := range t.due[from-1:] {
			word(x.order)
			word(x.customer)
			word(x.lines)
			long(x.sum)
		}
	}
	return b
}

// ErrParameters: the parameters of pieces that were cut off make no sense.
var ErrParameters = errors.New("tpcc: parameters of the pieces of a transaction")

// Resume implements proto.Resumer.
func (w *TPCC) Resume(kind uint8, from int, parameters []byte) (proto.Chain, error) {
	t := &transaction{w: w, kind: Kind(kind)}
	p := (*planned)(t)
	want := 0
	switch t.kind {
	case NewOrder:
		want = indexBytes
	case Payment:
		want = payBytes
	case Delivery:
		want = shipBytes + max(deliveryPieces-from, 0)*dueBytes
	}
	if kind == 0 || t.kind >= kindEnd || from < 1 || from >= p.Pieces() || len(parameters) != want ||
		t.kind == NewOrder && from < newOrderPieces-1 {
		return nil, fmt.Errorf("%w: %d bytes for piece %d of kind %d", ErrParameters, len(parameters), from, kind)
	}
	b := parameters
	word := func() int { v := get32(b, 0); b = b[4:]; return v }
	long := func() int64 { v := get64(b, 0); b = b[8:]; return v }
	t.warehouse = word()
	switch t.kind {
	case NewOrder:
		t.district, t.customer, t.order = word(), word(), word()
	case Payment:
		t.district, t.customer, t.ofWarehouse, t.ofDistrict, t.amount = word(), word(), word(), word(), long()
	case Delivery:
		t.carrier, t.date = word(), long()
		for i := range t.due[from-1:] {
			t.due[from-1+i] = due{word(), word(), word(), long()}
		}
	}
	t.decl.Kind = kind
	t.bind()
	t.group()
	return p, nil
}
