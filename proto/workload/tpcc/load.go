package tpcc

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"drtmd/proto"
)

// NURand's constants of this program (clause 2.1.6): those of last names at loading and in runs differ as
// clause 2.1.6.1 wants it.
const (
	constLoadLast = 157
	constLast     = 85
	constCustomer = 259
	constItem     = 7911
)

// nuRand draws from 0 to n-1 by NURand (clause 2.1.6).
type nuRand struct{ a, c, n int }

// newNURand has the a of the specification for specN values, or one that is smaller in proportion.
func newNURand(a, constant, specN, n int) nuRand {
	for limit := max(a*n/specN, 1); a > limit; {
		a >>= 1
	}
	return nuRand{a, constant % (a + 1), n}
}

func (x nuRand) draw(r *rand.Rand) int { return ((r.IntN(x.a+1) | r.IntN(x.n)) + x.c) % x.n }

// syllables are those of clause 4.3.2.3.
var syllables = [10]string{"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}

// lastName is the last name of a number.
func lastName(n int) string { return syllables[n/100] + syllables[n/10%10] + syllables[n%10] }

// loader makes the rows of a warehouse.
type loader struct {
	*TPCC
	r   *rand.Rand
	put func(t proto.TableID, k proto.Key, value []byte) error
	err error
	row [customerBytes]byte
}

// begin gives an empty row.
func (l *loader) begin(bytes int) []byte {
	clear(l.row[:bytes])
	return l.row[:bytes]
}

func (l *loader) store(t proto.TableID, k proto.Key, row []byte) {
	if l.err == nil {
		l.err = l.put(t, k, row)
	}
}

// letters fills a text.
func (l *loader) letters(b []byte) { copy(b, l.texts[l.r.IntN(len(l.texts)-len(b)):]) }

// original has a tenth of the texts say so (clause 4.3.3.1).
func (l *loader) original(b []byte) {
	if l.letters(b); l.r.IntN(10) == 0 {
		copy(b[l.r.IntN(len(b)-8):], "ORIGINAL")
	}
}

// Load gives a node its warehouses, and all items.
func (w *TPCC) Load(node proto.NodeID, put func(t proto.TableID, k proto.Key, value []byte) error) error {
	l := &loader{TPCC: w, put: put, r: rand.New(rand.NewPCG(0x7470_6363, 0))} // items are the same everywhere
	for i := range w.o.Items {
		row := l.begin(itemBytes)
		put32(row, itemPrice, 100+l.r.IntN(9901))
		put32(row, itemImage, 1+l.r.IntN(10_000))
		l.letters(text(row, itemName, 24))
		l.original(text(row, itemName+24, 50))
		if !w.o.Anywhere || itemNode(itemKey(i), w.o.Nodes) == int(node) {
			l.store(Item, itemKey(i), row)
		}
	}
	for i := range w.o.Warehouses {
		n := int(node)*w.o.Warehouses + i
		l.r = rand.New(rand.NewPCG(0x7470_6363, uint64(n)+1))
		l.warehouse(n)
	}
	return l.err
}

// place is a row of a warehouse or district.
func (l *loader) place() []byte {
	row := l.begin(placeBytes)
	l.letters(row[:placeTax])
	put16(row, placeTax, l.r.IntN(2001))
	return row
}

// firstPayment is that of each customer (clause 4.3.3.1), in cents.
const firstPayment = 1000

func (l *loader) warehouse(w int) {
	l.store(Warehouse, warehouseKey(w), l.place())
	ytd := l.begin(ytdBytes)
	put64(ytd, 0, int64(Districts*l.o.Customers*firstPayment))
	l.store(WarehouseYTD, warehouseKey(w), ytd)
	for i := range l.o.Items {
		row := l.begin(stockBytes)
		setQuantity(row, 10+l.r.IntN(91))
		l.letters(text(row, stockInfo, Districts*infoBytes))
		l.original(text(row, stockData, 50))
		l.store(Stock, stockKey(w, i), row)
	}
	for d := range Districts {
		l.district(w, d)
	}
}

func (l *loader) district(w, d int) {
	k := districtKey(w, d)
	l.store(District, k, l.place())
	ytd := l.begin(ytdBytes)
	put64(ytd, 0, int64(l.o.Customers*firstPayment))
	l.store(DistrictYTD, k, ytd)
	next := l.begin(nextBytes)
	put32(next, 0, l.o.Customers+1)
	l.store(DistrictNext, k, next)
	l.customers(w, d)
	l.orders(w, d)
}

// named is a customer by name.
type named struct {
	last, c int
	first   [16]byte
}

func (l *loader) customers(w, d int) {
	all, names := make([]named, l.o.Customers), newNURand(255, constLoadLast, 1000, l.names)
	for c := range all {
		x := &all[c]
		x.c, x.last = c, c
		if c >= l.names {
			x.last = names.draw(l.r)
		}
		row := l.begin(customerBytes)
		l.letters(row[customerFirst:])
		copy(x.first[:], text(row, customerFirst, 16))
		copy(row[customerMiddle:], "OE")
		last := text(row, customerLast, 16)
		clear(last)
		copy(last, lastName(x.last))
		put64(row, customerBalance, -firstPayment)
		put64(row, customerYTD, firstPayment)
		put16(row, customerPayments, 1)
		put32(row, customerDiscount, l.r.IntN(5001))
		put32(row, customerLimit, 5_000_000)
		credit := "GC"
		if l.r.IntN(10) == 0 {
			credit = "BC"
		}
		copy(row[customerCredit:], credit)
		l.store(Customer, customerKey(w, d, c), row)
		h := l.begin(historyBytes)
		putHistory(h, w, d, w, d, c, firstPayment)
		l.letters(h[historyData:])
		// Clients number theirs from 0 on; 0xffff is no client.
		l.store(History, historyKey(w, noClient, uint32(d*l.o.Customers+c)), h)
	}
	slices.SortFunc(all, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.last, b.last), slices.Compare(a.first[:], b.first[:]), cmp.Compare(a.c, b.c))
	})
	rank := 0
	for i := range all {
		x := &all[i]
		if rank++; i == 0 || all[i-1].last != x.last {
			rank = 0
		}
		l.store(CustomerName, nameKey(w, d, x.last, rank, x.c), l.begin(nameBytes))
	}
}

