package twopl_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"drtmd/proto"
	"drtmd/proto/twopl"
	"drtmd/verbs"
	"drtmd/verbs/fiber"
)

// story is a list of transactions of one key, with what each must see.
type story []struct {
	name string
	run  program
	want error
}

// storyOf does everything to one record, which exists at the beginning if exists.
func storyOf(id proto.TableID, k proto.Key, exists bool) story {
	size := valueBytes[id]
	read := func(want uint64) program {
		return func(tx proto.Txn) error {
			b := make([]byte, size)
			if err := tx.Read(id, k, b); err != nil {
				return err
			}
			if !bytes.Equal(b, value(size, want)) {
				return fmt.Errorf("read %v, want %d everywhere", b, want)
			}
			return nil
		}
	}
	write := func(v uint64) program {
		return func(tx proto.Txn) error { return tx.Write(id, k, value(size, v)) }
	}
	insert := func(v uint64) program {
		return func(tx proto.Txn) error { return tx.Insert(id, k, value(size, v)) }
	}
	remove := func(tx proto.Txn) error { return tx.Delete(id, k) }
	then := func(ps ...program) program {
		return func(tx proto.Txn) error {
			for i, p := range ps {
				if err := p(tx); err != nil {
					return fmt.Errorf("operation %d: %w", i, err)
				}
			}
			return nil
		}
	}
	rollback := func(proto.Txn) error { return proto.ErrRollback }
	fails := func(p program, want error) program {
		return func(tx proto.Txn) error {
			if err := p(tx); !errors.Is(err, want) {
				return fmt.Errorf("got %v, want %w", err, want)
			}
			return nil
		}
	}
	s := story{
		{"read absent", read(0), proto.ErrNotFound},
		{"write absent", write(1), proto.ErrNotFound},
		{"delete absent", remove, proto.ErrNotFound},
		{"absence can be committed", fails(read(0), proto.ErrNotFound), nil},
		{"insert rolled back", then(insert(2), read(2), rollback), proto.ErrRollback},
		{"insert undone", then(insert(2), remove, fails(read(0), proto.ErrNotFound)), nil},
		{"still absent", read(0), proto.ErrNotFound},
		{"insert", insert(initial), nil},
	}
	if exists {
		s = nil
	}
	return append(s, story{
		{"read", read(initial), nil},
		{"insert present", insert(3), proto.ErrExists},
		{"write rolled back", then(write(4), read(4), rollback), proto.ErrRollback},
		{"delete rolled back", then(remove, fails(read(0), proto.ErrNotFound), rollback),
			proto.ErrRollback},
		{"unchanged", read(initial), nil},
		{"write", then(read(initial), write(5), read(5)), nil},
		{"blind write", write(6), nil},
		{"written", read(6), nil},
		{"replaced", then(remove, insert(7), read(7)), nil},
		{"delete", then(read(7), remove), nil},
		{"deleted", read(0), proto.ErrNotFound},
		{"insert again", insert(8), nil},
		{"inserted again", read(8), nil},
		{"wrong size", then(func(tx proto.Txn) error { return tx.Write(id, k, make([]byte, 3)) }),
			proto.ErrValueSize},
		{"wrong buffer", func(tx proto.Txn) error { return tx.Read(id, k, nil) }, proto.ErrValueSize},
	}...)
}

func TestEveryOperationOnOneRecord(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		c := start(t, h, cpu)
		for _, declared := range []bool{true, false} {
			for _, home := range []proto.NodeID{0, 1} {
				for i, id := range tableIDs {
					for _, exists := range []bool{true, false} {
						k := uint64(i)
						if !exists {
							k = loaded + uint64(i)
						}
						if !declared {
							k += 5
						}
						d := &proto.Decl{Kind: 1}
						if declared {
							d.Accesses = []proto.Access{{Table: id, Mode: proto.ModeWrite, Key: keyOn(home, k)}}
						}
						c.tell(storyOf(id, keyOn(home, k), exists), d,
							fmt.Sprintf("declared %v, node %d, table %d, loaded %v", declared, home, id, exists))
					}
				}
			}
		}
		c.verify()
	})
}

// tell runs a story from node 0.
func (c *cluster) tell(s story, d *proto.Decl, where string) {
	c.t.Helper()
	c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
		for _, x := range s {
			if err := do(f, e, d, x.run); !errors.Is(err, x.want) {
				return fmt.Errorf("%s: %s: %v, want %v", where, x.name, err, x.want)
			}
		}
		return nil
	})
}

func TestReadManyLocksTogetherAndSeesAbsence(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		c := start(t, h, cpu)
		c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
			return do(f, e, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
				var gets []proto.Get
				for _, home := range []proto.NodeID{0, 1} {
					for _, k := range []uint64{1, loaded + 1, 2, 1} { // one of them twice
						gets = append(gets, proto.Get{Table: small, Key: keyOn(home, k), Value: make([]byte, 8)})
					}
				}
				if err := tx.ReadMany(gets); err != nil {
					return err
				}
				for i, g := range gets {
					if absent := i%4 == 1; absent != (g.Err == proto.ErrNotFound) {
						t.Errorf("get %d of key %#x: %v", i, g.Key, g.Err)
					}
					if v, _ := number(g.Value); g.Err == nil && v != initial {
						t.Errorf("get %d of key %#x: %d", i, g.Key, v)
					}
				}
				return nil
			})
		})
		c.verify()
	})
}

func TestOperationsThatCannotBeDoneSaySo(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		c := start(t, h, cpu)
		c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
			for _, x := range []struct {
				name string
				d    proto.Decl
				run  program
				want error
			}{
				{"scan", proto.Decl{}, func(tx proto.Txn) error {
					return tx.Scan(small, 0, 9, func(proto.Key, []byte) bool { return true })
				}, proto.ErrUnsupported},
				{"unknown table", proto.Decl{}, func(tx proto.Txn) error {
					return tx.Read(77, 0, make([]byte, 8))
				}, proto.ErrUnknownTable},
				{"declared unknown table", proto.Decl{Accesses: []proto.Access{
					{Table: small, Mode: proto.ModeRead}, {Table: 77, Mode: proto.ModeRead}}}, nil,
					proto.ErrUnknownTable},
				{"table 0", proto.Decl{}, func(tx proto.Txn) error { return tx.Delete(0, 0) },
					proto.ErrUnknownTable},
			} {
				if err := do(f, e, &x.d, x.run); !errors.Is(err, x.want) {
					t.Errorf("%s: %v, want %v", x.name, err, x.want)
				}
			}
			return nil
		})
		c.verify()
	})
}

// TestCPULocksOnlyWhereTheDeviceExcludesTheCPU: elsewhere twopl-local is twopl.
func TestCPULocksOnlyWhereTheDeviceExcludesTheCPU(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		c := start(t, h, cpu)
		for _, w := range c.Workers() {
			want := cpu && w.Scope == verbs.AtomicGlob
			if got := w.Engine.(*twopl.Engine).CPULocks(); got != want {
				t.Errorf("node %d, %v: CPU locks: %v, want %v", w.Node, w.Scope, got, want)
			}
		}
	})
}
