package check_test

import (
	"context"
	"fmt"
	"log"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
)

// A program's own transactions are recorded and proved.
func Example() {
	ctx := context.Background()
	db, err := node.Open(ctx, node.Options{Nodes: 2, Record: true,
		Tables: []proto.TableSpec{{Name: "words", ValueBytes: 5, Capacity: 10}}})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = db.Run(ctx, func(tx proto.Txn) error { return tx.Insert(1, 7, []byte("hello")) })
	if err != nil {
		log.Fatal(err)
	}
	if err := db.Cluster().Stop(); err != nil {
		log.Fatal(err)
	}
	h, err := db.Cluster().History()
	if err != nil {
		log.Fatal(err)
	}
	defer h.Close()
	result, err := check.History(ctx, h, check.Options{UserAborts: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Txns(), result.Verdict)
	// Output: 1 strictly serializable
}
