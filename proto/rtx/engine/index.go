package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"drtmd/internal/mutation"
	"drtmd/proto"
	"drtmd/proto/rtx"
	"drtmd/proto/rtx/race"
	"drtmd/proto/rtx/sherman"
	"drtmd/store/layout"
	"drtmd/verbs/fiber"
)

// Index is a table's way to its records, for one client. Its operations are parts of a transaction; an Abort, or
// any other error, ends that.
type Index interface {
	// Get copies the value of a key, which the transaction is going to change or not.
	Get(tx sherman.Tx, key uint64, change bool, value []byte) (v layout.Version, found bool, err error)
	// Insert adds a key, Put changes its value, and Delete removes it, with the version from then on; false: it
	// was there, or was not.
	Insert(tx sherman.Tx, key uint64, value []byte) (v layout.Version, done bool, err error)
	Put(tx sherman.Tx, key uint64, value []byte) (v layout.Version, done bool, err error)
	Delete(tx sherman.Tx, key uint64) (v layout.Version, done bool, err error)
	// Walk visits some records, at the place at, in a transaction that reads only. It gives the place of the next
	// ones; false: there are none. The first place is 0.
	Walk(tx sherman.Tx, at uint64, visit func(key uint64, v layout.Version, value []byte)) (next uint64, more bool,
		err error)
	// Close frees what the index has registered, when nothing of it is in flight.
	Close() error
}

// ordered is an Index that scans.
type ordered interface {
	// Keys fills keys with the first keys of a range, in ascending order.
	Keys(tx sherman.Tx, from, to uint64, keys []proto.Key) (n int, err error)
}

// IndexSpec describes an index to command lines.
type IndexSpec struct {
	Name, Doc string
	Ordered   bool // it scans
	// Single: each of its operations is atomic by itself, whatever the transaction, which may touch one record.
	Single bool
	// Small: short records are small blocks.
	Small bool
	// Copies: it changes objects by transactions alone, never in their blocks, so clients may keep copies of these.
	Copies bool
	// MinValue and MaxValue are the smallest and the largest value in bytes, DefaultValue what a workload has that
	// was not told.
	MinValue, MaxValue, DefaultValue int

	Mutations []mutation.Mutation

	open func(f *fiber.Fiber, k *client, o *opening) (Index, error)
}

// opening is what indexes are made from.
type opening struct {
	table    int // from 0
	cfg      *Config
	shared   *any // by all clients of the worker: caches
	mutation string
}

// Indexes lists what there is; the first is the default.
func Indexes() []IndexSpec {
	return []IndexSpec{{Name: "sherman", Doc: "a B-link tree with nodes of 1 KB (Sherman)", Ordered: true, Copies: true,
		MinValue: 8, MaxValue: 8, DefaultValue: 8, Mutations: sherman.Mutations(), open: openTree},
		{Name: "race", Doc: "a hash table with subtables of 1 KB (RACE); a transaction has one record", Single: true, Small: true,
			MinValue: 1, MaxValue: sherman.NodeBytes - hashRecord(0), DefaultValue: 8,
			Mutations: race.Mutations(), open: openHash}}
}

// BytesOf is how much memory a record of a table takes at most, with a share of what holds it.
func (s *IndexSpec) BytesOf(t proto.TableSpec) int {
	const (
		node        = 1100 // of a node, its object, and what leads to it
		leafEntries = 16   // of 41, with what splits leave behind
		half        = 2    // of the memory is small blocks
	)
	switch {
	case !s.Small:
		return node / leafEntries
	case hashRecord(t.ValueBytes) > recordBytes:
		return half * (node + node/leafEntries)
	}
	return half * (recordBytes + recordBytes/8)
}

// FindIndex finds one by name; "" is the default.
func FindIndex(name string) (IndexSpec, bool) {
	all := Indexes()
	if name == "" {
		return all[0], true
	}
	i := slices.IndexFunc(all, func(s IndexSpec) bool { return s.Name == name })
	if i < 0 {
		return IndexSpec{}, false
	}
	return all[i], true
}

