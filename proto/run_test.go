package proto_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// circle is an engine whose transaction locks the record of its own at once and that of the next one when a message has
// been under way to it, and hears of that by another one: where all begin together, each has locked what the one before it
// wants.
type circle struct {
	proto.Engine
	proto.Tx
	stats   proto.Stats
	locked  []bool // records, of all
	own     int
	message time.Duration
}

func (c *circle) Stats() *proto.Stats { return &c.stats }

func (c *circle) Begin(f *fiber.Fiber, _ *proto.Decl, _ int) (proto.Tx, error) {
	next := (c.own + 1) % len(c.locked)
	if c.locked[c.own] {
		return nil, proto.Aborting(proto.ReasonLocked)
	}
	c.locked[c.own] = true
	if err := f.Sleep(c.message); err != nil {
		return nil, err
	}
	got := !c.locked[next]
	c.locked[next] = true
	if err := f.Sleep(c.message); err != nil {
		return nil, err
	}
	if !got {
		c.locked[c.own] = false
		return nil, proto.Aborting(proto.ReasonLocked)
	}
	return c, nil
}

func (c *circle) Execute(proto.Txn) error { return nil }

func (c *circle) Commit() error {
	c.locked[c.own], c.locked[(c.own+1)%len(c.locked)] = false, false
	return nil
}

// TestTransactionsThatMeetEndAlsoWhereAttemptsTakeLong: as on a machine that stood still, so that all go on at one moment,
// or with more threads than cores.
func TestTransactionsThatMeetEndAlsoWhereAttemptsTakeLong(t *testing.T) {
	for _, message := range []time.Duration{5 * time.Microsecond, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		for _, transactions := range []int{2, 3, 8} {
			t.Run(fmt.Sprintf("%d transactions, messages of %v", transactions, message), func(t *testing.T) {
				_, worker, _, drive := oneWorker(t)
				locked, committed := make([]bool, transactions), 0
				for i := range transactions {
					worker.Submit("transaction", func(f *fiber.Fiber) error {
						c := &circle{locked: locked, own: i, message: message}
						r := proto.Runner{Engine: c, Rand: rand.New(rand.NewPCG(1, uint64(i)))}
						result, err := r.Run(f, &proto.Decl{}, c)
						if err != nil {
							return fmt.Errorf("transaction %d: %+v: %w", i, result, err)
						}
						committed++
						return nil
					}, func(err error) { must(t, err) })
				}
				must(t, drive())
				if committed != transactions {
					t.Errorf("%d of %d transactions were committed", committed, transactions)
				}
			})
		}
	}
}
