package smallbank

import (
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
)

// client draws the transactions of one fiber. Its one transaction is used again and again.
type client struct {
	bank  *Bank
	home  proto.NodeID
	rand  *rand.Rand
	tx    transaction
	open  bool // tx was drawn and is not done
	did   workload.Ledger
	decls [kindEnd]proto.Decl // with room for the accesses of each kind
}

func newClient(b *Bank, home proto.NodeID, r *rand.Rand) *client {
	c := &client{bank: b, home: home, rand: r,
		tx: newTransaction(b.o.ValueBytes, b.o.OneKeyBalance)}
	for k := SendPayment; k < kindEnd; k++ {
		c.decls[k] = proto.Decl{Kind: uint8(k), ReadOnly: k == Balance, Accesses: shape(k)}
	}
	if b.o.OneKeyBalance {
		c.decls[Balance].Accesses = c.decls[Balance].Accesses[:1]
	}
	return c
}

// shape gives the accesses of a kind, without keys.
func shape(k Kind) []proto.Access {
	write := func(t proto.TableID) proto.Access { return proto.Access{Table: t, Mode: proto.ModeWrite} }
	read := func(t proto.TableID) proto.Access { return proto.Access{Table: t, Mode: proto.ModeRead} }
	switch k {
	case SendPayment:
		return []proto.Access{write(Checking), write(Checking)}
	case Amalgamate:
		return []proto.Access{write(Savings), write(Checking), write(Checking)}
	case Balance:
		return []proto.Access{read(Savings), read(Checking)}
	case DepositChecking:
		return []proto.Access{write(Checking)}
	case WriteCheck:
		return []proto.Access{read(Savings), write(Checking)}
	}
	return []proto.Access{write(Savings)}
}

// Next draws a transaction.
func (c *client) Next() (*proto.Decl, proto.Program) {
	u := c.rand.Uint64()
	k := c.bank.mix[scale(uint32(u), 100)]
	t := &c.tx
	d := &c.decls[k]
	t.kind, t.delta, t.shown, t.amount = k, 0, 0, 0
	first := c.bank.pick.customer(c.rand)
	t.a = KeyOf(c.firstHome(), first)
	for i := range d.Accesses {
		d.Accesses[i].Key = t.a
	}
	switch k {
	case SendPayment, Amalgamate:
		t.b = c.second(uint32(u >> 32))
		d.Accesses[len(d.Accesses)-1].Key = t.b
	case TransactSavings:
		t.amount = transactAmount
		if u>>63 != 0 {
			t.amount = -transactAmount
		}
	}
	c.open = true
	return d, t
}

// firstHome draws the node of the first customer.
func (c *client) firstHome() proto.NodeID {
	if c.bank.anywhere > 0 && c.rand.Uint32() <= c.bank.anywhere {
		return c.elsewhere()
	}
	return c.home
}

// elsewhere draws another node.
func (c *client) elsewhere() proto.NodeID {
	n := int(c.home) + 1 + c.rand.IntN(c.bank.o.Nodes-1)
	if n >= c.bank.o.Nodes {
		n -= c.bank.o.Nodes
	}
	return proto.NodeID(n)
}

// second draws another customer, who lives elsewhere if the draw says so.
func (c *client) second(draw uint32) proto.Key {
	node := c.home
	if far := c.bank.far; far > 0 && draw <= far {
		node = c.elsewhere()
	}
	customer := c.bank.pick.customer(c.rand)
	if KeyOf(node, customer) == c.tx.a {
		if customer++; customer == c.bank.o.Accounts {
			customer = 0
		}
	}
	return KeyOf(node, customer)
}

// Done notes what the transaction did to the bank's money.
func (c *client) Done(o proto.Outcome) {
	c.open = false
	c.did.Settle(o, workload.Quantities{c.tx.delta})
}

// AddTo adds what the client's transactions did.
func (c *client) AddTo(l *workload.Ledger) {
	l.Add(&c.did)
	if c.open {
		l.AddUnknown(workload.Quantities{c.tx.delta})
	}
}
