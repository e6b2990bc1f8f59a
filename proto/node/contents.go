package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"drtmd/htm"
	"drtmd/internal/invariant"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/store/layout"
)

// recordLoaded takes down a record that was loaded, if histories are recorded.
func (s *share) recordLoaded(t proto.TableID, k proto.Key, v []byte) {
	if s.loaded != nil {
		s.loaded.Put(history.Content{Table: history.Table(t), Key: history.Key(k),
			State: history.Present, Version: history.Version(layout.FirstVersion),
			Digest: history.DigestOf(v)})
	}
}

// Loaded is what the tables of a shard that the member holds were loaded with; nil if nothing is
// recorded, or if the member found them in kept memory, unless Cluster.Begin was called. A replica that was filled
// later has what the others were loaded with.
func (m *Member) Loaded(shard proto.ShardID) *history.Snapshot {
	s := m.shares[shard]
	if s.loaded == nil && s.filled && m.cluster.Record != nil {
		s.loaded = history.NewSnapshot(history.NodeID(shard), history.Initial)
		specs := m.cluster.Workload.Tables()
		err := m.cluster.Workload.Load(proto.NodeID(shard), func(t proto.TableID, k proto.Key, v []byte) error {
			if s.counts(&specs[t-1]) {
				s.recordLoaded(t, k, v)
			}
			return nil
		})
		invariant.Assert(err == nil, "a workload that was loaded cannot be loaded again")
	}
	return s.loaded
}

// Holds is what the tables of a shard that the member holds have when nothing runs any more. pending, if
// not nil, says of a state word that is locked whether its owner has died: the record's write may not
// have been made then. Other records count as they are, locked or not.
func (m *Member) Holds(shard proto.ShardID, pending func(state uint64) bool) *history.Snapshot {
	s := history.NewSnapshot(history.NodeID(m.ID), history.Final)
	if m.cluster.Replicas > 1 {
		s = history.NewReplicaSnapshot(history.Replica{Shard: uint16(shard), Node: history.NodeID(m.ID)},
			history.Final)
	}
	m.putContents(s, shard, pending)
	return s
}

// putContents puts what the tables of a shard have into a snapshot.
func (m *Member) putContents(s *history.Snapshot, shard proto.ShardID, pending func(state uint64) bool) {
	specs := m.cluster.Workload.Tables()
	var all []history.Content
	m.Entries(shard, func(t proto.TableID, h layout.Head, value []byte) bool {
		if !m.shares[shard].counts(&specs[t-1]) {
			return true
		}
		v := h.Version
		c := history.Content{Table: history.Table(t), Version: history.Version(v), Key: history.Key(h.Key)}
		switch owed := layout.Locked(h.State) && pending != nil && pending(h.State); {
		case v.Live():
			c.State, c.Digest = history.Present, history.DigestOf(value)
			if owed {
				c.State = history.Pending
			}
		case owed:
			c.State = history.Pending
		case v.Trace() != 0:
			c.State = history.Deleted
		default:
			return true
		}
		all = append(all, c)
		return true
	})
	slices.SortFunc(all, func(a, b history.Content) int { // neighbours are encoded shorter
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Key, b.Key))
	})
	for _, c := range all {
		s.Put(c)
	}
}

// Begin takes down what the tables of the members in this process hold, as what a run begins with, and has clients
// number their records from there on: for members that were attached to kept memory, before clients are made. All members
// are recovered, and no transaction runs anywhere.
func (c *Cluster) Begin(ctx context.Context) error {
	var begun workload.Tally
	var errs []error
	continuer, numbers := c.Config.Workload.(workload.Continuer)
	err := c.Inspect(ctx, func(w *Worker) {
		m := w.member
		if w.Index > 0 {
			return
		}
		for _, shard := range m.Map().Held(m.ID) {
			if c.Config.Record != nil {
				s := history.NewSnapshot(history.NodeID(shard), history.Initial)
				m.putContents(s, shard, nil)
				m.shares[shard].loaded = s
			}
			if m.Map().Shards[shard].Primary == m.ID {
				begun = begun.Plus(workload.Verify(c.Config.Workload, proto.NodeID(shard), m.Contents(shard)))
			}
			if numbers && shard == proto.ShardID(m.ID) {
				errs = append(errs, continuer.GoOn(m.ID, m.Contents(shard)))
			}
		}
	})
	c.begun = &begun
	return errors.Join(append(errs, err)...)
}

