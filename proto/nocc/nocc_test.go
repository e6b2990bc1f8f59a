package nocc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"drtmd/proto"
	"drtmd/proto/node"
	"drtmd/proto/workload/micro"
	"drtmd/store"
	"drtmd/verbs/fiber"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tables of the micro workload: items exist under even keys in the beginning.
const (
	items  = micro.Items
	exists = proto.Key(0)
	absent = proto.Key(1)
)

// config is that of a cluster of one node.
func config(t *testing.T) node.Config {
	t.Helper()
	p, err := node.FindProtocol("nocc")
	if err != nil {
		t.Fatal(err)
	}
	m, err := micro.New(micro.Default(1))
	if err != nil {
		t.Fatal(err)
	}
	return node.Config{Protocol: p, Workload: m}
}

// run runs body on a cluster of one node, and records it.
func run(t *testing.T, body func(f *fiber.Fiber, w *node.Worker) error) {
	t.Helper()
	ctx := context.Background()
	cfg := config(t)
	cfg.Record = &node.Recording{}
	c, err := node.NewLocal(ctx, node.LocalConfig{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		return body(f, w)
	}).Wait(ctx)
	if err := errors.Join(err, c.Stop()); err != nil {
		t.Error(err)
	}
	h, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Close(), c.Close()); err != nil {
		t.Error(err)
	}
}

// value is one of the tables' size.
func value(n uint64) []byte {
	return binary.NativeEndian.AppendUint64(make([]byte, 0, micro.ValueBytes), n)[:micro.ValueBytes]
}

