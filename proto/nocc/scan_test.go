package nocc_test

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"drtmd/proto"
	"drtmd/proto/check"
	"drtmd/proto/node"
	"drtmd/proto/workload/keyvalue"
	"drtmd/proto/workload/ycsb"
	"drtmd/verbs/fiber"
)

// TestScansSeeTheTransactionsOwnWrites: what it has inserted, written and deleted, in order, in both directions
// and up to a limit; and the history of such scans is serializable.
func TestScansSeeTheTransactionsOwnWrites(t *testing.T) {
	o := ycsb.Default(1)
	o.Letter, o.Keys, o.Room, o.ValueBytes = "E", 40, 100, 8
	w, err := ycsb.New(o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := node.FindProtocol("nocc")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	c, err := node.NewLocal(ctx, node.LocalConfig{Config: node.Config{Protocol: p, Workload: w,
		Record: &node.Recording{}}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Start("test", 1, func(f *fiber.Fiber, w *node.Worker, _ int) error {
		scanOwnWrites(t, f, w)
		return nil
	}).Wait(ctx)
	if err := errors.Join(err, c.Stop()); err != nil {
		t.Error(err)
	}
	h, err := c.History()
	if err != nil {
		t.Fatal(err)
	}
	r, err := check.History(ctx, h, check.Options{})
	if err != nil || r.Verdict != check.Serializable {
		t.Errorf("%v, %v", r, err)
	}
	if err := errors.Join(h.Close(), c.Close()); err != nil {
		t.Error(err)
	}
}

func scanOwnWrites(t *testing.T, f *fiber.Fiber, w *node.Worker) {
	const table = keyvalue.Table
	keys := func(tx proto.Tx, from, to proto.Key, limit int) (got []proto.Key) {
		err := tx.Scan(table, from, to, func(k proto.Key, v []byte) bool {
			if k == 5 && binary.LittleEndian.Uint64(v) != 77 {
				t.Errorf("key 5 has value %x", v)
			}
			got = append(got, k)
			return len(got) < limit
		})
		want(t, "scan", err, nil)
		return got
	}
	number := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	tx := begin(t, f, w)
	want(t, "write", tx.Write(table, 5, number(77)), nil)
	want(t, "delete", tx.Delete(table, 7), nil)
	for _, k := range []proto.Key{60, 50, 45} {
		want(t, "insert", tx.Insert(table, k, number(1)), nil)
	}
	for _, x := range []struct {
		from, to proto.Key
		limit    int
		want     []proto.Key
	}{
		{3, 9, 100, []proto.Key{3, 4, 5, 6, 8, 9}},
		{9, 3, 100, []proto.Key{9, 8, 6, 5, 4, 3}},
		{38, 100, 100, []proto.Key{38, 39, 45, 50, 60}},
		{100, 38, 100, []proto.Key{60, 50, 45, 39, 38}},
		{38, 100, 3, []proto.Key{38, 39, 45}},
		{55, 38, 2, []proto.Key{50, 45}},
		{45, 45, 9, []proto.Key{45}},
		{46, 49, 9, nil},
		{7, 7, 9, nil},
	} {
		if got := keys(tx, x.from, x.to, x.limit); !slices.Equal(got, x.want) {
			t.Errorf("from %d to %d, at most %d: %d, want %d", x.from, x.to, x.limit, got, x.want)
		}
	}
	want(t, "a range of two nodes", tx.Scan(table, 0, 1<<48, func(proto.Key, []byte) bool { return true }),
		proto.ErrPlacement)
	want(t, "an unknown table", tx.Scan(9, 0, 1, func(proto.Key, []byte) bool { return true }),
		proto.ErrUnknownTable)
	want(t, "commit", tx.Commit(), nil)
	tx = begin(t, f, w)
	if got := keys(tx, 0, 100, 1000); len(got) != 42 || got[41] != 60 {
		t.Errorf("then: %d", got)
	}
	want(t, "commit", tx.Commit(), nil)
}