// Contents are those of a shard that the member holds, for its workload's check: for members at rest.
func (m *Member) Contents(shard proto.ShardID) workload.Contents { return contents{m, shard} }

type contents struct {
	m     *Member
	shard proto.ShardID
}

func (c contents) Read(t proto.TableID, k proto.Key, dst []byte) error {
	return c.m.Read(c.shard, t, k, dst)
}

func (c contents) table(t proto.TableID) protocol.PointIndex {
	return c.m.Workers[0].Shares[c.shard].Tables[t-1]
}

func (c contents) Each(t proto.TableID, visit func(k proto.Key, row []byte)) {
	table := c.table(t)
	table.Each(func(place int) bool {
		if h, value := entryAt(table, place); h.Version.Live() {
			visit(proto.Key(h.Key), value)
		}
		return true
	})
}

// Bounds of a scan at rest.
const (
	scanKeys = 32  // of a region
	scanRuns = 100 // of a region that aborts, although nobody else runs
)

// Scan scans in regions, as transactions do.
func (c contents) Scan(t proto.TableID, visit func(k proto.Key, row []byte) bool) error {
	table, ordered := c.table(t).(protocol.OrderedIndex)
	if !ordered {
		return c.sorted(t, visit)
	}
	cfg := c.m.Workers[0].Env.Region
	cfg.Flag = nil // no worker runs
	s := scanner{table: table, region: htm.NewRegion(cfg)}
	for from, more := uint64(0), true; more; {
		if err := s.some(from); err != nil {
			return err
		}
		for i, place := range s.places {
			h, value := entryAt(table, place)
			if from = s.keys[i] + 1; h.Version.Live() && !visit(proto.Key(s.keys[i]), value) {
				return nil
			}
		}
		more = len(s.places) == scanKeys && from != layout.NoKey
	}
	return nil
}

// sorted visits the records of a table without an order, in the order of their keys.
func (c contents) sorted(t proto.TableID, visit func(k proto.Key, row []byte) bool) error {
	table, ok := c.table(t).(interface{ Each(f func(place int) bool) })
	if !ok || !c.m.Workers[0].Env.Specs[t-1].Ordered {
		return proto.ErrUnsupported
	}
	places := map[uint64]int{}
	table.Each(func(place int) bool {
		if h, _ := entryAt(c.table(t), place); h.Version.Live() {
			places[h.Key] = place
		}
		return true
	})
	for _, k := range slices.Sorted(maps.Keys(places)) {
		if _, value := entryAt(c.table(t), places[k]); !visit(proto.Key(k), value) {
			break
		}
	}
	return nil
}

// scanner scans an ordered table from region to region.
type scanner struct {
	table  protocol.OrderedIndex
	region *htm.Region
	keys   []uint64 // those of the last region, absent ones included
	places []int
}

// some finds the next keys from one on.
func (s *scanner) some(from uint64) error {
	for range scanRuns {
		s.keys, s.places = s.keys[:0], s.places[:0]
		if !s.region.Begin() {
			continue
		}
		ok := s.table.Scan(s.region, from, layout.NoKey-1, func(key uint64, place int) bool {
			s.keys, s.places = append(s.keys, key), append(s.places, place)
			return len(s.keys) < scanKeys
		})
		if ok && s.region.Commit(nil) {
			return nil
		}
	}
	return fmt.Errorf("a scan from key %#x on was aborted %d times", from, scanRuns)
}
