package btree

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"

	"drtmd/htm"
	"drtmd/store"
	"drtmd/store/internal/tabletest"
	"drtmd/store/layout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTable(t testing.TB, c Config) *Table {
	t.Helper()
	return tabletest.New(t, c, Format)
}

// TestLoadedKeysAreFoundAndOthersAreNot.
func TestLoadedKeysAreFoundAndOthersAreNot(t *testing.T) {
	tabletest.LoadedKeysAreFound(t, newTable(t, For(1, "t", 8, 1000)), checkTable, tableErrors)
}

// orders are ways in which n keys come.
var orders = []struct {
	name string
	key  func(i, n int, random *rand.Rand) uint64
}{
	{"ascending", func(i, _ int, _ *rand.Rand) uint64 { return uint64(i) }},
	{"descending", func(i, n int, _ *rand.Rand) uint64 { return uint64(n - i) }},
	{"random", func(_, _ int, random *rand.Rand) uint64 { return random.Uint64() }},
	{"inwards", func(i, n int, _ *rand.Rand) uint64 {
		if i%2 == 0 {
			return uint64(i)
		}
		return uint64(4*n - i)
	}},
}

// TestNodesDoNotRunOutBeforeEntries: a table as For sizes it is filled to its last entry, whatever the order of
// the keys, and after most of them were given back.
func TestNodesDoNotRunOutBeforeEntries(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 10, 100, 10_000} {
		for _, o := range orders {
			c := For(1, "t", 8, n)
			table := newTable(t, c)
			for i := range c.Entries {
				if err := table.Load(o.key(i, c.Entries, random), tabletest.Value(8, 0)); err != nil {
					t.Fatalf("%s, key %d of %d: %v: %v", o.name, i, n, table.Occupancy(), err)
				}
			}
			t.Logf("%d records, %s: %v", n, o.name, table.Occupancy())
			if err := table.Load(1<<63, tabletest.Value(8, 0)); !errors.Is(err, store.ErrEntriesFull) {
				t.Errorf("%s, a key too many: %v", o.name, err)
			}
			thin(t, table)
			if err := checkTable(table); err != nil {
				t.Fatal(err)
			}
			for i := 0; ; i++ {
				err := table.Load(random.Uint64(), tabletest.Value(8, 0))
				if errors.Is(err, store.ErrEntriesFull) {
					break
				}
				if err != nil {
					t.Fatalf("%s, filled again, key %d: %v: %v", o.name, i, table.Occupancy(), err)
				}
			}
		}
	}
}

// thin takes keys out of a table so that leaves keep the fewest pairs that they may.
func thin(t testing.TB, table *Table) {
	t.Helper()
	var keys []uint64
	table.Each(func(off int) bool {
		keys = append(keys, table.word(off+layout.KeyOffset))
		return true
	})
	for i, key := range keys {
		var p path
		descend(table, table.plain(), key, &p)
		if p.height == 0 && i%3 != 0 || p.pairs > minPairs {
			table.setWord(p.entry+layout.VersionOffset, uint64(layout.FirstVersion.Deleted()))
			if ok, err := reclaim(table, table.plain(), key, 0); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
}

// TestConfigIsRefusedInWords.
func TestConfigIsRefusedInWords(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Config)
		want error
		text string
	}{
		{"no values", func(c *Config) { c.ValueBytes = 0 }, store.ErrValueBytes, "from 1 to 4096"},
		{"large values", func(c *Config) { c.ValueBytes = 4097 }, store.ErrValueBytes, "values of 4097 bytes"},
		{"unknown layout", func(c *Config) { c.Layout = 99 }, store.ErrLayout, "layout(99)"},
		{"no nodes", func(c *Config) { c.Nodes = 0 }, store.ErrSize, "0 nodes"},
		{"no entries", func(c *Config) { c.Entries = 0 }, store.ErrSize, "0 entries"},
		{"more than memory can have", func(c *Config) { c.Entries = 1 << 45 }, store.ErrSize, "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := For(1, "orders", 8, 100)
			c.edit(&x)
			tabletest.ConfigIsRefused(t, x, Format, c.want, c.text, `"orders"`)
		})
	}
}