func begin(t *testing.T, f *fiber.Fiber, w *node.Worker) proto.Tx {
	t.Helper()
	tx, err := w.Engine.Begin(f, &proto.Decl{Kind: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func want(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || (want == nil && got != nil) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestWhatIsRolledBackLeavesNoTrace(t *testing.T) {
	run(t, func(f *fiber.Fiber, w *node.Worker) error {
		table := w.Tables[items-1].(*store.Table)
		before := table.Occupancy()
		first := make([]byte, micro.ValueBytes)
		want(t, "peek", w.Engine.Peek(f, items, exists, first), nil)
		for name, end := range map[string]func(proto.Tx) error{
			"rollback": proto.Tx.Rollback,
			"abort":    func(tx proto.Tx) error { tx.Abort(nil); return nil },
		} {
			tx := begin(t, f, w)
			want(t, "write", tx.Write(items, exists, value(5)), nil)
			want(t, "insert", tx.Insert(items, absent, value(6)), nil)
			want(t, "delete", tx.Delete(items, 2), nil)
			want(t, "write of what was inserted", tx.Write(items, absent, value(7)), nil)
			want(t, name, end(tx), nil)
			got := make([]byte, micro.ValueBytes)
			want(t, "peek", w.Engine.Peek(f, items, exists, got), nil)
			if string(got) != string(first) {
				t.Errorf("%s: value %v, want %v", name, got, first)
			}
			want(t, "peek at the absent", w.Engine.Peek(f, items, absent, got), proto.ErrNotFound)
			want(t, "peek at the deleted", w.Engine.Peek(f, items, 2, got), nil)
			if after := table.Occupancy(); after != before {
				t.Errorf("%s: table holds %+v, before %+v", name, after, before)
			}
		}
		return nil
	})
}

func TestTransactionSeesItsOwnWrites(t *testing.T) {
	run(t, func(f *fiber.Fiber, w *node.Worker) error {
		got := make([]byte, micro.ValueBytes)
		tx := begin(t, f, w)
		want(t, "delete", tx.Delete(items, exists), nil)
		want(t, "read of the deleted", tx.Read(items, exists, got), proto.ErrNotFound)
		want(t, "second delete", tx.Delete(items, exists), proto.ErrNotFound)
		want(t, "write of the deleted", tx.Write(items, exists, got), proto.ErrNotFound)
		want(t, "insert over it", tx.Insert(items, exists, value(8)), nil)
		want(t, "second insert", tx.Insert(items, exists, value(8)), proto.ErrExists)
		want(t, "read", tx.Read(items, exists, got), nil)
		want(t, "commit", tx.Commit(), nil)
		if binary.NativeEndian.Uint64(got) != 8 {
			t.Errorf("read %v", got)
		}
		return nil
	})
}

func TestVersionsGrowOverDeletionAndInsertion(t *testing.T) {
	run(t, func(f *fiber.Fiber, w *node.Worker) error {
		last := version(t, w.Tables[items-1].(*store.Table), exists)
		for range 3 {
			for _, op := range []func(proto.Tx) error{
				func(tx proto.Tx) error { return tx.Write(items, exists, value(1)) },
				func(tx proto.Tx) error { return tx.Delete(items, exists) },
				func(tx proto.Tx) error { return tx.Insert(items, exists, value(2)) },
			} {
				tx := begin(t, f, w)
				want(t, "operation", op(tx), nil)
				want(t, "commit", tx.Commit(), nil)
			}
			v := version(t, w.Tables[items-1].(*store.Table), exists)
			if v <= last {
				t.Errorf("version %#x after %#x", v, last)
			}
			last = v
		}
		return nil
	})
}

func version(t *testing.T, table *store.Table, k proto.Key) uint64 {
	t.Helper()
	off, ok := table.Find(uint64(k))
	if !ok {
		t.Fatalf("key %d is not there", k)
	}
	return binary.NativeEndian.Uint64(table.Memory().Bytes[table.VersionOffset(off):])
}

func TestWrongCallsAreRefusedByName(t *testing.T) {
	run(t, func(f *fiber.Fiber, w *node.Worker) error {
		tx := begin(t, f, w)
		short := make([]byte, 3)
		want(t, "short read", tx.Read(items, exists, short), proto.ErrValueSize)
		want(t, "short write", tx.Write(items, exists, short), proto.ErrValueSize)
		want(t, "short insert", tx.Insert(items, absent, short), proto.ErrValueSize)
		want(t, "unknown table", tx.Read(9, exists, short), proto.ErrUnknownTable)
		want(t, "table 0", tx.Delete(0, exists), proto.ErrUnknownTable)
		want(t, "scan", tx.Scan(items, 0, 9, nil), proto.ErrUnsupported)
		want(t, "rollback", tx.Rollback(), nil)
		return nil
	})
}

// TestTheSimulatorChargesWhatATransactionDoes: more records, changes and new entries take more time.
func TestTheSimulatorChargesWhatATransactionDoes(t *testing.T) {
	ctx := context.Background()
	c, err := node.NewSimulated(ctx, node.SimulatedConfig{Config: config(t)})
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, micro.ValueBytes)
	read := func(k proto.Key) func(proto.Tx) error {
		return func(tx proto.Tx) error { return tx.Read(items, k, buffer) }
	}
	write := func(tx proto.Tx) error { return tx.Write(items, exists, value(1)) }
	insert := func(tx proto.Tx) error { return tx.Insert(items, absent, value(1)) }
	err = c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		last := time.Duration(-1)
		for i, ops := range [][]func(proto.Tx) error{{}, {read(exists)}, {write}, {insert}, {read(exists), read(2), insert}} {
			if i == 4 { // it is there by now
				ops[2] = func(tx proto.Tx) error { return tx.Delete(items, absent) }
			}
			began := f.Now()
			tx := begin(t, f, w)
			for _, op := range ops {
				want(t, "operation", op(tx), nil)
			}
			want(t, "commit", tx.Commit(), nil)
			if took := f.Now() - began; took <= last {
				t.Errorf("transaction %d took %v, the one before %v", i, took, last)
			} else {
				last = took
			}
		}
		return nil
	}).Wait(ctx)
	if err := errors.Join(err, c.Stop(), c.Close()); err != nil {
		t.Error(err)
	}
}
