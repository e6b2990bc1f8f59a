package scenario

import (
	"errors"
	"slices"

	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/sherman"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
)

// treeTable is that of the tree's keys, in histories.
const treeTable history.Table = 2

// treeKeys are as many as fill several leaves of 6 entries.
const treeKeys = 40

const checkTree = "tree"

// trees is the load of a tree.
type trees struct{}

func (trees) mutations() []scenario.Mutation { return sherman.Mutations() }

func (trees) slots() int { return 24 }

func (trees) steps() []string { return nil }

func (trees) crashes() []string { return rtx.Steps() }

func (trees) configure(*rtx.Config) {}

func (trees) shape() rtx.Shape { return repairShape }

func (trees) open(k *repairClient, _ *fiber.Fiber) (err error) {
	k.tree, err = sherman.Open(k.c, sherman.Config{Class: 1, Versions: true,
		Cache:    sherman.NewCache(8, k.c.Payload(1)),
		Mutation: k.mutation(sherman.Mutations())})
	return err
}

// key draws one of the keys in use.
func (k *repairClient) key() uint64 {
	if k.registers == 2 {
		return uint64(k.rand.IntN(treeKeys / 4))
	}
	return uint64(k.rand.IntN(treeKeys))
}

// found takes a read down.
func found(t *history.Txn, e sherman.Entry) error {
	if e.Version>>32%2 == 0 {
		return proto.Aborting(proto.ReasonValidation) // from a view that is out of date
	}
	t.Read(treeTable, history.Key(e.Key), history.Version(e.Version), history.Digest(e.Value))
	return nil
}

// look reads a key.
func (k *repairClient) look(tx *rtx.Tx, t *history.Txn, key uint64) (sherman.Entry, bool, error) {
	return k.lookWith(k.tree.Get, tx, t, key)
}

// lookToChange reads a key that is going to be changed.
func (k *repairClient) lookToChange(tx *rtx.Tx, t *history.Txn, key uint64) (sherman.Entry, bool, error) {
	return k.lookWith(k.tree.GetToChange, tx, t, key)
}

func (k *repairClient) lookWith(get func(sherman.Tx, uint64) (sherman.Entry, bool, error), tx *rtx.Tx, t *history.Txn,
	key uint64) (sherman.Entry, bool, error) {
	e, ok, err := get(tx, key)
	switch {
	case err != nil:
	case ok:
		err = found(t, e)
	default:
		t.ReadAbsent(treeTable, history.Key(key), 0)
	}
	return e, ok, err
}

// program draws a transaction: look-ups, insertions, updates and deletions of keys that are there or not, alone or two
// at once, and scans.
func (trees) program(k *repairClient, kind int, t *history.Txn) func(*rtx.Tx) error {
	a, b := k.key(), k.key()
	k.next++
	value := k.next
	return func(tx *rtx.Tx) error {
		switch {
		case kind < 1:
			_, _, err := k.look(tx, t, a)
			return err
		case kind < 5:
			return k.upsert(tx, t, a, value)
		case kind < 7:
			if err := k.upsert(tx, t, a, value); err != nil || a == b {
				return err
			}
			return k.upsert(tx, t, b, value)
		case kind < 8:
			_, ok, err := k.lookToChange(tx, t, a)
			if err != nil || !ok {
				return err
			}
			e, ok, err := k.tree.Delete(tx, a)
			if ok {
				t.Delete(treeTable, history.Key(a), history.Version(e.Version))
			}
			return err
		}
		return k.scan(tx, t, min(a, b), max(a, b))
	}
}

// upsert updates a key, or inserts it.
func (k *repairClient) upsert(tx *rtx.Tx, t *history.Txn, key, value uint64) error {
	_, ok, err := k.lookToChange(tx, t, key)
	if err != nil {
		return err
	}
	change := k.tree.Insert
	if ok {
		change = k.tree.Update
	}
	e, done, err := change(tx, key, value)
	if err != nil {
		return err
	}
	if !done || e.Version == 0 {
		return proto.Aborting(proto.ReasonValidation) // from a view that is out of date
	}
	t.Write(treeTable, history.Key(key), history.Version(e.Version), history.Digest(value))
	return nil
}

func (k *repairClient) scan(tx *rtx.Tx, t *history.Txn, from, to uint64) error {
	var wrong error
	err := k.tree.Scan(tx, from, to, func(e sherman.Entry) bool {
		wrong = found(t, e)
		return wrong == nil
	})
	if err != nil || wrong != nil {
		return errors.Join(err, wrong)
	}
	t.Scan(treeTable, history.Key(from), history.Key(to))
	return nil
}

func (trees) reads(kind int) bool { return kind < 1 || kind >= 8 }

func (trees) all(k *repairClient, tx *rtx.Tx, t *history.Txn) error {
	return k.scan(tx, t, 0, treeKeys)
}

func (trees) walk(k *repairClient, f *fiber.Fiber) {
	nodes, err := k.tree.Check(func(p rtx.Ptr) (value []byte, err error) {
		err = k.c.Run(f, func(tx *rtx.Tx) error {
			b, err := tx.Read(p)
			value = slices.Clone(b)
			return err
		})
		return value, err
	})
	if err != nil {
		k.e.Fail(checkTree, "%v", err)
	}
	k.reached = nodes
	k.e.Count("nodes", uint64(len(nodes)))
}

// earlyTrees is the load of a tree whose leaves are locked before the commit, and are read by hints. Every operation of
// the tree may meet a lock that a transaction took while it runs.
type earlyTrees struct{ trees }

// program draws a transaction as that of trees does, and one that reads a key and changes another one: what it has read
// must still be so when it commits.
func (earlyTrees) program(k *repairClient, kind int, t *history.Txn) func(*rtx.Tx) error {
	if kind != 9 {
		return trees{}.program(k, kind, t)
	}
	a, b := k.key(), k.key()
	k.next++
	value := k.next
	return func(tx *rtx.Tx) error {
		if _, _, err := k.look(tx, t, b); err != nil || a == b {
			return err
		}
		return k.upsert(tx, t, a, value)
	}
}

func (earlyTrees) reads(kind int) bool { return kind != 9 && trees{}.reads(kind) }

func (earlyTrees) mutations() []scenario.Mutation { return rtx.Mutations() }

func (earlyTrees) steps() []string { return rtx.StepsOfEarlyLocks() }

func (earlyTrees) crashes() []string { return append(rtx.Steps(), rtx.StepsOfEarlyLocks()...) }

// earlyHints is room for some places, so that objects share them.
const earlyHints = 16 * 24

// earlyCopies is room for some blocks, fewer than there are nodes.
const earlyCopies = 12

func (earlyTrees) configure(cfg *rtx.Config) {
	cfg.EarlyLocks, cfg.Hints = true, rtx.NewHints(earlyHints)
	cfg.Copies = rtx.NewCopies(earlyCopies, repairShape.Classes[1].Bytes)
}
