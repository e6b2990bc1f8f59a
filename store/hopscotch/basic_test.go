package hopscotch

import (
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

// TestEveryTableHasTheRoomThatForPromises: dense and random keys, and tables of all sizes.
func TestEveryTableHasTheRoomThatForPromises(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 10, 64, 100, 1000, 50_000} {
		for _, dense := range []bool{true, false} {
			table := newTable(t, For(1, "t", 8, n))
			for k := range uint64(n + n/8) { // with some of others, such as absent ones
				if !dense {
					k = random.Uint64()
				}
				table.Prefetch(k)
				if err := table.Load(k, tabletest.Value(8, k)); err != nil {
					t.Fatalf("key %d of %d, dense %v, %v: %v", k, n, dense, table.Occupancy(), err)
				}
			}
			if err := checkTable(table); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestOccupancyOfNinetyPercent is Xenic §4.1.4, Table 2: at 90 % about 4 % of the keys take a second READ.
func TestOccupancyOfNinetyPercent(t *testing.T) {
	const slots = 1 << 17
	c := Config{ID: 1, Name: "t", ValueBytes: 8, Homes: slots - layout.Neighbours + 1, Blocks: slots / 10}
	table := newTable(t, c)
	for k := range uint64(slots * 9 / 10) {
		if err := table.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	o := table.Occupancy()
	share := float64(o.Overflowed) / float64(o.Taken+o.Overflowed)
	t.Logf("%v: %.1f %% of the records", o, 100*share)
	if share > 0.045 {
		t.Errorf("%.1f %% overflow, the paper has 4 %%", 100*share)
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
		{"no homes", func(c *Config) { c.Homes = 0 }, store.ErrSize, "0 homes"},
		{"fewer than no blocks", func(c *Config) { c.Blocks = -1 }, store.ErrSize, "-1 overflow blocks"},
		{"more blocks than a hop word names", func(c *Config) { c.Blocks = 1 << 32 }, store.ErrSize, "at most"},
		{"more than memory can have", func(c *Config) { c.Homes = 1 << 45 }, store.ErrSize, "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := For(1, "accounts", 8, 100)
			c.edit(&x)
			tabletest.ConfigIsRefused(t, x, Format, c.want, c.text, `"accounts"`)
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
		"homes":       func(c *Config) { c.Homes-- },
		"blocks":      func(c *Config) { c.Blocks-- },
		"layout":      func(c *Config) { c.Layout = layout.KindOneVersion },
	})
}

// TestSpentIncarnationsAreRefused.
func TestSpentIncarnationsAreRefused(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 10))
	table.setWord(countersAt, 1<<32-2)
	r := htm.NewRegion(htm.Config{})
	r.Begin()
	if _, _, ok, err := table.EnsureIn(r, 1, 0); !ok || !errors.Is(err, store.ErrSpent) {
		t.Errorf("%v, %v", ok, err)
	}
}

// TestAnAbsenceIsProtected: what a region has not found cannot come before it commits, wherever it goes. With
// AbsenceOutside it can.
func TestAnAbsenceIsProtected(t *testing.T) {
	for _, x := range []struct {
		name   string
		loaded uint64 // keys of one home before
	}{{"into the neighbourhood", 0}, {"into a new block", 8}, {"into a chain", 9}} {
		t.Run(x.name, func(t *testing.T) {
			for _, m := range []Mutation{0, AbsenceOutside} {
				c := Config{ID: 1, Name: "t", ValueBytes: 8, Homes: 1, Blocks: 2, Mutation: m}
				table := newTable(t, c)
				for k := range x.loaded {
					if err := table.Load(k, tabletest.Value(8, k)); err != nil {
						t.Fatal(err)
					}
				}
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

// TestCorruptMemoryAbortsTheRegion: links that lead nowhere, or round and round.
func TestCorruptMemoryAbortsTheRegion(t *testing.T) {
	for name, break_ := range map[string]func(*Table){
		"a hop word to no block": func(x *Table) {
			x.setWord(x.p.Trailer(x.p.Slot(0)), uint64(layout.Hop(0).Linked(layout.MakeBlockLink(7))))
		},
		"a chain without end": func(x *Table) {
			x.setWord(x.p.Trailer(x.p.Slot(0)), uint64(layout.Hop(0).Linked(layout.MakeBlockLink(1))))
			x.setWord(x.p.Trailer(x.p.Block(1)), layout.MakeBlockLink(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			table := newTable(t, Config{ID: 1, Name: "t", ValueBytes: 8, Homes: 1, Blocks: 2})
			break_(table)
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

// TestTheHotPathAllocatesNothing.
func TestTheHotPathAllocatesNothing(t *testing.T) {
	table := newTable(t, For(1, "t", 8, 100))
	for k := range uint64(100) {
		if err := table.Load(k, tabletest.Value(8, k)); err != nil {
			t.Fatal(err)
		}
	}
	r := htm.NewRegion(htm.Config{})
	if n := testing.AllocsPerRun(100, func() {
		table.Prefetch(7)
		table.Find(5)
		r.Begin()
		table.FindIn(r, 6)
		_, _, _, _ = table.EnsureIn(r, 1000, 0)
		r.Commit(nil)
		r.Begin()
		_, _ = table.ReclaimIn(r, 1000, 0)
		r.Commit(nil)
	}); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
