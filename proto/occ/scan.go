package occ

import (
	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/verbs/fiber"
)

// Scans of ordered tables. Package onesided finds the keys of a range, EXECUTE reads their records, deleted ones
// included, and VALIDATE begins with a look whether the range has the same keys: the transaction holds all its locks
// then, and what it has read is validated afterwards.

// Keys implements txset.Scanner.
func (t *tx) Keys(table proto.TableID, at proto.Location, from, to proto.Key, keys []proto.Key) (n int, err error) {
	if err := t.F.Err(); err != nil {
		return 0, err
	}
	was := t.F.Shield()
	defer t.F.Unshield(was)
	v := t.e.view
	if err := v.begin(t); err != nil {
		return 0, err
	}
	defer v.end()
	if err := v.reachesRange(&at); err != nil {
		return 0, err
	}
	t.F.Step(stepExecute)
	return t.Tx.Keys(table, at, from, to, keys)
}

// checkRanges is the first part of VALIDATE.
func (t *tx) checkRanges() error {
	if len(t.Ranges) == 0 {
		return nil
	}
	v := t.e.view
	if err := v.begin(t); err != nil {
		return err
	}
	defer v.end()
	for i := range t.Ranges {
		if err := v.reachesRange(&t.Ranges[i].At); err != nil {
			return err
		}
	}
	return t.CheckRanges()
}

// servedShare is the replica that serves a key here; nil: there is none.
func (e *Engine) servedShare(t proto.TableID, k proto.Key) *protocol.Share {
	if s, serves := e.shareOf(t, k); serves {
		return s
	}
	return nil
}

// PeekRange implements proto.RangePeeker.
func (e *Engine) PeekRange(f *fiber.Fiber, table proto.TableID, from, to proto.Key, keys []proto.Key) (n int,
	err error) {
	if err := f.Err(); err != nil {
		return 0, err
	}
	t, err := e.take()
	if err != nil {
		return 0, err
	}
	defer func() { e.free = append(e.free, t) }()
	if e.view != nil {
		if err := e.view.await(f); err != nil {
			return 0, err
		}
	}
	t.inView()
	at, err := t.Range(table, from, to)
	if err == nil {
		err = e.view.reachesRange(&at)
	}
	if err != nil {
		return 0, err
	}
	return t.PeekRange(f, table, from, to, keys)
}
