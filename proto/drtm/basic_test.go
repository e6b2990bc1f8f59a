package drtm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/verbs/fiber"
)

// ways are the ways an attempt can run, by what makes the engine choose it.
var ways = []struct {
	name    string
	attempt int
}{{"region", 0}, {"fallback", drtm.DefaultAttempts}}

// TestOperationsOnOneRecord does every operation on a local and a remote record of each table,
// committed, rolled back and aborted, in a region and by the fallback handler.
func TestOperationsOnOneRecord(t *testing.T) {
	ops := []struct {
		name string
		mode proto.Mode
		key  uint64 // loaded or not
		run  func(tx proto.Txn, id proto.TableID, k proto.Key) error
		want uint64 // in the end, if committed; 0: no record
		err  error
	}{
		{"read", proto.ModeRead, 1, func(tx proto.Txn, id proto.TableID, k proto.Key) error {
			return tx.Read(id, k, value(id, 0))
		}, initial, nil},
		{"read of an absent record", proto.ModeRead, loaded + 1,
			func(tx proto.Txn, id proto.TableID, k proto.Key) error {
				return tx.Read(id, k, value(id, 0))
			}, 0, proto.ErrNotFound},
		{"write", proto.ModeWrite, 2, func(tx proto.Txn, id proto.TableID, k proto.Key) error {
			return tx.Write(id, k, value(id, 7))
		}, 7, nil},
		{"write twice and read back", proto.ModeWrite, 3,
			func(tx proto.Txn, id proto.TableID, k proto.Key) error {
				b := value(id, 0)
				if err := errors.Join(tx.Write(id, k, value(id, 7)), tx.Write(id, k, value(id, 8)),
					tx.GetForUpdate(id, k, b)); err != nil {
					return err
				}
				if v, whole := number(b); v != 8 || !whole {
					return fmt.Errorf("read its own write of 8 as %d", v)
				}
				return nil
			}, 8, nil},
		{"write of an absent record", proto.ModeWrite, loaded + 2,
			func(tx proto.Txn, id proto.TableID, k proto.Key) error {
				return tx.Write(id, k, value(id, 7))
			}, 0, proto.ErrNotFound},
		{"insert", proto.ModeInsert, loaded + 3,
			func(tx proto.Txn, id proto.TableID, k proto.Key) error {
				return tx.Insert(id, k, value(id, 9))
			}, 9, nil},
		{"insert over a record", proto.ModeInsert, 4,
			func(tx proto.Txn, id proto.TableID, k proto.Key) error {
				return tx.Insert(id, k, value(id, 9))
			}, initial, proto.ErrExists},
		{"insert and delete again", proto.ModeInsert, loaded + 4,
			func(tx proto.Txn, id proto.TableID, k proto.Key) error {
				return errors.Join(tx.Insert(id, k, value(id, 9)), tx.Delete(id, k))
			}, 0, nil},
		{"delete", proto.ModeDelete, 5, func(tx proto.Txn, id proto.TableID, k proto.Key) error {
			return tx.Delete(id, k)
		}, 0, nil},
		{"delete of an absent record", proto.ModeDelete, loaded + 5,
			func(tx proto.Txn, id proto.TableID, k proto.Key) error { return tx.Delete(id, k) },
			0, proto.ErrNotFound},
		{"delete and insert again", proto.ModeDelete, 6,
			func(tx proto.Txn, id proto.TableID, k proto.Key) error {
				return errors.Join(tx.Delete(id, k), tx.Insert(id, k, value(id, 10)))
			}, 10, nil},
	}
	each(t, func(t *testing.T, h host) {
		for _, w := range ways {
			t.Run(w.name, func(t *testing.T) {
				c := start(t, h, settings{})
				c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
					for _, op := range ops {
						for id := small; id <= large; id++ {
							for n := range proto.NodeID(2) {
								k := keyOn(n, op.key)
								what := fmt.Sprintf("%s, table %d, node %d", op.name, id, n)
								if err := oneRecord(f, e, id, k, op.mode, w.attempt, op.run, op.want,
									op.err); err != nil {
									return fmt.Errorf("%s: %w", what, err)
								}
							}
						}
					}
					return nil
				})
				c.verify()
			})
		}
	})
}

// oneRecord runs an operation that is rolled back, one that is aborted, and one that commits.
func oneRecord(f *fiber.Fiber, e *drtm.Engine, id proto.TableID, k proto.Key, m proto.Mode, n int,
	run func(proto.Txn, proto.TableID, proto.Key) error, want uint64, wantErr error) error {
	before, err := peek(f, e, id, k)
	if err != nil {
		return err
	}
	d := declare(proto.Access{Table: id, Mode: m, Key: k})
	for _, end := range []error{proto.ErrRollback, errors.New("given up"), nil} {
		var got error
		err := retry(f, e, d, n, func(tx proto.Txn) error {
			if got = run(tx, id, k); missing(got) != nil {
				return got
			}
			return end
		})
		if err != end && !errors.Is(err, end) {
			return fmt.Errorf("ended with %v, want %v", err, end)
		}
		if !errors.Is(got, wantErr) || wantErr == nil && got != nil {
			return fmt.Errorf("gave %v, want %v", got, wantErr)
		}
		expect := before
		if end == nil {
			expect = want
		}
		if v, err := peek(f, e, id, k); err != nil || v != expect {
			return fmt.Errorf("after end %v the record is %d (%v), want %d", end, v, err, expect)
		}
	}
	return nil
}

