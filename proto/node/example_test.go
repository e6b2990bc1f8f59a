package node_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"sync/atomic"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/twopl"
	"drtmd/verbs/fiber"
)

// A transfer between two nodes, in one transaction.
func Example() {
	ctx := context.Background()
	const accounts = proto.TableID(1)
	db, err := node.Open(ctx, node.Options{Nodes: 2, // account k lives on node k mod 2
		Tables: []proto.TableSpec{{Name: "accounts", ValueBytes: 8, Capacity: 100}},
		Load: func(put func(proto.TableID, proto.Key, []byte) error) error {
			hundred := binary.LittleEndian.AppendUint64(nil, 100)
			return errors.Join(put(accounts, 0, hundred), put(accounts, 1, hundred))
		}})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	transfer := func(amount int64) error {
		return db.Run(ctx, func(tx proto.Txn) error {
			for account, change := range []int64{-amount, amount} {
				var value [8]byte
				if err := tx.GetForUpdate(accounts, proto.Key(account), value[:]); err != nil {
					return err
				}
				balance := int64(binary.LittleEndian.Uint64(value[:])) + change
				if balance < 0 {
					return proto.ErrRollback
				}
				binary.LittleEndian.PutUint64(value[:], uint64(balance))
				if err := tx.Write(accounts, proto.Key(account), value[:]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	fmt.Println(transfer(70), transfer(70))
	// Output: <nil> rolled back by the program
}

// counting is an engine that counts the attempts that it begins.
type counting struct {
	proto.Engine
	proto.Debtor // the optional interfaces of the engine below it
	proto.OrphanLister
	begun *atomic.Int64
}

func (c counting) Begin(f *fiber.Fiber, d *proto.Decl, attempt int) (proto.Tx, error) {
	c.begun.Add(1)
	return c.Engine.Begin(f, d, attempt)
}

// A protocol of the program's own: two-phase locking that counts the attempts of transactions.
func ExampleOpen_ownProtocol() {
	var begun atomic.Int64
	own, inner := twopl.Protocol(), twopl.Protocol().New
	own.Name, own.Doc = "counted", "two-phase locking that counts attempts"
	own.New = func(e *node.Env) (proto.Engine, error) {
		engine, err := inner(e)
		if err != nil {
			return nil, err
		}
		return counting{engine, engine.(proto.Debtor), engine.(proto.OrphanLister), &begun}, nil
	}
	ctx := context.Background()
	db, err := node.Open(ctx, node.Options{Own: &own,
		Tables: []proto.TableSpec{{Name: "notes", ValueBytes: 8, Capacity: 10}}})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	for key := range proto.Key(3) {
		insert := func(tx proto.Txn) error { return tx.Insert(1, key, make([]byte, 8)) }
		if err := db.Run(ctx, insert); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("attempts:", begun.Load())
	// Output: attempts: 3
}
