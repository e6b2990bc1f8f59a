package tpcc

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// noClient stands in the keys of history rows that were loaded.
const noClient = 0xffff

// client draws the transactions of one fiber: a terminal.
type client struct {
	w                      *TPCC
	r                      *rand.Rand
	node                   int
	home                   int // warehouse; drawn for each transaction with Options.Anywhere
	district               int // of stock-level
	number                 uint16
	payments               uint32 // history rows so far
	date                   int64
	items, customers, last nuRand
	tx                     transaction
}

// NewClient makes a client. Those of a node take turns at its warehouses.
func (w *TPCC) NewClient(home proto.NodeID, r *rand.Rand) workload.Client {
	n := int(w.clients[home].Add(1) - 1)
	number := n
	if w.o.Anywhere {
		number = n*w.o.Nodes + int(home) // clients of all nodes pay at a warehouse
	}
	c := &client{w: w, r: r, node: int(home), home: int(home)*w.o.Warehouses + n%w.o.Warehouses,
		district: n / w.o.Warehouses % Districts, number: uint16(number % noClient), date: 1,
		items:     newNURand(8191, constItem, SpecItems, w.o.Items),
		customers: newNURand(1023, constCustomer, SpecCustomers, w.o.Customers),
		last:      newNURand(255, constLast, 1000, w.names)}
	t := &c.tx
	t.w, t.decl.Accesses = w, t.accesses[:0]
	t.isStocked = make([]uint64, (w.o.Items+63)/64)
	t.bind()
	return c
}

// GoOn implements workload.Continuer: history rows have the numbers of the clients that made them.
func (w *TPCC) GoOn(home proto.NodeID, c workload.Contents) error {
	if w.o.Anywhere {
		return fmt.Errorf("node %d: its clients have paid at warehouses of all nodes, so that its own history does not tell "+
			"their numbers: load the tables anew", home)
	}
	next := uint32(0)
	c.Each(History, func(k proto.Key, _ []byte) {
		if n := uint32(clientOf(k)); n != noClient {
			next = max(next, n+1)
		}
	})
	if next >= noClient {
		return fmt.Errorf("node %d: the keys of history rows tell %d clients apart, and so many have run: load the tables "+
			"anew", home, noClient)
	}
	w.clients[home].Store(next)
	return nil
}

// bind makes what scans and peeks call.
func (t *transaction) bind() {
	t.newest, t.oldest, t.line, t.item = t.takeNewest, t.takeOldest, t.takeLine, t.takeItem
	t.sum, t.stock = t.addSum, t.addItem
}

// line of an order. The price is that of the item, once it was read.
type line struct {
	item, supply, quantity, price int
}

// mostAccesses are those of a stock-level of 20 orders.
const mostAccesses = 20*mostLines + 64

// transaction is a proto.Program with its parameters, and what its plan has found.
type transaction struct {
	w        *TPCC
	kind     Kind
	decl     proto.Decl
	accesses [mostAccesses]proto.Access // of decl

	warehouse, district int
	// The customer, and of which warehouse and district; by its last name if byName: then Plan finds it.
	customer, ofWarehouse, ofDistrict int
	byName                            bool
	lastName                          int
	amount                            int64
	date                              int64
	history                           proto.Key
	lines                             [mostLines]line
	count                             int  // of them
	local                             bool // all supplied by the own warehouse
	carrier, threshold                int
	shown                             int64 // to the terminal: the amount of an order, items that are low
	tax                               int   // of warehouse and district
	groups                            [Districts]uint32

	order   int // planned: the next or the newest one; 0: none
	due     [Districts]due
	stocked []uint32 // planned: the items of stock-level
	// isStocked has a bit for each item.
	isStocked []uint64
	keys      [20*mostLines + 20]proto.Key

	// Of the scan that runs.
	newest, oldest, line, item func(proto.Key, []byte) bool // made once, like sum and stock
	sum, stock                 func(line []byte)
	found                      int
	seen                       int
	strange                    bool

	row, other, third [customerBytes]byte
}

