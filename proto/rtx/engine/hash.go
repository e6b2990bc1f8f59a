package engine

import (
	"encoding/binary"
	"fmt"

	"drtmd/proto/rtx"
	"drtmd/proto/rtx/race"
	"drtmd/proto/rtx/sherman"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// hash is a race.Table as an Index.
type hash struct {
	*race.Table
	name  [8]byte // of the key in use
	read  uint64  // the key that the transaction is going to change
	place race.Place
	known bool // where read is
}

// hashKey is the size of keys, recordBytes that of records with short values.
const (
	hashKey     = 8
	recordBytes = smallBytes
)

func openHash(f *fiber.Fiber, k *client, o *opening) (Index, error) {
	cfg := race.Config{Root: o.table, Tables: k.memory.Class(sherman.NodeBytes), Versions: o.cfg.Recorder != nil,
		Mutation: o.mutation}
	cfg.Records = k.memory.Class(recordBytes)
	if hashRecord(o.cfg.Specs[o.table].ValueBytes) > recordBytes {
		cfg.Records = cfg.Tables
	}
	if cfg.Tables < 0 || cfg.Records < 0 {
		return nil, fmt.Errorf("%w: it has no blocks of %d and %d bytes, for records and subtables", rtx.ErrLayout, recordBytes,
			sherman.NodeBytes)
	}
	if *o.shared == nil {
		*o.shared = race.NewCache()
	}
	cfg.Cache = (*o.shared).(*race.Cache)
	var t *race.Table
	was, there, err := describeHash(f, k, o.table)
	switch {
	case err != nil:
		return nil, err
	case there && cfg.Versions && !was.Versions:
		return nil, ErrVersions
	case there:
		cfg.Versions = was.Versions
	}
	switch m := k.memory.(type) {
	case repairable:
		t, err = race.Open(f, m.Client, cfg)
	case distributed:
		t, err = race.OpenDistributed(f, m.Client, cfg)
	default:
		t, err = race.OpenPlain(f, m.(race.Plain), cfg)
	}
	return &hash{Table: t}, err
}

// describeHash reads what records a table that is there has.
func describeHash(f *fiber.Fiber, k *client, table int) (was race.Config, there bool, err error) {
	switch m := k.memory.(type) {
	case repairable:
		err = m.View(f, func(tx *rtx.Tx) (err error) {
			was, there, err = race.Describe(tx, m.Root(table))
			return err
		})
		return was, there, err
	case distributed:
		return race.DescribeDistributed(f, m.Client, table)
	default:
		return race.DescribePlain(f, m.(race.Plain), table)
	}
}

// hashRecord is the size of a record with a version and a value of some bytes.
func hashRecord(value int) int { return race.RecordBytes(hashKey, value, true) }

func (x *hash) key(key uint64) []byte {
	binary.LittleEndian.PutUint64(x.name[:], key)
	return x.name[:]
}

// at is where Get has found a key that the transaction is going to change; nil: it was not asked for.
func (x *hash) at(key uint64) *race.Place {
	if !x.known || x.read != key {
		return nil
	}
	x.known = false
	return &x.place
}

func (x *hash) Get(tx sherman.Tx, key uint64, change bool, value []byte) (layout.Version, bool, error) {
	p, err := x.Find(tx.Fiber(), x.key(key))
	if err != nil {
		return 0, false, err
	}
	if p.Found {
		if len(p.Value) != len(value) {
			return 0, false, fmt.Errorf("%w: key %d has a value of %d bytes, not %d", rtx.ErrCorrupt, key, len(p.Value), len(value))
		}
		copy(value, p.Value)
	}
	if change {
		x.read, x.place, x.known = key, p, true
	}
	return layout.Version(p.Version), p.Found, nil
}

func (x *hash) Insert(tx sherman.Tx, key uint64, value []byte) (layout.Version, bool, error) {
	v, done, err := x.Table.Insert(tx.Fiber(), x.at(key), x.key(key), value)
	return layout.Version(v), done, err
}

func (x *hash) Put(tx sherman.Tx, key uint64, value []byte) (layout.Version, bool, error) {
	v, done, err := x.Update(tx.Fiber(), x.at(key), x.key(key), value)
	return layout.Version(v), done, err
}

func (x *hash) Delete(tx sherman.Tx, key uint64) (layout.Version, bool, error) {
	v, done, err := x.Table.Delete(tx.Fiber(), x.at(key), x.key(key))
	return layout.Version(v), done, err
}

// Walk implements Index: each step is a subtable.
func (x *hash) Walk(tx sherman.Tx, at uint64, visit func(uint64, layout.Version, []byte)) (uint64, bool, error) {
	return x.Table.Walk(tx.Fiber(), at, func(key, value []byte, version uint64) {
		if len(key) == hashKey {
			visit(binary.LittleEndian.Uint64(key), layout.Version(version), value)
		}
	})
}