// TestAttachRefusesAnotherTable.
func TestAttachRefusesAnotherTable(t *testing.T) {
	c := For(1, "t", 8, 100)
	m := newTable(t, c).m
	tabletest.AttachRefusesOthers(t, c, m, Attach, store.ErrNotTable, map[string]func(*Config){
		"id":          func(c *Config) { c.ID++ },
		"value bytes": func(c *Config) { c.ValueBytes++ },
		"nodes":       func(c *Config) { c.Nodes-- },
		"entries":     func(c *Config) { c.Entries-- },
		"layout":      func(c *Config) { c.Layout = layout.KindLineVersions },
	})
}

// TestTheDescriptorTellsAnOrderedTable.
func TestTheDescriptorTellsAnOrderedTable(t *testing.T) {
	c := For(3, "t", 100, 1000)
	d := c.Descriptor(4096)
	b, err := d.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var back layout.Descriptor
	if err := back.UnmarshalBinary(b); err != nil || back != d || !back.Index.Ordered() {
		t.Fatalf("%+v is read as %+v, %v", d, back, err)
	}
	if back.Counter() != 4096+layout.CounterOffset {
		t.Errorf("the counter is at %d", back.Counter())
	}
	nodes := uint64(4096 + headBytes + c.Nodes*layout.NodeBytes)
	if back.Entry(nodes-layout.NodeBytes) || !back.Entry(nodes) {
		t.Error("a node is taken for an entry, or an entry for none")
	}
	d.MainBuckets = d.End
	if b, err = d.MarshalBinary(); err != nil {
		t.Fatal(err)
	}
	if err := back.UnmarshalBinary(b); !errors.Is(err, layout.ErrDescriptor) {
		t.Errorf("more nodes than bytes: %v", err)
	}
}

// TestSpentIncarnationsAreRefused.
func TestSpentIncarnationsAreRefused(t *testing.T) {
	if !spentIsRefused(newTable(t, For(1, "t", 8, 10))) {
		t.Error("an entry is made though the incarnations are used up")
	}
}

func spentIsRefused(table *Table) bool {
	table.setWord(table.at+countersAt, 1<<32-2)
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	_, _, ok, err := table.EnsureIn(r, 1, 0)
	return ok && errors.Is(err, store.ErrSpent)
}

// TestCorruptMemoryAbortsTheRegion: links that lead nowhere, or round and round.
func TestCorruptMemoryAbortsTheRegion(t *testing.T) {
	for name, scribble := range map[string]func(x *Table, root, leaf int){
		"a root outside":             func(x *Table, _, _ int) { x.setWord(x.at+rootAt, 8) },
		"a root of an absurd height": func(x *Table, root, _ int) { x.setWord(root, 1<<24|1) },
		"a child outside":            func(x *Table, root, _ int) { x.setWord(root+layout.ChildOffset, 1<<50) },
		"a child that is its parent": func(x *Table, root, _ int) { x.setWord(root+layout.ChildOffset, uint64(root)) },
		"too many pairs":             func(x *Table, _, leaf int) { x.setWord(leaf, 15) },
		"a free leaf": func(x *Table, _, leaf int) {
			x.setWord(leaf, uint64(layout.MakeNodeHead(layout.FreeLevel, 0)))
		},
		"an entry outside": func(x *Table, _, leaf int) { x.setWord(leaf+layout.LeafPairOffset+8, 12) },
		"leaves that are a circle": func(x *Table, _, leaf int) {
			x.setWord(leaf+layout.LeafNextOffset, uint64(leaf))
		},
		"a next leaf outside": func(x *Table, _, leaf int) { x.setWord(leaf+layout.LeafNextOffset, 77) },
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, For(1, "t", 8, 100))
			for k := range uint64(100) {
				if err := table.Load(k, tabletest.Value(8, k)); err != nil {
					t.Fatal(err)
				}
			}
			root := int(table.word(table.at + rootAt))
			scribble(table, root, int(table.word(root+layout.ChildOffset)))
			table.Find(0)
			r := htm.NewRegion(htm.Config{})
			r.Begin()
			if table.Scan(r, 0, 100, func(uint64, int) bool { return true }) {
				t.Error("the region runs on")
			}
			if code, n := r.Aborted(); code != htm.Explicit || n != store.AbortCorrupt {
				t.Errorf("aborted with %v %#x", code, n)
			}
		})
	}
}

