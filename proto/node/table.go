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
	"drtmd/store/records"
	"drtmd/store/robinhood"
	"drtmd/verbs"
)

// table is a table that every share has, with the index that the protocol needs.
type table struct {
	shape
	name   string
	offset int // in the memory of each share
	// open gives a worker its view of a share's.
	open func(o *opening) (protocol.PointIndex, error)
	// grow prepares the growth of a share's; nil: it does not grow.
	grow func(g growing) growth
}

// opening is how a worker opens a table of a share.
type opening struct {
	memory *htm.Memory // of the share
	at     int         // where the table is there
	fresh  bool        // it is not formatted yet
	kept   bool        // it was in kept memory
	// growth is that of the share's table, if it grows.
	growth growth
	// first is the table as the first worker of this life has opened it; nil: this is the first.
	first protocol.PointIndex
	view  func(*verbs.MR) (*htm.Memory, error) // of further regions
}

// growth is by which regions a table has grown: a *store.Growth or *btree.Growth.
type growth interface{ Bytes() int }

// growing is what a table needs to grow.
type growing struct {
	at    int // where it is in the memory of its share
	bound *store.Bound
	alloc func(extent, bytes int) (*verbs.MR, error)
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
// holds as many shards as there are replicas of each. It is that of the device where they take more.
func TableBytes(w workload.Workload, p *Protocol, options option.Settings) (bytes int, err error) {
	values, err := p.Options.Values(options)
	if err != nil {
		return 0, err
	}
	c := &Config{Workload: w, Protocol: *p, options: values}
	for _, lineWords := range [...]bool{true, false} {
		_, n, err := planTables(c, lineWords, mutated{})
		if err != nil {
			return 0, err
		}
		bytes = max(bytes, n)
	}
	return bytes, nil
}

// planTables says which tables a share has, where they begin, and how long it is, in memory with line words or
// without.
func planTables(c *Config, lineWords bool, lacks mutated) (tables []table, bytes int, err error) {
	specs := c.Workload.Tables()
	for i := range specs {
		t := planTable(c, &specs[i], lineWords, lacks)
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
func planTable(cfg *Config, s *proto.TableSpec, lineWords bool, lacks mutated) table {
	p := &cfg.Protocol
	_, index := p.Tables()
	kind := p.LayoutOn(lineWords, cfg.options)
	if s.Ordered && index != layout.Robinhoods {
		c := btree.For(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity)
		c.Layout, c.Mutation = kind, lacks.btree
		if c.Grows = cfg.Growth.Bytes > 0; c.Grows {
			return growingTree(c)
		}
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
	if index == layout.Robinhoods {
		limit := robinhood.DefaultLimit
		if _, ok := p.Options.Find(protocol.OptDisplacement); ok {
			limit = cfg.options.Int(protocol.OptDisplacement)
		}
		c := robinhood.ForLoad(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity, robinhood.SlotLoad, limit)
		c.Layout, c.Mutation = kind, lacks.robinhood
		return table{shape: c, open: opener(robinhood.Format, robinhood.Attach, c)}
	}
	if index == layout.DLHT {
		c := records.For(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity)
		c.Layout, c.Mutation = kind, lacks.records
		if _, ok := p.Options.Find(protocol.OptIndexKeys); ok {
			c.Keys = cfg.options.Int(protocol.OptIndexKeys)
		}
		return table{shape: c, open: func(o *opening) (protocol.PointIndex, error) { return openRecords(c, o) }}
	}
	c := store.For(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity)
	c.Layout, c.Mutation = kind, lacks.store
	if c.Grows = cfg.Growth.Bytes > 0; c.Grows {
		return growingTable(c)
	}
	return table{shape: c, open: opener(store.Format, store.Attach, c)}
}

// opener is table.open for what the package of an index offers.
func opener[C any, T protocol.PointIndex](format, attach func(C, *htm.Memory, int) (T, error),
	c C) func(o *opening) (protocol.PointIndex, error) {
	return func(o *opening) (protocol.PointIndex, error) { return opened(format, attach, c, o) }
}

func opened[C any, T protocol.PointIndex](format, attach func(C, *htm.Memory, int) (T, error), c C,
	o *opening) (T, error) {
	if o.fresh {
		return format(c, o.memory, o.at)
	}
	return attach(c, o.memory, o.at)
}

// openRecords opens a table whose index is in the memory of the process: the first worker makes it, the others share it.
func openRecords(c records.Config, o *opening) (protocol.PointIndex, error) {
	if first, ok := o.first.(*records.Table); ok {
		return first.View(o.memory)
	}
	return opened(records.Format, records.Attach, c, o)
}

// growingTable is a hash table that grows.
func growingTable(c store.Config) table {
	return table{shape: c,
		open: func(o *opening) (protocol.PointIndex, error) {
			t, err := opened(store.Format, store.Attach, c, o)
			if err != nil {
				return nil, err
			}
			return o.growth.(*store.Growth).Open(t, o.kept, o.view)
		},
		grow: func(g growing) growth {
			return store.NewGrowth(store.GrowthConfig{Table: c, At: g.at, Bound: g.bound, Alloc: g.alloc})
		}}
}

// growingTree is an ordered table that grows.
func growingTree(c btree.Config) table {
	return table{shape: c,
		open: func(o *opening) (protocol.PointIndex, error) {
			t, err := opened(btree.Format, btree.Attach, c, o)
			if err != nil {
				return nil, err
			}
			return o.growth.(*btree.Growth).Open(t, o.kept, o.view)
		},
		grow: func(g growing) growth {
			return btree.NewGrowth(btree.GrowthConfig{Table: c, At: g.at, Bound: g.bound, Alloc: g.alloc})
		}}
}

// growths prepare the growth of a share's tables; nil: they do not grow.
func (m *Member) growths(s proto.ShardID) (list []growth) {
	if m.cluster.Growth.Bytes == 0 {
		return nil
	}
	for i := range m.tables {
		t := &m.tables[i]
		keep := m.keptAs(s)
		if keep != "" {
			keep = fmt.Sprintf("%s.t%d", keep, i+1)
		}
		list = append(list, t.grow(growing{at: t.offset, bound: m.bound,
			alloc: func(extent, bytes int) (*verbs.MR, error) {
				name := keep
				if name != "" {
					name = fmt.Sprintf("%s.%d", keep, extent)
				}
				return m.allocTables(bytes, name)
			}}))
	}
	return list
}
