package node_test

import (
	"slices"
	"testing"

	"drtmd/proto"
	"drtmd/proto/node"
)

// TestADatabaseIsScanned: in both directions and up to a limit, with what the transaction itself has inserted and
// deleted, under protocols that need declarations and under others.
func TestADatabaseIsScanned(t *testing.T) {
	for _, p := range node.Protocols() {
		if p.Chips != nil {
			continue // package enginetest tests that they are refused here
		}
		if p.Family != "" {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			db, err := node.Open(t.Context(), node.Options{Nodes: 1, Protocol: p.Name,
				Tables: []proto.TableSpec{{Name: "rows", ValueBytes: 8, Capacity: 400, Ordered: true}},
				Load: func(put func(proto.TableID, proto.Key, []byte) error) error {
					for k := range 100 {
						if err := put(1, proto.Key(2*k), money(uint64(k))); err != nil {
							return err
						}
					}
					return nil
				}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			}()
			var got []proto.Key
			scan := func(tx proto.Txn, from, to proto.Key, limit int) error {
				got = nil
				return tx.Scan(1, from, to, func(k proto.Key, _ []byte) bool {
					got = append(got, k)
					return len(got) < limit
				})
			}
			want := func(keys ...proto.Key) {
				t.Helper()
				if !slices.Equal(got, keys) {
					t.Errorf("found %d, want %d", got, keys)
				}
			}
			err = db.Run(t.Context(), func(tx proto.Txn) error {
				if err := tx.Insert(1, 7, money(1)); err != nil {
					return err
				}
				if err := tx.Delete(1, 4); err != nil {
					return err
				}
				return scan(tx, 3, 10, 100)
			})
			if err != nil {
				t.Fatal(err)
			}
			want(6, 7, 8, 10)
			for _, x := range []struct {
				from, to proto.Key
				limit    int
				want     []proto.Key
			}{{10, 3, 100, []proto.Key{10, 8, 7, 6}}, {0, 198, 3, []proto.Key{0, 2, 6}}} {
				err := db.Run(t.Context(), func(tx proto.Txn) error { return scan(tx, x.from, x.to, x.limit) })
				if err != nil {
					t.Fatal(err)
				}
				want(x.want...)
			}
			if err := db.Run(t.Context(), func(tx proto.Txn) error { return scan(tx, 0, 199, 1000) }); err != nil {
				t.Fatal(err)
			}
			if len(got) != 100 {
				t.Errorf("found %d of 100 rows", len(got))
			}
		})
	}
}
