package mix

import (
	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// client draws transactions of a part, and numbers their tables as the mix does.
type client struct {
	workload.Client
	kind  uint8
	first proto.TableID
	decl  proto.Decl
	inner *proto.Decl // that the part has drawn
	plain program
	plans planned
	tx    txn
	peek  peeker
}

func newClient(m *Mix, part int, of workload.Client) *client {
	c := &client{Client: of, kind: uint8(part + 1), first: m.first[part]}
	c.plain.c, c.plans.c = c, c
	c.tx.first, c.peek.first = c.first, c.first
	for _, s := range m.o.Parts[part].Tables() {
		c.tx.rows = append(c.tx.rows, make([]byte, s.ValueBytes))
	}
	return c
}

// Next draws a transaction.
func (c *client) Next() (*proto.Decl, proto.Program) {
	d, p := c.Client.Next()
	c.inner = d
	c.translate()
	if x, ok := p.(proto.Dependent); ok {
		c.plans.of = x
		return &c.decl, &c.plans
	}
	c.plain.of = p
	return &c.decl, &c.plain
}

// translate gives the mix's declaration what the part's has.
func (c *client) translate() {
	list := c.decl.Accesses[:0]
	for _, a := range c.inner.Accesses {
		a.Table += c.first
		list = append(list, a)
	}
	c.decl = proto.Decl{Kind: c.kind, ReadOnly: c.inner.ReadOnly, Accesses: list}
}

// program is a part's.
type program struct {
	c  *client
	of proto.Program
}

// Execute implements proto.Program.
func (p *program) Execute(tx proto.Txn) error {
	p.c.tx.of = tx
	return p.of.Execute(&p.c.tx)
}

// planned is a part's that depends on what it reads.
type planned struct {
	c  *client
	of proto.Dependent
}

// Plan implements proto.Dependent.
func (p *planned) Plan(f *fiber.Fiber, peek proto.Peeker, _ *proto.Decl) error {
	p.c.peek.of = peek
	err := p.of.Plan(f, &p.c.peek, p.c.inner)
	p.c.translate()
	return err
}

// Execute implements proto.Program.
func (p *planned) Execute(tx proto.Txn) error {
	p.c.tx.of = tx
	return p.of.Execute(&p.c.tx)
}

// peeker is the engine's, as a part sees it.
type peeker struct {
	of    proto.Peeker
	first proto.TableID
}

// Peek implements proto.Peeker.
func (p *peeker) Peek(f *fiber.Fiber, t proto.TableID, k proto.Key, dst []byte) error {
	return p.of.Peek(f, t+p.first, k, dst)
}

// PeekRange implements proto.RangePeeker.
func (p *peeker) PeekRange(f *fiber.Fiber, t proto.TableID, from, to proto.Key, keys []proto.Key) (int, error) {
	x, ok := p.of.(proto.RangePeeker)
	if !ok {
		return 0, proto.ErrUnsupported
	}
	return x.PeekRange(f, t+p.first, from, to, keys)
}

// txn is a transaction, as a part sees it.
type txn struct {
	of    proto.Txn
	first proto.TableID
	rows  [][]byte // of a value, by the part's table, for engines without fields
}

// Read implements proto.Txn.
func (x *txn) Read(t proto.TableID, k proto.Key, dst []byte) error {
	return x.of.Read(t+x.first, k, dst)
}

// ReadMany implements proto.Txn.
func (x *txn) ReadMany(gets []proto.Get) error {
	for i := range gets {
		gets[i].Table += x.first
	}
	err := x.of.ReadMany(gets)
	for i := range gets {
		gets[i].Table -= x.first
	}
	return err
}

// GetForUpdate implements proto.Txn.
func (x *txn) GetForUpdate(t proto.TableID, k proto.Key, dst []byte) error {
	return x.of.GetForUpdate(t+x.first, k, dst)
}

// Scan implements proto.Txn.
func (x *txn) Scan(t proto.TableID, from, to proto.Key, each func(proto.Key, []byte) bool) error {
	return x.of.Scan(t+x.first, from, to, each)
}

// Write implements proto.Txn.
func (x *txn) Write(t proto.TableID, k proto.Key, v []byte) error { return x.of.Write(t+x.first, k, v) }

// Insert implements proto.Txn.
func (x *txn) Insert(t proto.TableID, k proto.Key, v []byte) error {
	return x.of.Insert(t+x.first, k, v)
}

// Delete implements proto.Txn.
func (x *txn) Delete(t proto.TableID, k proto.Key) error { return x.of.Delete(t+x.first, k) }

// AddTo implements proto.Adder.
func (x *txn) AddTo(t proto.TableID, k proto.Key, delta int64) error {
	return proto.Add(x.of, t+x.first, k, delta)
}

// ReadAt implements proto.Fielder.
func (x *txn) ReadAt(t proto.TableID, k proto.Key, offset int, dst []byte) error {
	return proto.ReadAt(x.of, t+x.first, k, offset, dst, x.rows[t-1])
}

// WriteAt implements proto.Fielder.
func (x *txn) WriteAt(t proto.TableID, k proto.Key, offset int, v []byte) error {
	return proto.WriteAt(x.of, t+x.first, k, offset, v, x.rows[t-1])
}

// Charge implements proto.Charger.
func (x *txn) Charge(ps int64) {
	if c, ok := x.of.(proto.Charger); ok {
		c.Charge(ps)
	}
}
