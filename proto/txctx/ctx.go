package txctx

import "drtmd/proto"

// Ctx is the context of a transaction. The zero value is not usable: call New.
type Ctx struct {
	specs []proto.TableSpec
	tx    proto.Txn
	first [Height]Entry
	more  []*Entry // beyond
	n     int      // entries in use
	// order is the reorder buffer: Gets and the commit, of which the first done are done.
	order []*Entry
	done  int
	gets  []proto.Get // of an iteration
	old   []byte      // values of records that are changed without a look at them
}

// New makes a context for transactions on some tables: table t is specs[t-1].
func New(specs []proto.TableSpec) *Ctx { return &Ctx{specs: specs} }

// Init begins a transaction, which tx runs.
func (c *Ctx) Init(tx proto.Txn) {
	c.tx, c.n, c.done = tx, 0, 0
	c.order = c.order[:0]
}

// Get asks for a record, and returns its entry: at once done if the transaction has read or written the record before,
// else after a Poll. The error is proto.ErrUnknownTable.
func (c *Ctx) Get(t proto.TableID, k proto.Key) (*Entry, error) {
	e, found, err := c.entry(t, k)
	if err != nil || found {
		return e, err
	}
	e.op, e.state = OpGet, NotYetDone
	c.order = append(c.order, e)
	return e, nil
}

// Put replaces a record's value. proto.ErrNotFound if the transaction knows that there is none; of a record that it has
// not read, the commit finds out. Other errors are proto.ErrUnknownTable, proto.ErrValueSize, and those of Poll.
func (c *Ctx) Put(t proto.TableID, k proto.Key, value []byte) error {
	e, err := c.change(t, k, len(value))
	if err != nil {
		return err
	}
	switch {
	case e.op == 0:
		e.op = OpPut
	case e.state == KeyNotFound:
		return proto.ErrNotFound
	case e.op == OpGet:
		e.op = OpGetPut
	}
	e.state = Success
	copy(e.value, value)
	return nil
}

// Insert adds a record. proto.ErrExists if the transaction knows that there is one; else as Put.
func (c *Ctx) Insert(t proto.TableID, k proto.Key, value []byte) error {
	e, err := c.change(t, k, len(value))
	if err != nil {
		return err
	}
	switch {
	case e.op == 0:
		e.op = OpInsert
	case e.state == Success:
		return proto.ErrExists
	case e.op == OpGet:
		e.op = OpGetInsert
	case e.twice:
		e.op, e.twice = OpInsert, false
	case e.op == OpDelete || e.op == OpGetDelete: // the record was there
		e.op -= OpDelete - OpPut
	}
	e.state = Success
	copy(e.value, value)
	return nil
}

// Delete removes a record. proto.ErrNotFound if the transaction knows that there is none; else as Put.
func (c *Ctx) Delete(t proto.TableID, k proto.Key) error {
	e, err := c.change(t, k, noValue)
	if err != nil {
		return err
	}
	switch {
	case e.op == OpInsert: // of a record that the transaction has not read: the commit finds out whether it could
		e.op, e.twice = OpDelete, true
	case e.op == 0 || e.op == OpPut:
		e.op = OpDelete
	case e.state == KeyNotFound:
		return proto.ErrNotFound
	case e.op == OpGetInsert:
		e.op = OpGet
	default:
		e.op = OpGetDelete
	}
	e.state = KeyNotFound
	return nil
}

// Poll returns when a request is done, and so are all that were asked for before it. nil also stands for a record that
// is not there: see Entry.State. The error is the transaction's, and ends it.
func (c *Ctx) Poll(e *Entry) error {
	if e.state != NotYetDone {
		return nil
	}
	return c.iterate()
}

// PollAll polls all requests.
func (c *Ctx) PollAll() error { return c.iterate() }

// iterate executes all Gets that wait.
func (c *Ctx) iterate() error {
	if c.done == len(c.order) {
		return nil
	}
	c.gets = c.gets[:0]
	for _, e := range c.order[c.done:] {
		if e.op != OpCommit {
			c.gets = append(c.gets, proto.Get{Table: e.table, Key: e.key, Value: e.value})
		}
	}
	if len(c.gets) == 0 {
		return nil
	}
	if err := c.tx.ReadMany(c.gets); err != nil {
		return err
	}
	for i := range c.gets {
		e := c.order[c.done]
		if e.state = Success; c.gets[i].Err != nil {
			e.state = KeyNotFound
		}
		c.done++
	}
	return nil
}

// entry probes the cache for a record, and takes an entry if it has none.
func (c *Ctx) entry(t proto.TableID, k proto.Key) (e *Entry, found bool, err error) {
	if uint(t)-1 >= uint(len(c.specs)) {
		return nil, false, proto.UnknownTable(t, k, len(c.specs))
	}
	for i := range c.n {
		if e := c.at(i); e.key == k && e.table == t {
			return e, true, nil
		}
	}
	if c.n >= Height+len(c.more) {
		c.more = append(c.more, &Entry{})
	}
	e = c.at(c.n)
	c.n++
	e.open(t, k, c.specs[t-1].ValueBytes)
	e.op, e.state, e.twice = 0, 0, false
	return e, false, nil
}

func (c *Ctx) at(i int) *Entry {
	if i < Height {
		return &c.first[i]
	}
	return c.more[i-Height]
}

// noValue is the size of the value of a deletion.
const noValue = -1

// change is the entry of a record that is to be changed, to a value of some bytes. Its op is 0 if it is new.
func (c *Ctx) change(t proto.TableID, k proto.Key, size int) (*Entry, error) {
	if uint(t)-1 < uint(len(c.specs)) && size != noValue && size != c.specs[t-1].ValueBytes {
		return nil, proto.WrongSize(t, k, size, c.specs[t-1].ValueBytes)
	}
	e, _, err := c.entry(t, k)
	if err == nil {
		err = c.Poll(e)
	}
	return e, err
}
