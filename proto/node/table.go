package node

import (
	"fmt"

	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/store"
	"drtmd/store/btree"
	"drtmd/store/hopscotch"
	"drtmd/store/layout"
	"drtmd/verbs"
)

// table is a table that every share has, with the index that the protocol needs.
type table struct {
	shape
	name   string
	offset int // in the memory of each share
	// open gives a worker its view of a share's.
	open func(o *opening) (protocol.PointIndex, error)
}

// opening is how a worker opens a table of a share.
type opening struct {
	memory *htm.Memory // of the share
	at     int         // where the table is there
	fresh  bool        // it is not formatted yet
	kept   bool        // it was in kept memory
	// growth is that of the share's table, if it grows.
	growth *store.Growth
	view   func(*verbs.MR) (*htm.Memory, error) // of further regions
}

// shape is what the configurations of tables have in common, whatever their index.
type shape interface {
	Check() error
	Bytes() int
	Descriptor(at int) layout.Descriptor
}

// tableAlignment lets a table begin on a page.
const tableAlignment = 4096

// TableBytes is the memory that the tables of one shard of a workload take under a protocol. A member
// holds as many shards as there are replicas of each.
func TableBytes(w workload.Workload, p *Protocol, options option.Settings) (bytes int, err error) {
	values, err := p.Options.Values(options)
	if err != nil {
		return 0, err
	}
	_, bytes, err = planTables(&Config{Workload: w, Protocol: *p, options: values}, mutated{})
	return bytes, err
}

// planTables says which tables a share has, where they begin, and how long it is.
func planTables(c *Config, lacks mutated) (tables []table, bytes int, err error) {
	specs := c.Workload.Tables()
	for i := range specs {
		t := planTable(c, &specs[i], lacks)
		if err := t.Check(); err != nil {
			return nil, 0, err
		}
		t.name, t.offset = specs[i].Name, bytes
		tables = append(tables, t)
		bytes += (t.Bytes() + tableAlignment - 1) &^ (tableAlignment - 1)
	}
	return tables, bytes, nil
}

// planTable is the table that a protocol needs for what a workload describes. A table of another index is
// added here, and to protocol.Protocol.CheckStore.
func planTable(cfg *Config, s *proto.TableSpec, lacks mutated) table {
	p := &cfg.Protocol
	kind, index := p.Tables()
	if s.Ordered {
		c := btree.For(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity)
		c.Layout, c.Mutation = kind, lacks.btree
		return table{shape: c, open: opener(btree.Format, btree.Attach, c)}
	}
	if index == layout.HopscotchInline {
		load := hopscotch.SlotLoad
		if _, ok := p.Options.Find(protocol.OptSlotLoad); ok {
			load = cfg.options.Int(protocol.OptSlotLoad)
		}
		c := hopscotch.ForLoad(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity, load)
		c.Layout, c.CPULocks, c.Mutation = kind, p.CPULocks, lacks.hopscotch
		return table{shape: c, open: opener(hopscotch.Format, hopscotch.Attach, c)}
	}
	c := store.For(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity)
	c.Layout, c.Mutation = kind, lacks.store
	if c.Grows = cfg.Growth.Bytes > 0; c.Grows {
		return table{shape: c, open: growingOpener(c)}
	}
	return table{shape: c, open: opener(store.Format, store.Attach, c)}
}

// opener is table.open for what the package of an index offers.
func opener[C any, T protocol.PointIndex](format, attach func(C, *htm.Memory, int) (T, error),
	c C) func(o *opening) (protocol.PointIndex, error) {
	return func(o *opening) (protocol.PointIndex, error) {
		if o.fresh {
			return format(c, o.memory, o.at)
		}
		return attach(c, o.memory, o.at)
	}
}

// growingOpener is opener for a table that grows.
func growingOpener(c store.Config) func(o *opening) (protocol.PointIndex, error) {
	return func(o *opening) (protocol.PointIndex, error) {
		open := store.Attach
		if o.fresh {
			open = store.Format
		}
		t, err := open(c, o.memory, o.at)
		if err != nil {
			return nil, err
		}
		return o.growth.Open(t, o.kept, o.view)
	}
}

// growths prepare the growth of a share's tables; nil: they do not grow.
func (m *Member) growths(s proto.ShardID) (list []*store.Growth) {
	if m.cluster.Growth.Bytes == 0 {
		return nil
	}
	for i := range m.tables {
		t := &m.tables[i]
		keep := m.keptAs(s)
		if keep != "" {
			keep = fmt.Sprintf("%s.t%d", keep, i+1)
		}
		list = append(list, store.NewGrowth(store.GrowthConfig{Table: t.shape.(store.Config), At: t.offset,
			Bound: m.bound, Alloc: func(extent, bytes int) (*verbs.MR, error) {
				name := keep
				if name != "" {
					name = fmt.Sprintf("%s.%d", keep, extent)
				}
				return m.allocTables(bytes, name)
			}}))
	}
	return list
}
