package enginetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/txctx"
	"drtmd/verbs/fiber"
)

// Of clients: contexts, and transactions of each kind.
const (
	contexts      = 4
	clientsRounds = 12
)

// clients: several transactions of one fiber at a time, by txctx.Client. Each adds to a record of its own and to one
// that all share; what is aborted is tried again.
func clients(t *testing.T, e env) {
	if e.protocol.Declared {
		return // a client does not say beforehand what it touches
	}
	c := e.start(t)
	shared := keyOn(c.homes()[0], 1)
	err := c.Start("clients", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		if w.Node != 0 || w.Index != 0 {
			return nil
		}
		x := &clientRun{f: f, client: txctx.NewClient(w.Worker, w.Engine, w.Specs, contexts), homes: c.homes(),
			shared: shared}
		return errors.Join(x.add(), x.others())
	}).Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		return do(f, eng, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
			b := value(small, 0)
			if err := tx.Read(small, shared, b); err != nil {
				return err
			}
			if got, _ := number(b); got != initial+clientsRounds {
				return fmt.Errorf("the shared record has %d, want %d", got, initial+clientsRounds)
			}
			return nil
		})
	})
	c.verify()
}

// clientRun is a client on a fiber.
type clientRun struct {
	f      *fiber.Fiber
	client *txctx.Client
	homes  []proto.NodeID
	shared proto.Key
}

// own is the record of a transaction's own.
func (x *clientRun) own(n int) proto.Key {
	return keyOn(x.homes[n%len(x.homes)], uint64(2+n%contexts))
}

// add runs the transactions, as many at a time as there are contexts.
func (x *clientRun) add() error {
	var waiting []int
	for n := range clientsRounds {
		waiting = append(waiting, n)
	}
	for tries := 0; len(waiting) > 0; tries++ {
		if tries == 1000 {
			return errors.New("1,000 rounds were aborted")
		}
		now := waiting[:min(contexts, len(waiting))]
		again, err := x.round(now)
		if err != nil {
			return err
		}
		waiting = append(again, waiting[len(now):]...)
		if err := x.f.Sleep(100 * time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}

// round runs some transactions at the same time, and gives those that were aborted.
func (x *clientRun) round(which []int) (again []int, err error) {
	txs, commits := make([]*txctx.Tx, len(which)), make([]*txctx.Entry, len(which))
	for i, n := range which {
		if txs[i], err = x.client.Init(1); err != nil {
			return nil, err
		}
		for _, k := range []proto.Key{x.own(n), x.shared} {
			if _, err := txs[i].Get(small, k); err != nil {
				return nil, err
			}
		}
	}
	if len(which) == contexts {
		if _, err := x.client.Init(1); !errors.Is(err, txctx.ErrBusy) {
			return nil, fmt.Errorf("a transaction more than there are contexts: %w", err)
		}
	}
	for i, n := range which {
		err := txs[i].PollAll(x.f)
		for _, k := range []proto.Key{x.own(n), x.shared} {
			if err != nil {
				break
			}
			e, failed := txs[i].Get(small, k)
			if err = failed; err == nil {
				v, _ := number(e.Value())
				err = txs[i].Put(x.f, small, k, value(small, v+1))
			}
		}
		if err == nil {
			commits[i], err = txs[i].Commit()
		}
		if r := proto.AbortReason(err); err != nil && (r == 0 || !r.Retry()) {
			return nil, err
		}
	}
	for i, n := range which {
		if commits[i] == nil {
			again = append(again, n)
			continue
		}
		err := txs[i].Poll(x.f, commits[i])
		switch r := proto.AbortReason(err); {
		case r != 0 && r.Retry():
			again = append(again, n)
		case err != nil:
			return nil, err
		}
	}
	return again, nil
}

// others: a transaction that its client aborts, one that changes records without a look at them, and requests to one
// that is over.
func (x *clientRun) others() error {
	for _, begun := range []bool{false, true} {
		tx, err := x.client.Init(1)
		if err != nil {
			return err
		}
		if _, err = tx.Get(small, x.shared); err == nil && begun {
			err = tx.PollAll(x.f)
		}
		if err = errors.Join(err, tx.Abort(x.f)); err != nil {
			return err
		}
		if _, err := tx.Get(small, x.shared); !errors.Is(err, txctx.ErrOver) {
			return fmt.Errorf("a Get of a transaction that is over: %w", err)
		}
		if err := tx.Put(x.f, small, x.shared, value(small, 1)); !errors.Is(err, txctx.ErrOver) {
			return fmt.Errorf("a Put of a transaction that is over: %w", err)
		}
	}
	tx, err := x.client.Init(1)
	if err != nil {
		return err
	}
	for i, home := range x.homes {
		k := keyOn(home, loaded+1)
		err = errors.Join(err, tx.Insert(x.f, large, k, value(large, 5)), tx.Delete(x.f, full, keyOn(home, uint64(i))))
	}
	commit, failed := tx.Commit()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if _, err := tx.Commit(); !errors.Is(err, txctx.ErrOver) {
		return fmt.Errorf("a second commit: %w", err)
	}
	if err := tx.Poll(x.f, commit); err != nil {
		return err
	}
	return x.lateAbort()
}

// lateAbort: a Poll of one transaction has all execute what waits, so that the commit of another may be under way, or done,
// when its client aborts it.
func (x *clientRun) lateAbort() error {
	k := x.own(0)
	read := func() (v uint64, err error) {
		tx, err := x.client.Init(1)
		if err != nil {
			return 0, err
		}
		e, err := tx.Get(small, k)
		if err = errors.Join(err, tx.PollAll(x.f)); err == nil {
			v, _ = number(e.Value())
		}
		return v, errors.Join(err, tx.Abort(x.f))
	}
	before, err := read()
	if err != nil {
		return err
	}
	tx, err := x.client.Init(1)
	if err != nil {
		return err
	}
	other, err := x.client.Init(1)
	if err != nil {
		return err
	}
	err = tx.Put(x.f, small, k, value(small, before+1))
	_, failed := tx.Commit()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if _, err = other.Get(small, x.shared); err == nil {
		err = other.PollAll(x.f)
	}
	over := tx.Abort(x.f)
	if err = errors.Join(err, other.Abort(x.f)); err != nil {
		return err
	}
	after, err := read()
	switch {
	case err != nil:
		return err
	case over == nil && after != before, errors.Is(over, txctx.ErrOver) && after != before+1:
		return fmt.Errorf("an Abort behind a Commit says %v, and the record went from %d to %d", over, before, after)
	}
	return nil
}
