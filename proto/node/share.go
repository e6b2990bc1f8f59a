package node

import (
	"fmt"
	"slices"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/history"
	"drtmd/proto/placement"
	"drtmd/proto/protocol"
	"drtmd/store"
	"drtmd/store/layout"
	"drtmd/store/remote"
	"drtmd/verbs"
)

// share is a replica of a shard on a member: memory of its own, with all tables. Those of all shares of
// all members lie at the same offsets.
type share struct {
	shard  proto.ShardID
	mr     *verbs.MR
	loaded *history.Snapshot // nil if nothing is recorded, or it was found in kept memory, or is to be filled
	empty  bool              // it is not formatted yet
	filled bool              // it was made after the cluster, to be filled
	growth []growth          // of the tables; nil: they do not grow
	// first are the tables as the first worker has opened them. Workers open them one after the other.
	first []protocol.PointIndex
}

// extent is a worker's view of a region that a table has grown by.
type extent struct {
	memory *htm.Memory
	mr     *verbs.MR
}

// makeShares registers the memory of the shards that the member holds at first.
func (m *Member) makeShares() (err error) {
	c := m.cluster
	first, held := placement.Initial(c.Nodes, c.Replicas), []proto.ShardID{proto.ShardID(m.ID)}
	if m.cfg.Placement != nil {
		first = m.cfg.Placement
	} else {
		held = first.Held(m.ID)
	}
	m.placed = placement.Place(c.Workload.Placement(), c.Workload.Tables(), m.ID, first)
	if m.tables, m.shareBytes, err = planTables(c, m.lineWords(), c.mutation()); err != nil {
		return err
	}
	m.logsAt = m.shareBytes
	m.shareBytes += c.ownLogBytes() * c.Workers
	m.journalsAt = m.shareBytes
	m.shareBytes += m.journalBytes() * c.Workers
	m.bound = &store.Bound{Bytes: c.Growth.Bytes, Setting: c.Growth.Setting}
	m.shares = make([]*share, c.Nodes)
	for _, shard := range held {
		if m.shares[shard], err = m.makeShare(shard); err != nil {
			return err
		}
	}
	return nil
}

// lineWords reports whether tables have line words.
func (m *Member) lineWords() bool {
	return m.cfg.Context.Attr().Caps.LineWords && !m.cfg.WithoutLineWords
}

// allocTables registers memory for tables, in which each worker can own lines.
func (m *Member) allocTables(bytes int, keep string) (*verbs.MR, error) {
	o := verbs.MROptions{Keep: keep}
	if m.cfg.Context.Attr().Caps.LineWords {
		o.LineOwners = m.cluster.Workers
	}
	return m.pd.AllocMR(bytes, verbs.AccessAll, o)
}

// view is a worker's view of memory for tables.
func (m *Member) view(mr *verbs.MR) (*htm.Memory, error) {
	if mr.Lines() == nil || m.cfg.WithoutLineWords {
		return htm.NewMemory(mr.Bytes(), nil, 0, nil), nil
	}
	owner, err := mr.ClaimLineOwner()
	if err != nil {
		return nil, err
	}
	memory := htm.NewMemory(mr.Bytes(), mr.Lines(), owner.Slot, owner.Journal)
	memory.Rescue = owner.Rescue
	return memory, nil
}

// everywhere reports whether every node has all of a table.
func everywhere(s proto.TableSpec) bool { return s.Everywhere }

// keptAs is the name of the memory of a shard's replica, if it is kept.
func (m *Member) keptAs(shard proto.ShardID) string {
	if m.cfg.Keep == "" || shard == proto.ShardID(m.ID) {
		return m.cfg.Keep
	}
	return fmt.Sprintf("%s.%d", m.cfg.Keep, shard)
}

// placement is what engines ask: the workload's own where that says all there is.
func (m *Member) placement() proto.Placement {
	if c := m.cluster; c.Protocol.Replicates || slices.ContainsFunc(c.Workload.Tables(), everywhere) {
		return m.placed
	}
	return m.cluster.Workload.Placement()
}

// Map says where the replicas of the shards are, as the member knows it.
func (m *Member) Map() *placement.Map { return m.placed.Map() }

