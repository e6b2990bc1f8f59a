package engine

import (
	"errors"
	"fmt"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/rtx"
	"drtmd/proto/txset"
	"drtmd/store/layout"
)

// tx is the one transaction of a client.
type tx struct {
	txset.Set[struct{}]
	k  *client
	tx transaction
}

// Load implements txset.Loader.
func (x *tx) Load(from, to int) error {
	if x.k.e.index.Single && to > 1 {
		return fmt.Errorf("%w: index %s has transactions of one record", proto.ErrUnsupported, x.k.e.index.Name)
	}
	for i := from; i < to; i++ {
		r := &x.Records[i]
		v, found, err := x.k.tables[r.Table-1].Get(x.tx, uint64(r.Key), r.Mode != proto.ModeRead, r.Value)
		if err != nil {
			return x.outcome(err)
		}
		r.Take(v, found)
	}
	return nil
}

// Keys implements txset.Scanner.
func (x *tx) Keys(t proto.TableID, _ proto.Location, from, to proto.Key, keys []proto.Key) (int, error) {
	o, ok := x.k.tables[t-1].(ordered)
	if !ok || from > to {
		return 0, proto.ErrUnsupported
	}
	n, err := o.Keys(x.tx, uint64(from), uint64(to), keys)
	return n, x.outcome(err)
}

// outcome is the error of an operation as programs know it. One that is no Abort counts only if what was read is
// valid: a view that is out of date may be too large, or seem corrupt.
func (x *tx) outcome(err error) error {
	if err == nil || proto.AbortReason(err) != 0 {
		return err
	}
	if invalid := x.tx.Rollback(); invalid != nil {
		return invalid
	}
	if errors.Is(err, rtx.ErrFull) {
		return proto.Aborting(proto.ReasonFull)
	}
	return err
}

// Commit changes the index, and commits.
func (x *tx) Commit() error {
	err := x.Err
	for i := range x.Records {
		if r := &x.Records[i]; err == nil && r.Changes() {
			err = x.change(r)
		}
	}
	writes := x.changes()
	x.NoteWrites()
	if err == nil {
		err = x.outcome(x.tx.Commit())
	} else if failed := x.tx.Abort(); failed != nil {
		err = failed
	}
	stats := &x.k.e.stats
	switch {
	case err == nil:
		stats.Committed++
		x.end(history.Committed)
	case x.k.memory.Broken() != nil && writes:
		stats.Unknown++
		err = fmt.Errorf("%w: %w", proto.ErrUnknownOutcome, err)
		x.end(history.Unknown)
	default:
		x.end(history.Aborted)
	}
	return err
}

func (x *tx) changes() bool {
	for i := range x.Records {
		if x.Records[i].Changes() {
			return true
		}
	}
	return false
}

// change makes a record's change a part of the transaction. The index must find what the transaction has read: else
// its view is out of date.
func (x *tx) change(r *txset.Record[struct{}]) error {
	t := x.k.tables[r.Table-1]
	var v layout.Version
	var done bool
	var err error
	switch {
	case !r.Was:
		if v, done, err = t.Insert(x.tx, uint64(r.Key), r.Value); v != 0 {
			r.Version = layout.Fresh(v.Incarnation() - 1)
		}
	case !r.Is:
		_, done, err = t.Delete(x.tx, uint64(r.Key))
	default:
		_, done, err = t.Put(x.tx, uint64(r.Key), r.Value)
	}
	if err == nil && !done {
		return proto.Aborting(proto.ReasonValidation)
	}
	return x.outcome(err)
}

// Rollback forgets what was written.
func (x *tx) Rollback() error {
	err := x.tx.Rollback()
	if err == nil {
		x.k.e.stats.RolledBack++
		x.end(history.UserAborted)
		return nil
	}
	x.end(history.Aborted)
	return err
}

// Abort forgets what was written.
func (x *tx) Abort(error) {
	_ = x.tx.Abort() // what fails shows in the next Begin: the client is broken
	x.end(history.Aborted)
}

// end ends the attempt and frees the client.
func (x *tx) end(o history.Outcome) {
	x.Close(o)
	x.tx = nil
	x.k.e.give(x.k)
}
