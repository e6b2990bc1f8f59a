package enginetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"drtmd/proto"
	"drtmd/verbs/fiber"
)

// operation is what one transaction does to one record.
type operation struct {
	name string
	mode proto.Mode
	key  uint64 // loaded or not
	run  func(tx proto.Txn, id proto.TableID, k proto.Key) error
	want uint64 // in the end, if committed; 0: no record
	err  error
}

func read(tx proto.Txn, id proto.TableID, k proto.Key) error { return tx.Read(id, k, value(id, 0)) }

func remove(tx proto.Txn, id proto.TableID, k proto.Key) error { return tx.Delete(id, k) }

func write(v uint64) func(proto.Txn, proto.TableID, proto.Key) error {
	return func(tx proto.Txn, id proto.TableID, k proto.Key) error {
		return tx.Write(id, k, value(id, v))
	}
}

func insert(v uint64) func(proto.Txn, proto.TableID, proto.Key) error {
	return func(tx proto.Txn, id proto.TableID, k proto.Key) error {
		return tx.Insert(id, k, value(id, v))
	}
}

// reads wants a value, the transaction's own writes included.
func reads(v uint64) func(proto.Txn, proto.TableID, proto.Key) error {
	return func(tx proto.Txn, id proto.TableID, k proto.Key) error {
		b := value(id, 0)
		if err := tx.Read(id, k, b); err != nil {
			return err
		}
		if got, whole := number(b); got != v || !whole {
			return fmt.Errorf("read %v, want %d everywhere", b, v)
		}
		return nil
	}
}

// finds wants an error about the record's existence.
func finds(want error, op func(proto.Txn, proto.TableID, proto.Key) error) func(proto.Txn,
	proto.TableID, proto.Key) error {
	return func(tx proto.Txn, id proto.TableID, k proto.Key) error {
		if err := op(tx, id, k); !errors.Is(err, want) {
			return fmt.Errorf("got %v, want %w", err, want)
		}
		return nil
	}
}

// then does one after the other until one fails.
func then(ops ...func(proto.Txn, proto.TableID, proto.Key) error) func(proto.Txn, proto.TableID,
	proto.Key) error {
	return func(tx proto.Txn, id proto.TableID, k proto.Key) error {
		for i, op := range ops {
			if err := op(tx, id, k); err != nil {
				return fmt.Errorf("operation %d: %w", i, err)
			}
		}
		return nil
	}
}

var allOperations = []operation{
	{"read", proto.ModeRead, 1, reads(initial), initial, nil},
	{"read of an absent record", proto.ModeRead, loaded + 1, read, 0, proto.ErrNotFound},
	{"write", proto.ModeWrite, 2, write(7), 7, nil},
	{"write of an absent record", proto.ModeWrite, loaded + 2, write(7), 0, proto.ErrNotFound},
	{"insert", proto.ModeInsert, loaded + 3, insert(9), 9, nil},
	{"insert over a record", proto.ModeInsert, 4, insert(9), initial, proto.ErrExists},
	{"delete", proto.ModeDelete, 5, remove, 0, nil},
	{"delete of an absent record", proto.ModeDelete, loaded + 5, remove, 0, proto.ErrNotFound},
	{"delete and insert again", proto.ModeDelete, 6, then(remove, insert(10)), 10, nil},
	{"insert and delete again", proto.ModeInsert, loaded + 4, then(insert(9), remove), 0, nil},
}

// ownWriteOperations read what the transaction itself has done.
var ownWriteOperations = []operation{
	{"write twice", proto.ModeWrite, 7, then(write(7), write(8), reads(8)), 8, nil},
	{"read, then write", proto.ModeWrite, 8, then(reads(initial), write(5), reads(5)), 5, nil},
	{"insert", proto.ModeInsert, loaded + 6, then(finds(proto.ErrNotFound, read), insert(3), reads(3),
		finds(proto.ErrExists, insert(4)), reads(3)), 3, nil},
	{"delete", proto.ModeDelete, 9, then(reads(initial), remove, finds(proto.ErrNotFound, read),
		finds(proto.ErrNotFound, write(1)), finds(proto.ErrNotFound, remove)), 0, nil},
	{"insert, then delete", proto.ModeInsert, loaded + 7, then(insert(2), reads(2), remove,
		finds(proto.ErrNotFound, read)), 0, nil},
	{"delete, then insert", proto.ModeDelete, 10, then(remove, insert(7), reads(7)), 7, nil},
}

// attempts are the numbers that cases give attempts: a protocol may run a late one another way.
var attempts = []int{0, 100}

func operations(t *testing.T, e env) { eachOperation(t, e, allOperations) }

func ownWrites(t *testing.T, e env) { eachOperation(t, e, ownWriteOperations) }