// retry runs attempts, all with the same number, while they are aborted.
func retry(f *fiber.Fiber, e *drtm.Engine, d *proto.Decl, n int, p program) error {
	for range 1000 {
		err := attempt(f, e, d, n, p)
		if proto.AbortReason(err) == 0 {
			return err
		}
		if err := f.Sleep(100 * us); err != nil {
			return err
		}
	}
	return errors.New("1,000 attempts were aborted")
}

func TestAccessesThatWereNotDeclaredAreRefused(t *testing.T) {
	c := start(t, onSim, settings{})
	k := keyOn(0, 1)
	tests := []struct {
		name string
		d    *proto.Decl
		run  program
		want error
		says string // the end of the error
	}{
		{"read of another record", declare(reading(small, k)), func(tx proto.Txn) error {
			return tx.Read(small, keyOn(0, 2), value(small, 0))
		}, proto.ErrUndeclared,
			"read of key 2 in table 1: access was not declared; the Decl does not have this record"},
		{"write of a record to be read", declare(reading(small, k), writing(small, keyOn(0, 3))),
			func(tx proto.Txn) error { return tx.Write(small, k, value(small, 1)) },
			proto.ErrUndeclared, "write of key 1 in table 1: access was not declared; the Decl has it for read only"},
		{"insert of a record to be written", declare(writing(small, k)), func(tx proto.Txn) error {
			return tx.Insert(small, k, value(small, 1))
		}, proto.ErrUndeclared, "the Decl has it for write only"},
		{"update of a record to be read", declare(reading(small, k)), func(tx proto.Txn) error {
			return tx.GetForUpdate(small, k, value(small, 1))
		}, proto.ErrUndeclared, "the Decl has it for read only"},
		{"unknown table", declare(reading(small, k)), func(tx proto.Txn) error {
			return tx.Read(9, k, value(small, 1))
		}, proto.ErrUnknownTable, "in table 9: no such table; the workload has tables 1 to 3"},
		{"unknown table in the declaration", declare(reading(9, k)), nil, proto.ErrUnknownTable,
			"in table 9: no such table; the workload has tables 1 to 3"},
		{"wrong size", declare(reading(small, k)), func(tx proto.Txn) error {
			return tx.Read(small, k, make([]byte, 7))
		}, proto.ErrValueSize, "value does not have the size of its table; it has 7 bytes, not 8"},
		{"scan", declare(reading(small, k)), func(tx proto.Txn) error {
			return tx.Scan(small, 0, 9, nil)
		}, proto.ErrUnsupported, ""},
	}
	c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
		for _, x := range tests {
			err := attempt(f, e, x.d, 0, x.run)
			if !errors.Is(err, x.want) {
				t.Errorf("%s: %v, want %v", x.name, err, x.want)
			}
			if access := (*proto.AccessError)(nil); x.says != "" && (!errors.As(err, &access) ||
				!strings.HasSuffix(err.Error(), x.says)) {
				t.Errorf("%s: %v, want ...%s", x.name, err, x.says)
			}
		}
		return nil
	})
	c.verify()
}

// TestSpaceOfDeletedRecordsIsUsedAgain inserts and deletes more keys than the tables have entries,
// local and remote, and looks as many up that have no record.
func TestSpaceOfDeletedRecordsIsUsedAgain(t *testing.T) {
	each(t, func(t *testing.T, h host) {
		c := start(t, h, settings{})
		entries := c.Members[0].Workers[0].Tables[0].Config().Entries
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			for i := range uint64(2 * entries) {
				for n := range proto.NodeID(2) {
					k := keyOn(n, capacity+i)
					if v, err := peek(f, e, small, k); v != 0 || err != nil {
						return fmt.Errorf("key %d of node %d is %d, %w", i, n, v, err)
					}
					if err := do(f, e, declare(inserting(small, k)), func(tx proto.Txn) error {
						return tx.Insert(small, k, value(small, i+1))
					}); err != nil {
						return fmt.Errorf("insertion %d at node %d: %w", i, n, err)
					}
					if err := do(f, e, declare(deleting(small, k)), func(tx proto.Txn) error {
						return tx.Delete(small, k)
					}); err != nil {
						return fmt.Errorf("deletion %d at node %d: %w", i, n, err)
					}
				}
			}
			return nil
		})
		var reclaimed uint64
		for _, w := range c.Workers() {
			reclaimed += w.Engine.(*drtm.Engine).Counts().Reclaimed
		}
		if reclaimed < uint64(2*entries) {
			t.Errorf("%d entries were given back, of at least %d", reclaimed, 2*entries)
		}
		c.verify()
	})
}

// TestVersionsGrowOverDeletion (design decision 7): also if the entry was given back in between.
func TestVersionsGrowOverDeletion(t *testing.T) {
	each(t, func(t *testing.T, h host) {
		c := start(t, h, settings{})
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			for n := range proto.NodeID(2) {
				k := keyOn(n, 1)
				_, last, _ := c.entry(small, k)
				for i := range 20 {
					if err := do(f, e, declare(deleting(small, k)), func(tx proto.Txn) error {
						return tx.Delete(small, k)
					}); err != nil {
						return err
					}
					if i%2 == 0 { // long enough for the entry to be given back
						if err := f.Sleep(2 * drtm.DefaultLeaseReadOnly); err != nil {
							return err
						}
						if _, err := peek(f, e, small, keyOn(0, 2)); err != nil {
							return err
						}
					}
					if err := do(f, e, declare(inserting(small, k)), func(tx proto.Txn) error {
						return tx.Insert(small, k, value(small, 5))
					}); err != nil {
						return err
					}
					_, v, _ := c.entry(small, k)
					if v <= last || !v.Live() {
						return fmt.Errorf("node %d: version %v after %v", n, v, last)
					}
					last = v
				}
			}
			return nil
		})
		c.verify()
	})
}
