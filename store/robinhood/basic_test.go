package robinhood

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

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

// loaded is a table of a Config with so many keys.
func loaded(t testing.TB, c Config, keys int) *Table {
	t.Helper()
	table := newTable(t, c)
	for k := range uint64(keys) {
		if err := table.Load(k, tabletest.Value(c.ValueBytes, k)); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

func TestLoadedKeysAreFoundAndOthersAreNot(t *testing.T) {
	tabletest.LoadedKeysAreFound(t, newTable(t, For(1, "t", 8, 1000)), checkTable, tableErrors)
}

// TestEveryTableHasTheRoomThatForPromises: dense and random keys, and tables of all sizes, with small and large values.
func TestEveryTableHasTheRoomThatForPromises(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 10, 64, 100, 1000, 10_000} {
		for _, bytes := range []int{8, 300} {
			for _, dense := range []bool{true, false} {
				table := newTable(t, For(1, "t", bytes, n))
				for k := range uint64(n + n/8) { // with some of others, such as absent ones
					if !dense {
						k = random.Uint64()
					}
					if err := table.Load(k, tabletest.Value(bytes, k)); err != nil {
						t.Fatalf("key %d of %d, dense %v, %v: %v", k, n, dense, table.Occupancy(), err)
					}
				}
				if err := checkTable(table); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

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
		{"no displacement", func(c *Config) { c.Limit = 0 }, ErrLimit, "D_m = 0; it is from 1 to 4095"},
		{"more displacement than a word tells", func(c *Config) { c.Limit = 4096 }, ErrLimit, "D_m = 4096"},
		{"no homes", func(c *Config) { c.Homes = 0 }, store.ErrSize, "0 homes"},
		{"fewer than no blocks", func(c *Config) { c.Blocks = -1 }, store.ErrSize, "-1 overflow blocks"},
		{"more blocks than a word names", func(c *Config) { c.Blocks = 1 << 28 }, store.ErrSize, "at most"},
		{"records outside for small values", func(c *Config) { c.Outside = 1 }, store.ErrSize, "values above 256"},
		{"large values without records", func(c *Config) { c.ValueBytes = 257 }, store.ErrSize, "0 records outside"},
		{"more than memory can have", func(c *Config) { c.Homes = 1 << 45 }, store.ErrSize, "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := For(1, "accounts", 8, 100)
			c.edit(&x)
			tabletest.ConfigIsRefused(t, x, Format, c.want, c.text, `"accounts"`)
		})
	}
}

func TestAttachRefusesAnotherTable(t *testing.T) {
	c := For(1, "t", 300, 100)
	m := newTable(t, c).m
	tabletest.AttachRefusesOthers(t, c, m, Attach, store.ErrNotTable, map[string]func(*Config){
		"id":                 func(c *Config) { c.ID++ },
		"value bytes":        func(c *Config) { c.ValueBytes++ },
		"homes":              func(c *Config) { c.Homes-- },
		"blocks":             func(c *Config) { c.Blocks-- },
		"records outside":    func(c *Config) { c.Outside-- },
		"displacement limit": func(c *Config) { c.Limit-- },
		"layout":             func(c *Config) { c.Layout = layout.KindOneVersion },
	})
}

// TestDescriptorTellsWhereTheTableIs: what it says survives its encoding.
func TestDescriptorTellsWhereTheTableIs(t *testing.T) {
	d := newTable(t, For(7, "t", 100, 1000)).Describe()
	b, err := d.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var back layout.Descriptor
	if err := back.UnmarshalBinary(b); err != nil || back != d {
		t.Fatalf("%+v becomes %+v, %v", d, back, err)
	}
	if d.Counter() != layout.CounterOffset {
		t.Errorf("the counter of a table at 0 is at %d", d.Counter())
	}
}

func TestSpentIncarnationsAreRefused(t *testing.T) {
	for _, m := range []Mutation{0, NoSpent} {
		c := For(1, "t", 8, 10)
		c.Mutation = m
		table := newTable(t, c)
		table.setWord(countersAt, 1<<32-2)
		r := htm.NewRegion(htm.Config{})
		r.Begin()
		if _, _, ok, err := table.EnsureIn(r, 1, 0); !ok || errors.Is(err, store.ErrSpent) != (m == 0) {
			t.Errorf("mutation %v: %v, %v", m, ok, err)
		}
	}
}

// crowded has one home, and overflow blocks.
func crowded(m Mutation) Config {
	return Config{ID: 1, Name: "t", ValueBytes: 8, Homes: 1, Limit: 1, Blocks: 3, Mutation: m}
}

// TestAnAbsenceIsProtected: what a region has not found cannot come before it commits, wherever it goes. With
// AbsenceOutside it can.
func TestAnAbsenceIsProtected(t *testing.T) {
	for _, x := range []struct {
		name   string
		loaded int // keys of one home before
	}{{"into the home", 0}, {"beyond it", 1}, {"into a new block", 2}, {"into a chain", 3}} {
		t.Run(x.name, func(t *testing.T) {
			for _, m := range []Mutation{0, AbsenceOutside} {
				table := loaded(t, crowded(m), x.loaded)
				r, other := htm.NewRegion(htm.Config{}), htm.NewRegion(htm.Config{})
				r.Begin()
				if _, found, ok := table.FindIn(r, 100); found || !ok {
					t.Fatal(found, ok)
				}
				other.Begin()
				if _, _, ok, err := table.EnsureIn(other, 100, 0); !ok || err != nil || !other.Commit(nil) {
					t.Fatal(ok, err)
				}
				if got, want := r.Commit(nil), m == AbsenceOutside; got != want {
					t.Errorf("mutation %v: a region that has not found what is there commits: %v", m, got)
				}
			}
		})
	}
}

// TestAMoveIsPartOfItsRegion: a region that has read a record does not commit an update of the place that the record
// has left. With SwapOutside it does.
func TestAMoveIsPartOfItsRegion(t *testing.T) {
	for _, m := range []Mutation{0, SwapOutside} {
		table, moved := displacing(t, m)
		r, other := htm.NewRegion(htm.Config{}), htm.NewRegion(htm.Config{})
		r.Begin()
		off, found, ok := table.FindIn(r, moved)
		if !found || !ok || !r.Store64(table.m, off+layout.ValueOffset, 1) {
			t.Fatal(found, ok)
		}
		other.Begin()
		if _, _, ok, err := table.EnsureIn(other, displacer(table, moved), 0); !ok || err != nil || !other.Commit(nil) {
			t.Fatal(ok, err)
		}
		if now, _ := table.Find(moved); now == off {
			t.Fatal("the record has not moved")
		}
		if got, want := r.Commit(nil), m == SwapOutside; got != want {
			t.Errorf("mutation %v: an update of the place that a record has left commits: %v", m, got)
		}
	}
}

// displacing is a table with two keys in the homes 0 and 1, of which the second moves if another key of home 0 comes.
func displacing(t *testing.T, m Mutation) (table *Table, moved uint64) {
	t.Helper()
	table = newTable(t, Config{ID: 1, Name: "t", ValueBytes: 8, Homes: 4, Limit: 3, Blocks: 1, Mutation: m})
	first, second := keyOf(table, 0, 0), keyOf(table, 1, 0)
	for _, k := range []uint64{first, second} {
		if err := table.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	return table, second
}

// displacer is a key of home 0 that is not in the table yet.
func displacer(table *Table, moved uint64) uint64 { return keyOf(table, 0, keyOf(table, 0, 0)+1) }

// keyOf is the first key of a home from one on.
func keyOf(table *Table, home int, from uint64) uint64 {
	for k := from; ; k++ {
		if table.p.Home(k) == home {
			return k
		}
	}
}

// TestCorruptMemoryAbortsTheRegion: links that lead nowhere, or round and round, and slots to no record.
func TestCorruptMemoryAbortsTheRegion(t *testing.T) {
	small := Config{ID: 1, Name: "t", ValueBytes: 8, Homes: 1, Limit: 1, Blocks: 2}
	large := For(1, "t", 300, 1)
	for name, x := range map[string]struct {
		c      Config
		break_ func(*Table)
	}{
		"a segment word to no block": {small, func(x *Table) {
			x.setWord(x.p.Word(0), uint64(layout.Segment(0).Linked(layout.MakeBlockLink(7))))
		}},
		"a chain without end": {small, func(x *Table) {
			x.setWord(x.p.Word(0), uint64(layout.Segment(0).Linked(layout.MakeBlockLink(1))))
			x.setWord(x.p.Link(x.p.Block(1)), layout.MakeBlockLink(1))
		}},
		"a slot to no record": {large, func(x *Table) {
			slot := x.p.Slot(x.p.Home(5))
			x.setWord(slot+layout.KeyOffset, 5)
			x.setWord(slot+layout.PointerOffset, 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, x.c)
			x.break_(table)
			if _, ok := table.Find(5); ok {
				t.Error("found")
			}
			r := htm.NewRegion(htm.Config{})
			r.Begin()
			if _, _, ok := table.FindIn(r, 5); ok {
				t.Error("the region runs on")
			}
			if code, n := r.Aborted(); code != htm.Explicit || n != store.AbortCorrupt {
				t.Errorf("aborted with %v %#x", code, n)
			}
		})
	}
}

// TestTheHotPathAllocatesNothing: also when records move and overflow, and when they come back.
func TestTheHotPathAllocatesNothing(t *testing.T) {
	for _, bytes := range []int{8, 300} {
		c := ForLoad(1, "t", bytes, 200, 95, 3)
		table := loaded(t, c, 200)
		v := MakeView(c, 0)
		r := htm.NewRegion(htm.Config{})
		var p Probe
		key := uint64(1000)
		if n := testing.AllocsPerRun(100, func() {
			key++
			table.Find(5)
			r.Begin()
			table.FindIn(r, 6)
			_, _, _, _ = table.EnsureIn(r, key, 0)
			r.Commit(nil)
			r.Begin()
			_, _ = table.ReclaimIn(r, key, 0)
			r.Commit(nil)
			for p.Start(&v, 7, 0, false); !p.Done(); {
				off, n := p.Next()
				p.Feed(table.m.Bytes[off : off+n])
			}
		}); n > 0 {
			t.Errorf("values of %d bytes: %.0f allocations", bytes, n)
		}
	}
}

// TestGarbageEndsALookUp: bytes that no table has lead a look-up to an end, and to nothing outside of the table.
func TestGarbageEndsALookUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := For(1, "t", rapid.SampledFrom([]int{8, 100, 300}).Draw(t, "value"), 10)
		v := MakeView(c, 0)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		key := rapid.Uint64Range(0, 4).Draw(t, "key")
		var p Probe
		for p.Start(&v, key, layout.Segment(random.Uint64()), rapid.Bool().Draw(t, "known")); !p.Done(); {
			off, n := p.Next()
			if off < headBytes || off+n > c.Bytes() {
				t.Fatalf("%d bytes at %d of %d", n, off, c.Bytes())
			}
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(random.Uint64())
			}
			if n >= 16 && random.IntN(2) == 0 {
				binary.LittleEndian.PutUint64(b, key)
			}
			p.Feed(b)
		}
	})
}

func TestLoadLeavesEvenRoom(t *testing.T) {
	table := newTable(t, For(1, "t", 300, 12_000)) // records are outside of slots
	tabletest.LoadLeavesEvenRoom(t, 10_000, func(k uint64) error { return table.Load(k, tabletest.Value(300, k)) },
		table.word, table.recordPool())
}
