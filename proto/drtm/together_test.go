package drtm_test

import (
	"context"
	"encoding/binary"
	"testing"

	"drtmd/proto"
	"drtmd/proto/drtm"
	"drtmd/proto/node"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
	"drtmd/verbs/lineword"
)

// TestRecordsThatAreLoadedTogetherAreOfOneMoment: a transaction with many local records loads them when it touches the
// first one. Two change while it does, one that it has and one that it will load: the program sees both changes or none,
// also before the commit compares them.
func TestRecordsThatAreLoadedTogetherAreOfOneMoment(t *testing.T) {
	for _, mutation := range []string{"", "htm-no-opacity"} {
		const records = 9
		var c *cluster
		accesses, changes := 0, false
		c = start(t, host{"sim", func(ctx context.Context, cfg node.Config) (*node.Cluster, error) {
			return node.NewSimulated(ctx, node.SimulatedConfig{Config: cfg, OnStep: func(_ *fiber.Fiber, name string) {
				if name != "drtm: before access" {
					return
				}
				if accesses++; changes && accesses == records/2 {
					changes = false
					c.raise(0)
					c.raise(records - 1)
				}
			}})
		}}, settings{node: func(cfg *node.Config) { cfg.Nodes, cfg.Mutation = 1, mutation }})
		var all []proto.Access
		for k := range uint64(records) {
			all = append(all, reading(small, keyOn(0, k)))
		}
		all[1].Mode = proto.ModeWrite
		attempts, torn := 0, 0
		c.on(0, func(f *fiber.Fiber, e *drtm.Engine) error {
			changes = true
			return do(f, e, declare(all...), func(tx proto.Txn) error {
				accesses = 0
				attempts++
				var seen [records]uint64
				b := value(small, 0)
				for k := range seen {
					if err := tx.Read(small, keyOn(0, uint64(k)), b); err != nil {
						return err
					}
					seen[k], _ = number(b)
					if accesses != records {
						t.Errorf("record %d: %d were loaded", k, accesses)
					}
				}
				if seen[0] != seen[records-1] {
					torn++
				}
				return tx.Write(small, keyOn(0, 1), b)
			})
		})
		if attempts != 2 || torn != 0 && mutation == "" || torn != 1 && mutation != "" {
			t.Errorf("with mutation %q: %d attempts, of which %d saw one of two changes", mutation, attempts, torn)
		}
	}
}

// raise adds 1 to a small record of the first node, as a commit does.
func (c *cluster) raise(k uint64) {
	tab := c.Members[0].Workers[0].Tables[small-1]
	off, ok := tab.Find(uint64(keyOn(0, k)))
	if !ok {
		c.t.Fatalf("no record %d", k)
	}
	m, off := tab.At(off)
	b := m.Bytes[off+layout.ValueOffset:]
	binary.NativeEndian.PutUint64(b, binary.NativeEndian.Uint64(b)+1)
	word := &m.Words[off/layout.LineBytes]
	*word = uint64(lineword.Load(word).Next())
}
