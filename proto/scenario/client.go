package scenario

import (
	"drtmd/proto"
	"drtmd/proto/workload"
	"drtmd/verbs/fiber"
)

// client is a workload's client that remembers what its present transaction has written, so that
// what a crash left of it can be told.
type client struct {
	workload.Client
	counts  workload.Counts
	program program
	open    bool      // a transaction was drawn and is not done
	unknown [][]write // of transactions of unknown outcome
}

// write is one of a transaction.
type write struct {
	table proto.TableID
	key   proto.Key
	value []byte // nil: deleted
}

// Next draws a transaction.
func (c *client) Next() (*proto.Decl, proto.Program) {
	d, p := c.Client.Next()
	c.open = true
	c.program = program{inner: p}
	if dep, ok := p.(proto.Dependent); ok {
		return d, &dependent{&c.program, dep}
	}
	return d, &c.program
}

// Done is told the outcome.
func (c *client) Done(o proto.Outcome) {
	c.open = false
	if o == proto.Unknown {
		c.unknown = append(c.unknown, c.program.writes)
	}
	c.Client.Done(o)
}

// undecided are the writes of each transaction whose outcome nobody knows.
func (c *client) undecided() [][]write {
	if c.open {
		return append(c.unknown[:len(c.unknown):len(c.unknown)], c.program.writes)
	}
	return c.unknown
}

// program notes the writes of its last execution.
type program struct {
	inner  proto.Program
	writes []write
}

func (p *program) Execute(tx proto.Txn) error {
	p.writes = nil
	return p.inner.Execute(noting{tx, p})
}

// dependent is a program with a plan.
type dependent struct {
	*program
	inner proto.Dependent
}

func (d *dependent) Plan(f *fiber.Fiber, peek proto.Peeker, decl *proto.Decl) error {
	return d.inner.Plan(f, peek, decl)
}

// noting is a transaction whose writes are noted.
type noting struct {
	proto.Txn
	p *program
}

func (n noting) note(t proto.TableID, k proto.Key, value []byte, err error) error {
	if err == nil {
		n.p.writes = append(n.p.writes, write{t, k, append([]byte(nil), value...)})
	}
	return err
}

func (n noting) Write(t proto.TableID, k proto.Key, value []byte) error {
	return n.note(t, k, value, n.Txn.Write(t, k, value))
}

func (n noting) Insert(t proto.TableID, k proto.Key, value []byte) error {
	return n.note(t, k, value, n.Txn.Insert(t, k, value))
}

func (n noting) Delete(t proto.TableID, k proto.Key) error {
	return n.note(t, k, nil, n.Txn.Delete(t, k))
}
