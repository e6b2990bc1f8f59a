package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/protocol"
	"drtmd/verbs/fiber"
)

// wrong is something that an engine must refuse.
type wrong struct {
	name string
	d    *proto.Decl
	run  program
	want error
}

func refusals(t *testing.T, e env) {
	k := keyOn(0, 1)
	declared := func() *proto.Decl { return declare(writing(small, k)) }
	refuse(t, e, []wrong{
		{"scan of a table without order", declared(), func(tx proto.Txn) error {
			return tx.Scan(small, 0, 9, func(proto.Key, []byte) bool { return true })
		}, proto.ErrUnsupported},
		{"unknown table", declared(), func(tx proto.Txn) error {
			return tx.Read(77, k, make([]byte, 8))
		}, proto.ErrUnknownTable},
		{"table 0", declared(), func(tx proto.Txn) error { return tx.Delete(0, k) },
			proto.ErrUnknownTable},
		{"unknown table in the declaration", declare(reading(small, k), reading(77, k)),
			func(proto.Txn) error { return nil }, proto.ErrUnknownTable},
		{"buffer of another size", declared(), func(tx proto.Txn) error {
			return tx.Read(small, k, make([]byte, 7))
		}, proto.ErrValueSize},
		{"no buffer", declared(), func(tx proto.Txn) error { return tx.Read(small, k, nil) },
			proto.ErrValueSize},
		{"value of another size", declared(), func(tx proto.Txn) error {
			return tx.Write(small, k, make([]byte, 9))
		}, proto.ErrValueSize},
	})
}

// undeclared accesses are refused where every record has to be declared, and allowed elsewhere: an
// empty declaration is then that of an interactive program.
func undeclared(t *testing.T, e env) {
	k, other := keyOn(0, 1), keyOn(0, 2)
	if e.protocol.Declared {
		refuse(t, e, []wrong{
			{"read of another record", declare(reading(small, k)), func(tx proto.Txn) error {
				return tx.Read(small, other, value(small, 0))
			}, proto.ErrUndeclared},
			{"write of a record to be read", declare(reading(small, k), writing(small, other)),
				func(tx proto.Txn) error { return tx.Write(small, k, value(small, 1)) },
				proto.ErrUndeclared},
			{"insert of a record to be written", declare(writing(small, k)),
				func(tx proto.Txn) error { return tx.Insert(small, k, value(small, 1)) },
				proto.ErrUndeclared},
			{"update of a record to be read", declare(reading(small, k)), func(tx proto.Txn) error {
				return tx.GetForUpdate(small, k, value(small, 0))
			}, proto.ErrUndeclared},
		})
		return
	}
	c := e.start(t)
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		for _, home := range c.homes() {
			err := do(f, eng, &proto.Decl{Kind: 1}, func(tx proto.Txn) error {
				b := value(small, 0)
				return errors.Join(tx.GetForUpdate(small, keyOn(home, 1), b),
					tx.Write(small, keyOn(home, 1), value(small, 5)),
					tx.Insert(large, keyOn(home, loaded), value(large, 6)),
					tx.Delete(full, keyOn(home, 3)))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	c.verify()
}

// refuse has each wrong thing tried, and tests that the cluster goes on.
func refuse(t *testing.T, e env, all []wrong) {
	c := e.start(t)
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		for _, x := range all {
			if err := attempt(f, eng, x.d, 0, x.run); !errors.Is(err, x.want) {
				t.Errorf("%s: %v, want %v", x.name, err, x.want)
			}
			if err := eng.Peek(f, 77, 0, make([]byte, 8)); !errors.Is(err, proto.ErrUnknownTable) {
				t.Errorf("peek at an unknown table: %v", err)
			}
			if err := eng.Peek(f, small, keyOn(0, 1), nil); !errors.Is(err, proto.ErrValueSize) {
				t.Errorf("peek without a buffer: %v", err)
			}
		}
		v, err := seen(f, eng, small, keyOn(0, 1))
		if err == nil && v != initial {
			t.Errorf("the record is %d after refusals", v)
		}
		return err
	})
	c.verify()
}

// oneThreadOnly tests that a protocol without concurrency control refuses a second thread, by name.
func oneThreadOnly(t *testing.T, e env) {
	cfg := node.Config{Protocol: e.protocol, Workload: tables{}, Nodes: 2, Workers: 1, Seed: 1}
	var c *node.Cluster
	var err error
	if e.host.Simulated {
		c, err = node.NewSimulated(context.Background(), node.SimulatedConfig{Config: cfg})
	} else {
		c, err = node.NewLocal(context.Background(), node.LocalConfig{Config: cfg, Threads: 2,
			Provider: e.host.Provider})
	}
	if err == nil {
		_ = c.Close() // the test has failed
		t.Fatalf("protocol %s ran on several threads", e.protocol.Name)
	}
	if !strings.Contains(err.Error(), e.protocol.Name) {
		t.Errorf("%v does not name the protocol", err)
	}
}

// withoutChips tests that a machine without the chips of the protocol is refused.
func withoutChips(t *testing.T, e env) {
	c, err := e.host.open(context.Background(), node.Config{Protocol: e.protocol, Workload: tables{}, Nodes: 2, Seed: 1})
	if err == nil {
		_ = c.Close() // the test has failed
		t.Fatalf("protocol %s ran on a machine without its chips", e.protocol.Name)
	}
	if !errors.Is(err, protocol.ErrNeeds) || !strings.Contains(err.Error(), e.protocol.Name) {
		t.Errorf("%v does not say that protocol %s lacks its chips", err, e.protocol.Name)
	}
}

func closedTwice(t *testing.T, e env) {
	c := e.start(t)
	c.on(0, func(f *fiber.Fiber, eng proto.Engine) error {
		_, err := seen(f, eng, small, keyOn(0, 1))
		return err
	})
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, w := range c.Workers() {
			if err := w.Engine.Close(); err != nil {
				t.Errorf("worker %s: %v", w.Worker.Name(), err)
			}
		}
	}
	if err := c.Close(); err != nil { // once more
		t.Error(err)
	}
}
