package txctx

import "drtmd/proto"

// Flush hands all changes to the transaction, for its commit, after a PollAll: the end of a Program that uses a Ctx.
// Several records that are changed without having been read are read first, together. The error is the transaction's,
// or proto.ErrNotFound or proto.ErrExists of such a record.
func (c *Ctx) Flush() error {
	if err := c.iterate(); err != nil {
		return err
	}
	if err := c.readBlind(); err != nil {
		return err
	}
	for i := range c.n {
		if err := c.apply(c.at(i)); err != nil {
			return err
		}
	}
	return nil
}

// readBlind reads the records that are changed and have not been read, if there are several: one round trip then.
func (c *Ctx) readBlind() error {
	count, size := 0, 0
	for i := range c.n {
		if e := c.at(i); e.blind() {
			count++
			size += len(e.value)
		}
	}
	if count < 2 {
		return nil
	}
	if cap(c.old) < size {
		c.old = make([]byte, size)
	}
	c.gets = c.gets[:0]
	rest := c.old[:size]
	for i := range c.n {
		if e := c.at(i); e.blind() {
			n := len(e.value)
			c.gets = append(c.gets, proto.Get{Table: e.table, Key: e.key, Value: rest[:n:n]})
			rest = rest[n:]
		}
	}
	return c.tx.ReadMany(c.gets)
}

// blind reports whether the record is changed and was not read.
func (e *Entry) blind() bool { return e.op == OpPut || e.op == OpInsert || e.op == OpDelete }

func (c *Ctx) apply(e *Entry) error {
	switch e.op.change() {
	case OpPut:
		return c.tx.Write(e.table, e.key, e.value)
	case OpInsert:
		return c.tx.Insert(e.table, e.key, e.value)
	case OpDelete:
		if e.twice {
			if err := c.tx.Insert(e.table, e.key, e.value); err != nil {
				return err
			}
		}
		return c.tx.Delete(e.table, e.key)
	}
	return nil
}
