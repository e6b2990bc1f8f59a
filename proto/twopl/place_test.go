package twopl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/verbs/fiber"
)

// TestPlacesThatWentOutOfDateAreNoticed has node 0 learn where keys of node 1 are, node 1 delete
// them and insert others, which take their entries, and node 0 touch the old ones and the new ones
// in one transaction, in both orders.
func TestPlacesThatWentOutOfDateAreNoticed(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		c := start(t, h, cpu)
		const n = 8
		read := func(tx proto.Txn, k uint64) error {
			return tx.Read(line, keyOn(1, k), make([]byte, valueBytes[line]))
		}
		c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
			return do(f, e, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
				for k := range uint64(n) {
					if err := read(tx, k); err != nil {
						return err
					}
				}
				return nil
			})
		})
		c.on(1, func(f *fiber.Fiber, e proto.Engine) error {
			for k := range uint64(n) {
				err := do(f, e, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
					return tx.Delete(line, keyOn(1, k))
				})
				if err != nil {
					return err
				}
				err = do(f, e, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
					return tx.Insert(line, keyOn(1, loaded+k), value(valueBytes[line], 7+k))
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
			for _, first := range []uint64{0, loaded} {
				d := &proto.Decl{Kind: 1}
				for _, base := range []uint64{first, loaded - first} {
					for k := range uint64(n) {
						d.Accesses = append(d.Accesses, proto.Access{Table: line, Mode: proto.ModeWrite,
							Key: keyOn(1, base+k)})
					}
				}
				err := do(f, e, d, func(tx proto.Txn) error {
					for k := range uint64(n) {
						if err := read(tx, k); err != proto.ErrNotFound {
							return fmt.Errorf("deleted key %d: %w", k, err)
						}
						b := make([]byte, valueBytes[line])
						if err := tx.Read(line, keyOn(1, loaded+k), b); err != nil {
							return fmt.Errorf("inserted key %d: %w", loaded+k, err)
						}
						if v, whole := number(b); !whole || v != 7+k {
							return fmt.Errorf("inserted key %d: %v", loaded+k, b)
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		c.verify()
	})
}

// TestPeekIsOfOneMoment peeks at records over one line and over several while others write and
// delete them.
func TestPeekIsOfOneMoment(t *testing.T) {
	each(t, func(t *testing.T, h host, cpu bool) {
		c := start(t, h, cpu, func(cfg *node.Config) { cfg.Fibers = 3 })
		var peeked, absent, busy atomic.Int64
		err := c.Start("peek", 3, func(f *fiber.Fiber, w *node.Worker, i int) error {
			r := rand.New(rand.NewPCG(uint64(w.Node), uint64(i)))
			run := proto.Runner{Engine: w.Engine, Rand: r}
			b := make([]byte, 200)
			for range h.scale(150) {
				id, k := tableIDs[r.IntN(len(tableIDs))], keyOn(proto.NodeID(r.IntN(2)), r.Uint64N(2))
				b := b[:valueBytes[id]]
				if i > 0 {
					v := r.Uint64()
					_, err := run.Run(f, &proto.Decl{Kind: 1}, program(func(tx proto.Txn) error {
						if v%8 == 0 {
							return missing(tx.Delete(id, k))
						}
						if err := tx.Write(id, k, value(len(b), v)); err != proto.ErrNotFound {
							return err
						}
						return tx.Insert(id, k, value(len(b), v))
					}))
					if err != nil {
						return err
					}
					continue
				}
				switch err := w.Engine.Peek(f, id, k, b); {
				case err == proto.ErrNotFound:
					absent.Add(1)
				case proto.AbortReason(err) != 0 && proto.AbortReason(err).Retry():
					busy.Add(1) // locked, or a thread that changes it stood still for all looks
				case err != nil:
					return err
				default:
					peeked.Add(1)
					if _, whole := number(b); !whole {
						return fmt.Errorf("torn: %v", b)
					}
				}
				if err := f.Yield(); err != nil {
					return err
				}
			}
			return nil
		}).Wait(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if peeked.Load() == 0 {
			t.Errorf("%d absent, %d busy, none read", absent.Load(), busy.Load())
		}
		c.on(0, func(f *fiber.Fiber, e proto.Engine) error {
			for _, x := range []struct {
				table proto.TableID
				bytes int
				want  error
			}{{line, 3, proto.ErrValueSize}, {99, 8, proto.ErrUnknownTable}} {
				if err := e.Peek(f, x.table, keyOn(1, 0), make([]byte, x.bytes)); !errors.Is(err, x.want) {
					t.Errorf("Peek: %v, want %v", err, x.want)
				}
			}
			return nil
		})
		c.sweep()
		c.verify()
	})
}
