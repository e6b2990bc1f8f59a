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
			// Where LOG locks, a transaction may have the record here and not at the primary: if it aborts, the old
			// value comes back, which must be this one then.
			for !v.e.applyTo(s, &w, v.e.locksInLog()) {
				if err := r.pause(); err != nil {
					return err
				}
			}
			v.count.Filled++
		}
		if err := r.goOn(protocol.Copied(s.Tables[t-1]), uint32(count)); err != nil {
			return err
		}
		if a.index = next; next == 0 {
			return nil
		}
	}
}

// goOn has a table continue the incarnations of another replica. Other workers of the machine use it meanwhile.
func (r *run) goOn(t protocol.CopiedIndex, n uint32) error {
	region := r.v.e.HostRegion()
	for t.Incarnations() < n {
		region.Begin()
		if t.RaiseIn(region, n) && region.Commit(nil) {
			return nil
		}
		if err := r.pause(); err != nil {
			return err
		}
	}
	return nil
}
