package scenario

import (
	"encoding/binary"
	"errors"

	"drtmd/proto/history"
	"drtmd/proto/rtx"
	"drtmd/verbs/fiber"
	"drtmd/verbs/scenario"
)

// errEmpty rolls a transaction back that finds nothing to do.
var errEmpty = errors.New("nothing to do")

// repairTable is that of the registers, in histories.
const repairTable history.Table = 1

// A register's value:
//
//	version 8 | value 8 | head 8 | count 8 | value, to the end
//
// head and count are those of the stack. A node of the stack: next 8 | value 8, to the end.
const (
	regValue = 8
	regHead  = 16
	regCount = 24
	regRest  = 32
)

// register reads a register and takes the read down; nil: it was never written.
func (k *repairClient) register(tx *rtx.Tx, t *history.Txn, i int) ([]byte, error) {
	b, err := tx.Read(k.c.Root(i))
	if err != nil {
		return nil, err
	}
	if b == nil {
		t.ReadAbsent(repairTable, history.Key(i), 0)
		return nil, nil
	}
	le := binary.LittleEndian
	k.whole(b[regRest:], le.Uint64(b[regValue:]))
	k.torn = k.torn || le.Uint64(b) < uint64(history.NewVersion(1, 0))
	if k.torn {
		return b, nil // a view that is out of date: what is taken down of it does not count
	}
	t.Read(repairTable, history.Key(i), history.Version(le.Uint64(b)), history.Digest(le.Uint64(b[regValue:])))
	return b, nil
}

// whole notes if words are not all the same.
func (k *repairClient) whole(b []byte, value uint64) {
	for ; len(b) >= 8; b = b[8:] {
		k.torn = k.torn || binary.LittleEndian.Uint64(b) != value
	}
}

// set writes a register that was read as old, and takes the write down. The new value has head and count of the
// old one.
func (k *repairClient) set(tx *rtx.Tx, t *history.Txn, i int, old []byte) ([]byte, error) {
	le := binary.LittleEndian
	version, head, count := uint64(history.NewVersion(1, 0)), uint64(0), uint64(0)
	if old != nil {
		version, head, count = le.Uint64(old)+1, le.Uint64(old[regHead:]), le.Uint64(old[regCount:])
	}
	b, err := tx.Write(k.c.Root(i), i%len(repairShape.Classes))
	if err != nil {
		return nil, err
	}
	k.next++
	le.PutUint64(b, version)
	le.PutUint64(b[regValue:], k.next)
	le.PutUint64(b[regHead:], head)
	le.PutUint64(b[regCount:], count)
	fill(b[regRest:], k.next)
	if k.torn {
		return b, nil
	}
	t.Write(repairTable, history.Key(i), history.Version(version), history.Digest(k.next))
	return b, nil
}

func fill(b []byte, value uint64) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, value)
	}
}

// registers is the load of registers and a stack.
type registers struct{}

func (registers) mutations() []scenario.Mutation { return rtx.Mutations() }

func (registers) slots() int { return 12 }

func (registers) steps() []string { return nil }

func (registers) crashes() []string { return rtx.Steps() }

func (registers) configure(*rtx.Config) {}

func (registers) shape() rtx.Shape { return repairShape }

func (registers) open(*repairClient, *fiber.Fiber) error { return nil }

func (registers) reads(kind int) bool { return kind == 5 || kind == 6 }

func (registers) all(k *repairClient, tx *rtx.Tx, t *history.Txn) error {
	for i := range repairRegisters + 1 {
		if _, err := k.register(tx, t, i); err != nil {
			return err
		}
	}
	return nil
}