// openShares gives a worker its view of the shares that the member holds. The first worker of a member
// that does not attach to kept memory formats and loads them.
func (m *Member) openShares(w *Worker) error {
	e := &w.Env
	e.Shares = make([]*protocol.Share, len(m.shares))
	for _, s := range m.shares {
		if s == nil {
			continue
		}
		fresh := e.Index == 0 && !m.cfg.Attach
		err := m.openShare(w, s, fresh)
		if err == nil && fresh {
			err = m.load(s, e.Shares[s.shard].Tables)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openShare gives a worker its view of a share, which it formats if it is fresh.
func (m *Member) openShare(w *Worker, s *share, fresh bool) (err error) {
	e, x := &w.Env, &protocol.Share{MR: s.mr}
	if x.Memory, err = m.view(s.mr); err != nil {
		return err
	}
	o := &opening{memory: x.Memory, fresh: fresh, kept: m.cfg.Attach,
		view: func(mr *verbs.MR) (*htm.Memory, error) {
			memory, err := m.view(mr)
			w.extents = append(w.extents, extent{memory, mr})
			return memory, err
		}}
	for i := range m.tables {
		if o.at = m.tables[i].offset; s.growth != nil {
			o.growth = s.growth[i]
		}
		if s.first != nil {
			o.first = s.first[i]
		}
		t, err := m.tables[i].open(o)
		if err != nil {
			return err
		}
		x.Tables = append(x.Tables, t)
	}
	if err := m.journal(e, x); err != nil {
		return err
	}
	if s.first == nil {
		s.first = x.Tables
	}
	e.Shares[s.shard] = x
	if s.shard == proto.ShardID(m.ID) {
		e.Memory, e.MR, e.Tables = x.Memory, x.MR, x.Tables
		bytes := m.cluster.ownLogBytes()
		e.Log = protocol.LogArea{At: m.logsAt + e.Index*bytes, Bytes: bytes, Kept: m.cfg.Attach}
	}
	return nil
}

// load fills the tables of a shard's replica. A workload must keep to what it says of them. A member that has come
// back with nothing loads only the tables that are everywhere, which it reads before it may be filled with anything.
func (m *Member) load(s *share, tables []protocol.PointIndex) error {
	back := m.cfg.Placement != nil
	if m.cluster.Record != nil && !back {
		s.loaded = history.NewSnapshot(history.NodeID(s.shard), history.Initial)
	}
	specs := m.cluster.Workload.Tables()
	if back && !slices.ContainsFunc(specs, everywhere) {
		return nil
	}
	count := make([]int, len(tables))
	return m.cluster.Workload.Load(proto.NodeID(s.shard), func(t proto.TableID, k proto.Key, v []byte) error {
		if t == 0 || int(t) > len(tables) {
			return proto.UnknownTable(t, k, len(tables))
		}
		spec := &specs[t-1]
		if back && !spec.Everywhere {
			return nil
		}
		if count[t-1]++; count[t-1] > spec.Capacity {
			return fmt.Errorf("table %q: workload %s loads more than its Capacity of %d records on a node; "+
				"make that larger", spec.Name, m.cluster.Workload.Name(), spec.Capacity)
		}
		if err := tables[t-1].Load(uint64(k), v); err != nil {
			return err
		}
		if s.counts(spec) {
			s.recordLoaded(t, k, v)
		}
		return nil
	})
}

// counts reports whether what a share has of a table is told to histories: of what is everywhere, only
// that of one shard is.
func (s *share) counts(spec *proto.TableSpec) bool { return !spec.Everywhere || s.shard == 0 }

// registered is the region of a memory that a worker has.
func (w *Worker) registered(memory *htm.Memory) *verbs.MR {
	if memory == w.Memory {
		return w.MR
	}
	for _, s := range w.Shares {
		if s != nil && s.Memory == memory {
			return s.MR
		}
	}
	for i := range w.extents {
		if w.extents[i].memory == memory {
			return w.extents[i].mr
		}
	}
	return nil
}

// describeShare is what other members must know of a share.
func (m *Member) describeShare(s *share) ShareDescriptor {
	d := ShareDescriptor{Shard: s.shard, Memory: s.mr.Remote()}
	for i := range m.tables {
		d.Tables = append(d.Tables, m.tables[i].Descriptor(m.tables[i].offset))
	}
	return d
}

// reachShare makes the share described one of the peer's.
func (w *Worker) reachShare(n proto.NodeID, d *ShareDescriptor) {
	x := &proto.PeerShare{Memory: d.Memory}
	for _, t := range d.Tables {
		table := remote.OpenPeer(uint16(n), t, d.Memory)
		table.Mutate(w.lacks.remote)
		x.Tables = append(x.Tables, table)
	}
	p := &w.Peers[n]
	p.Shares[d.Shard] = x
	if d.Shard == proto.ShardID(n) {
		p.Memory, p.Tables = x.Memory, x.Tables
	}
}

// checkShares refuses a member that holds other shards than it must, or keeps records in another way, or
// finds them in another way.
func (m *Member) checkShares(d *Descriptor) error {
	var held []proto.ShardID
	for i := range d.Shares {
		held = append(held, d.Shares[i].Shard)
	}
	if want := m.Map().Held(d.Node); !slices.Equal(held, want) {
		return fmt.Errorf("node %d: member %d holds the shards %v, want %v: all members must have the same "+
			"configuration", m.ID, d.Node, held, want)
	}
	for i := range d.Shares {
		if err := m.checkTables(d.Node, &d.Shares[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *Member) checkTables(n proto.NodeID, d *ShareDescriptor) error {
	if len(d.Tables) != len(m.tables) {
		return fmt.Errorf("node %d: member %d has %d tables, want %d: all members must run the same protocol "+
			"and workload", m.ID, n, len(d.Tables), len(m.tables))
	}
	for i := range d.Tables {
		own, its := m.tables[i].Descriptor(m.tables[i].offset), &d.Tables[i]
		if own.Table != its.Table || own.ValueBytes != its.ValueBytes || own.Layout != its.Layout ||
			own.Index != its.Index {
			return fmt.Errorf("node %d: member %d has table %d with values of %d bytes in layout %v and index "+
				"%v, want table %d (%s) with %d, %v and %v: all members must run the same protocol and workload",
				m.ID, n, its.Table, its.ValueBytes, its.Layout, its.Index, own.Table, m.tables[i].name,
				own.ValueBytes, own.Layout, own.Index)
		}
	}
	return nil
}

// Read reads a record of a shard that the member holds when nothing runs any more, with the workers
// already closed or not: proto.ErrNotFound if there is none.
func (m *Member) Read(shard proto.ShardID, t proto.TableID, k proto.Key, dst []byte) error {
	if int(t) > len(m.tables) || t == 0 {
		return proto.ErrUnknownTable
	}
	h, value, ok := m.find(shard, t, k)
	if !ok || h.Match(uint64(k)) != layout.Live {
		return proto.ErrNotFound
	}
	copy(dst, value)
	return nil
}

// State is the state word of a record's entry; false if it has none. For members at rest.
func (m *Member) State(shard proto.ShardID, t proto.TableID, k proto.Key) (uint64, bool) {
	h, _, ok := m.find(shard, t, k)
	return h.State, ok
}

// find is the entry of a key: for members at rest.
func (m *Member) find(shard proto.ShardID, t proto.TableID, k proto.Key) (h layout.Head, value []byte,
	ok bool) {
	table := m.Workers[0].Shares[shard].Tables[t-1]
	place, ok := table.Find(uint64(k))
	if ok {
		h, value = entryAt(table, place)
	}
	return h, value, ok
}

// Entries calls f with header and value of every entry of every table of a shard that the member holds,
// absent ones included, until it returns false; the value of an absent one means nothing. f may not keep
// the value. For members at rest.
func (m *Member) Entries(shard proto.ShardID, f func(t proto.TableID, h layout.Head, value []byte) bool) {
	for i, t := range m.Workers[0].Shares[shard].Tables {
		on := true
		t.Each(func(place int) bool {
			h, value := entryAt(t, place)
			on = f(proto.TableID(i+1), h, value)
			return on
		})
		if !on {
			return
		}
	}
}

// entryAt is what lies at a place of a table: for members at rest.
func entryAt(t protocol.PointIndex, place int) (layout.Head, []byte) {
	r := t.Record()
	memory, off := t.At(place)
	image := memory.Bytes[off : off+r.Bytes]
	return layout.HeadOf(image), r.Value(image, make([]byte, r.Room))
}