// due is the oldest order of a district, as it was planned.
type due struct {
	order, customer, lines int   // order 0: none
	sum                    int64 // of the lines' amounts, which never change; only of a chain
}

// Next draws a transaction.
func (c *client) Next() (*proto.Decl, proto.Program) {
	t, r := &c.tx, c.r
	t.kind = Kind(c.w.mix.Draw(r) + 1)
	c.date++
	if c.w.o.Anywhere {
		c.home = c.anywhere()
	}
	t.decl = proto.Decl{Kind: uint8(t.kind), Accesses: t.accesses[:0]}
	t.warehouse, t.district, t.date, t.byName = c.home, r.IntN(Districts), c.date, false
	t.ofWarehouse, t.ofDistrict, t.customer = t.warehouse, t.district, c.customers.draw(r)
	switch t.kind {
	case NewOrder:
		c.drawOrder()
	case Payment:
		t.amount = int64(100 + r.IntN(499_901))
		if of := c.supplier(c.w.o.RemotePayments); of != c.home {
			t.ofWarehouse, t.ofDistrict = of, r.IntN(Districts)
		}
		c.drawName()
		t.history = historyKey(t.warehouse, c.number, c.payments)
		c.payments++
	case OrderStatus:
		t.decl.ReadOnly = true
		c.drawName()
	case Delivery:
		t.carrier = 1 + r.IntN(10)
	case StockLevel:
		t.decl.ReadOnly = true
		t.district, t.threshold = c.district, 10+r.IntN(11)
	}
	t.group()
	return &t.decl, (*planned)(t)
}

// remote draws whether something is of another warehouse.
func (c *client) remote(percent float64) bool { return c.w.all() > 1 && 100*c.r.Float64() < percent }

// other draws another warehouse.
func (c *client) other() int { return (c.home + 1 + c.r.IntN(c.w.all()-1)) % c.w.all() }

// anywhere draws a warehouse of the cluster (Options.Anywhere).
func (c *client) anywhere() int {
	o := &c.w.o
	if o.Local == 0 {
		return c.r.IntN(c.w.all())
	}
	return c.anyNode()*o.Warehouses + c.r.IntN(o.Warehouses)
}

// anyNode draws the own node with the probability Local, or another one.
func (c *client) anyNode() int {
	nodes := c.w.o.Nodes
	if nodes == 1 || c.r.Float64() < c.w.o.Local {
		return c.node
	}
	return (c.node + 1 + c.r.IntN(nodes-1)) % nodes
}

// supplier draws the warehouse of an item or of a paying customer, of which so many percent are of another one.
func (c *client) supplier(percent float64) int {
	switch {
	case c.w.o.Anywhere:
		return c.anywhere()
	case c.remote(percent):
		return c.other()
	}
	return c.home
}

// drawItem draws an item.
func (c *client) drawItem() int {
	i, o := c.items.draw(c.r), &c.w.o
	if o.Local > 0 {
		if i += c.anyNode() - itemNode(itemKey(i), o.Nodes); i >= o.Items {
			i -= o.Nodes
		}
	}
	return i
}

// drawName has 60 % of the customers known by last name.
func (c *client) drawName() {
	if t := &c.tx; c.r.IntN(100) < 60 {
		t.byName, t.lastName = true, c.last.draw(c.r)
	}
}

// drawOrder draws the lines of a new order.
func (c *client) drawOrder() {
	t, r := &c.tx, c.r
	t.count, t.local = leastLines+r.IntN(mostLines-leastLines+1), true
	for i := range t.count {
		l := &t.lines[i]
		l.quantity = 1 + r.IntN(10)
		for l.item = c.drawItem(); t.has(l.item, i); {
			l.item = c.drawItem()
		}
		l.supply = c.supplier(c.w.o.RemoteItems)
		t.local = t.local && l.supply == c.home
	}
	if r.IntN(100) == 0 {
		l := &t.lines[t.count-1]
		l.item, l.supply = c.unusedItem(), c.home
	}
}

