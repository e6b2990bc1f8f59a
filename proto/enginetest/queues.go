package enginetest

import (
	"fmt"
	"testing"

	"drtmd/internal/testkit/raceskip"
	"drtmd/proto"
	"drtmd/proto/workload/ranges"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Of a queue of rows: so many are in it, and so many come and go with each transaction.
const (
	queueRows  = 8
	queueFirst = 1000 // row number of the first one
	queueMoves = 24   // transactions: more rows in all than the table has room for
)

// queues: rows are inserted at the end of a range and deleted at its head, for as long as you like. The table does not fill
// up, and scans do not meet more and more entries of deleted rows. Transactions that are rolled back leave nothing either.
func queues(t *testing.T, e env) {
	raceskip.SameMemory(t) // one transaction at a time
	c, _ := e.startRanges(t, e.nodes(), 1)
	for _, home := range c.homes() {
		c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
			q := queue{home: home}
			if err := do(f, eng, q.insertion(), q.insert); err != nil {
				return err
			}
			for i := range uint64(max(e.scale(queueMoves), 2)) {
				q.first, q.rolledBack = queueFirst+queueRows*i, i%4 == 1
				err := do(f, eng, q.move(), q.run)
				if err == nil && q.rolledBack {
					q.rolledBack = false
					err = do(f, eng, q.move(), q.run)
				}
				if err != nil {
					return fmt.Errorf("node %d, move %d: %w", home, i, err)
				}
			}
			return nil
		})
	}
	c.verifyRanges()
	for _, home := range c.homes() {
		if n := c.absentRows(home); n > 8*queueRows { // some may be leased, or held, still
			t.Errorf("node %d has entries of %d absent rows", home, n)
		}
	}
}

// queue is the range of a node from its row queueFirst on, whose first rows are those from first on.
type queue struct {
	home       proto.NodeID
	first      uint64
	rolledBack bool
}

func (q *queue) row(i uint64) proto.Key { return rowOn(q.home, q.first+i) }

// insertion is of the first rows.
func (q *queue) insertion() *proto.Decl {
	q.first = queueFirst - queueRows
	return q.move()
}

func (q *queue) insert(tx proto.Txn) error {
	for i := range uint64(queueRows) {
		if err := tx.Insert(ranges.Rows, q.row(queueRows+i), make([]byte, ranges.ValueBytes)); err != nil {
			return err
		}
	}
	return nil
}

// move inserts as many rows behind the last one as it deletes.
func (q *queue) move() *proto.Decl {
	var all []proto.Access
	for i := range uint64(queueRows) {
		all = append(all, deleting(ranges.Rows, q.row(i)), inserting(ranges.Rows, q.row(queueRows+i)))
	}
	return declare(all...)
}

func (q *queue) run(tx proto.Txn) error {
	var keys []proto.Key
	err := tx.Scan(ranges.Rows, rowOn(q.home, queueFirst), rowOn(q.home, 1<<20), func(k proto.Key, _ []byte) bool {
		keys = append(keys, k)
		return len(keys) < queueRows
	})
	if err != nil {
		return err
	}
	for i, k := range keys {
		if k != q.row(uint64(i)) {
			return fmt.Errorf("the first rows are %#x, want them from %#x on", keys, q.row(0))
		}
		if err := tx.Delete(ranges.Rows, k); err != nil {
			return err
		}
	}
	if err = q.insert(tx); err == nil && q.rolledBack {
		err = proto.ErrRollback
	}
	return err
}

// absentRows are the entries of rows that are not there, of a cluster that has stopped.
func (c *cluster) absentRows(home proto.NodeID) (n int) {
	tab := c.Members[home].Workers[0].Tables[ranges.Rows-1]
	tab.Each(func(place int) bool {
		m, off := tab.At(place)
		if h := layout.HeadOf(m.Bytes[off : off+tab.Record().Bytes]); !h.Version.Live() {
			n++
		}
		return true
	})
	return n
}