// program draws a transaction: of one register, of two that it writes and one that it reads, of reads alone, or
// of the stack.
func (registers) program(k *repairClient, kind int, t *history.Txn) func(*rtx.Tx) error {
	a, b, c := k.rand.IntN(k.registers), k.rand.IntN(k.registers), k.rand.IntN(k.registers)
	class := k.rand.IntN(len(repairShape.Classes))
	return func(tx *rtx.Tx) error {
		switch {
		case kind < 3: // one register, and now and then another one is read
			if kind < 2 {
				if _, err := k.register(tx, t, b); err != nil {
					return err
				}
			}
			return k.change(tx, t, a)
		case kind < 5:
			if _, err := k.register(tx, t, c); err != nil {
				return err
			}
			if err := k.change(tx, t, a); err != nil || a == b {
				return err
			}
			return k.change(tx, t, b)
		case kind < 7:
			for _, i := range []int{a, b, c}[:1+2*(kind-5)] {
				if _, err := k.register(tx, t, i); err != nil {
					return err
				}
			}
			return nil
		case kind < 9:
			return k.push(tx, t, class)
		}
		return k.pop(tx, t)
	}
}

// change writes a register, on what it holds.
func (k *repairClient) change(tx *rtx.Tx, t *history.Txn, i int) error {
	old, err := k.register(tx, t, i)
	if err != nil {
		return err
	}
	_, err = k.set(tx, t, i, old)
	return err
}

// maxStack bounds the stack, so that the objects suffice.
const maxStack = 20

func (k *repairClient) push(tx *rtx.Tx, t *history.Txn, class int) error {
	le := binary.LittleEndian
	old, err := k.register(tx, t, repairStack)
	if err != nil {
		return err
	}
	if old != nil && le.Uint64(old[regCount:]) >= maxStack {
		return errEmpty
	}
	p, node, err := tx.Alloc(class)
	if err != nil {
		return err
	}
	head, err := k.set(tx, t, repairStack, old)
	if err != nil {
		return err
	}
	copy(node, head[regHead:regHead+8])
	fill(node[8:], k.next)
	le.PutUint64(head[regHead:], uint64(p))
	le.PutUint64(head[regCount:], le.Uint64(head[regCount:])+1)
	return nil
}

func (k *repairClient) pop(tx *rtx.Tx, t *history.Txn) error {
	le := binary.LittleEndian
	old, err := k.register(tx, t, repairStack)
	if err != nil {
		return err
	}
	if old == nil || le.Uint64(old[regCount:]) == 0 {
		return errEmpty
	}
	p := rtx.Ptr(le.Uint64(old[regHead:]))
	node, err := tx.Read(p)
	if err != nil {
		return err
	}
	if node == nil {
		k.torn = true // a view that is out of date, or else a bug: the commit tells
		return nil
	}
	k.whole(node[16:], le.Uint64(node[8:]))
	next := le.Uint64(node)
	head, err := k.set(tx, t, repairStack, old)
	if err != nil {
		return err
	}
	le.PutUint64(head[regHead:], next)
	le.PutUint64(head[regCount:], le.Uint64(head[regCount:])-1)
	return tx.Free(p)
}

// walk has the auditor find the objects of the stack.
func (registers) walk(k *repairClient, f *fiber.Fiber) {
	le := binary.LittleEndian
	err := k.c.Run(f, func(tx *rtx.Tx) error {
		k.reached, k.torn = k.reached[:0], false
		head, err := tx.Read(k.c.Root(repairStack))
		if err != nil || head == nil {
			return err
		}
		count, p := int(le.Uint64(head[regCount:])), rtx.Ptr(le.Uint64(head[regHead:]))
		if count > maxStack {
			k.torn = true
			return nil
		}
		for range count {
			node, err := tx.Read(p)
			if err != nil {
				return err
			}
			if node == nil {
				k.torn = true
				return nil
			}
			k.whole(node[16:], le.Uint64(node[8:]))
			k.reached = append(k.reached, p)
			p = rtx.Ptr(le.Uint64(node))
		}
		k.torn = k.torn || p != 0
		return nil
	})
	if err != nil || k.torn {
		k.e.Fail(checkStack, "after %d objects: %v; broken: %v", len(k.reached), err, k.torn)
	}
}
