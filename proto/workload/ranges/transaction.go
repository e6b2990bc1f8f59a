package ranges

import (
	"fmt"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// client draws the transactions of one fiber.
type client struct {
	w    *Ranges
	home proto.NodeID
	rand *rand.Rand
	tx   transaction
	open bool // tx was drawn and is not done
	did  workload.Ledger
}

// span is a range to be scanned.
type span struct {
	from, to proto.Key
	limit    int // rows; 0: all
}

// transaction is a proto.Program with its parameters.
type transaction struct {
	kind     Kind
	decl     proto.Decl
	accesses [2]proto.Access // of decl
	spans    [2]span
	number   uint64 // of the new row
	rollBack bool   // in the end, of those kinds that can
	did      int64  // to the number of rows, by the last execution
	value    value
	popper   popper
	planned  bool // pop: there is a row to be removed

	// Of the scan that runs.
	each     func(proto.Key, []byte) bool // take, made once
	span     *span
	next     proto.Key // the first that may come
	rows     int
	first    proto.Key // row
	found    proto.Key // a row that is looked for
	wasFound bool
	err      error
}

// Next draws a transaction.
func (c *client) Next() (*proto.Decl, proto.Program) {
	t := &c.tx
	t.kind, t.did = Kind(c.w.mix.Draw(c.rand)+1), 0
	t.decl = proto.Decl{Kind: uint8(t.kind), Accesses: t.accesses[:0]}
	t.number = c.rand.Uint64()
	t.rollBack = false
	node := c.node()
	switch t.kind {
	case Insert:
		t.declare(proto.ModeInsert, c.key(node))
	case Delete:
		t.declare(proto.ModeDelete, c.key(node))
	case Move:
		k := c.key(node)
		t.declare(proto.ModeDelete, k)
		for t.found = k; t.found == k; {
			t.found = c.key(node)
		}
		t.declare(proto.ModeInsert, t.found)
	case Scan, Both:
		t.decl.ReadOnly = true
		t.spans[0], t.spans[1] = c.span(node), c.span(c.other(node))
		t.rollBack = c.rand.Float64() < c.w.o.RollBack
	case Toggle:
		s := c.span(node)
		s.limit = 0
		t.spans[0] = s
		low, high := min(s.from, s.to), max(s.from, s.to)
		t.found = low + proto.Key(c.rand.Uint64N(uint64(high-low+1)))
		t.declare(proto.ModeInsert, t.found)
	case Pop:
		t.spans[0] = c.span(node)
		t.spans[0].limit = 1
	}
	c.open = true
	if t.kind == Pop {
		return &t.decl, &t.popper
	}
	return &t.decl, t
}

func (t *transaction) declare(m proto.Mode, k proto.Key) {
	t.decl.Accesses = append(t.decl.Accesses, proto.Access{Table: Rows, Mode: m, Key: k})
}

// node draws one, another than the client's now and then.
func (c *client) node() proto.NodeID {
	if d := c.w.o.Distributed; d > 0 && c.rand.Float64() < d {
		return c.other(c.home)
	}
	return c.home
}

// other draws another node, if there is one.
func (c *client) other(n proto.NodeID) proto.NodeID {
	if c.w.o.Nodes == 1 {
		return n
	}
	return proto.NodeID((int(n) + 1 + c.rand.IntN(c.w.o.Nodes-1)) % c.w.o.Nodes)
}

func (c *client) key(n proto.NodeID) proto.Key { return keyOf(n, c.rand.IntN(c.w.o.Keys)) }

// span draws a range of a node.
func (c *client) span(n proto.NodeID) (s span) {
	length := 1 + c.rand.IntN(c.w.o.Longest)
	i := c.rand.IntN(c.w.o.Keys - length + 1)
	s.from, s.to = keyOf(n, i), keyOf(n, i+length-1)
	if c.rand.IntN(2) == 0 {
		s.from, s.to = s.to, s.from
	}
	if c.rand.IntN(3) == 0 {
		s.limit = 1 + c.rand.IntN(8)
	}
	return s
}

// Execute runs the transaction's code.
func (t *transaction) Execute(tx proto.Txn) error {
	t.did = 0
	a := t.decl.Accesses
	switch t.kind {
	case Insert:
		return t.insert(tx, a[0].Key)
	case Delete:
		return t.remove(tx, a[0].Key)
	case Move:
		if err := t.remove(tx, a[0].Key); err != nil {
			return err
		}
		return t.insert(tx, a[1].Key)
	case Toggle:
		return t.toggle(tx)
	}
	n := 1
	if t.kind == Both {
		n = 2
	}
	for i := range t.spans[:n] {
		if err := t.scan(tx, &t.spans[i]); err != nil {
			return err
		}
	}
	if t.rollBack {
		return proto.ErrRollback
	}
	return nil
}

// insert adds a row; that it is there rolls back.
func (t *transaction) insert(tx proto.Txn, k proto.Key) error {
	t.value.set(k, t.number)
	err := tx.Insert(Rows, k, t.value)
	if err == proto.ErrExists {
		return proto.ErrRollback
	}
	t.did++
	return err
}

// remove deletes a row; that it is not there rolls back.
func (t *transaction) remove(tx proto.Txn, k proto.Key) error {
	err := tx.Delete(Rows, k)
	if err == proto.ErrNotFound {
		return proto.ErrRollback
	}
	t.did--
	return err
}

// scan reads a range and checks what it gives.
func (t *transaction) scan(tx proto.Txn, s *span) error {
	t.span, t.next, t.rows, t.wasFound, t.err = s, s.from, 0, false, nil
	err := tx.Scan(Rows, s.from, s.to, t.each)
	if err == nil {
		err = t.err
	}
	return err
}

// take is given a row.
func (t *transaction) take(k proto.Key, v []byte) bool {
	s, down := t.span, t.span.from > t.span.to
	if !down && (k < t.next || k > s.to) || down && (k > t.next || k < s.to) {
		t.err = fmt.Errorf("%w: a scan from %#x to %#x gives key %#x, and may give %#x next", ErrCorrupt, s.from, s.to, k,
			t.next)
		return false
	}
	if t.err = value(v).check(k); t.err != nil {
		return false
	}
	if t.rows == 0 {
		t.first = k
	}
	t.rows++
	t.wasFound = t.wasFound || k == t.found
	if t.next = k + 1; down {
		t.next = k - 1
	}
	return k != s.to && t.rows != s.limit
}

// toggle adds a row in a range, or removes it. The range shows which.
func (t *transaction) toggle(tx proto.Txn) error {
	if err := t.scan(tx, &t.spans[0]); err != nil {
		return err
	}
	var err error
	was, rows := t.wasFound, t.rows
	if was {
		err = tx.Delete(Rows, t.found)
		t.did--
		rows--
	} else {
		t.value.set(t.found, t.number)
		err = tx.Insert(Rows, t.found, t.value)
		t.did++
		rows++
	}
	if err == proto.ErrExists || err == proto.ErrNotFound {
		return fmt.Errorf("%w: a scan has found key %#x: %v; then: %w", ErrCorrupt, t.found, was, err)
	}
	if err == nil {
		err = t.scan(tx, &t.spans[0])
	}
	if err == nil && (t.wasFound == was || t.rows != rows) {
		return fmt.Errorf("%w: a transaction does not see its own change of key %#x in a scan", ErrCorrupt, t.found)
	}
	return err
}

// popper is the Dependent transaction.
type popper struct{ t *transaction }

// Plan looks which row is the first.
func (p *popper) Plan(f *fiber.Fiber, peek proto.Peeker, d *proto.Decl) error {
	t, s := p.t, &p.t.spans[0]
	d.Accesses = d.Accesses[:0]
	var keys [1]proto.Key
	n, err := peek.(proto.RangePeeker).PeekRange(f, Rows, s.from, s.to, keys[:])
	if t.planned = n == 1; t.planned {
		d.Accesses = append(d.Accesses, proto.Access{Table: Rows, Mode: proto.ModeDelete, Key: keys[0]})
	}
	return err
}

// Execute removes the first row, if it is the planned one still.
func (p *popper) Execute(tx proto.Txn) error {
	t := p.t
	t.did = 0
	if err := t.scan(tx, &t.spans[0]); err != nil {
		return err
	}
	switch {
	case t.rows == 0 && !t.planned:
		return proto.ErrRollback
	case t.rows == 0 || !t.planned || t.first != t.decl.Accesses[0].Key:
		return proto.Aborting(proto.ReasonPlan)
	}
	return t.remove(tx, t.first)
}

// Done notes what the transaction did.
func (c *client) Done(o proto.Outcome) {
	c.open = false
	c.did.Settle(o, workload.Quantities{c.tx.did})
}

// AddTo adds what the client's transactions did.
func (c *client) AddTo(l *workload.Ledger) {
	l.Add(&c.did)
	if c.open {
		l.AddUnknown(workload.Quantities{c.tx.did})
	}
}