// TestTheHotPathAllocatesNothing.
func TestTheHotPathAllocatesNothing(t *testing.T) {
	for _, worded := range []bool{true, false} {
		c := For(1, "t", 8, 2000)
		table, err := Format(c, tabletest.Memory(c.Bytes(), worded), 0)
		if err != nil {
			t.Fatal(err)
		}
		for k := range uint64(1000) {
			if err := table.Load(2*k, tabletest.Value(8, k)); err != nil {
				t.Fatal(err)
			}
		}
		r := htm.NewRegion(htm.Config{})
		end := func() {
			if !r.Commit(tabletest.CommitterOf(table.m)) {
				t.Fatal("a region that was alone aborted")
			}
		}
		var sum uint64
		add := func(k uint64, _ int) bool { sum += k; return true }
		all := func() {
			for k := uint64(601); k < 640; k += 2 { // leaves are split and merged
				r.Begin()
				_, _, _, _ = table.EnsureIn(r, k, 0)
				end()
			}
			table.Find(5)
			r.Begin()
			table.Scan(r, 500, 700, add)
			table.Scan(r, 700, 500, add)
			table.Next(r, 600)
			table.Ends(r, 600, 700)
			table.FindIn(r, 7)
			table.AbsentIn(r)
			end()
			for k := uint64(601); k < 640; k += 2 {
				r.Begin()
				_, _ = table.ReclaimIn(r, k, 0)
				end()
			}
		}
		all()
		if n := testing.AllocsPerRun(20, all); n > 0 {
			t.Errorf("%.0f allocations, line words: %v", n, worded)
		}
		if err := checkTable(table); err != nil {
			t.Error(err)
		}
	}
}

// in runs f in a region that must commit.
func in(t testing.TB, r *htm.Region, f func() bool) {
	t.Helper()
	r.Begin()
	if !f() || !r.Commit(nil) {
		t.Fatal("a region that was alone aborted")
	}
}

func wordIn(table *Table, off int) uint64 { return binary.LittleEndian.Uint64(table.m.Bytes[off:]) }

func TestLoadLeavesEvenRoom(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 12_000))
	tabletest.LoadLeavesEvenRoom(t, 10_000, func(k uint64) error { return table.Load(k, tabletest.Value(8, k)) },
		table.word, table.entryPool())
}

// TestKeysInOrderAmongOthersFillLeaves: what is added in ascending order between keys that are there, as the orders of a
// district of TPC-C are, fills leaves to two thirds, and puts each key behind all of its leaf.
func TestKeysInOrderAmongOthersFillLeaves(t *testing.T) {
	const among, added = 40, 1000
	table := newTable(t, For(1, "t", 8, among+added))
	for i := range uint64(among) {
		if err := table.Load(i<<32, tabletest.Value(8, i)); err != nil {
			t.Fatal(err)
		}
	}
	before, moved := table.Occupancy().InTree, 0
	for i := range uint64(added) {
		key := among/2<<32 + 1 + i
		if err := table.Load(key, tabletest.Value(8, key)); err != nil {
			t.Fatal(err)
		}
		var p path
		if !descend(table, outside{table}, key, &p) {
			t.Fatal("the table is corrupt")
		}
		if p.pair != p.pairs-1 {
			moved++
		}
	}
	const most = added/(layout.LeafPairs-minPairs+1)*12/10 + 3 // a fifth for inner nodes
	if n := table.Occupancy().InTree - before; n > most {
		t.Errorf("%d keys took %d nodes, want at most %d", added, n, most)
	}
	if moved > layout.LeafPairs {
		t.Errorf("%d keys were put before others of their leaf", moved)
	}
	if err := checkTable(table); err != nil {
		t.Error(err)
	}
}
