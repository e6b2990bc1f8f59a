package micro

import (
	"math/rand/v2"

	"drtmd/proto"
	"drtmd/proto/workload"
)

const (
	manyReads      = 8 // records of ReadMany, the most of a transaction
	mostIncrements = 3
	lookReads      = 2
	dependReads    = 2
)

// client draws the transactions of one fiber.
type client struct {
	micro *Micro
	home  proto.NodeID
	rand  *rand.Rand
	tx    transaction
	open  bool // tx was drawn and is not done
	did   workload.Ledger
}

// Next draws a transaction.
func (c *client) Next() (*proto.Decl, proto.Program) {
	t := &c.tx
	t.begin(c.micro.mix[c.rand.IntN(100)])
	switch t.kind {
	case Increment:
		c.add(Counters, proto.ModeWrite, 1+c.rand.IntN(mostIncrements))
	case Insert:
		c.add(Items, proto.ModeInsert, 1)
	case Delete:
		c.add(Items, proto.ModeDelete, 1)
	case Move:
		c.add(Items, proto.ModeDelete, 1)
		c.add(Items, proto.ModeInsert, 1)
	case Look:
		c.add(Items, proto.ModeRead, c.reads(lookReads))
	case ReadMany:
		c.add(Counters, proto.ModeRead, c.reads(manyReads))
	case Follow:
		c.add(Pointers, proto.ModeRead, 1) // Plan adds the counter
		t.glances = c.micro.o.Restless
		t.glance = c.key(Items)
	case Redirect:
		c.add(Pointers, proto.ModeWrite, 1)
		t.target = c.key(Counters)
	case Depend:
		c.add(Counters, proto.ModeWrite, 1)
		if c.micro.o.Restless {
			c.add(Items, proto.ModeRead, dependReads)
		} else {
			c.add(Counters, proto.ModeRead, dependReads)
		}
	}
	t.decl.ReadOnly = t.kind == Look || t.kind == ReadMany
	t.rollBack = t.rolls() && c.micro.back > 0 && c.rand.Uint32() <= c.micro.back
	t.number = c.rand.Uint64()
	c.open = true
	if t.kind == Follow {
		return &t.decl, &t.follower
	}
	return &t.decl, t
}

// add declares n records of a table that are not declared yet.
func (c *client) add(table proto.TableID, m proto.Mode, n int) {
	t := &c.tx
	for range n {
		k := c.key(table)
		for t.declared(table, k) {
			k = c.key(table)
		}
		t.decl.Accesses = append(t.decl.Accesses, proto.Access{Table: table, Mode: m, Key: k})
	}
}

// reads is the number of records that a reading transaction reads.
func (c *client) reads(own int) int {
	most := min(manyReads, c.micro.o.Keys*3/4) // that distinct ones are drawn soon
	if least := c.micro.o.LeastReads; least > 0 && least < most {
		return least + c.rand.IntN(most-least+1)
	}
	return min(own, most)
}

// key draws one, of another node now and then.
func (c *client) key(table proto.TableID) proto.Key {
	n := c.home
	if far := c.micro.far; far > 0 && c.rand.Uint32() <= far {
		n = proto.NodeID((int(c.home) + 1 + c.rand.IntN(c.micro.o.Nodes-1)) % c.micro.o.Nodes)
	}
	if z := c.micro.zipf[table]; z != nil {
		return keyOf(n, int(z.Rank(c.rand)))
	}
	return keyOf(n, c.rand.IntN(c.micro.keys(table)))
}

// Done notes what the transaction did.
func (c *client) Done(o proto.Outcome) {
	c.open = false
	c.did.Settle(o, c.tx.did)
}

// AddTo adds what the client's transactions did.
func (c *client) AddTo(l *workload.Ledger) {
	l.Add(&c.did)
	if c.open {
		l.AddUnknown(c.tx.did)
	}
}
