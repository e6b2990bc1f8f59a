package node

import (
	"drtmd/htm"
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/protocol"
	"drtmd/proto/workload"
	"drtmd/store"
	"drtmd/store/hopscotch"
	"drtmd/store/layout"
)

// table is a table that every share has, with the index that the protocol needs.
type table struct {
	shape
	name   string
	offset int // in the memory of each share
	// open gives a worker its view of a share's: of a new one, or of one that was formatted.
	open func(m *htm.Memory, at int, fresh bool) (protocol.PointIndex, error)
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
	_, bytes, err = planTables(w, p, values, mutated{})
	return bytes, err
}

// planTables says which tables a share has, where they begin, and how long it is.
func planTables(w workload.Workload, p *Protocol, options option.Values, lacks mutated) (tables []table,
	bytes int, err error) {
	specs := w.Tables()
	for i := range specs {
		t := planTable(p, &specs[i], options, lacks)
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
func planTable(p *Protocol, s *proto.TableSpec, options option.Values, lacks mutated) table {
	kind, index := p.Tables()
	if index == layout.HopscotchInline {
		load := hopscotch.SlotLoad
		if _, ok := p.Options.Find(protocol.OptSlotLoad); ok {
			load = options.Int(protocol.OptSlotLoad)
		}
		c := hopscotch.ForLoad(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity, load)
		c.Layout, c.CPULocks, c.Mutation = kind, p.CPULocks, lacks.hopscotch
		return table{shape: c, open: opener(hopscotch.Format, hopscotch.Attach, c)}
	}
	c := store.For(uint16(s.ID), s.Name, s.ValueBytes, s.Capacity)
	c.Layout, c.Mutation = kind, lacks.store
	return table{shape: c, open: opener(store.Format, store.Attach, c)}
}

// opener is table.open for what the package of an index offers.
func opener[C any, T protocol.PointIndex](format, attach func(C, *htm.Memory, int) (T, error),
	c C) func(m *htm.Memory, at int, fresh bool) (protocol.PointIndex, error) {
	return func(m *htm.Memory, at int, fresh bool) (protocol.PointIndex, error) {
		if fresh {
			return format(c, m, at)
		}
		return attach(c, m, at)
	}
}
