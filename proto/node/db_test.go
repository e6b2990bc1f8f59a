package node_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/option"
)

// openBank opens a database of accounts, each with 100, on two nodes.
func openBank(t *testing.T, protocol string, accounts int) *node.DB {
	t.Helper()
	return openBankOn(t, 1, protocol, accounts)
}

// openBankOn is openBank on a number of threads.
func openBankOn(t *testing.T, threads int, protocol string, accounts int) *node.DB {
	t.Helper()
	db, err := node.Open(t.Context(), node.Options{Nodes: 2, Protocol: protocol, Threads: threads, Fibers: 4, Record: true,
		Tables: []proto.TableSpec{{Name: "accounts", ValueBytes: 8, Capacity: 4 * accounts}},
		Load: func(put func(proto.TableID, proto.Key, []byte) error) error {
			for k := range accounts {
				if err := put(1, proto.Key(k), money(100)); err != nil {
					return err
				}
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func money(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// change adds an amount to an account.
func change(tx proto.Txn, account proto.Key, amount int64) error {
	value := money(0)
	if err := tx.Read(1, account, value); err != nil {
		return err
	}
	return tx.Write(1, account, money(uint64(int64(binary.LittleEndian.Uint64(value))+amount)))
}

// What the options say of the protocol has to fit together.
func TestOpenRefusesAProtocolThatIsNotClear(t *testing.T) {
	twopl, err := node.FindProtocol("twopl")
	if err != nil {
		t.Fatal(err)
	}
	own := twopl
	own.Name = "own"
	nameless, engineless := own, own
	nameless.Name, engineless.New = "", nil
	for _, c := range []struct {
		name string
		o    node.Options
		want string
	}{
		{"unknown name", node.Options{Protocol: "nothing"}, `unknown protocol "nothing"`},
		{"no name", node.Options{Own: &nameless}, "it needs a Name and New"},
		{"no engine", node.Options{Own: &engineless}, "it needs a Name and New"},
		{"name of a built-in one", node.Options{Own: &twopl}, "has the name of a built-in protocol"},
		{"two names", node.Options{Own: &own, Protocol: "drtm"}, "leave one out"},
		{"unknown option", node.Options{Own: &own, Settings: option.Settings{"nothing": "1"}}, "nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Tables = []proto.TableSpec{{Name: "accounts", ValueBytes: 8, Capacity: 4}}
			db, err := node.Open(t.Context(), c.o)
			if err == nil {
				err = db.Close()
				t.Error("it opens")
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestGoroutinesShareADatabase(t *testing.T) {
	const goroutines, transfers, accounts = 8, 40, 6
	for _, p := range node.Protocols() {
		if p.Chips != nil {
			continue // package enginetest tests that they are refused here
		}
		t.Run(p.Name, func(t *testing.T) {
			db := openBank(t, p.Name, accounts)
			var all sync.WaitGroup
			for g := range goroutines {
				all.Go(func() {
					for i := range transfers {
						err := db.Run(t.Context(), func(tx proto.Txn) error {
							if err := change(tx, proto.Key((g+i)%accounts), -1); err != nil {
								return err
							}
							return change(tx, proto.Key((g+3*i+1)%accounts), 1)
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			c := db.Cluster()
			if err := c.Stop(); err != nil {
				t.Fatal(err)
			}
			sum, value := uint64(0), money(0)
			for k := range accounts {
				if err := c.Read(1, proto.Key(k), value); err != nil {
					t.Fatal(err)
				}
				sum += binary.LittleEndian.Uint64(value)
			}
			if sum != 100*accounts {
				t.Errorf("%d in all accounts, not %d", sum, 100*accounts)
			}
			h, err := c.History()
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			r, err := check.History(t.Context(), h, check.Options{UserAborts: true})
			if err != nil || r.Verdict != check.Serializable || h.Txns() < goroutines*transfers {
				t.Errorf("Check: %v, %v", r, err)
			}
		})
	}
}

// A function that decides by what it reads gets its records declared: what it reads may change between
// the reconnaissance and the attempt, and then it is made again.
func TestRecordsOfAFunctionAreFoundOut(t *testing.T) {
	for _, p := range node.Protocols() {
		if p.Chips != nil {
			continue // package enginetest tests that they are refused here
		}
		t.Run(p.Name, func(t *testing.T) {
			db := openBank(t, p.Name, 4)
			move := func(tx proto.Txn) error { // what account 0 holds names the next account
				value := money(0)
				if err := tx.Read(1, 0, value); err != nil {
					return err
				}
				next := proto.Key(1 + binary.LittleEndian.Uint64(value)%3)
				if err := change(tx, 0, 1); err != nil {
					return err
				}
				return change(tx, next, 1)
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 20 {
						if err := db.Run(t.Context(), move); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			sum := uint64(0)
			err := db.RunAt(t.Context(), 1, func(tx proto.Txn) error {
				sum = 0
				gets := make([]proto.Get, 4)
				for i := range gets {
					gets[i] = proto.Get{Table: 1, Key: proto.Key(i), Value: money(0)}
				}
				if err := tx.ReadMany(gets); err != nil {
					return err
				}
				for _, g := range gets {
					sum += binary.LittleEndian.Uint64(g.Value)
				}
				return nil
			})
			if err != nil || sum != 400+160 {
				t.Errorf("the accounts hold %d, %v", sum, err)
			}
		})
	}
}

func TestOperationsOfADatabase(t *testing.T) {
	own := errors.New("the program's own")
	for _, p := range node.Protocols() {
		if p.Chips != nil {
			continue // package enginetest tests that they are refused here
		}
		t.Run(p.Name, func(t *testing.T) {
			db := openBank(t, p.Name, 2)
			run := func(program func(tx proto.Txn) error) error { return db.RunAt(t.Context(), 0, program) }
			for _, c := range []struct {
				name string
				run  func(tx proto.Txn) error
				want error
			}{
				{"insert, read, change and delete of an own record", func(tx proto.Txn) error {
					value := money(0)
					return errors.Join(tx.Insert(1, 11, money(5)), tx.Read(1, 11, value), change(tx, 11, 1),
						tx.Delete(1, 11))
				}, nil},
				{"an absent record", func(tx proto.Txn) error { return tx.Read(1, 11, money(0)) }, proto.ErrNotFound},
				{"a write of one", func(tx proto.Txn) error { return tx.Write(1, 12, money(0)) }, proto.ErrNotFound},
				{"an insertion of one that exists", func(tx proto.Txn) error { return tx.Insert(1, 1, money(0)) },
					proto.ErrExists},
				{"a table that there is not", func(tx proto.Txn) error { return tx.Read(2, 1, money(0)) },
					proto.ErrUnknownTable},
				{"a wrong size", func(tx proto.Txn) error { return tx.Read(1, 1, nil) }, proto.ErrValueSize},
				{"an error of the program", func(tx proto.Txn) error {
					return errors.Join(tx.Write(1, 1, money(0)), own)
				}, own},
				{"a scan", func(tx proto.Txn) error { return tx.Scan(1, 0, 9, nil) }, proto.ErrUnsupported},
			} {
				if err := run(c.run); !errors.Is(err, c.want) || c.want == nil && err != nil {
					t.Errorf("%s: %v, want %v", c.name, err, c.want)
				}
			}
			value := money(0)
			if err := run(func(tx proto.Txn) error { return tx.Read(1, 1, value) }); err != nil ||
				binary.LittleEndian.Uint64(value) != 100 {
				t.Errorf("after all that was rolled back: %d, %v", binary.LittleEndian.Uint64(value), err)
			}
		})
	}
}

// A transaction that waits for a node whose thread hangs ends when its context does, long before the node is
// taken for gone.
func TestTransactionsEndWithTheirContext(t *testing.T) {
	db := openBankOn(t, 2, "drtm", 6)
	hangs, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		first := sync.OnceFunc(func() { close(hangs); <-release })
		if err := db.RunAt(t.Context(), 1, func(tx proto.Txn) error {
			first()
			return tx.Read(1, 1, money(0))
		}); err != nil {
			t.Error(err)
		}
	})
	<-hangs
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errLate)
	defer cancel()
	ended := make(chan error, 1)
	all.Go(func() { // an insertion asks the node
		ended <- db.RunAt(ctx, 0, func(tx proto.Txn) error { return tx.Insert(1, 101, money(1)) })
	})
	select {
	case err := <-ended:
		if !errors.Is(err, errLate) {
			t.Errorf("%v, want %v", err, errLate)
		}
	case <-time.After(time.Second):
		t.Error("it waits on")
	}
	close(release)
	all.Wait()
}

var errLate = errors.New("too late")

func TestDatabaseRefusesInWords(t *testing.T) {
	if _, err := node.Open(t.Context(), node.Options{Protocol: "nope"}); err == nil {
		t.Error("an unknown protocol is opened")
	}
	if _, err := node.Open(t.Context(), node.Options{}); err == nil {
		t.Error("a database without tables is opened")
	}
	db := openBank(t, "twopl", 2)
	if err := db.RunAt(t.Context(), 2, nil); err == nil {
		t.Error("a transaction runs on a node that there is not")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := db.Run(ctx, func(proto.Txn) error { return proto.Aborting(proto.ReasonLocked) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled transaction: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Run(t.Context(), func(proto.Txn) error { return nil }); err == nil {
		t.Error("a transaction runs on a closed database")
	}
}