// unusedItem is the number of an item that there is not. With a share Local, its record would be of the own node as often as
// those of other items.
func (c *client) unusedItem() int {
	i, o := c.w.o.Items, &c.w.o
	if o.Local > 0 {
		i += (c.anyNode() - itemNode(itemKey(i), o.Nodes) + o.Nodes) % o.Nodes
	}
	return i
}

// has reports whether one of the first n lines is of an item.
func (t *transaction) has(item, n int) bool {
	return slices.ContainsFunc(t.lines[:n], func(l line) bool { return l.item == item })
}

func (t *transaction) declare(table proto.TableID, m proto.Mode, k proto.Key) {
	t.decl.Accesses = append(t.decl.Accesses, proto.Access{Table: table, Mode: m, Key: k})
}

// declareFields declares a record of which only parts are accessed.
func (t *transaction) declareFields(table proto.TableID, m proto.Mode, k proto.Key, fields ...proto.Field) {
	t.declare(table, m, k)
	copy(t.decl.Accesses[len(t.decl.Accesses)-1].Fields[:], fields)
}

// planned is a transaction with a plan.
type planned transaction

// Plan finds what only the database knows, and declares all records.
func (p *planned) Plan(f *fiber.Fiber, peek proto.Peeker, d *proto.Decl) error {
	t := (*transaction)(p)
	d.Accesses = t.accesses[:0]
	if t.byName {
		if err := t.findByName(f, peek); err != nil {
			return err
		}
	}
	switch t.kind {
	case NewOrder:
		return t.planOrder(f, peek)
	case Payment:
		t.declarePayment()
		return nil
	case OrderStatus:
		return t.planStatus(f, peek)
	case Delivery:
		err := t.planDelivery(f, peek, false)
		for d := range Districts {
			t.declareDue(d)
			t.declareDelivered(d)
		}
		return err
	}
	return t.planStock(f, peek)
}

// Execute runs the transaction's code.
func (p *planned) Execute(tx proto.Txn) error { return (*transaction)(p).Execute(tx) }

// Execute runs the transaction's code.
func (t *transaction) Execute(tx proto.Txn) error {
	switch t.kind {
	case NewOrder:
		return t.newOrder(tx)
	case Payment:
		return t.payment(tx)
	case OrderStatus:
		return t.orderStatus(tx)
	case Delivery:
		return t.delivery(tx)
	}
	return t.stockLevel(tx)
}

// outdated is the abort of a plan that does not hold any more.
func outdated() error { return proto.Aborting(proto.ReasonPlan) }

// rangePeeker is what protocols with ordered tables have.
func rangePeeker(peek proto.Peeker) (proto.RangePeeker, error) {
	if x, ok := peek.(proto.RangePeeker); ok {
		return x, nil
	}
	return nil, proto.ErrUnsupported
}

// findByName finds the customer: the one in the middle of those with the last name, by first name (clause 2.5.2.2).
func (t *transaction) findByName(f *fiber.Fiber, peek proto.Peeker) error {
	x, err := rangePeeker(peek)
	if err != nil {
		return err
	}
	from := nameKey(t.ofWarehouse, t.ofDistrict, t.lastName, 0, 0)
	to := nameKey(t.ofWarehouse, t.ofDistrict, t.lastName, 1<<(nameShift-rankShift)-1, maxOrder)
	n, err := x.PeekRange(f, CustomerName, from, to, t.keys[:])
	switch {
	case err != nil:
		return err
	case n == 0:
		return outdated() // there is one of each last name
	}
	t.customer = namedOf(t.keys[(n+1)/2-1])
	return nil
}

// peekNumber peeks at the next order number of the district.
func (t *transaction) peekNumber(f *fiber.Fiber, peek proto.Peeker) (n int, err error) {
	row := t.row[:nextBytes]
	err = peek.Peek(f, DistrictNext, districtKey(t.warehouse, t.district), row)
	return get32(row, 0), err
}

// Done is told the outcome: nothing is added up.
func (c *client) Done(proto.Outcome) {}

// AddTo adds nothing: see TPCC.Sums.
func (c *client) AddTo(*workload.Ledger) {}
