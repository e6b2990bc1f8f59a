package txctx

import (
	"errors"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

var (
	// ErrBusy: as many transactions are under way as the client may have.
	ErrBusy = errors.New("all transaction contexts of the client are in use: poll the commit of one, or abort it")
	// ErrOver: the transaction has ended, and takes no more requests.
	ErrOver = errors.New("the transaction is over: begin another one")
	// errGivenUp is why a transaction is aborted that its client aborts.
	errGivenUp = errors.New("aborted by the client")
)

// Client runs up to N transactions at a time for one fiber, on an engine of its worker.
type Client struct {
	engine proto.Engine
	worker *fiber.Worker
	txs    []*Tx
}

// NewClient makes a client with n contexts. It belongs to a fiber of the engine's worker w.
func NewClient(w *fiber.Worker, e proto.Engine, specs []proto.TableSpec, n int) *Client {
	c := &Client{engine: e, worker: w}
	for range max(n, 1) {
		t := &Tx{client: c, Ctx: Ctx{specs: specs}, over: true}
		c.txs = append(c.txs, t)
	}
	return c
}

// Tx is a transaction of a Client: the requests of Ctx, with Polls that wait on the client's fiber.
type Tx struct {
	Ctx
	client *Client
	task   *fiber.Task // runs the transaction, from its first iteration to its end; nil: it never ran
	runs   bool        // the task does
	run    proto.Tx    // nil before the first iteration
	decl   proto.Decl
	commit Entry
	// work: there are requests that no iteration has taken yet. over: the transaction has ended, with err.
	work, over, abort bool
	err               error
	wake, came        fiber.Cond // of the task; of the client's fiber
}

// Init begins a transaction of a kind, for histories: ErrBusy if N are under way.
func (c *Client) Init(kind uint8) (*Tx, error) {
	for _, t := range c.txs {
		if t.over && !t.runs {
			t.Ctx.Init(nil)
			t.run, t.work, t.over, t.abort, t.err = nil, false, false, false, nil
			t.commit.op, t.commit.state = OpCommit, 0
			t.decl = proto.Decl{Kind: kind}
			return t, nil
		}
	}
	return nil, ErrBusy
}

// Poll returns when a request is done, and so are all that the transaction has asked for before it. It has all
// transactions of the client execute what waits. The error is the transaction's, which has ended then: a proto.Abort
// says that the same may be tried again.
func (t *Tx) Poll(f *fiber.Fiber, e *Entry) error {
	for e.state == NotYetDone && !t.over {
		t.client.iterate()
		if err := t.came.Wait(f, 0); err != nil {
			return err
		}
	}
	if t.over {
		return t.err
	}
	return nil
}

// PollAll polls all requests.
func (t *Tx) PollAll(f *fiber.Fiber) error {
	if len(t.order) == 0 {
		return nil
	}
	return t.Poll(f, t.order[len(t.order)-1])
}

// Get is Ctx.Get.
func (t *Tx) Get(table proto.TableID, k proto.Key) (*Entry, error) {
	if t.over || t.commit.state != 0 {
		return nil, ErrOver
	}
	return t.Ctx.Get(table, k)
}

// Put is Ctx.Put; a Get of the record that is not done is polled on f.
func (t *Tx) Put(f *fiber.Fiber, table proto.TableID, k proto.Key, value []byte) error {
	if err := t.settle(f, table, k); err != nil {
		return err
	}
	return t.Ctx.Put(table, k, value)
}

// Insert is Ctx.Insert, as Put is.
func (t *Tx) Insert(f *fiber.Fiber, table proto.TableID, k proto.Key, value []byte) error {
	if err := t.settle(f, table, k); err != nil {
		return err
	}
	return t.Ctx.Insert(table, k, value)
}

// Delete is Ctx.Delete, as Put is.
func (t *Tx) Delete(f *fiber.Fiber, table proto.TableID, k proto.Key) error {
	if err := t.settle(f, table, k); err != nil {
		return err
	}
	return t.Ctx.Delete(table, k)
}

// settle polls the Get of a record that is going to be changed.
func (t *Tx) settle(f *fiber.Fiber, table proto.TableID, k proto.Key) error {
	if t.over || t.commit.state != 0 {
		return ErrOver
	}
	for i := range t.n {
		if e := t.at(i); e.key == k && e.table == table && e.state == NotYetDone {
			return t.Poll(f, e)
		}
	}
	return nil
}

// Commit asks for the commit, behind all requests. The entry is done when the outcome is known: see Poll.
func (t *Tx) Commit() (*Entry, error) {
	if t.over || t.commit.state != 0 {
		return nil, ErrOver
	}
	t.commit.state = NotYetDone
	t.order = append(t.order, &t.commit)
	return &t.commit, nil
}

// Abort ends the transaction without effect, and returns when nothing of it is held. ErrOver: it has committed, before this
// or meanwhile.
func (t *Tx) Abort(f *fiber.Fiber) error {
	for t.abort = true; !t.over; {
		if !t.runs {
			t.end(errGivenUp)
			break
		}
		t.work = true
		t.wake.Broadcast()
		if err := t.came.Wait(f, 0); err != nil {
			return err
		}
	}
	if t.err == nil {
		return ErrOver
	}
	return nil
}

// iterate has every transaction execute what waits (§4.1, RunIteration).
func (c *Client) iterate() {
	for _, t := range c.txs {
		if t.over || t.work || t.done == len(t.order) {
			continue
		}
		t.work = true
		switch {
		case t.runs:
			t.wake.Broadcast()
		case t.task == nil:
			t.runs, t.task = true, c.worker.Go("transaction context", nil, t.serve)
		default:
			t.runs = true
			c.worker.Restart(t.task)
		}
	}
}

// serve runs the transaction from its first iteration to its end.
func (t *Tx) serve(f *fiber.Fiber) (err error) {
	for !t.over {
		if err = t.round(f); err != nil || t.over {
			break
		}
		t.came.Broadcast()
		for !t.work && err == nil {
			err = t.wake.Wait(f, 0)
		}
		if err != nil {
			break
		}
	}
	if err != nil && !t.over {
		if t.run != nil {
			t.run.Abort(err)
		}
		t.end(err)
	}
	t.runs = false
	t.came.Broadcast()
	return nil // the client is told
}

// round is an iteration.
func (t *Tx) round(f *fiber.Fiber) (err error) {
	t.work = false
	if t.abort {
		return errGivenUp
	}
	if t.run == nil {
		if t.run, err = t.client.engine.Begin(f, &t.decl, 0); err != nil {
			t.run = nil
			return err
		}
		t.tx = t.run
	}
	if err = t.Ctx.iterate(); err != nil || t.commit.state != NotYetDone {
		return err
	}
	if err = t.Flush(); err != nil {
		return err
	}
	err = t.run.Commit()
	t.commit.state = Success
	t.end(err)
	return nil
}

// end ends the transaction.
func (t *Tx) end(err error) { t.over, t.err = true, err }
