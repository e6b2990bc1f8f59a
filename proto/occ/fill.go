package occ

import (
	"fmt"

	"drtmd/proto"
	"drtmd/proto/protocol"
	"drtmd/proto/recovery"
	"drtmd/verbs/fiber"
)

// Fill implements proto.Recoverer: it copies a shard record by record from its primary, while that serves it.
// What is written meanwhile is logged here, too; of two versions the newer one stays.
func (e recoverer) Fill(f *fiber.Fiber, shard proto.ShardID) error {
	v := e.view
	if v == nil {
		return nil
	}
	r := v.run(f)
	defer r.end()
	s := e.replica(shard)
	if s == nil || int(shard) >= len(v.home) || v.home[shard] == proto.NoNode {
		return fmt.Errorf("shard %d: there is no replica to fill, or nobody to fill it from", shard)
	}
	// From then on every update is logged here, too.
	err := r.eachAlive(func(n proto.NodeID) error {
		_, _, _, err := r.ask(n, ask{request: askAdopted}, nil)
		return err
	})
	if err != nil {
		return err
	}
	for t := range s.Tables {
		if err := r.fillTable(s, shard, proto.TableID(t+1)); err != nil {
			return err
		}
	}
	return nil
}

// fillTable copies one table.
func (r *run) fillTable(s *share, shard proto.ShardID, t proto.TableID) error {
	v := r.v
	size := v.e.Env.Specs[t-1].ValueBytes
	for a := (ask{request: askCopy, of: uint32(shard), name: recovery.Name(t)}); ; {
		r.f.Step(stepFill)
		b, next, count, err := r.ask(v.home[shard], a, nil)
		if err != nil {
			return err
		}
		for len(b) > 0 {
			w, rest, ok := takeCopied(b, size)
			if !ok {
				return errAnswer
			}
			w.Shard, w.Table, b = shard, t, rest
			for !v.e.apply(s, &w) {
				if err := r.pause(); err != nil {
					return err
				}
			}
			v.count.Filled++
		}
		goOnFrom(s.Tables[t-1], uint32(count))
		if a.index = next; next == 0 {
			return nil
		}
	}
}

// Tables that can be walked piece by piece, and that number the lives of keys.
type (
	walked interface {
		EachFrom(from int, f func(i, off int) bool)
	}
	counted interface {
		Incarnations() uint32
		GoOnFrom(uint32)
	}
)

// eachFrom calls f with the places of a table from an index on. A table that changes meanwhile may leave out or
// repeat what changes.
func eachFrom(t protocol.PointIndex, from int, f func(i, off int) bool) {
	if w, ok := t.(walked); ok {
		w.EachFrom(from, f)
		return
	}
	i := 0
	t.Each(func(place int) bool {
		i++
		return i <= from || f(i-1, place)
	})
}

// incarnations is the number from which a table goes on for keys that it does not know.
func incarnations(t protocol.PointIndex) uint32 {
	if c, ok := t.(counted); ok {
		return c.Incarnations()
	}
	return 0
}

func goOnFrom(t protocol.PointIndex, n uint32) {
	if c, ok := t.(counted); ok {
		c.GoOnFrom(n)
	}
}