// eachOperation does every operation on a record of each table and node: rolled back, aborted, and
// committed, in an early and in a late attempt, declared, and undeclared where that is offered.
func eachOperation(t *testing.T, e env, ops []operation) {
	declarations := []bool{true}
	if !e.protocol.Declared {
		declarations = append(declarations, false)
	}
	for _, declared := range declarations {
		for _, n := range attempts {
			t.Run(fmt.Sprintf("declared %v, attempt %d", declared, n), func(t *testing.T) {
				c := e.start(t)
				c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
					for i := range ops {
						for _, id := range tableIDs {
							for _, home := range c.homes() {
								err := oneRecord(f, eng, id, keyOn(home, ops[i].key), n, declared, &ops[i])
								if err != nil {
									return fmt.Errorf("%s, table %s, node %d: %w", ops[i].name,
										tableNames[id], home, err)
								}
							}
						}
					}
					return nil
				})
				c.verify()
			})
		}
	}
}

var errGivenUp = errors.New("given up")

// oneRecord runs an operation that is rolled back, one that is aborted, and one that commits.
func oneRecord(f *fiber.Fiber, e proto.Engine, id proto.TableID, k proto.Key, n int, declared bool,
	op *operation) error {
	before, err := seen(f, e, id, k)
	if err != nil {
		return err
	}
	d := &proto.Decl{Kind: 1}
	if declared {
		d = declare(proto.Access{Table: id, Mode: op.mode, Key: k})
	}
	for _, end := range []error{proto.ErrRollback, errGivenUp, nil} {
		var got error
		err := again(f, e, d, n, func(tx proto.Txn) error {
			if got = op.run(tx, id, k); answered(got) != nil {
				return got
			}
			return end
		})
		if err != end && !errors.Is(err, end) {
			return fmt.Errorf("ended with %v, want %v", err, end)
		}
		if !errors.Is(got, op.err) || op.err == nil && got != nil {
			return fmt.Errorf("gave %v, want %v", got, op.err)
		}
		want := before
		if end == nil {
			want = op.want
		}
		if v, err := seen(f, e, id, k); err != nil || v != want {
			return fmt.Errorf("after end %v the record is %d (%v), want %d", end, v, err, want)
		}
	}
	return nil
}

func readMany(t *testing.T, e env) {
	c := e.start(t)
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		d := &proto.Decl{Kind: 1}
		var gets []proto.Get
		for _, home := range c.homes() {
			for i, k := range []uint64{1, loaded + 1, 2, 1} {
				gets = append(gets, proto.Get{Table: small, Key: keyOn(home, k), Value: make([]byte, 8)})
				if e.protocol.Declared && i < 3 {
					d.Accesses = append(d.Accesses, reading(small, keyOn(home, k)))
				}
			}
		}
		return do(f, eng, d, func(tx proto.Txn) error {
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
}

// singles: transactions of one record, by proto.Single.
func singles(t *testing.T, e env) {
	c := e.start(t)
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		s := proto.Single{Runner: &proto.Runner{Engine: eng, Rand: rand.New(rand.NewPCG(1, 2))}}
		for _, id := range tableIDs {
			for _, home := range c.homes() {
				k, dst := keyOn(home, loaded+1), value(id, 0)
				gets := func(want uint64) func() (proto.Result, error) {
					return func() (proto.Result, error) {
						r, err := s.GetOne(f, id, k, dst)
						if v, whole := number(dst); err == nil && (!whole || v != want) {
							err = fmt.Errorf("it is %d, want %d", v, want)
						}
						return r, err
					}
				}
				for i, x := range []struct {
					run func() (proto.Result, error)
					err error
				}{
					{gets(0), proto.ErrNotFound},
					{func() (proto.Result, error) { return s.PutOne(f, id, k, value(id, 7)) }, proto.ErrNotFound},
					{func() (proto.Result, error) { return s.DeleteOne(f, id, k) }, proto.ErrNotFound},
					{func() (proto.Result, error) { return s.InsertOne(f, id, k, value(id, 8)) }, nil},
					{gets(8), nil},
					{func() (proto.Result, error) { return s.InsertOne(f, id, k, value(id, 9)) }, proto.ErrExists},
					{func() (proto.Result, error) { return s.PutOne(f, id, k, value(id, 10)) }, nil},
					{gets(10), nil},
					{func() (proto.Result, error) { return s.DeleteOne(f, id, k) }, nil},
					{gets(0), proto.ErrNotFound},
				} {
					r, err := x.run()
					if !errors.Is(err, x.err) || x.err == nil && (err != nil || r.Outcome != proto.Committed) {
						return fmt.Errorf("table %s, node %d, step %d: %v, %w; want error %v", tableNames[id], home, i,
							r.Outcome, err, x.err)
					}
				}
			}
		}
		return nil
	})
	c.verify()
}
