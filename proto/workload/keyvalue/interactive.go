package keyvalue

import (
	"drtmd/proto"
	"drtmd/proto/txctx"
)

// OptInteractive is an option of workloads whose transactions may be interactive.
const OptInteractive = "interactive"

// interact runs the operations as a client does that decides on its way (Dandelion §3): it asks for all that it reads,
// polls, and changes what it has read in the transaction's cache. Everything else is as in run.
func (p *program) interact(tx proto.Txn) error {
	if p.context == nil {
		p.context = txctx.New(p.Space.Tables())
	}
	c := p.context
	c.Init(tx)
	for i := range p.ops[:p.n] {
		o := &p.ops[i]
		if err := p.Space.lookUp(tx, o.key); err != nil {
			return err
		}
		if o.op != OpGet && o.op != OpUpdate {
			continue
		}
		if _, err := c.Get(Table, o.key); err != nil {
			return err
		}
	}
	if err := c.PollAll(); err != nil {
		return err
	}
	for i := range p.ops[:p.n] {
		if err := p.interactOne(c, &p.ops[i]); err != nil {
			return err
		}
	}
	return c.Flush()
}

func (p *program) interactOne(c *txctx.Ctx, o *operation) error {
	k := o.key
	switch o.op {
	case OpGet, OpUpdate:
		e, err := c.Get(Table, k)
		if err != nil {
			return err
		}
		if e.State() == txctx.KeyNotFound && o.op == OpGet {
			p.missed++
			p.lacking++
			return nil
		}
		if e.State() == txctx.KeyNotFound {
			return proto.ErrNotFound
		}
		n, err := p.Space.get(e.Value(), k)
		if err != nil || o.op == OpGet {
			return err
		}
		p.Space.set(p.value, k, n+1)
		p.delta++
		return c.Put(Table, k, p.value)
	case OpInsert:
		p.Space.set(p.value, k, 0)
		p.delta++
		return c.Insert(Table, k, p.value)
	case OpPut:
		p.Space.set(p.value, k, seed(k, p.blind)>>32) // any count
		return c.Put(Table, k, p.value)
	}
	return proto.ErrUnsupported
}