func putHistory(row []byte, w, d, ofWarehouse, ofDistrict, c int, amount int64) {
	put32(row, historyCustomer, c)
	put16(row, historyOf, ofWarehouse)
	put16(row, historyWarehouse, w)
	row[historyIn], row[historyDistrict] = byte(ofDistrict), byte(d)
	put64(row, historyAmount, amount)
}

// delivered is how many of a district's first orders are: 2,100 of 3,000.
func (w *TPCC) delivered() int { return w.o.Customers / 10 * 7 }

func (l *loader) orders(w, d int) {
	for i, c := range l.r.Perm(l.o.Customers) {
		o, lines, date := i+1, leastLines+l.r.IntN(mostLines-leastLines+1), int64(1)
		row := l.begin(orderBytes)
		put32(row, orderCustomer, c)
		put64(row, orderDate, date)
		done := o <= l.delivered()
		if done {
			row[orderCarrier] = byte(1 + l.r.IntN(10))
		}
		row[orderLines], row[orderLocal] = byte(lines), 1
		l.store(Order, orderKey(w, d, o), row)
		l.store(OrderCustomer, ownerKey(w, d, c, o), l.begin(ownerBytes))
		if !done {
			n := l.begin(newOrderBytes)
			putNewOrder(n, w, d, o)
			l.store(NewOrderTable, orderKey(w, d, o), n)
		}
		for line := 1; line <= lines; line++ {
			row := l.begin(lineBytes)
			put32(row, lineItem, l.r.IntN(l.o.Items))
			put16(row, lineSupply, w)
			row[lineQuantity] = 5
			if done {
				put64(row, lineDelivered, date)
			} else {
				put64(row, lineAmount, int64(1+l.r.IntN(999_999)))
			}
			l.letters(text(row, lineInfo, infoBytes))
			l.store(OrderLine, lineKey(w, d, o, line), row)
		}
	}
}

func putNewOrder(row []byte, w, d, o int) {
	put32(row, 0, o)
	put16(row, 4, w)
	row[6] = byte(d)
}
