package tpcc

import (
	"encoding/binary"

	"drtmd/proto"
)

// Rows, little endian; money is in cents, a rate in ten thousandths. The offsets of the columns that transactions
// need; texts fill what is left.
//
//	warehouse, district  name 10 | street 20 | street 20 | city 20 | state 2 | zip 9 | tax 2
//	customer             balance 8 | ytd payment 8 | payments 2 | deliveries 2 | discount 4 | credit limit 4 |
//	                     since 4 | credit 2 | first 16 | middle 2 | last 16 | street 20 | street 20 | city 20 | state 2 |
//	                     zip 9 | phone 16 | data 500
//	history              customer 4 | its warehouse 2 | warehouse 2 | its district 1 | district 1 | date 4 | amount 8 |
//	                     data 24
//	order                customer 4 | date 8 | carrier 1, 0: none | lines 1 | all local 1 | zero 9
//	new-order            order 4 | warehouse 2 | district 1 | zero 1
//	order-line           item 4 | supplying warehouse 2 | quantity 1 | zero 1 | amount 8 | delivered 8, 0: not |
//	                     district info 24 | zero 6
//	item                 price 4 | image 4 | name 24 | data 50
//	stock                quantity 2 | ytd 4 | orders 2 | remote orders 2 | info of ten districts 240 | data 50 | zero 6
const (
	placeBytes = 83
	placeTax   = 81

	ytdBytes  = 8
	nextBytes = 4

	customerBytes      = 655
	customerBalance    = 0
	customerYTD        = 8
	customerPayments   = 16
	customerDeliveries = 18
	customerDiscount   = 20
	customerLimit      = 24
	customerSince      = 28
	customerCredit     = 32
	customerFirst      = 34
	customerMiddle     = 50
	customerLast       = 52
	customerStreet     = 68
	customerData       = 155

	nameBytes  = 8
	ownerBytes = 8

	historyBytes     = 46
	historyCustomer  = 0
	historyOf        = 4 // the customer's warehouse
	historyWarehouse = 6
	historyIn        = 8 // the customer's district
	historyDistrict  = 9
	historyDate      = 10
	historyAmount    = 14
	historyData      = 22

	orderBytes    = 24
	orderCustomer = 0
	orderDate     = 4
	orderCarrier  = 12
	orderLines    = 13
	orderLocal    = 14

	newOrderBytes = 8

	lineBytes     = 54
	lineItem      = 0
	lineSupply    = 4
	lineQuantity  = 6
	lineAmount    = 8
	lineDelivered = 16
	lineInfo      = 24
	infoBytes     = 24

	itemBytes = 82
	itemPrice = 0
	itemImage = 4
	itemName  = 8

	stockBytes    = 306
	stockQuantity = 0
	stockYTD      = 2
	stockOrders   = 6
	stockRemote   = 8
	stockInfo     = 10
	stockData     = 250
)

// Parts of rows that transactions access. The first of a customer has what a payment or a delivery changes, the first of
// a stock what an order changes.
var (
	nameField     = proto.Field{Offset: 0, Bytes: 10} // of a warehouse or district
	taxField      = proto.Field{Offset: placeTax, Bytes: 2}
	priceField    = proto.Field{Offset: itemPrice, Bytes: 4}
	discountField = proto.Field{Offset: customerDiscount, Bytes: 4}
	balanceField  = proto.Field{Offset: customerBalance, Bytes: customerFirst, Write: true}
	statusField   = proto.Field{Offset: customerBalance, Bytes: customerStreet} // balance and names
	// deliveredField is the amount of an order line and when it was delivered.
	deliveredField = proto.Field{Offset: lineAmount, Bytes: lineInfo - lineAmount, Write: true}
	levelField     = proto.Field{Offset: stockQuantity, Bytes: 2}
	countsField    = proto.Field{Offset: stockQuantity, Bytes: stockInfo, Write: true}
)

func infoField(district int) proto.Field {
	return proto.Field{Offset: uint16(stockInfo + district*infoBytes), Bytes: infoBytes}
}

// read reads a field of a record into its place in row, which has the size of the table's rows.
func read(tx proto.Txn, table proto.TableID, k proto.Key, f proto.Field, row []byte) error {
	return proto.ReadAt(tx, table, k, int(f.Offset), text(row, int(f.Offset), int(f.Bytes)), row)
}

// write writes a field of a record from its place in row. spare has the same size.
func write(tx proto.Txn, table proto.TableID, k proto.Key, f proto.Field, row, spare []byte) error {
	return proto.WriteAt(tx, table, k, int(f.Offset), text(row, int(f.Offset), int(f.Bytes)), spare)
}

const (
	_ = uint(customerData + 500 - customerBytes)
	_ = uint(customerBytes - customerData - 500)
)

var le = binary.LittleEndian

func get16(b []byte, at int) int   { return int(le.Uint16(b[at:])) }
func get32(b []byte, at int) int   { return int(le.Uint32(b[at:])) }
func get64(b []byte, at int) int64 { return int64(le.Uint64(b[at:])) }

func put16(b []byte, at, v int)               { le.PutUint16(b[at:], uint16(v)) }
func put32(b []byte, at, v int)               { le.PutUint32(b[at:], uint32(v)) }
func put64(b []byte, at int, v int64)         { le.PutUint64(b[at:], uint64(v)) }
func add16(b []byte, at, by int)              { put16(b, at, get16(b, at)+by) }
func add64(b []byte, at int, by int64)        { put64(b, at, get64(b, at)+by) }
func text(b []byte, at, n int) []byte         { return b[at : at+n : at+n] }
func isBadCredit(customer []byte) bool        { return customer[customerCredit] == 'B' }
func quantityOf(stock []byte) int             { return int(int16(get16(stock, stockQuantity))) }
func setQuantity(stock []byte, n int)         { put16(stock, stockQuantity, n) }
func districtInfo(stock []byte, d int) []byte { return text(stock, stockInfo+d*infoBytes, infoBytes) }
