package node_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"

	"drtmd/proto"
	"drtmd/proto/node"
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