// IndexNames are the names of Indexes, for messages.
func IndexNames() string {
	var names []string
	for _, s := range Indexes() {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}

// ErrVersions: an index without versions, and a run that is recorded.
var ErrVersions = errors.New("the index in this memory was made by a run that was not recorded, so that its entries " +
	"have no versions; start the memory node anew, and record the first run on it")

// tree is a sherman.Tree as an Index. Values are of 8 bytes.
type tree struct {
	*sherman.Tree
	keys []proto.Key // of a scan
	n    int
	take func(sherman.Entry) bool // add, made once
}

// treeCacheBytes is what a worker caches of internal nodes of each table.
const treeCacheBytes = 2 << 20

func openTree(f *fiber.Fiber, k *client, o *opening) (Index, error) {
	c := k.memory
	class := c.Class(sherman.NodeBytes)
	if class < 0 {
		return nil, fmt.Errorf("%w: it has no blocks of %d bytes, for nodes of a tree", rtx.ErrLayout, sherman.NodeBytes)
	}
	versions, there := false, false
	err := k.run(f, true, func(tx sherman.Tx) (err error) {
		versions, there, err = sherman.Versions(tx, c.Root(o.table))
		return err
	})
	switch record := o.cfg.Recorder != nil; {
	case err != nil:
		return nil, err
	case !there:
		versions = record
	case record && !versions:
		return nil, ErrVersions
	}
	if *o.shared == nil {
		*o.shared = sherman.NewCache(treeCacheBytes/sherman.NodeBytes, c.Payload(class))
	}
	x, err := sherman.Open(c, sherman.Config{Root: o.table, Class: class, Versions: versions,
		Cache: (*o.shared).(*sherman.Cache), Mutation: o.mutation})
	if err != nil {
		return nil, err
	}
	t := &tree{Tree: x}
	t.take = t.add
	return t, nil
}

func (t *tree) Close() error { return nil }

func (t *tree) Get(tx sherman.Tx, key uint64, change bool, value []byte) (layout.Version, bool, error) {
	get := t.Tree.Get
	if change {
		get = t.GetToChange
	}
	e, found, err := get(tx, key)
	if found {
		binary.LittleEndian.PutUint64(value, e.Value)
	}
	return layout.Version(e.Version), found, err
}

func (t *tree) Insert(tx sherman.Tx, key uint64, value []byte) (layout.Version, bool, error) {
	e, done, err := t.Tree.Insert(tx, key, binary.LittleEndian.Uint64(value))
	return layout.Version(e.Version), done, err
}

func (t *tree) Put(tx sherman.Tx, key uint64, value []byte) (layout.Version, bool, error) {
	e, done, err := t.Update(tx, key, binary.LittleEndian.Uint64(value))
	return layout.Version(e.Version), done, err
}

func (t *tree) Delete(tx sherman.Tx, key uint64) (layout.Version, bool, error) {
	e, done, err := t.Tree.Delete(tx, key)
	return layout.Version(e.Version), done, err
}

// Keys implements ordered.
func (t *tree) Keys(tx sherman.Tx, from, to uint64, keys []proto.Key) (int, error) {
	t.keys, t.n = keys, 0
	err := t.Scan(tx, from, to, t.take)
	return t.n, err
}

func (t *tree) add(e sherman.Entry) bool {
	t.keys[t.n] = proto.Key(e.Key)
	t.n++
	return t.n < len(t.keys)
}

// Walk implements Index: places are keys, and each step is a leaf.
func (t *tree) Walk(tx sherman.Tx, at uint64, visit func(uint64, layout.Version, []byte)) (uint64, bool, error) {
	var value [8]byte
	return t.Leaf(tx, at, func(e sherman.Entry) {
		binary.LittleEndian.PutUint64(value[:], e.Value)
		visit(e.Key, layout.Version(e.Version), value[:])
	})
}
