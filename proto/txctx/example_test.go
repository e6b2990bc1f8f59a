package txctx_test

import (
	"bytes"
	"fmt"
	"log"

	"drtmd/proto"
	"drtmd/proto/txctx"
)

// equalize is the transaction of Dandelion's §3: if two records are equal, it sets the first to 0. It does not say
// beforehand which records it touches. proto.Runner runs it.
type equalize struct {
	context      *txctx.Ctx // of the client's fiber, for all its transactions
	table        proto.TableID
	first, other proto.Key
}

// Execute implements proto.Program.
func (p *equalize) Execute(tx proto.Txn) error {
	p.context.Init(tx)
	a, err := p.context.Get(p.table, p.first)
	if err != nil {
		return err
	}
	b, err := p.context.Get(p.table, p.other)
	if err != nil {
		return err
	}
	// Nothing was sent so far. The fiber waits here, once for both, and the worker runs others.
	if err := p.context.PollAll(); err != nil {
		return err
	}
	if a.State() == txctx.Success && bytes.Equal(a.Value(), b.Value()) {
		if err := p.context.Put(p.table, p.first, make([]byte, len(a.Value()))); err != nil {
			return err
		}
	}
	return p.context.Flush()
}

func Example() {
	s := &store{records: map[record][]byte{{1, 10}: value(1, 7), {1, 20}: value(1, 7)}} // stands for a proto.Txn
	p := &equalize{context: txctx.New(specs), table: 1, first: 10, other: 20}
	if err := p.Execute(s); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.records[record{1, 10}], s.calls, "read")
	// Output: [0 0 0 0 0 0 0 0] 1 read
}
