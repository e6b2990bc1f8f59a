package keyvalue

import (
	"errors"
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/txctx"
	"drtmd/proto/workload"
)

// Op is what a transaction does to one record.
type Op uint8

// Operations.
const (
	OpGet    Op = iota + 1
	OpPut       // without a look at what was there
	OpUpdate    // get, then put
	OpInsert
	OpScan // of some records from a key on, those of its node
)

// operation of a transaction.
type operation struct {
	op     Op
	key    proto.Key
	length int // of a scan
}

// MaxOps of a transaction.
const MaxOps = 32

// Client draws transactions of a Space. Draw fills in each one.
type Client struct {
	Space *Space
	Rand  *rand.Rand
	// Draw draws a transaction: it calls Begin, then Add for each record.
	Draw func(c *Client)
	// Ships: the workload declares Functions, and each transaction's is that of the number of its kind.
	Ships bool
	// Interactive transactions do not declare their records: see package txctx. They get, put, update and insert.
	Interactive bool

	context  *txctx.Ctx // of interactive transactions
	decl     proto.Decl
	accesses [MaxOps]proto.Access // of all operations but scans
	ops      [MaxOps]operation
	n        int // operations
	scan     scan
	value    []byte
	open     bool
	delta    int64  // updates and insertions
	lacking  uint32 // records that the last execution did not find
	blind    uint64 // draws the counts of blind puts, anew for each execution
	missed   uint64
	did      workload.Ledger
}

// NewClient makes a client. It owns r from then on.
func NewClient(s *Space, r *rand.Rand, draw func(c *Client)) *Client {
	c := &Client{Space: s, Rand: r, Draw: draw, value: make([]byte, s.recordBytes())}
	c.scan.space, c.scan.take = s, c.scan.add
	return c
}

// Next draws a transaction.
func (c *Client) Next() (*proto.Decl, proto.Program) {
	c.Draw(c)
	c.open, c.delta = true, 0
	if c.Interactive {
		c.decl.Accesses = nil
	}
	return &c.decl, (*program)(c)
}

// Begin begins a transaction of a kind.
func (c *Client) Begin(kind uint8) {
	c.decl, c.n = proto.Decl{Kind: kind, ReadOnly: true, Accesses: c.accesses[:0]}, 0
}

// AddScan adds a scan of the records from a key on.
func (c *Client) AddScan(from proto.Key, length int) {
	c.ops[c.n] = operation{OpScan, from, length}
	c.n++
}

// Add adds an operation on a record that the transaction does not have yet, and reports whether it
// did not.
func (c *Client) Add(op Op, k proto.Key) bool {
	for i := range c.decl.Accesses {
		if c.decl.Accesses[i].Key == k {
			return false
		}
	}
	m := proto.ModeRead
	switch op {
	case OpPut, OpUpdate:
		m = proto.ModeWrite
	case OpInsert:
		m = proto.ModeInsert
	}
	c.decl.ReadOnly = c.decl.ReadOnly && m == proto.ModeRead
	c.ops[c.n] = operation{op: op, key: k}
	c.n++
	c.decl.Accesses = append(c.decl.Accesses, proto.Access{Table: Table, Mode: m, Key: k})
	return true
}

// AddDrawn adds an operation on n records that are drawn, all different. With so few records that
// there are not n others, it adds fewer.
func (c *Client) AddDrawn(op Op, n int) {
	for range n {
		for range 64 {
			if c.Add(op, c.Space.Draw(c.Rand)) {
				break
			}
		}
	}
}

// Missed is how many gets found no record.
func (c *Client) Missed() uint64 { return c.missed }

// program is the client's present transaction.
type program Client

// Execute runs the operations in the order in which they were added.
func (p *program) Execute(tx proto.Txn) error {
	p.drawBlind()
	return p.run(tx)
}

// drawBlind draws the counts of blind puts, if there are any.
func (p *program) drawBlind() {
	for i := range p.ops[:p.n] {
		if p.ops[i].op == OpPut {
			p.blind = p.Rand.Uint64()
			return
		}
	}
}

// run is Execute with the counts that were drawn.
func (p *program) run(tx proto.Txn) error {
	p.delta, p.lacking = 0, 0
	if p.Interactive {
		return p.interact(tx)
	}
	for i := range p.ops[:p.n] {
		if err := p.one(tx, &p.ops[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) one(tx proto.Txn, o *operation) error {
	k := o.key
	if err := p.Space.lookUp(tx, k); err != nil {
		return err
	}
	switch o.op {
	case OpScan:
		return p.scan.run(tx, k, o.length)
	case OpGet:
		err := tx.Read(Table, k, p.value)
		if errors.Is(err, proto.ErrNotFound) {
			p.missed++
			p.lacking++
			return nil
		}
		if err != nil {
			return err
		}
		_, err = p.Space.get(p.value, k)
		return err
	case OpUpdate:
		if err := tx.GetForUpdate(Table, k, p.value); err != nil {
			return err
		}
		n, err := p.Space.get(p.value, k)
		if err != nil {
			return err
		}
		p.Space.set(p.value, k, n+1)
		p.delta++
		return tx.Write(Table, k, p.value)
	case OpInsert:
		p.Space.set(p.value, k, 0)
		p.delta++
		return tx.Insert(Table, k, p.value)
	}
	p.Space.set(p.value, k, seed(k, p.blind)>>32) // any count
	return tx.Write(Table, k, p.value)
}

// Done notes what the transaction did.
func (c *Client) Done(o proto.Outcome) {
	c.open = false
	c.did.Settle(o, workload.Quantities{c.delta})
}

// AddTo adds what the client's transactions did.
func (c *Client) AddTo(l *workload.Ledger) {
	l.Add(&c.did)
	if c.open {
		l.AddUnknown(workload.Quantities{c.delta})
	}
}
