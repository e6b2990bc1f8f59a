package tpcc

import "drtmd/proto"

// Tables.
const (
	Warehouse proto.TableID = iota + 1
	WarehouseYTD
	District
	DistrictYTD
	DistrictNext
	Customer
	CustomerName
	History
	Order
	OrderCustomer
	NewOrderTable
	OrderLine
	Item
	Stock
	tableEnd // one past the last
)

// Districts of a warehouse, and the bounds of what keys can name.
const (
	Districts     = 10
	maxWarehouses = 1 << 16
	maxCustomers  = 1 << 20
	maxItems      = 1 << 24
	maxOrder      = 1<<24 - 1 // an order's number
	mostLines     = 15
	leastLines    = 5

	warehouseShift = 48
	districtShift  = 44
	orderShift     = 20
	lineShift      = 16
	nameShift      = 34
	rankShift      = 24
	ownerShift     = 24
	clientShift    = 32
)

func warehouseKey(w int) proto.Key { return proto.Key(w) << warehouseShift }

func districtKey(w, d int) proto.Key { return warehouseKey(w) | proto.Key(d)<<districtShift }

func orderKey(w, d, o int) proto.Key { return districtKey(w, d) | proto.Key(o)<<orderShift }

func lineKey(w, d, o, line int) proto.Key { return orderKey(w, d, o) | proto.Key(line)<<lineShift }

func customerKey(w, d, c int) proto.Key { return districtKey(w, d) | proto.Key(c)<<orderShift }

func ownerKey(w, d, c, o int) proto.Key {
	return districtKey(w, d) | proto.Key(c)<<ownerShift | proto.Key(o)
}

func nameKey(w, d, last, rank, c int) proto.Key {
	return districtKey(w, d) | proto.Key(last)<<nameShift | proto.Key(rank)<<rankShift | proto.Key(c)
}

func itemKey(i int) proto.Key { return proto.Key(i) }

func stockKey(w, i int) proto.Key { return warehouseKey(w) | proto.Key(i) }

func historyKey(w int, client uint16, n uint32) proto.Key {
	return warehouseKey(w) | proto.Key(client)<<clientShift | proto.Key(n)
}

// What keys say.
func warehouseOf(k proto.Key) int { return int(k >> warehouseShift) }
func districtOf(k proto.Key) int  { return int(k >> districtShift & 15) }
func orderOf(k proto.Key) int     { return int(k >> orderShift & maxOrder) }
func clientOf(k proto.Key) uint16 { return uint16(k >> clientShift) }
func namedOf(k proto.Key) int     { return int(k & maxOrder) } // of customer-name
func newestOf(k proto.Key) int    { return int(k & maxOrder) } // of order-customer

// itemNode is where an item is, of so many nodes; 0 nodes: everywhere.
func itemNode(k proto.Key, nodes int) int {
	if nodes == 0 {
		return 0
	}
	return int(k % proto.Key(nodes))
}

// placement has a warehouse's records on its node. Items are everywhere, or each on one of itemNodes.
type placement struct{ perNode, itemNodes int }

func (p placement) Locate(t proto.TableID, k proto.Key) proto.Location {
	if t == Item {
		return proto.Location{Primary: proto.NodeID(itemNode(k, p.itemNodes))}
	}
	return proto.Location{Primary: proto.NodeID(warehouseOf(k) / p.perNode)}
}
